package dispatch

import (
	"math"
	"time"

	"github.com/twolane/twolane/gate"
)

// pace turns readings of a gate in one scope into how many invocations may run under it.
//
// A budget without a lag is a share of the permits. One with a lag is measured at what runs and shows what was started only later: it is
// room beside level, which is what is known to be fine. level is raised by a reading that was taken a lag or more after it was raised last, and after more than
// level ran for the first time, to what ran at most since then. So what runs over a signal's threshold is one step at most.
//
// The two may follow each other: a fallback, an override and a tier gate over a saturated backend are shares before a gate that measures. What runs when a
// share ends is the level then, however much ran before; and what was started under it is waited for like a step.
type pace struct {
	open   bool
	level  int           // invocations that the readings have shown to be fine
	peak   int           // most that ran since level was raised
	raised time.Duration // when
	grown  time.Duration // when more than level was seen to run for the first time since; 0 is not
	begun  bool          // it was raised once
	step   int           // of the last reading; 0 within a lag of a reopening
	share  bool          // the last reading was a share
	blind  bool          // something was started since then
}

// allowed is how many may run now. r is normal, and was taken age ago.
func (p *pace) allowed(now, age time.Duration, r *gate.Reading, permits, held int) int {
	if p.share && p.blind {
		p.begun, p.raised = true, now
	}
	p.share, p.blind = r.Budget > 0 && r.Lag == 0, false
	if p.open && p.grown == 0 && p.peak > p.level {
		p.grown = now
	}
	if r.Budget == 0 {
		p.open = false
		return 0
	}
	if p.share {
		p.open, p.level, p.step, p.peak, p.grown = false, held, 0, held, 0
		return gate.Share(r.Budget, permits)
	}
	fresh := !p.begun || now-max(0, age) >= max(p.raised, p.grown)+r.Lag
	switch step := gate.Share(min(r.Budget, r.Step), permits); {
	case fresh && !p.open:
		p.level, p.step = held, step
	case fresh:
		p.level, p.step = max(held, p.peak), step
	case !p.open: // it closed and opened again before it could have seen the last step
		p.level, p.step, p.peak = min(p.level+p.step, held), 0, held
	case p.step > 0:
		p.step = step
	}
	if fresh {
		p.begun, p.raised, p.grown, p.peak = true, now, 0, held
	}
	p.open = true
	return min(gate.Share(r.Cap, permits), max(1, p.level+p.step))
}

// entered notes how many run.
func (p *pace) entered(held int) { p.peak, p.blind = max(p.peak, held), true }

// growth bounds what the scopes of one measurement start together: a step more than ran at most in the lag before, and the next a lag after one was taken.
type growth struct {
	level, peak   int
	raised, grown time.Duration // when level was, and when more than that ran for the first time since; 0 is not
	begun         bool
}

// allowed is how many more may start of all scopes.
func (g *growth) allowed(now, age time.Duration, r *gate.Reading, permits, held int) int {
	if r.Lag == 0 { // a share, of each scope
		*g = growth{level: held, peak: held}
		return math.MaxInt32
	}
	if g.grown == 0 && g.peak > g.level {
		g.grown = now
	}
	if !g.begun || now-max(0, age) >= max(g.raised, g.grown)+r.Lag {
		*g = growth{level: max(held, g.peak), peak: held, raised: now, begun: true}
	}
	return max(0, max(1, g.level+gate.Share(min(r.Budget, r.Step), permits))-held)
}

// entered notes how many run.
func (g *growth) entered(held int) { g.peak = max(g.peak, held) }
