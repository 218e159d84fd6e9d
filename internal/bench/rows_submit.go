package bench

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/twolane/twolane"
)

// submitBatch submits in batches of 100 from four goroutines.
func (b *bench) submitBatch(ctx context.Context) error {
	const batch, callers = 100, 4
	n := b.n(map[string]int{kindRedis: 500_000, kindSQLite: 100_000, kindMemory: 2_000})
	n = max(batch, n/batch*batch)
	return b.on(ctx, func(s *site) error {
		u, err := b.measure(ctx, func() error {
			return spread(callers, n/batch, func() error {
				subs := make([]twolane.Submission, batch)
				for i := range subs {
					subs[i] = submission("bench", "noop")
				}
				return s.submit(ctx, subs)
			})
		})
		if err != nil {
			return err
		}
		return b.withFloor(ctx, b.row(SubmitBatch, "", n, u))
	})
}

// submitSingle submits one command per call from 64 goroutines.
func (b *bench) submitSingle(ctx context.Context) error {
	n := b.n(map[string]int{kindRedis: 300_000, kindSQLite: 100_000, kindMemory: 2_000})
	return b.on(ctx, func(s *site) error {
		u, err := b.measure(ctx, func() error {
			return spread(64, n, func() error {
				_, err := s.client.Submit(ctx, submission("bench", "noop"))
				return err
			})
		})
		if err != nil {
			return err
		}
		return b.withFloor(ctx, b.row(SubmitSingle, "", n, u))
	})
}

// spread calls f n times from a number of goroutines; each ends with its first error.
func spread(goroutines, n int, f func() error) error {
	var wg sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(n))
	errs := make([]error, goroutines)
	for g := range errs {
		wg.Go(func() {
			for errs[g] == nil && left.Add(-1) >= 0 {
				errs[g] = f()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
