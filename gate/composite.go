package gate

import (
	"context"
	"sync"
	"time"
)

// Composite is the tightest of several gates: the smallest budget, and of verdicts the first that does not let a command run.
type Composite []Gate

// NewComposite returns a composite of one gate or more.
func NewComposite(gates ...Gate) (Composite, error) {
	if len(gates) == 0 {
		return nil, invalid("gates", "are missing: a composite of none would be open")
	}
	for _, g := range gates {
		if g == nil {
			return nil, invalid("gates", "one is missing")
		}
	}
	return Composite(gates), nil
}

// Read implements [Gate].
func (c Composite) Read(now time.Time, s Scope) Reading {
	r := c[0].Read(now, s).Normal()
	for _, g := range c[1:] {
		r = Min(r, g.Read(now, s))
	}
	return r
}

// Judge implements [Judge].
func (c Composite) Judge(now time.Time, s Scope, job *Job) Verdict {
	for _, g := range c {
		if j, ok := g.(Judge); ok {
			if v := j.Judge(now, s, job); v.Decision != Continue {
				return v
			}
		}
	}
	return Verdict{}
}

// Feedback implements [Listener].
func (c Composite) Feedback(f Feedback) {
	for _, g := range c {
		if l, ok := g.(Listener); ok {
			l.Feedback(f)
		}
	}
}

// Pace implements [Pacer]: the slowest rate.
func (c Composite) Pace(now time.Time) (slowest Pace, ok bool) {
	for _, g := range c {
		if p, is := g.(Pacer); is {
			if pace, has := p.Pace(now); has && (!ok || pace.Rate < slowest.Rate) {
				slowest, ok = pace, true
			}
		}
	}
	return slowest, ok
}

// Unwrap returns the gates.
func (c Composite) Unwrap() []Gate { return c }

// Run implements [Runner].
func (c Composite) Run(ctx context.Context) { RunAll(ctx, c...) }

// Notify implements [Notifier].
func (c Composite) Notify(changed func()) (stop func()) { return NotifyAll(changed, c...) }

// RunAll runs those gates that are a [Runner] until ctx ends.
func RunAll(ctx context.Context, gates ...Gate) {
	var wg sync.WaitGroup
	for _, g := range gates {
		if r, ok := g.(Runner); ok {
			wg.Go(func() { r.Run(ctx) })
		}
	}
	wg.Wait()
}

// wrapped is a gate before another one, whose signals it passes on.
type wrapped struct{ inner Gate }

func (w wrapped) Unwrap() []Gate                      { return []Gate{w.inner} }
func (w wrapped) Run(ctx context.Context)             { RunAll(ctx, w.inner) }
func (w wrapped) Notify(changed func()) (stop func()) { return NotifyAll(changed, w.inner) }
func (w wrapped) Read(now time.Time, s Scope) Reading { return w.inner.Read(now, s) }
func (w wrapped) Feedback(f Feedback) {
	if l, ok := w.inner.(Listener); ok {
		l.Feedback(f)
	}
}

func (w wrapped) Pace(now time.Time) (Pace, bool) {
	if p, ok := w.inner.(Pacer); ok {
		return p.Pace(now)
	}
	return Pace{}, false
}

func (w wrapped) judge(now time.Time, s Scope, job *Job) Verdict {
	if j, ok := w.inner.(Judge); ok {
		return j.Judge(now, s, job)
	}
	return Verdict{}
}

// WaitOnRefuse is a gate before another one that lets wait what the other refuses.
type WaitOnRefuse struct{ wrapped }

// NewWaitOnRefuse returns one before g.
func NewWaitOnRefuse(g Gate) (*WaitOnRefuse, error) {
	if g == nil {
		return nil, invalid("gate", "is missing")
	}
	return &WaitOnRefuse{wrapped{g}}, nil
}

// Judge implements [Judge].
func (w *WaitOnRefuse) Judge(now time.Time, s Scope, job *Job) Verdict {
	v := w.judge(now, s, job)
	if v.Decision == Refuse {
		v.Decision = Wait
	}
	return v
}
