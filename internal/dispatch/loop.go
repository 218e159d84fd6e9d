package dispatch

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twolane/twolane/internal/clock"
	"github.com/twolane/twolane/store"
)

// Loop runs a [Core]: it owns the core in one goroutine, makes the store calls that the core asks for in short goroutines of their own, and
// runs each invocation in one. It is used for one Run.
type Loop struct {
	core  *Core
	store store.Store
	clock *clock.Clock
	// Observe gets what happened, in the loop's goroutine: it must not block. The event and what it points to are valid during the call.
	Observe func(*Event)
	// Gauge gets the loop's condition each time it has worked, under the same rule.
	Gauge func(*Pulse)

	values    context.Context // of the handlers' contexts
	callCtx   context.Context // of store calls; ends when the drain is over
	stopCalls context.CancelFunc
	calls     sync.WaitGroup // store calls and the watcher
	runs      atomic.Int64   // handlers that have not returned

	signal chan struct{}
	mu     sync.Mutex // guards what follows
	inbox  inbox
	pulse  Pulse
	over   bool
	idle   []*runner
}

// inbox is what the loop has been told since it last looked.
type inbox struct {
	ended []*Invocation
	early []*Item
	wakes []store.Wake
	calls []func(now time.Duration)
}

// Pulse is a reading of a worker's condition.
type Pulse struct {
	At        time.Duration // when it was taken; the loop takes one each time it wakes
	Claim     time.Duration // when the last claim was answered
	Renew     time.Duration // when the last renewal was answered
	Held      [2]int        // permits
	Free      [2]int
	Leases    int
	Unsettled int
	Overdue   int
	Abandoned int // handlers that run on without a permit
	Registered,
	Draining bool
	Visibility time.Duration
	Workers    int
	Starving   [2]string         // why a lane with eligible work starts nothing; "" if it does not starve
	Gates      []store.GateState // that hold something back
	Handlers   int64             // that have not returned, as the shell has counted them
}

// NewLoop returns a loop that has not started. st is called concurrently.
func NewLoop(cfg Config, st store.Store, c *clock.Clock) *Loop {
	return &Loop{core: New(cfg), store: st, clock: c, signal: make(chan struct{}, 1), Observe: func(*Event) {}, Gauge: func(*Pulse) {}}
}

// Run works until ctx ends and then drains within budget, or until Drain was called. It returns when every goroutine has ended but for those
// of handlers that ignore the end of their context, which the report names. The contexts of handlers have the values of ctx, not its end.
func (l *Loop) Run(ctx context.Context, budget time.Duration) Report {
	l.values = context.WithoutCancel(ctx)
	l.callCtx, l.stopCalls = context.WithCancel(l.values)
	l.calls.Go(l.watch)
	stop := ctx.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var box inbox
	for {
		select {
		case <-l.signal:
			runtime.Gosched() // short handlers that are ready end first, and go in one settle
		case <-timer.C:
		case <-stop:
			stop = nil
			l.core.Drain(l.clock.Now(), budget)
		}
		l.swap(&box)
		now := l.clock.Now()
		l.feed(now, &box)
		act := l.core.Step(now)
		l.perform(now, act)
		if act.Done {
			break
		}
		timer.Reset(act.Wake - now)
	}
	l.stopCalls()
	l.calls.Wait()
	l.mu.Lock()
	l.over = true
	for _, r := range l.idle {
		close(r.next)
	}
	l.idle = nil
	l.pulse = l.core.pulse(l.clock.Now())
	l.mu.Unlock()
	return l.core.Report()
}

// Drain asks Run to drain within budget. It does not wait.
func (l *Loop) Drain(budget time.Duration) {
	l.post(func(now time.Duration) { l.core.Drain(now, budget) })
}

// Pulse returns the loop's last reading, and the time now to compare it with.
func (l *Loop) Pulse() (p Pulse, now time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p = l.pulse
	p.Handlers = l.runs.Load()
	return p, l.clock.Now()
}

// GatesChanged says that a gate's reading may have changed. It does not wait.
func (l *Loop) GatesChanged() { l.post(l.core.GatesChanged) }

// KeysClosed says that the keys are closed that gates wanted closed, or cannot be. It does not wait.
func (l *Loop) KeysClosed() { l.post(l.core.KeysClosed) }

// EachGate calls f for every gate that was looked at. It may be called in Observe and Gauge alone.
func (l *Loop) EachGate(f func(*GateCell)) { l.core.EachGate(f) }

// post lets f run in the loop's goroutine.
func (l *Loop) post(f func(now time.Duration)) {
	l.mu.Lock()
	l.inbox.calls = append(l.inbox.calls, f)
	l.mu.Unlock()
	l.notify()
}

func (l *Loop) notify() {
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

// swap takes the inbox and leaves the emptied one.
func (l *Loop) swap(box *inbox) {
	clear(box.ended)
	clear(box.early)
	clear(box.calls)
	*box = inbox{box.ended[:0], box.early[:0], box.wakes[:0], box.calls[:0]}
	l.mu.Lock()
	*box, l.inbox = l.inbox, *box
	l.mu.Unlock()
}

func (l *Loop) feed(now time.Duration, box *inbox) {
	for _, it := range box.early {
		l.core.Answered(now, it)
	}
	for _, inv := range box.ended {
		l.core.Ended(now, inv)
	}
	for _, f := range box.calls {
		f(now)
	}
	for _, w := range box.wakes {
		l.core.Woken(now, w)
	}
}

func (l *Loop) perform(now time.Duration, act *Actions) {
	for _, c := range act.Cancel {
		if c.Inv.cancel == nil { // it is to be started by these very actions
			l.start(c.Inv)
		}
		if c.Item != nil {
			c.Item.cancel(c.Cause)
		} else {
			c.Inv.cancel(c.Cause)
		}
	}
	for _, call := range act.Renew {
		send(l, call.Timeout, func(ctx context.Context) (store.RenewReply, error) { return l.store.Renew(ctx, call.Req) },
			func(now time.Duration, r store.RenewReply, err error) { l.core.Renewed(now, call, r, err) })
	}
	if call := act.Settle; call != nil {
		send(l, call.Timeout, func(ctx context.Context) ([]store.SettleResult, error) { return l.store.Settle(ctx, call.Req) },
			func(now time.Duration, r []store.SettleResult, err error) { l.core.Settled(now, call, r, err) })
	}
	if call := act.Claim; call != nil {
		send(l, call.Timeout, func(ctx context.Context) (store.ClaimReply, error) { return l.store.Claim(ctx, call.Req) },
			func(now time.Duration, r store.ClaimReply, err error) { l.core.Claimed(now, call, r, err) })
	}
	for _, inv := range act.Start {
		if inv.cancel == nil {
			l.start(inv)
		}
	}
	if call := act.Stats; call != nil {
		send(l, call.Timeout, func(ctx context.Context) (store.Stats, error) { return l.store.Stats(ctx, call.Req) },
			func(now time.Duration, r store.Stats, err error) { l.core.Counted(now, r, err) })
	}
	if call := act.Maintain; call != nil {
		send(l, call.Timeout, l.store.Maintain,
			func(now time.Duration, r store.MaintainReply, err error) { l.core.Maintained(now, r, err) })
	}
	for i := range act.Events {
		l.Observe(&act.Events[i])
	}
	p := l.core.pulse(now)
	l.Gauge(&p)
	l.mu.Lock()
	l.pulse = p
	l.mu.Unlock()
}

// send makes a store call and hands its answer to the core.
func send[R any](l *Loop, timeout time.Duration, call func(context.Context) (R, error), answer func(time.Duration, R, error)) {
	l.calls.Go(func() {
		ctx, cancel := context.WithTimeout(l.callCtx, timeout)
		r, err := call(ctx)
		cancel()
		l.post(func(now time.Duration) { answer(now, r, err) })
	})
}

// watch hands the store's wake-ups to the core, and asks again when the store ends them.
func (l *Loop) watch() {
	var bad backoff
	for l.callCtx.Err() == nil {
		w, err := l.store.Watch(l.callCtx)
		if err == nil {
			l.wake(store.Wake{Kind: store.WakeAll}) // what came before it was ready
			l.pump(w)
			err = w.Close()
		}
		now := l.clock.Now()
		if err == nil && now-bad.after > lastPause { // it has worked for a while
			bad.ok(now)
		}
		bad.fail(now, rand.Float64())
		if n := bad.n; err != nil && l.callCtx.Err() == nil {
			l.post(func(time.Duration) { l.core.event(Event{Kind: StoreFailed, Text: "watch", Err: err, N: n}) })
		}
		pause(l.callCtx, bad.after-now)
		l.wake(store.Wake{Kind: store.WakeAll})
	}
}

func (l *Loop) pump(w store.Watcher) {
	for {
		select {
		case k, ok := <-w.C():
			if !ok {
				return
			}
			l.wake(k)
		case <-l.callCtx.Done():
			return
		}
	}
}

func (l *Loop) wake(k store.Wake) {
	l.mu.Lock()
	l.inbox.wakes = append(l.inbox.wakes, k)
	l.mu.Unlock()
	l.notify()
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
