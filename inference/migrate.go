package inference

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/inference/config"
	"github.com/twolane/twolane/inference/wire"
)

// migrateEvery is the time between two looks for what llm-d-async has left; it may still be running beside us.
const migrateEvery = time.Second

// migrate takes what llm-d-async has taken from the sets and not answered: its retry set, and the claims of newer versions.
func (p *Processor) migrate(ctx context.Context, k *pokes) {
	failing := false
	for {
		err := p.migrateOnce(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			p.log.Warn("what llm-d-async has left cannot be taken; it stays there", "error", err)
			failing = true
		case err == nil && failing:
			p.log.Info("what llm-d-async has left is taken again")
			failing = false
		}
		if !pause(ctx, jitter(migrateEvery)) {
			return
		}
	}
}

func (p *Processor) migrateOnce(ctx context.Context) error {
	err := p.takeRetries(ctx)
	if p.cfg.Intake.Claimed == config.ClaimedIgnore {
		return err
	}
	for _, q := range p.all() {
		err = errors.Join(err, p.takeClaims(ctx, q))
	}
	return err
}

// takeRetries takes the retry set, which all queues share. A member whose queue is none of ours stays.
func (p *Processor) takeRetries(ctx context.Context) error {
	set := p.cfg.Intake.RetryQueue
	for offset := int64(0); ctx.Err() == nil; {
		found, err := p.redis.Do(ctx, p.redis.B().Zrange().Key(set).Min(strconv.FormatInt(offset, 10)).Max(strconv.FormatInt(offset+99, 10)).Withscores().Build()).AsZScores()
		if err != nil || len(found) == 0 {
			return err
		}
		stay := int64(0)
		for _, z := range found {
			q := p.owner(z.Member)
			if q == nil {
				stay++
				continue
			}
			due := time.UnixMilli(int64(z.Score * 1000))
			kept, err := p.keepAll(ctx, q, set, []string{z.Member}, due)
			if err != nil {
				return err
			}
			if len(kept) > 0 {
				if err := p.redis.Do(ctx, p.redis.B().Zrem().Key(set).Member(kept...).Build()).Error(); err != nil {
					return err
				}
			}
		}
		offset += stay
	}
	return ctx.Err()
}

// owner is the queue of a member of the retry set: by the id of the queue that the dispatcher has written, or by the set that the producer chose.
func (p *Processor) owner(member string) *queue {
	m, err := wire.Parse([]byte(member))
	if err != nil { // it can be nobody else's either
		if all := p.all(); len(all) > 0 {
			return all[0]
		}
		return nil
	}
	if q := p.queue(m.Internal.QueueID); q != nil {
		return q
	}
	for _, q := range p.all() {
		if q.Name == m.Internal.RequestQueue {
			return q
		}
	}
	return nil
}

// release takes a claim away if it is the one that was read: its dispatcher may have renewed or ended it meanwhile.
var release = rueidis.NewLuaScript(`
local member = redis.call('HGET', KEYS[1], ARGV[1])
if member and member ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
return 1`)

// takeClaims takes claims on a set: those that have lapsed, or all if nobody else runs.
func (p *Processor) takeClaims(ctx context.Context, q *queue) error {
	for _, keys := range p.claimKeys(q.Name) {
		most := "+inf"
		if p.cfg.Intake.Claimed == config.ClaimedLapsed {
			now, err := p.serverTime(ctx)
			if err != nil {
				return err
			}
			most = strconv.FormatInt(now.Unix(), 10)
		}
		claims, err := p.redis.Do(ctx, p.redis.B().Zrange().Key(keys.Expiry).Min("-inf").Max(most).Byscore().Limit(0, 100).Build()).AsStrSlice()
		if err != nil || len(claims) == 0 {
			return err
		}
		for _, claim := range claims {
			member, err := p.redis.Do(ctx, p.redis.B().Hget().Key(keys.Claimed).Field(claim).Build()).ToString()
			if err != nil && !rueidis.IsRedisNil(err) {
				return err
			}
			if err == nil {
				if kept, err := p.keepAll(ctx, q, q.Name, []string{member}, time.Time{}); err != nil || len(kept) == 0 {
					return err
				}
			}
			if err := release.Exec(ctx, p.redis, []string{keys.Claimed, keys.Owners, keys.Expiry}, []string{claim, member}).Error(); err != nil {
				return err
			}
		}
		p.log.Info("claims of llm-d-async were taken over", "queue", q.ID, "claims", len(claims))
	}
	return nil
}

// claimKeys are where claims on a set may be. On a cluster they carry a hash tag.
func (p *Processor) claimKeys(set string) []wire.ClaimKeys {
	return []wire.ClaimKeys{wire.Claims(set, !p.single)}
}

// serverTime is the time of the server that has a key.
func (p *Processor) serverTime(ctx context.Context) (time.Time, error) {
	if !p.single { // any node may answer TIME; claims are about minutes
		return time.Now(), nil
	}
	t, err := p.redis.Do(ctx, p.redis.B().Time().Build()).AsStrSlice()
	if err != nil || len(t) != 2 {
		return time.Time{}, errors.Join(errors.New("no time from the server"), err)
	}
	sec, err := strconv.ParseInt(t[0], 10, 64)
	return time.Unix(sec, 0), err
}
