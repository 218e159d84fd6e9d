package inference

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/inference/config"
)

// pool sends the requests of its queues, so many at once.
type pool struct {
	p       *Processor
	id      string
	workers int
	slots   chan struct{} // held while a request is handled, also by a worker that drains

	mu     sync.Mutex
	worker *twolane.Worker // the current one
}

func (p *Processor) makePools() error {
	for i := range p.cfg.Pools {
		c := &p.cfg.Pools[i]
		n, err := workers(c)
		if err != nil {
			return err
		}
		p.pools = append(p.pools, &pool{p: p, id: c.ID, workers: n, slots: make(chan struct{}, n)})
	}
	return nil
}

// types are the engine's types of the pool's queues.
func (o *pool) types() map[string]bool {
	out := map[string]bool{}
	for _, q := range o.p.all() {
		if q.Pool == o.id {
			out[typeName(q.ID)] = true
		}
	}
	return out
}

// run works until ctx ends. When queues are added a new worker takes over, and the one before it ends what it has begun.
func (o *pool) run(ctx context.Context) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs error
	defer wg.Wait()
	have := map[string]bool{}
	stop := context.CancelFunc(func() {})
	for {
		changed := o.p.changed()
		want := o.types()
		fresh := false
		for t := range want {
			fresh = fresh || !have[t]
		}
		if fresh || len(have) == 0 {
			w, err := o.newWorker(want)
			if err != nil {
				stop()
				return err
			}
			sub, cancel := context.WithCancel(ctx)
			before := stop
			stop, have = cancel, want
			o.mu.Lock()
			o.worker = w
			o.mu.Unlock()
			wg.Go(func() {
				err := w.Run(sub)
				if ctx.Err() == nil && sub.Err() == nil && err != nil {
					o.p.log.Error("a worker has ended", "pool", o.id, "error", err)
				}
				mu.Lock()
				errs = errors.Join(errs, err)
				mu.Unlock()
			})
			before()
		}
		select {
		case <-ctx.Done():
			wg.Wait()
			stop()
			mu.Lock()
			defer mu.Unlock()
			return errs
		case <-changed:
		}
	}
}

// newWorker makes a worker for requests of these types, and for dead letters if it is the default pool's.
func (o *pool) newWorker(types map[string]bool) (*twolane.Worker, error) {
	cfg := twolane.WorkerConfig{
		Name: o.p.opt.Name, Version: o.p.opt.Version, Concurrency: twolane.Lanes{Intake: o.workers + ahead(o.workers)}, PollInterval: time.Second,
		DrainBudget: o.p.cfg.Drain, MaxRun: -1 * time.Nanosecond, Metrics: o.p.opt.Metrics, Logger: o.p.log,
	}
	cfg.MaxRun = 0
	for _, lane := range o.p.lanes() {
		cfg.Queues = append(cfg.Queues, twolane.QueueShare{Name: queueName(o.id, lane)})
	}
	if o.p.cfg.Dispatch.Policy == config.TierPriority {
		cfg.Policy = twolane.Strict
	}
	buries := o.id == o.p.cfg.Pools[0].ID
	if buries {
		cfg.Queues = append(cfg.Queues, twolane.QueueShare{Name: deadName})
	}
	w, err := twolane.NewWorker(o.p.client, cfg)
	if err != nil {
		return nil, err
	}
	for t := range types {
		twolane.Handle(w, t, twolane.Handler[[]byte, []byte]{Execute: o.handle, Backoff: twolane.Backoff{Base: time.Millisecond, Max: time.Millisecond}})
	}
	if buries || len(types) == 0 {
		twolane.Handle(w, deadName, twolane.Handler[[]byte, []byte]{Execute: o.p.bury})
	}
	return w, nil
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
func ahead(workers int) int { return min(max(2, workers/8), 64) }

// health says what is wrong with the pool's worker.
func (o *pool) health() twolane.Health {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.worker == nil {
		return twolane.Health{Reasons: []string{"pool " + o.id + " has not started"}}
	}
	return o.worker.Health()
}
