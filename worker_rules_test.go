package twolane_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/gate"
)

// No limit and no gate costs a round trip: under three of each that are never full a worker makes as many calls for the same work as under none, and
// a new command starts as soon.
func TestF113_RulesCostNoRoundTrips(t *testing.T) {
	const n = 300
	base, slowest := 0, time.Duration(0)
	for _, rules := range []int{0, 1, 3} {
		rigged(t, 0, func(r *rig) {
			var gates []gate.Binding
			for i := range rules {
				l := []twolane.Limit{{Name: "g", By: twolane.ByGroup, Max: 1000}, {Name: "t", By: twolane.ByType, Max: 1000}, {Name: "all", Max: 1000}}[i]
				if err := r.client.SetLimit(r.Context(), l); err != nil {
					r.Fatal(err)
				}
				gates = append(gates, gate.Binding{Name: fmt.Sprint("g", i), Gate: gate.Constant(1), Per: []gate.Per{0, gate.PerType, gate.PerClass}[i]})
			}
			var waited box[[]time.Duration]
			w := r.work(twolane.WorkerConfig{Gates: gates, Concurrency: twolane.Lanes{Intake: 50, Repoll: 5}}, func(w *twolane.Worker) {
				twolane.HandleFunc(w, "a", func(_ context.Context, j *job) (any, error) {
					waited.with(func(v *[]time.Duration) { *v = append(*v, time.Since(j.Created())) })
					time.Sleep(10 * time.Millisecond)
					return nil, nil
				})
			})
			before := w.calls()
			for i := range n {
				r.submit(twolane.Submission{Type: "a", Group: fmt.Sprint("g", i%7)})
				time.Sleep(5 * time.Millisecond)
			}
			time.Sleep(time.Second)
			all := waited.get()
			if len(all) != n {
				t.Fatalf("%d rules: %d of %d have run", rules, len(all), n)
			}
			slices.Sort(all)
			calls, p99 := w.calls()-before, all[n*99/100]
			if rules == 0 {
				base, slowest = calls, p99
				return
			}
			if calls > base+base/20 || p99 > max(50*time.Millisecond, 2*slowest) {
				t.Errorf("%d rules of each kind: %d calls (%d without), starts within %v (%v without)", rules, calls, base, p99, slowest)
			}
		})
	}
}
