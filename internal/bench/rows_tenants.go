package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
)

const (
	tenantLimit  = 50                    // of each tenant at once
	tenantHandle = 50 * time.Millisecond // of each of tenant a's handlers
	tenantRounds = 25                    // of ten commands of tenant b
)

// limitTenants keeps tenant a's limit full, with a backlog that stays as long as it is, and submits ten commands of tenant b again and again.
func (b *bench) limitTenants(ctx context.Context) error {
	backlogs := []int{1_000, 10_000, 100_000}
	switch {
	case b.opt.N > 0:
		backlogs = []int{b.opt.N}
	case b.target.kind == kindMemory:
		backlogs = []int{100, 1_000}
	}
	for _, n := range backlogs {
		if err := b.on(ctx, func(s *site) error { return s.tenants(ctx, n) }); err != nil {
			return err
		}
	}
	return nil
}

func (s *site) tenants(ctx context.Context, backlog int) (err error) {
	b := s.b
	if err := s.configure(ctx, store.Limit{Name: "tenant", By: store.ByGroup, Max: tenantLimit}); err != nil {
		return err
	}
	a := func(_ int, sub *twolane.Submission) { sub.Type, sub.Group, sub.Retention = "a", "a", -1 }
	if err := s.fill(ctx, backlog, a); err != nil {
		return err
	}
	begun := time.Now()
	var ran, sent atomic.Int64 // sent: when the present round of tenant b was submitted
	started := make(chan float64, 10)
	stop, err := s.worker(twolane.WorkerConfig{
		Queues: []twolane.QueueShare{{Name: "bench"}}, Concurrency: twolane.Lanes{Intake: 2 * tenantLimit, Repoll: 1},
	}, func(w *twolane.Worker) {
		twolane.Handle(w, "a", twolane.Handler[[]byte, []byte]{Execute: func(ctx context.Context, _ *twolane.Job[[]byte, []byte]) (twolane.Outcome, error) {
			ran.Add(1)
			if err := pause(ctx, tenantHandle); err != nil {
				return twolane.Outcome{}, err
			}
			next := submission("bench", "a")
			a(0, &next)
			return twolane.Done(nil, next), nil
		}})
		twolane.HandleFunc(w, "b", func(context.Context, *twolane.Job[int, []byte]) (any, error) {
			started <- float64(time.Since(begun)-time.Duration(sent.Load())) / float64(time.Millisecond)
			return nil, nil
		})
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := pause(ctx, time.Second); err != nil { // until the limit is full and the lines are filed
		return err
	}
	var took []float64
	before := ran.Load()
	u, err := b.measure(ctx, func() error {
		for round := range tenantRounds {
			var subs []twolane.Submission
			for range 10 {
				sub := submission("bench", "b")
				sub.Group, sub.Params, sub.Retention = "b", round, -1
				subs = append(subs, sub)
			}
			sent.Store(int64(time.Since(begun)))
			if err := s.submit(ctx, subs); err != nil {
				return err
			}
			for range 10 {
				select {
				case ms := <-started:
					took = append(took, ms)
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			if err := pause(ctx, 200*time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	done := int(ran.Load()-before) + len(took)
	r := b.row(Limits, fmt.Sprintf("tenant b beside a backlog of %d", backlog), done, u)
	r.quantiles(took)
	r.Note = fmt.Sprintf("us for each of %d commands; ms are starts of tenant b", done)
	return b.opt.Show(r)
}
