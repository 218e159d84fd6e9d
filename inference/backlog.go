package inference

import (
	"context"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
)

// backlog is what waits, as last looked at.
type backlog struct {
	mu    sync.Mutex
	sets  map[string]setBacklog // by id of the queue
	store map[string]int        // waiting in the store, by id of the queue
	undelivered,
	dead int
	ok bool // the last look succeeded
}

// setBacklog is what waits in one set.
type setBacklog struct {
	members   int64
	proximity []int64 // members whose deadline is at most that of proximityBuckets away, cumulative
}

// proximityBuckets are times to deadlines, in milliseconds; the last one is all of them.
var proximityBuckets = []float64{0, 1000, 5000, 15000, 30000, 60000, 120000, 300000, 600000, 1800000, 3600000, 7200000, 21600000, 86400000, math.Inf(1)}

// watchBacklog looks now and then until ctx ends.
func (p *Processor) watchBacklog(ctx context.Context) {
	for p.cfg.Serve.BacklogPoll > 0 {
		err := p.lookBacklog(ctx)
		if err != nil && ctx.Err() == nil {
			p.log.Debug("the backlog cannot be counted", "error", err)
		}
		if !pause(ctx, p.cfg.Serve.BacklogPoll) {
			return
		}
	}
}

func (p *Processor) lookBacklog(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	sets, waiting := map[string]setBacklog{}, map[string]int{}
	b := &p.backlog
	fail := func(err error) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.ok = false
		return err
	}
	byType := map[string]string{}
	for _, q := range p.all() {
		byType[typeName(q.ID)] = q.ID
		now := float64(time.Now().UnixMilli()) / 1000
		r := p.redis.B()
		cmds := rueidis.Commands{r.Zcard().Key(q.Name).Build()}
		for _, ms := range proximityBuckets[:len(proximityBuckets)-1] {
			cmds = append(cmds, r.Zcount().Key(q.Name).Min("-inf").Max(strconv.FormatFloat(now+ms/1000, 'f', 3, 64)).Build())
		}
		s := setBacklog{proximity: make([]int64, len(proximityBuckets))}
		for i, res := range p.redis.DoMulti(ctx, cmds...) {
			n, err := res.AsInt64()
			if err != nil {
				return fail(err)
			}
			if i == 0 {
				s.members, s.proximity[len(proximityBuckets)-1] = n, n
			} else {
				s.proximity[i-1] = n
			}
		}
		sets[q.ID] = s
	}
	st, err := p.opt.Store.Stats(ctx, store.StatsRequest{})
	if err != nil {
		return fail(err)
	}
	dead := 0
	for _, q := range st.Queues {
		if q.Queue == deadName {
			dead = q.Failed
		}
		for _, t := range q.Types {
			if id, ok := byType[t.Type]; ok && t.Lane == twolane.Intake {
				waiting[id] += t.InLine
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sets, b.store, b.undelivered, b.dead, b.ok = sets, waiting, st.Outbox[topic], dead, true
	return nil
}
