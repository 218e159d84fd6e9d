package gate

import (
	"context"
	"math"
	"time"

	"github.com/twolane/twolane/store"
)

// Gate says how much of what it is asked for may run now. Read is called from the dispatch loop of a worker: it must not block, and must be safe
// for concurrent use. What takes time belongs into a [Runner].
type Gate interface {
	Read(now time.Time, s Scope) Reading
}

// Scope is what a gate is asked about. Queue, Type and Class are empty unless the gate's [Binding] tells them apart.
type Scope struct {
	Lane               store.Lane
	Queue, Type, Class string
	Permits            int // of the lane in this worker
	Held               int // invocations that run under the gate in this scope
}

// Runner is a gate with work of its own, such as asking a source. A worker calls Run in a goroutine; it returns when ctx ends.
type Runner interface {
	Run(ctx context.Context)
}

// Notifier is a gate that can say when its reading has changed, so that the worker looks at once and not at its next turn. changed must not
// block; it may be called until stop has returned.
type Notifier interface {
	Notify(changed func()) (stop func())
}

// Whole is a gate with one reading for all that runs under it, whatever the scope, as of one measured backend. Scopes that its binding tells apart
// share its steps.
type Whole interface {
	Gate
	Whole()
}

// Reason says in one of a few words why a reading is what it is; it is a metric's label.
type Reason string

// Reasons.
const (
	Open      Reason = "open"
	Closed    Reason = "closed"     // the signal says so
	NoReading Reason = "no_reading" // the source does not answer, or with nothing of use
	Manual    Reason = "override"   // somebody said so
	Window    Reason = "schedule"   // the time of day says so
	Throttled Reason = "throttled"  // handlers were told to go slower
	Full      Reason = "budget"     // all that the budget opens is in use
)

// Reasons lists them all.
var Reasons = []Reason{Open, Closed, NoReading, Manual, Window, Throttled, Full}

// Reading is what a gate says at one moment, and why.
type Reading struct {
	// Budget is the share of the scope's permits that is open: of all permits, or with a Lag of room beside what runs. What is not in
	// [0,1] is brought there; 0 is closed.
	Budget float64
	// Lag is how long it takes until a measured budget shows what was started; 0 says that the budget was not measured at what runs.
	Lag time.Duration
	// Step is the largest share of the permits that one step of a reading with a Lag admits; 0 means a quarter.
	Step float64
	// Cap bounds the share in use of a reading with a Lag; 0 means 1. Without a Lag the budget is the cap.
	Cap float64

	// Value is what the source said, and Threshold what it was compared with; NaN is none.
	Value, Threshold float64
	// Up says that the source answers as it should. A gate without a source is always up.
	Up bool
	// At is when the value was taken, zero means now; Since is when the gate last opened or closed.
	At, Since time.Time
	// Opens is when a closed gate opens by time alone; zero is unknown.
	Opens  time.Time
	Reason Reason // "" is Open or Closed, after the budget
	Detail string // for people
}

const defaultStep = 0.25

// Normal brings a reading into bounds and fills in what follows from the rest.
func (r Reading) Normal() Reading {
	r.Budget, r.Cap, r.Step, r.Lag = unit(r.Budget), unit(r.Cap), unit(r.Step), max(0, r.Lag)
	if r.Lag == 0 {
		r.Cap, r.Step = r.Budget, 1
	}
	if r.Cap == 0 {
		r.Cap = 1
	}
	if r.Step == 0 {
		r.Step = defaultStep
	}
	if r.Reason == "" {
		if r.Reason = Open; r.Budget == 0 {
			r.Reason = Closed
		}
	}
	return r
}

// unit brings x into [0,1]; what is not a number is 0.
func unit(x float64) float64 {
	if !(x > 0) {
		return 0
	}
	return min(x, 1)
}

// Share is the number that a share of permits stands for: rounded up, so that a share above 0 is at least one.
func Share(share float64, permits int) int {
	if share <= 0 || permits <= 0 {
		return 0
	}
	return min(permits, max(1, int(math.Ceil(share*float64(permits)-1e-9))))
}

// None is the value and threshold of a reading that has none.
var None = math.NaN()

// Min is the tighter of two readings: the smaller budget, cap and step, the longer lag; what explains it comes from the one with the smaller budget.
func Min(a, b Reading) Reading {
	a, b = a.Normal(), b.Normal()
	r := a
	if b.Budget < a.Budget || b.Budget == a.Budget && !b.Up && a.Up {
		r = b
	}
	r.Lag = max(a.Lag, b.Lag)
	if r.Lag > 0 {
		r.Cap, r.Step = min(a.Cap, b.Cap), min(a.Step, b.Step)
	}
	r.Up = a.Up && b.Up
	return r
}
