package faults

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twolane/twolane"
)

// A queue that is ten times as deep costs the process that runs it no more memory, and it goes on at an even pace; a chain of three commands
// that need each other's results comes to its end in between.
func TestF033_DeepQueueSteadyAndFlat_Size(t *testing.T) {
	var used [2]float64
	for i, n := range []int{1000, 10_000} {
		on(t, openSQLite(t), 0, func(r *rig) {
			r.many(n, twolane.Submission{Type: "a"})
			chain := twolane.Submission{ID: "first", Type: "first", Params: "1"}
			r.submit(chain)
			var done atomic.Int64
			reached := make(chan float64, 1)
			r.work(twolane.WorkerConfig{Concurrency: twolane.Lanes{Intake: 50, Repoll: 1}}, func(w *twolane.Worker) {
				twolane.HandleFunc(w, "a", func(ctx context.Context, j *twolane.Job[string, []byte]) (any, error) {
					if done.Add(1) == int64(n)/2 {
						runtime.GC()
						var m runtime.MemStats
						runtime.ReadMemStats(&m)
						reached <- float64(m.HeapAlloc) / (1 << 20)
					}
					return nil, nil
				})
				for _, next := range [][2]string{{"first", "second"}, {"second", "third"}, {"third", ""}} {
					twolane.Handle(w, next[0], handler{Execute: func(ctx context.Context, j *job) (twolane.Outcome, error) {
						if next[1] == "" {
							return twolane.Done(j.Params + "3"), nil
						}
						return twolane.Done(j.Params, twolane.Submission{ID: next[1], Type: next[1], Params: j.Params + "2"}), nil
					}})
				}
			})
			for last := int64(-1); done.Load() < int64(n); time.Sleep(2 * sec) {
				now := done.Load()
				if now == last {
					r.Fatalf("%d of %d are done and none in two seconds", now, n)
				}
				last = now
			}
			used[i] = <-reached
			eventually(r, 10*sec, "the chain", func() bool {
				c, err := r.client.Get(r.Context(), "third")
				return err == nil && c.Status == twolane.StatusSucceeded
			})
			if c := r.get("third"); string(c.Result) != `"1223"` {
				r.Errorf("the result of the chain is %s", c.Result)
			}
		})
	}
	t.Logf("%.1f MiB in use with 1,000 commands, %.1f with 10,000", used[0], used[1])
	if used[1] > used[0]*1.1+2 {
		t.Errorf("%.1f MiB in use half way through 1,000 commands, %.1f through 10,000", used[0], used[1])
	}
}
