package dispatch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/twolane/twolane/store"
)

// PanicError is a panic of a handler, or its end by runtime.Goexit.
type PanicError struct {
	Value any    // nil for Goexit
	Stack string // valid UTF-8
}

func (e *PanicError) Error() string {
	if e.Value == nil {
		return "handler ended its goroutine (runtime.Goexit)\n" + e.Stack
	}
	return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack)
}

// Unwrap returns the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// start gives an invocation its contexts and its goroutine.
func (l *Loop) start(inv *Invocation) {
	limit := time.Duration(0)
	if inv.Type.MaxRun > 0 {
		limit = inv.started + inv.Type.MaxRun
	}
	single := len(inv.Items) == 1
	if end := inv.Items[0].endsAt; single && end > 0 && (limit == 0 || end < limit) {
		limit = end
	}
	inv.ctx, inv.cancel = l.context(l.values, limit)
	if single {
		inv.Items[0].ctx, inv.Items[0].cancel = inv.ctx, inv.cancel
	} else {
		for _, it := range inv.Items {
			it.ctx, it.cancel = l.context(inv.ctx, it.endsAt)
		}
		inv.early = l.answered
	}
	l.runs.Add(1)
	l.mu.Lock()
	var r *runner
	if n := len(l.idle); n > 0 {
		r = l.idle[n-1]
		l.idle = l.idle[:n-1]
	}
	l.mu.Unlock()
	if r != nil {
		r.next <- inv
		return
	}
	r = &runner{l: l, next: make(chan *Invocation, 1)}
	go r.loop(inv)
}

// maxIdle bounds the goroutines that wait for an invocation.
const maxIdle = 256

// runner is a goroutine that runs one invocation after the other: a stack that has grown once serves many handlers.
type runner struct {
	l    *Loop
	next chan *Invocation
}

func (r *runner) loop(inv *Invocation) {
	for ok := true; ok; inv, ok = <-r.next {
		r.l.run(inv) // a handler that ends its goroutine ends the runner with it
		if !r.l.park(r, inv) {
			return
		}
	}
}

// context returns a context that the core ends; end is what its Deadline says.
func (l *Loop) context(parent context.Context, end time.Duration) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	if end == 0 {
		return ctx, cancel
	}
	return &timedContext{ctx, l.clock.Time(end)}, cancel
}

// timedContext says when it will end; that it ends is the core's doing, so that there is one heap and no timer for each command.
type timedContext struct {
	context.Context
	deadline time.Time
}

func (c *timedContext) Deadline() (time.Time, bool) {
	if d, ok := c.Context.Deadline(); ok && d.Before(c.deadline) {
		return d, true
	}
	return c.deadline, true
}

func (c *timedContext) Err() error {
	err := c.Context.Err()
	if err != nil {
		if cause := context.Cause(c.Context); cause == ErrDeadline || cause == ErrMaxRun {
			return context.DeadlineExceeded
		}
	}
	return err
}

// run calls the handler and sees to it that every item has its answer, whatever the handler does.
func (l *Loop) run(inv *Invocation) {
	returned := false
	defer func() {
		if !returned {
			contain(inv, recover())
		}
		for _, it := range inv.Items { // somebody else may be in the middle of an answer
			for it.answered.Load() == 1 {
				runtime.Gosched()
			}
		}
		inv.cancel(context.Canceled)
		if !returned && inv.goexit {
			l.ended(inv)
		}
	}()
	inv.goexit = true
	inv.Type.Run(inv.ctx, inv)
	inv.goexit, returned = false, true
	if inv.unanswered() {
		fail(inv, errNoAnswer)
	}
}

// contain answers for the items of a call that panicked with v, or ended its goroutine.
func contain(inv *Invocation, v any) {
	inv.goexit = v == nil // panic(nil) is a PanicNilError
	stack := debug.Stack()
	inv.Panic = &PanicError{Value: v, Stack: strings.ToValidUTF8(string(stack[:min(len(stack), 32<<10)]), "\uFFFD")}
	fail(inv, inv.Panic)
}

func (inv *Invocation) unanswered() bool {
	for _, it := range inv.Items {
		if it.answered.Load() == 0 {
			return true
		}
	}
	return false
}

// fail lets the type answer for what has no answer.
func fail(inv *Invocation, err error) {
	if inv.Type.Failed != nil {
		var items []*Item
		for _, it := range inv.Items {
			if it.answered.Load() == 0 {
				items = append(items, it)
			}
		}
		func() {
			defer func() {
				if v := recover(); v != nil {
					err = errors.Join(err, &PanicError{Value: v, Stack: string(debug.Stack())})
				}
			}()
			inv.Type.Failed(inv, items, err)
		}()
	}
	text := ErrorText(err)
	for _, it := range inv.Items {
		it.Answer(store.Settlement{Kind: store.OutcomeRetry, Error: text, Delay: noAnswerDelay})
	}
}

// ErrorText is the text of err as a store keeps it: valid UTF-8 without NUL, at most MaxError bytes.
func ErrorText(err error) string {
	s := err.Error()
	if len(s) > store.MaxError {
		s = s[:store.MaxError]
	}
	if strings.ContainsRune(s, 0) {
		s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) > store.MaxError {
		s = strings.ToValidUTF8(s[:store.MaxError], "")
	}
	return s
}

// park tells that an invocation is over and lets its runner wait for the next. It reports false if the runner is to end.
func (l *Loop) park(r *runner, inv *Invocation) bool {
	l.runs.Add(-1)
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return false
	}
	l.inbox.ended = append(l.inbox.ended, inv)
	keep := len(l.idle) < maxIdle
	if keep {
		l.idle = append(l.idle, r)
	}
	l.mu.Unlock()
	l.notify()
	return keep
}

// ended tells that an invocation is over whose goroutine ends with it.
func (l *Loop) ended(inv *Invocation) {
	l.runs.Add(-1)
	l.mu.Lock()
	if !l.over {
		l.inbox.ended = append(l.inbox.ended, inv)
	}
	l.mu.Unlock()
	l.notify()
}

func (l *Loop) answered(it *Item) {
	l.mu.Lock()
	if !l.over {
		l.inbox.early = append(l.inbox.early, it)
	}
	l.mu.Unlock()
	l.notify()
}
