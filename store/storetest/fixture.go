package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twolane/twolane/store"
)

// epoch is where every fake clock begins: 2033, ahead of real clocks, so that a namespace which was born on real time only moves forward.
const epoch store.Millis = 2_000_000_000_000

// fixture is one namespace with its clock, and what a case says to it.
type fixture struct {
	*testing.T
	h   Harness
	s   store.Store
	now store.Millis
	v   time.Duration // the namespace's visibility timeout
	// audit is off for cases that damage the store on purpose.
	audit bool
	nonce *atomic.Int64
	// granted counts the invocations that claims were given.
	granted int
}

func newFixture(t *testing.T, h Harness, rule string) *fixture {
	t.Helper()
	f := &fixture{T: t, h: h, s: h.Open(t), now: epoch, v: store.DefaultV, audit: true, nonce: new(atomic.Int64)}
	t.Cleanup(func() {
		if f.audit {
			f.mustAudit()
		}
		if err := f.s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if t.Failed() {
			t.Logf("rule: %s", rule)
		}
	})
	f.setClock(epoch)
	f.maintain()
	return f
}

func (f *fixture) ctx() context.Context { return f.T.Context() }

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// check fails the case, with its words, unless cond holds.
func (f *fixture) check(cond bool, format string, args ...any) {
	f.Helper()
	if !cond {
		f.Fatalf(format, args...)
	}
}

func (f *fixture) mustAudit() {
	f.Helper()
	r, err := f.s.Audit(context.Background())
	if err != nil {
		f.Errorf("audit: %v", err)
		return
	}
	if len(r.Violations) > 0 {
		f.Errorf("audit found:\n  %s", strings.Join(r.Violations, "\n  "))
	}
}

func (f *fixture) setClock(at store.Millis) {
	f.Helper()
	c, ok := f.s.(store.Clocker)
	if !ok {
		f.Fatalf("%T does not implement store.Clocker", f.s)
	}
	f.ok(c.SetClock(f.ctx(), at))
	f.now = at
}

// Advance moves the store's server time, and does nothing else: to the store it is an outage, or a step of the clock.
func (f *fixture) Advance(d time.Duration) {
	f.Helper()
	f.setClock(f.now + store.Millis(d.Milliseconds()))
}

// Pass lets time go by as it does while somebody has the namespace open: with maintenance every quarter of the visibility timeout.
func (f *fixture) Pass(d time.Duration) {
	f.Helper()
	for d > 0 {
		step := min(d, f.v/4)
		f.Advance(step)
		f.maintain()
		d -= step
	}
}

// Later lets a long time go by, with maintenance at ten moments of it: leases age by two and a half timeouts.
func (f *fixture) Later(d time.Duration) {
	f.Helper()
	for range 10 {
		f.Advance(d / 10)
		f.maintain()
	}
}

// maintain does maintenance until nothing is left, and adds up what was done.
func (f *fixture) maintain() store.MaintainReply {
	f.Helper()
	var sum store.MaintainReply
	for range 10_000 {
		r, err := f.s.Maintain(f.ctx())
		f.ok(err)
		r.Reaped += sum.Reaped
		r.Expired += sum.Expired
		r.Promoted += sum.Promoted
		r.Purged += sum.Purged
		r.Lost += sum.Lost
		r.ClaimLost += sum.ClaimLost
		if sum = r; !r.More {
			return sum
		}
	}
	f.Fatal("maintenance never ends: More is still true after 10000 steps")
	return sum
}

// stepwise does maintenance until nothing is left, as maintain, and returns how much of one kind was done and in how many steps.
func (f *fixture) stepwise(of func(store.MaintainReply) int) (sum, steps int) {
	f.Helper()
	for range 1000 {
		r, err := f.s.Maintain(f.ctx())
		f.ok(err)
		sum += of(r)
		if steps++; !r.More {
			return sum, steps
		}
	}
	f.Fatal("maintenance never ends: More is still true after 1000 steps")
	return sum, steps
}

// drawNonce returns a nonce that was not used before in this case.
func (f *fixture) drawNonce() string { return fmt.Sprintf("nonce%06d", f.nonce.Add(1)) }

// configure changes the configuration.
func (f *fixture) configure(change func(c *store.Config)) store.Config {
	f.Helper()
	c, err := f.s.Config(f.ctx())
	f.ok(err)
	version := c.Version
	change(&c)
	c, err = f.s.Configure(f.ctx(), version, c)
	f.ok(err)
	f.v = c.V()
	return c
}

// queue changes the configuration of one queue.
func (f *fixture) queue(name string, change func(q *store.QueueConfig)) {
	f.Helper()
	f.configure(func(c *store.Config) {
		q := c.Queues[name]
		change(&q)
		if c.Queues == nil {
			c.Queues = map[string]store.QueueConfig{}
		}
		c.Queues[name] = q
	})
}

// second returns the same case on another handle of the namespace; it skips the case if the store has none.
func (f *fixture) second() *fixture {
	f.Helper()
	if f.h.Second == nil {
		f.Skip("the store cannot be shared")
	}
	g := *f
	g.s = f.h.Second(f.T, f.s)
	f.Cleanup(func() {
		if err := g.s.Close(); err != nil {
			f.Errorf("close of the second handle: %v", err)
		}
	})
	return &g
}

// reopen restarts the store.
func (f *fixture) reopen() {
	f.Helper()
	if f.h.Reopen == nil {
		f.Skip("nothing outlives Close")
	}
	f.s = f.h.Reopen(f.T, f.s)
	f.setClock(f.now)
}

// parallel runs n goroutines at once and adds up what they return. They report with Error, never with Fatal.
func (f *fixture) parallel(n int, run func(i int) int) int {
	var wg sync.WaitGroup
	var sum atomic.Int64
	for i := range n {
		wg.Go(func() { sum.Add(int64(run(i))) })
	}
	wg.Wait()
	return int(sum.Load())
}
