package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twolane/twolane"
)

// idle measures what one worker costs that serves 20 queues in which nothing happens.
func (b *bench) idle(ctx context.Context) error {
	seconds := b.n(map[string]int{kindRedis: 20, kindSQLite: 20, kindMemory: 10})
	return b.on(ctx, func(s *site) (err error) {
		var queues []twolane.QueueShare
		for i := range 20 {
			queues = append(queues, twolane.QueueShare{Name: fmt.Sprintf("bench-%d", i)})
		}
		stop, err := s.worker(twolane.WorkerConfig{Queues: queues}, func(w *twolane.Worker) {
			twolane.Handle(w, "noop", twolane.Handler[[]byte, []byte]{
				Execute: func(context.Context, *twolane.Job[[]byte, []byte]) (twolane.Outcome, error) {
					return twolane.Done(nil), nil
				},
				Check: func(context.Context, *twolane.Job[[]byte, []byte]) (twolane.Outcome, error) {
					return twolane.Done(nil), nil
				},
			})
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		if err := s.idle(ctx); err != nil {
			return err
		}
		before := s.calls.calls.Load()
		u, err := b.measure(ctx, func() error { return pause(ctx, time.Duration(seconds)*time.Second) })
		if err != nil {
			return err
		}
		calls := s.calls.calls.Load() - before
		return b.opt.Show(Row{Row: Idle, Store: b.target.label, N: int(calls), CallsPerSecond: float64(calls) / u.took.Seconds(),
			CPUPercent: u.cpuPercent(), Note: fmt.Sprintf("calls in %d s", seconds)})
	})
}
