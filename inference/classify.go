package inference

import (
	"context"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/inference/wire"
)

// within says whether one more fits into a window that slides, and counts it if so: the same one once. The clock is the server's.
var within = rueidis.NewLuaScript(`
local t = redis.call('TIME')
local now, window = t[1] * 1000 + math.floor(t[2] / 1000), tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - window)
if redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 1 end
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('PEXPIRE', KEYS[1], 2 * window)
return 1`)

// classify says of each member whether it is within the rates that its queue tells classes by: "" if there is none, or the member does not say for whom it is.
func (p *Processor) classify(ctx context.Context, q *queue, members []string) ([]string, error) {
	classes := make([]string, len(members))
	for i := range q.quotas {
		x := &q.quotas[i]
		if !x.atIntake() {
			continue
		}
		var asks []rueidis.LuaExec
		var of []int
		for j, raw := range members {
			m, err := wire.Parse([]byte(raw))
			if err != nil || m.Data.Metadata[x.attribute] == "" {
				continue
			}
			id := commandID(m.Data.ID, m.Internal.Token, []byte(raw), 0)
			asks = append(asks, rueidis.LuaExec{Keys: []string{x.key + "rate:" + m.Data.Metadata[x.attribute]},
				Args: []string{id, strconv.Itoa(x.limit), strconv.FormatInt(x.window.Milliseconds(), 10)}})
			of = append(of, j)
		}
		if len(asks) == 0 {
			continue
		}
		for k, res := range within.ExecMulti(ctx, p.redis, asks...) {
			in, err := res.AsInt64()
			if err != nil {
				return nil, err
			}
			if in == 0 {
				classes[of[k]] = overflow
			} else if classes[of[k]] == "" {
				classes[of[k]] = reserved
			}
		}
	}
	return classes, nil
}
