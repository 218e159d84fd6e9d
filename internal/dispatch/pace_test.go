package dispatch

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twolane/twolane/gate"
)

// backend is a plant: what runs loads it, and what it says about that is old.
type backend struct {
	lag  time.Duration
	past []int // running, by ticks of a tenth of a second
}

const paceTick = 100 * time.Millisecond

func (b *backend) shows() int {
	if i := len(b.past) - 1 - int(b.lag/paceTick); i >= 0 {
		return b.past[i]
	}
	return 0
}

// admit runs a gate over a backend for a while: work that takes runs ticks is there in any amount. It returns how many ran at most, and after how
// long nine tenths of what the threshold allows ran.
func admit(b *backend, permits int, capacity, threshold, step float64, lag, runs, ticks int) (most, last int, full time.Duration) {
	var p pace
	var ends []int // by invocation
	for t := range ticks {
		now := time.Duration(t) * paceTick
		held := 0
		for _, e := range ends {
			if e > t {
				held++
			}
		}
		kept := ends[:0]
		for _, e := range ends {
			if e > t {
				kept = append(kept, e)
			}
		}
		ends = kept
		r := gate.Reading{Budget: threshold - float64(b.shows())/capacity, Lag: time.Duration(lag) * paceTick, Step: step, Up: true}.Normal()
		for n := p.allowed(now, 0, &r, permits, held) - held; n > 0; n-- {
			ends = append(ends, t+runs)
			held++
			p.entered(held)
		}
		b.past = append(b.past, held)
		if most = max(most, held); full == 0 && float64(held) >= 0.9*threshold*capacity {
			full = now
		}
		last = held
	}
	return most, last, full
}

// A gate that opens over a hundred that wait, on a signal that is five seconds old, lets one step too many in at most; and what it allows is used.
func TestF105_GateOpensInSteps(t *testing.T) {
	const permits, capacity, threshold = 100, 100.0, 0.8
	for _, step := range []float64{0.05, 0.1, 0.25, 0.5} {
		for _, runs := range []int{10_000, 300, 20, 2} { // tenths of a second that one takes
			b := &backend{lag: 5 * time.Second}
			most, _, full := admit(b, permits, capacity, threshold, step, 50, runs, 6000)
			over := most - int(threshold*capacity)
			if limit := gate.Share(step, permits); over > limit {
				t.Errorf("step %v, runs of %d: %d ran at once, %d over the threshold, more than one step of %d", step, runs, most, over, limit)
			}
			if full == 0 || full > time.Duration(3/step)*5*time.Second {
				t.Errorf("step %v, runs of %d: nine tenths were in use after %v", step, runs, full)
			}
		}
	}
	// Without steps the same signal lets everybody go: the plant has the lag that it should have.
	b := &backend{lag: 5 * time.Second}
	held := 0
	for range 100 {
		if float64(b.shows()) < threshold*capacity {
			held = permits
		}
		b.past = append(b.past, held)
	}
	if held != permits {
		t.Errorf("an on/off gate let in %d", held)
	}
}

// Whatever a signal does, what runs grows by one step within a lag at most, a closed gate admits nothing, and an open one at least one.
func TestPaceOfAnySignal(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 2000 {
		permits := 1 + rng.IntN(64)
		lag := time.Duration(1+rng.IntN(20)) * time.Second
		step := 0.05 + rng.Float64()/2
		var p pace
		held, now := 0, time.Duration(0)
		type count struct {
			at time.Duration
			n  int
		}
		var ran []count
		for i := range 300 {
			now += time.Duration(rng.Int64N(int64(2 * time.Second)))
			held -= rng.IntN(held + 1)
			r := gate.Reading{Budget: rng.Float64()*1.5 - 0.5, Lag: lag, Step: step}.Normal()
			age := time.Duration(rng.Int64N(int64(3 * time.Second)))
			allowed := p.allowed(now, age, &r, permits, held)
			switch {
			case r.Budget == 0 && allowed != 0:
				t.Fatalf("round %d: a closed gate allows %d", round, allowed)
			case r.Budget > 0 && allowed < 1, allowed > permits:
				t.Fatalf("round %d: allowed %d of %d", round, allowed, permits)
			}
			if allowed > held {
				held = allowed
				p.entered(held)
			}
			// What runs is a step above what ran in the time that the last two readings are about.
			before := 0
			for _, c := range ran {
				if now-c.at <= 2*lag+6*time.Second {
					before = max(before, c.n)
				}
			}
			ran = append(ran, count{now, held})
			if i > 0 && held > max(before, 1)+gate.Share(step, permits) {
				t.Fatalf("round %d: %d run, before that at most %d, a step is %d", round, held, before, gate.Share(step, permits))
			}
		}
	}
}

// A burst that meets a gate which has stood open over nothing is no reason for a second step before the signal shows the first, whenever it comes.
func TestF105_BurstIntoAnOpenGate(t *testing.T) {
	const permits, threshold, lag = 100, 80, 50
	for _, step := range []float64{0.1, 0.25, 0.5, 1} {
		for at := range 3 * lag {
			var p pace
			var g growth
			b := &backend{lag: lag * paceTick}
			held, most := 0, 0
			for tick := range 2000 {
				now := time.Duration(tick) * paceTick
				r := gate.Reading{Budget: (threshold - float64(b.shows())) / permits, Lag: (lag + 1) * paceTick, Step: step}.Normal()
				n := min(p.allowed(now, 0, &r, permits, held)-held, g.allowed(now, 0, &r, permits, held))
				if at%2 == 1 { // one of them alone
					n = p.allowed(now, 0, &r, permits, held) - held
				}
				for ; n > 0 && tick >= at; n-- {
					held++
					p.entered(held)
					g.entered(held)
				}
				b.past = append(b.past, held)
				most = max(most, held)
			}
			if most > threshold {
				t.Fatalf("step %v: a burst at tick %d lets %d run, %d too many", step, at, most, most-threshold)
			}
			if most < threshold*9/10 {
				t.Fatalf("step %v: a burst at tick %d lets %d run", step, at, most)
			}
		}
	}
}

// A fallback, an override and a tier gate over a saturated backend are shares before a gate that measures. When they end, what ran long before is no
// reason to let everybody go, and what was started under them is not seen yet: what runs exceeds the threshold, or what ran under the share, by one step.
func TestF105_ShareEndsInSteps(t *testing.T) {
	const permits, threshold, step, lag = 100, 80, 0.1, 50 // lag in ticks
	for _, share := range []float64{0.01, 0.1, 0.5, 1} {
		for _, runs := range []int{20, 300} {
			var p pace
			b := &backend{lag: 5 * time.Second}
			var ends []int
			most, before := 0, 0 // since the share ended, and when it did
			for tick := range 4000 {
				now := time.Duration(tick) * paceTick
				ends = slices.DeleteFunc(ends, func(e int) bool { return e <= tick })
				r := gate.Reading{Budget: (threshold - float64(b.shows())) / permits, Lag: lag * paceTick, Step: step}
				switch {
				case tick < 2000:
				case tick < 2400:
					r = gate.Reading{Budget: share}
				case tick == 2400:
					before = len(ends)
				}
				r = r.Normal()
				for n := p.allowed(now, 0, &r, permits, len(ends)) - len(ends); n > 0; n-- {
					ends = append(ends, tick+runs)
					p.entered(len(ends))
				}
				b.past = append(b.past, len(ends))
				if tick >= 2400 {
					most = max(most, len(ends))
				}
				if tick == 2401 && len(ends) > before+gate.Share(step, permits) {
					t.Errorf("share %v, runs of %d: %d ran under the share, %d right after it", share, runs, before, len(ends))
				}
			}
			if over := most - max(threshold, before); over > gate.Share(step, permits) {
				t.Errorf("share %v, runs of %d: %d ran at once, %d too many", share, runs, most, over)
			}
			if most < threshold*9/10 {
				t.Errorf("share %v, runs of %d: only %d ran in the end", share, runs, most)
			}
		}
	}
}

func TestPaceOfShares(t *testing.T) {
	for _, c := range []struct {
		budget  float64
		permits int
		want    int
	}{{0, 10, 0}, {0.3, 10, 3}, {0.31, 10, 4}, {1e-12, 10, 1}, {1, 10, 10}, {7, 10, 10}, {-1, 10, 0}, {gate.None, 10, 0}, {0.5, 1, 1}} {
		var p pace
		r := gate.Reading{Budget: c.budget}.Normal()
		if got := p.allowed(0, 0, &r, c.permits, 0); got != c.want {
			t.Errorf("%v of %d: %d, want %d", c.budget, c.permits, got, c.want)
		}
	}
	var p pace
	r := gate.Reading{Budget: 0.9, Cap: 0.3, Lag: time.Second, Step: 1}.Normal()
	if got := p.allowed(0, 0, &r, 10, 0); got != 3 {
		t.Errorf("a cap of 0.3 allows %d of 10", got)
	}
}
