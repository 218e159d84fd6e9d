package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
)

// processPermits is the concurrency of the intake lane in the process rows.
const processPermits = 200

// process claims, runs and settles commands that wait already: with retention 0, with the default retention (100,000 records are kept,
// those before are purged as it goes), and over many lines of one command each.
func (b *bench) process(ctx context.Context) error {
	n := b.n(map[string]int{kindRedis: 250_000, kindSQLite: 50_000, kindMemory: 1_000})
	lines := b.opt.Lines
	if b.target.kind == kindMemory {
		lines = min(lines, 1_000)
	}
	return errors.Join(
		b.processed(ctx, "retention=0", n, func(_ int, sub *twolane.Submission) { sub.Retention = -1 }),
		b.processed(ctx, "retention=default", n, nil),
		b.processed(ctx, fmt.Sprintf("lines=%d", lines), lines, func(i int, sub *twolane.Submission) { sub.Group = "g" + strconv.Itoa(i) }),
	)
}

func (b *bench) processed(ctx context.Context, variant string, n int, change func(int, *twolane.Submission)) error {
	return b.on(ctx, func(s *site) error {
		if err := s.fill(ctx, n, change); err != nil {
			return err
		}
		done := make(chan struct{})
		u, err := b.measure(ctx, func() error {
			ran := newCountdown(n, done)
			stop, err := s.worker(twolane.WorkerConfig{
				Queues: []twolane.QueueShare{{Name: "bench"}}, Concurrency: twolane.Lanes{Intake: processPermits, Repoll: 1},
			}, func(w *twolane.Worker) {
				twolane.Handle(w, "noop", twolane.Handler[[]byte, []byte]{Execute: func(context.Context, *twolane.Job[[]byte, []byte]) (twolane.Outcome, error) {
					ran.one()
					return twolane.Done(nil), nil
				}})
			})
			if err != nil {
				return err
			}
			select {
			case <-done:
			case <-ctx.Done():
				return errors.Join(context.Cause(ctx), stop())
			}
			// The drain ends when the last outcome is in the store.
			return stop()
		})
		if err != nil {
			return err
		}
		left, err := s.stats(ctx, "bench")
		if err != nil {
			return err
		}
		if l := left.Lanes[store.Intake]; l.InLine+l.Leased+left.Scheduled > 0 {
			return fmt.Errorf("%d commands were left of %d", l.InLine+l.Leased+left.Scheduled, n)
		}
		return b.withFloor(ctx, b.row(Process, variant, n, u))
	})
}

// latency submits at a steady pace to an idle worker and measures from before the submit to the start of the handler.
func (b *bench) latency(ctx context.Context) error {
	n := b.n(map[string]int{kindRedis: 2_000, kindSQLite: 2_000, kindMemory: 2_000})
	return b.on(ctx, func(s *site) error {
		r, err := s.latency(ctx, n, 200)
		if err != nil {
			return err
		}
		r.Row = Latency
		return b.opt.Show(r)
	})
}

// latency measures n starts at perSecond in this site, with a worker of its own for the queue "fresh".
func (s *site) latency(ctx context.Context, n int, perSecond float64) (r Row, err error) {
	begun := time.Now()
	sent := make([]atomic.Int64, n) // nanoseconds after begun
	took := make([]float64, n)
	done := make(chan struct{})
	ran := newCountdown(n, done)
	stop, err := s.worker(twolane.WorkerConfig{
		Queues: []twolane.QueueShare{{Name: "fresh"}}, Concurrency: twolane.Lanes{Intake: 100, Repoll: 1},
	}, func(w *twolane.Worker) {
		twolane.HandleFunc(w, "fresh", func(_ context.Context, job *twolane.Job[int, []byte]) (any, error) {
			took[job.Params] = float64(time.Since(begun)-time.Duration(sent[job.Params].Load())) / float64(time.Millisecond)
			ran.one()
			return nil, nil
		})
	})
	if err != nil {
		return Row{}, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := s.idle(ctx); err != nil {
		return Row{}, err
	}
	u, err := s.b.measure(ctx, func() error {
		pace := time.NewTicker(time.Duration(float64(time.Second) / perSecond))
		defer pace.Stop()
		for i := range n {
			select {
			case <-pace.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			sent[i].Store(int64(time.Since(begun)))
			if _, err := s.client.Submit(ctx, twolane.Submission{Type: "fresh", Queue: "fresh", Params: i}); err != nil {
				return err
			}
		}
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	r = s.b.row(Latency, "", n, u)
	r.quantiles(took)
	return r, err
}

// idle waits until a worker is registered and has nothing to do.
func (s *site) idle(ctx context.Context) error {
	for {
		st, err := s.client.Stats(ctx)
		if err != nil {
			return err
		}
		if len(st.Workers) > 0 {
			break
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return pause(ctx, 200*time.Millisecond)
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
