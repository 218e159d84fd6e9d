package inference

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/twolane/twolane/gate"
)

// watched counts what a gate decides, as llm-d-async's metrics do, and passes everything on.
type watched struct {
	gate.Gate
	closed, refused, dropped atomic.Int64
	last                     atomic.Pointer[gate.Reading]
}

// Read implements [gate.Gate]. A round in which nothing could be claimed counts once.
func (w *watched) Read(now time.Time, s gate.Scope) gate.Reading {
	r := w.Gate.Read(now, s)
	w.last.Store(&r)
	if r.Normal().Budget == 0 {
		w.closed.Add(1)
	}
	return r
}

// Judge implements [gate.Judge].
func (w *watched) Judge(now time.Time, s gate.Scope, job *gate.Job) gate.Verdict {
	j, ok := w.Gate.(gate.Judge)
	if !ok {
		return gate.Verdict{}
	}
	v := j.Judge(now, s, job)
	switch v.Decision {
	case gate.Wait, gate.Refuse:
		w.refused.Add(1)
	case gate.Drop:
		w.dropped.Add(1)
	}
	return v
}

// Feedback implements [gate.Listener].
func (w *watched) Feedback(f gate.Feedback) {
	if l, ok := w.Gate.(gate.Listener); ok {
		l.Feedback(f)
	}
}

// Run implements [gate.Runner].
func (w *watched) Run(ctx context.Context) { gate.RunAll(ctx, w.Gate) }

// Notify implements [gate.Notifier].
func (w *watched) Notify(changed func()) (stop func()) { return gate.NotifyAll(changed, w.Gate) }

// Unwrap returns the gate behind it.
func (w *watched) Unwrap() []gate.Gate { return []gate.Gate{w.Gate} }
