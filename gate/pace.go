package gate

import "time"

// Pacer is a gate that also bounds how many invocations start in a time. The worker keeps a rate limit of the store for it, so that it
// holds exactly and for all workers together. The binding of such a gate must name no types, and its rate counts both lanes.
type Pacer interface {
	Gate
	// Pace is the rate now; ok is false if there is none. It must not block.
	Pace(now time.Time) (p Pace, ok bool)
}

// Pace is a rate of starts.
type Pace struct {
	Rate  float64 // per second, above 0
	Burst int
	Until time.Time // from then on it does not hold any more
}

// IsPacer reports whether g, or a gate in it, is a [Pacer].
func IsPacer(g Gate) bool {
	switch g := g.(type) {
	case *Override:
		return IsPacer(g.inner)
	case Composite:
		for _, x := range g {
			if IsPacer(x) {
				return true
			}
		}
		return false
	case *WaitOnRefuse:
		return IsPacer(g.inner)
	case *TierPriority:
		return IsPacer(g.inner)
	}
	_, ok := g.(Pacer)
	return ok
}
