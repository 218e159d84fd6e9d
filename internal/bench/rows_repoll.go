package bench

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
)

// The repoll row polls each command once without measuring, and then five times.
const (
	repollEvery = 5 * time.Second
	repollTimes = 5
)

// poll is what the repoll row keeps of one command. Only one invocation of a command runs at a time; the lock tells that to the memory model, which
// does not know that the store stands between two of them.
type poll struct {
	mu   sync.Mutex
	due  time.Time // when its next poll should start
	late []float64 // milliseconds
}

// start notes a poll that starts now, if it is measured, and when the next one is due.
func (p *poll) start(every time.Duration, measured bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if measured {
		p.late = append(p.late, float64(now.Sub(p.due))/float64(time.Millisecond))
	}
	p.due = now.Add(every)
}

// repoll keeps n commands live, each polled on its own every interval. A poll is late by how long after the due time its handler
// starts; the due time counts from when the handler before it returned, so what the settle took is in it.
func (b *bench) repoll(ctx context.Context) error { return b.repollEvery(ctx, repollEvery) }

func (b *bench) repollEvery(ctx context.Context, every time.Duration) error {
	n := b.n(map[string]int{kindRedis: 10_000, kindSQLite: 10_000, kindMemory: 500})
	return b.on(ctx, func(s *site) (err error) {
		polls := make([]poll, n)
		var made atomic.Int64
		var measuring atomic.Bool
		started := make(chan struct{})
		parked := newCountdown(n, started)
		stop, err := s.worker(twolane.WorkerConfig{
			Queues: []twolane.QueueShare{{Name: "bench"}}, Concurrency: twolane.Lanes{Intake: 100, Repoll: 100},
		}, func(w *twolane.Worker) {
			twolane.Handle(w, "poll", twolane.Handler[int, []byte]{
				Execute: func(_ context.Context, job *twolane.Job[int, []byte]) (twolane.Outcome, error) {
					polls[job.Params].start(every, false)
					parked.one()
					return twolane.Processing(payload, every), nil
				},
				Check: func(_ context.Context, job *twolane.Job[int, []byte]) (twolane.Outcome, error) {
					measured := measuring.Load()
					if measured {
						made.Add(1)
					}
					polls[job.Params].start(every, measured)
					return twolane.Processing(payload, every), nil
				},
			})
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		// Their due times spread over the interval, as those of commands that came over time.
		if err := s.fill(ctx, n, func(i int, sub *twolane.Submission) {
			sub.Type, sub.Params, sub.Delay = "poll", i, time.Duration(i)*every/time.Duration(n)
		}); err != nil {
			return err
		}
		select {
		case <-started:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := pause(ctx, every); err != nil {
			return err
		}
		calls := s.calls.calls.Load()
		u, err := b.measure(ctx, func() error {
			measuring.Store(true)
			defer measuring.Store(false)
			return pause(ctx, repollTimes*every)
		})
		if err != nil {
			return err
		}
		calls = s.calls.calls.Load() - calls
		total := int(made.Load())
		if err := stop(); err != nil {
			return err
		}
		var late []float64
		for i := range polls {
			late = append(late, polls[i].late...)
		}
		r := b.row(Repoll, "", total, u)
		// What a fixed delay allows: each poll adds its own lateness to the interval.
		r.Expected = int(float64(n) * float64(u.took) / float64(every))
		r.CallsPerSecond = float64(calls) / u.took.Seconds()
		r.quantiles(late)
		return b.opt.Show(r)
	})
}

// parked measures what a waiting and a parked command take, what the parked ones cost a worker, and how fast a new command starts beside them.
func (b *bench) parked(ctx context.Context) error {
	n := b.n(map[string]int{kindRedis: 1_000_000, kindSQLite: 200_000, kindMemory: 1_000})
	return b.on(ctx, func(s *site) error {
		empty, err := b.target.bytes(ctx, s)
		if err != nil {
			return err
		}
		b.say("parked: submits %d commands and parks them", n)
		if err := s.fill(ctx, n, func(_ int, sub *twolane.Submission) { sub.Type = "park" }); err != nil {
			return err
		}
		waiting, err := b.target.bytes(ctx, s)
		if err != nil {
			return err
		}
		if err := b.opt.Show(Row{Row: Parked, Variant: "waiting", Store: b.target.label, N: n, Bytes: float64(waiting-empty) / float64(n)}); err != nil {
			return err
		}
		done := make(chan struct{})
		ran := newCountdown(n, done)
		stop, err := s.parker(ran)
		if err != nil {
			return err
		}
		select {
		case <-done:
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), stop())
		}
		if err := stop(); err != nil {
			return err
		}
		if err := s.until(ctx, "bench", func(q store.QueueStats) bool { return q.Lanes[store.Repoll].InLine == n }); err != nil {
			return err
		}
		parked, err := b.target.bytes(ctx, s)
		if err != nil {
			return err
		}
		before := liveMemory()
		if stop, err = s.parker(newCountdown(1, make(chan struct{}))); err != nil {
			return err
		}
		r, err := s.latency(ctx, 500, 100)
		if err != nil {
			return errors.Join(err, stop())
		}
		after := liveMemory()
		if err := stop(); err != nil {
			return err
		}
		return b.opt.Show(Row{Row: Parked, Variant: "parked", Store: b.target.label, N: n, Bytes: float64(parked-empty) / float64(n),
			P50: r.P50, P99: r.P99, Max: r.Max, WorkerBytes: float64(after - before), Note: "ms are starts of new commands beside them"})
	})
}

// parker runs a worker that parks every command for a day.
func (s *site) parker(ran *countdown) (stop func() error, err error) {
	return s.worker(twolane.WorkerConfig{
		Queues: []twolane.QueueShare{{Name: "bench"}}, Concurrency: twolane.Lanes{Intake: processPermits, Repoll: 100},
	}, func(w *twolane.Worker) {
		park := func(context.Context, *twolane.Job[[]byte, []byte]) (twolane.Outcome, error) {
			ran.one()
			return twolane.Processing(nil, 24*time.Hour), nil
		}
		twolane.Handle(w, "park", twolane.Handler[[]byte, []byte]{Execute: park, Check: park})
	})
}
