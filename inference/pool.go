package inference

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/gate"
	"github.com/twolane/twolane/gate/redisgate"
	"github.com/twolane/twolane/inference/config"
)

// pool sends the requests of its queues, so many at once.
type pool struct {
	p       *Processor
	id      string
	workers int
	slots   chan struct{} // held while a request is handled, also by a worker that drains
	ahead   *claimAhead
	ageing  *ageing // nil: priority is strict

	mu     sync.Mutex
	worker *twolane.Worker // the current one
	gates  []gate.Binding  // its gates that the configuration names
	lease  *redisgate.LeasedRate
}

func (p *Processor) makePools() error {
	for i := range p.cfg.Pools {
		c := &p.cfg.Pools[i]
		n, err := workers(c)
		if err != nil {
			return err
		}
		o := &pool{p: p, id: c.ID, workers: n, slots: make(chan struct{}, n), ahead: &claimAhead{workers: n}}
		if d := p.cfg.Dispatch.Ageing; d > 0 {
			o.ageing = &ageing{after: d, starving: make([]atomic.Bool, len(p.lanes()))}
		}
		p.pools = append(p.pools, o)
	}
	return p.checkGates(p.all())
}

// checkGates refuses gates of queues that cannot be made.
func (p *Processor) checkGates(queues []*queue) error {
	for _, o := range p.pools {
		var mine []*queue
		for _, q := range queues {
			if q.Pool == o.id {
				mine = append(mine, q)
			}
		}
		if _, _, err := o.bindings(mine, nil); err != nil {
			return err
		}
	}
	return nil
}

// queues are those of the pool.
func (o *pool) queues() (mine []*queue) {
	for _, q := range o.p.all() {
		if q.Pool == o.id {
			mine = append(mine, q)
		}
	}
	return mine
}

// plan is what a worker is made for: another one is needed when it changes.
func plan(queues []*queue) string {
	type part struct {
		ID   string
		Gate *config.Gate
	}
	parts := make([]part, len(queues))
	for i, q := range queues {
		parts[i] = part{q.ID, q.Gate}
	}
	b, err := json.Marshal(parts)
	if err != nil { // it came from a file
		panic(fmt.Sprintf("inference: %v", err))
	}
	return string(b)
}

// run works until ctx ends, or its worker does by itself. When queues or their gates change a new worker takes over, and the one before it ends what it has begun.
func (o *pool) run(ctx context.Context) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs error
	died := make(chan struct{}, 1)
	defer wg.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	if o.ageing != nil {
		wg.Go(func() { o.ageing.watch(ctx, o.p.client, o.laneQueues()) })
	}
	have := "none"
	stop := context.CancelFunc(func() {})
	defer func() { stop() }()
	for {
		changed := o.p.changed()
		queues := o.queues()
		if want := plan(queues); want != have {
			w, gates, lease, err := o.newWorker(queues)
			if err != nil {
				return err
			}
			sub, cancel := context.WithCancel(ctx)
			before := stop
			stop, have = cancel, want
			o.mu.Lock()
			o.worker, o.gates, o.lease = w, gates, lease
			o.mu.Unlock()
			wg.Go(func() {
				err := w.Run(sub)
				mu.Lock()
				errs = errors.Join(errs, err)
				mu.Unlock()
				if err != nil && sub.Err() == nil {
					o.p.log.Error("a worker has ended, and so does the processor", "pool", o.id, "error", err)
					select {
					case died <- struct{}{}:
					default: // one is enough
					}
				}
			})
			before()
		}
		select {
		case <-changed:
			continue
		case <-died:
			end()
		case <-ctx.Done():
		}
		wg.Wait()
		mu.Lock()
		defer mu.Unlock()
		return errs
	}
}

// laneQueues are the engine's queues of the pool's lanes.
func (o *pool) laneQueues() (names []string) {
	for _, lane := range o.p.lanes() {
		names = append(names, queueName(o.id, lane))
	}
	return names
}

// newWorker makes a worker for the requests of queues, and for dead letters if it is the first pool's.
func (o *pool) newWorker(queues []*queue) (*twolane.Worker, []gate.Binding, *redisgate.LeasedRate, error) {
	lanes := o.laneQueues()
	gates, lease, err := o.bindings(queues, lanes)
	if err != nil {
		return nil, nil, nil, err
	}
	cfg := twolane.WorkerConfig{
		Name: o.p.opt.Name, Version: o.p.opt.Version, Concurrency: twolane.Lanes{Intake: o.workers + ahead(o.workers)}, PollInterval: time.Second,
		DrainBudget: o.p.cfg.Drain, Metrics: o.p.opt.Metrics, Logger: o.p.log, Gates: slices.Clone(gates),
	}
	o.share(&cfg, lanes)
	types := make([]string, len(queues))
	for i, q := range queues {
		types[i] = typeName(q.ID)
		cfg.Gates = append(cfg.Gates, gate.Binding{Name: valid("breaker:", q.ID), Gate: o.p.breaker(q.ID), Queues: lanes, Types: types[i : i+1]})
	}
	if o.ageing != nil {
		cfg.Gates = append(cfg.Gates, o.ageing.bindings(lanes)...)
	}
	if len(queues) > 0 {
		cfg.Gates = append(cfg.Gates, gate.Binding{Name: "ahead", Gate: o.ahead, Queues: lanes, Types: types})
	}
	buries := o.id == o.p.cfg.Pools[0].ID
	if buries {
		cfg.Queues = append(cfg.Queues, twolane.QueueShare{Name: deadName})
	}
	w, err := twolane.NewWorker(o.p.client, cfg)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, t := range types {
		twolane.Handle(w, t, twolane.Handler[[]byte, []byte]{Execute: o.handle, Backoff: twolane.Backoff{Base: time.Millisecond, Max: time.Millisecond}})
	}
	if buries || len(types) == 0 {
		twolane.Handle(w, deadName, twolane.Handler[[]byte, []byte]{Execute: o.p.bury})
	}
	return w, gates, lease, nil
}

// share says how the lanes of a pool share its permits.
func (o *pool) share(cfg *twolane.WorkerConfig, lanes []string) {
	for _, name := range lanes {
		cfg.Queues = append(cfg.Queues, twolane.QueueShare{Name: name})
	}
	if o.p.cfg.Dispatch.Policy == config.TierPriority {
		cfg.Policy = twolane.Strict
	}
}

// take waits for a slot. Requests are claimed a little ahead, so that the next one is at hand when a slot becomes free; those that wait for long are put
// back, for a processor that has one.
func (o *pool) take(ctx context.Context) (bool, error) {
	select {
	case o.slots <- struct{}{}:
		return true, nil
	default:
	}
	t := time.NewTimer(aheadFor)
	defer t.Stop()
	select {
	case o.slots <- struct{}{}:
		return true, nil
	case <-t.C:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

func (o *pool) give() { <-o.slots }

// aheadFor is how long a claimed request waits for a slot.
const aheadFor = 250 * time.Millisecond

// ahead is how many requests are claimed beside those in flight.
func ahead(workers int) int { return min(workers/8, 64) }

// health says what is wrong with the pool's worker.
func (o *pool) health() twolane.Health {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.worker == nil {
		return twolane.Health{Reasons: []string{"pool " + o.id + " has not started"}}
	}
	return o.worker.Health()
}
