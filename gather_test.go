package twolane_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
)

func BenchmarkSubmit64(b *testing.B) {
	for _, cost := range []time.Duration{0, 100 * time.Microsecond, time.Millisecond} {
		b.Run(cost.String(), func(b *testing.B) {
			var calls, items atomic.Int64
			c := twolane.NewClient(null{cost: cost, calls: &calls, items: &items}, &twolane.Options{NoTick: true})
			defer c.Close()
			params := make([]byte, 200)
			b.SetParallelism(32) // times GOMAXPROCS = 2: 64 goroutines
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := c.Submit(context.Background(), twolane.Submission{Type: "a", Params: params}); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(items.Load())/float64(calls.Load()), "items/call")
		})
	}
}

// null is a store that takes some time and keeps nothing.
type null struct {
	store.Store
	cost         time.Duration
	calls, items *atomic.Int64
}

func (n null) Submit(_ context.Context, req store.SubmitRequest) ([]store.SubmitResult, error) {
	n.calls.Add(1)
	n.items.Add(int64(len(req.Items)))
	for start := time.Now(); time.Since(start) < n.cost; {
	}
	results := make([]store.SubmitResult, len(req.Items))
	for i := range results {
		results[i] = store.SubmitResult{Created: true, Status: store.Pending}
	}
	return results, nil
}
