package inference

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/gate"
)

// ageing keeps strict priority between lanes from starving the lower ones: while the oldest request of a lane has waited for longer than the configuration
// allows, a share of the workers is out of reach of the lanes above it.
type ageing struct {
	after    time.Duration
	starving []atomic.Bool // by lane
}

// agedShare is the share of a pool's workers that is left to a lane that starves.
const agedShare = 1.0 / 16

// above is the gate of all lanes above one.
type above struct {
	a    *ageing
	lane int
	gate.Changes
}

// Read implements [gate.Gate].
func (b *above) Read(_ time.Time, s gate.Scope) gate.Reading {
	r := gate.Reading{Budget: 1, Up: true, Threshold: b.a.after.Seconds()}
	if b.a.starving[b.lane].Load() && s.Permits > 1 {
		kept := max(1, int(agedShare*float64(s.Permits)))
		r.Budget, r.Reason, r.Detail = float64(s.Permits-kept)/float64(s.Permits), gate.Full, "a lower lane has waited for too long"
	}
	return r
}

// bindings are the gates of a worker that serves the lanes.
func (a *ageing) bindings(lanes []string) (all []gate.Binding) {
	for i := 1; i < len(lanes); i++ {
		all = append(all, gate.Binding{Name: fmt.Sprintf("ageing.%d", i), Gate: &above{a: a, lane: i}, Queues: lanes[:i]})
	}
	return all
}

// watch looks at how long lanes have waited until ctx ends. When that is not known, priority is strict.
func (a *ageing) watch(ctx context.Context, client *twolane.Client, lanes []string) {
	every := min(max(a.after/4, 100*time.Millisecond), time.Second)
	for pause(ctx, every) {
		st, err := client.Stats(ctx, lanes...)
		for i, lane := range lanes {
			starves := false
			for _, q := range st.Queues {
				starves = starves || err == nil && q.Queue == lane && q.Lanes[twolane.Intake].Oldest > a.after
			}
			a.starving[i].Store(starves)
		}
	}
}
