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

// Has reports whether g, or a gate in it, is more than a [Gate]: a [Judge], a [Listener], a [Pacer]. A gate that stands before others often has all
// the methods, for whatever it stands before: those with a method Unwrap() []Gate are looked through.
func Has[T Gate](g Gate) bool {
	w, ok := g.(interface{ Unwrap() []Gate })
	if !ok {
		_, ok = g.(T)
		return ok
	}
	var kind any = (*T)(nil)
	if _, ok := kind.(*Judge); ok {
		if _, ok := g.(interface{ judgesItself() }); ok {
			return true
		}
	}
	for _, x := range w.Unwrap() {
		if Has[T](x) {
			return true
		}
	}
	return false
}
