package gate

import (
	"context"
	"sync/atomic"
	"time"
)

// Override stands before a gate and lets people say otherwise for a while. Every gate of a worker is behind one.
type Override struct {
	inner Gate
	pacer bool
	paced atomic.Bool
	set   atomic.Pointer[override]
	Changes
}

type override struct {
	budget float64
	until  time.Time
	why    string
	since  time.Time
}

// NewOverride returns an override of g; without a gate, of one that is open.
func NewOverride(g Gate) *Override {
	if g == nil {
		g = Constant(1)
	}
	return &Override{inner: g, pacer: Has[Pacer](g)}
}

// Set makes the budget that number until a time, which must come: an override that nobody remembers must not stand for ever.
func (o *Override) Set(now time.Time, budget float64, until time.Time, why string) error {
	switch {
	case !(budget >= 0 && budget <= 1):
		return invalid("override.budget", "%v is not between 0 and 1", budget)
	case !until.After(now):
		return invalid("override.until", "is not in the future")
	case until.Sub(now) > 366*24*time.Hour:
		return invalid("override.until", "is more than a year away")
	}
	o.set.Store(&override{budget: budget, until: until, why: why, since: now})
	o.Changed()
	return nil
}

// Clear ends the override now.
func (o *Override) Clear() {
	o.set.Store(nil)
	o.Changed()
}

func (o *Override) at(now time.Time) *override {
	if s := o.set.Load(); s != nil && now.Before(s.until) {
		return s
	}
	return nil
}

// Read implements [Gate].
func (o *Override) Read(now time.Time, s Scope) Reading {
	v := o.at(now)
	if v == nil {
		r := o.inner.Read(now, s)
		if o.pacer && !o.paced.Load() && r.Budget > 0 {
			r = Reading{Value: r.Value, Threshold: r.Threshold, At: r.At, Reason: NoReading, Detail: "its rate is not in the store yet"}
		}
		return r
	}
	r := Reading{Budget: v.budget, Value: v.budget, Threshold: None, Up: true, At: now, Since: v.since, Reason: Manual, Detail: v.why}
	if v.budget == 0 {
		r.Opens = v.until
	}
	return r
}

// Judge implements [Judge]: an override is a budget, so it lets every single command pass.
func (o *Override) Judge(now time.Time, s Scope, job *Job) Verdict {
	if j, ok := o.inner.(Judge); ok && o.at(now) == nil {
		return j.Judge(now, s, job)
	}
	return Verdict{}
}

// Feedback implements [Listener].
func (o *Override) Feedback(f Feedback) {
	if l, ok := o.inner.(Listener); ok {
		l.Feedback(f)
	}
}

// Paced says that the rate of the gate is kept by the store: a [Pacer] is closed before it is.
func (o *Override) Paced() {
	if o.pacer && !o.paced.Swap(true) {
		o.Changed()
	}
}

// Pace implements [Pacer].
func (o *Override) Pace(now time.Time) (Pace, bool) {
	if p, ok := o.inner.(Pacer); ok && o.at(now) == nil {
		return p.Pace(now)
	}
	return Pace{}, false
}

// Run implements [Runner].
func (o *Override) Run(ctx context.Context) {
	if r, ok := o.inner.(Runner); ok {
		r.Run(ctx)
	}
}

// Notify implements [Notifier].
func (o *Override) Notify(changed func()) (stop func()) {
	mine, theirs := o.Changes.Notify(changed), NotifyAll(changed, o.inner)
	return func() { mine(); theirs() }
}

// Unwrap returns the gate behind it.
func (o *Override) Unwrap() []Gate { return []Gate{o.inner} }
