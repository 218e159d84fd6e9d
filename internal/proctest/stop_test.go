package proctest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twolane/twolane/store"
)

// TestF057_F011_StoppedWorker: a worker process is stopped (SIGSTOP) for longer than the visibility timeout and goes on (SIGCONT), as a frozen
// machine does. Another worker has run its command by then. The first call into the library finds the lease lost, the settle is refused, the worker
// registers again and works on. Not on SQLite: a process may be stopped while it holds the lock of the file, and then nobody works.
func TestF057_F011_StoppedWorker(t *testing.T) {
	t.Parallel()
	e := onRedis(t, sharedRedis(t).URL())
	frozen := e.startReady(spec{Proc: "frozen"})[0]
	ids := e.submit("deaf", 3, params{Until: e.file("go")})
	e.until("all to run", 20*time.Second, func() bool { return e.running(ids) })
	e.startReady(spec{Proc: "other"})
	frozen.stop()
	at := time.Now()
	t.Logf("they ran again within %v", e.resumed(ids, at))
	time.Sleep(time.Until(at.Add(2*e.v + e.v/2)))
	e.touch("go") // both sides finish now
	e.ended(20 * time.Second)
	frozen.cont()
	e.until("the stale owner to be refused", 20*time.Second, func() bool { return len(e.states("frozen", ids)) >= len(ids) })
	for id, state := range e.states("frozen", ids) {
		if state != store.SettleLost.String() {
			t.Errorf("the stale owner's settle of %s was answered %q", id, state)
		}
	}
	// It works again, in the same incarnation.
	e.end1("other")
	more := e.submit("work", 5, params{Ms: 1})
	e.until("the worker that was stopped to settle new commands", 20*time.Second, func() bool { return len(e.states("frozen", more)) == len(more) })
	e.finish(time.Second)
}

// TestF057_FencedBeforeTheNextCall: a handler that only ever calls the library finds out there, before anything else of it happens.
func TestF057_FencedBeforeTheNextCall(t *testing.T) {
	t.Parallel()
	e := onRedis(t, sharedRedis(t).URL())
	frozen := e.startReady(spec{Proc: "frozen", Permits: 10})[0]
	ids := e.submit("deaf", 10, params{Until: e.file("go")})
	e.until("all to run", 20*time.Second, func() bool { return e.running(ids) && e.count(evTicks, "frozen") == len(ids) })
	frozen.stop()
	time.Sleep(2 * e.v)
	frozen.cont()
	e.until("all handlers to notice", 20*time.Second, func() bool { return e.count(evAwake, "frozen") >= len(ids) })
	for i := range e.events {
		if ev := &e.events[i]; ev.Kind == evAwake && ev.Text != stateLost {
			t.Errorf("%s after the stop: %s", ev.Items[0].ID, ev.Text)
		}
	}
	e.touch("go")
	e.finish(20 * time.Second)
}

// TestF072_DrainedAtRandomMoments: SIGTERM at random offsets from claims. The worker ends in its budget and without an error, nothing is missing, nothing
// is counted as a failure or a loss, and what it gave back starts elsewhere within two seconds, not after a visibility timeout.
func TestF072_DrainedAtRandomMoments(t *testing.T) {
	stores(t, func(t *testing.T, open func(*testing.T) *env) {
		for round := range rounds(t) {
			t.Run(fmt.Sprint(round), func(t *testing.T) {
				t.Parallel()
				e := open(t)
				ps := e.startReady(spec{Proc: "leaves", Permits: 4, Drain: 2 * e.v}, spec{Proc: "stays", Permits: 4})
				e.submit("work", 20, params{Ms: rand.IntN(30)})
				e.submit("long", 10, params{Ms: rand.IntN(10), Polls: 2})
				slow := e.submit("hold", 2, params{Until: e.file("go")})
				time.Sleep(rand.N(400 * time.Millisecond))
				ps[0].term()
				if err := ps[0].wait(); err != nil {
					e.read()
					if !e.starved("leaves") {
						t.Errorf("the drain ended with %v", err)
					}
				}
				at := time.Now()
				e.until("what was held to run elsewhere", 10*time.Second, func() bool {
					return !slices.ContainsFunc(slow, func(id string) bool { return !slices.Contains(e.runs("stays"), id) })
				})
				if took, most := time.Since(at), 2*tick+e.stall(at.UnixNano(), now()); took > most {
					t.Errorf("what was given back started elsewhere after %v, want within %v", took, most)
				}
				e.touch("go")
				e.finish(20 * time.Second)
				for _, r := range e.get() {
					if r.cmd.Failures != 0 || r.cmd.Losses != 0 || r.cmd.Status != store.Succeeded {
						t.Errorf("%s, want SUCCEEDED at no cost", r)
					}
				}
			})
		}
	})
}

// states are what the store answered when a process offered results of commands, by id; the last answer counts.
func (e *env) states(proc string, ids []string) map[string]string {
	states := map[string]string{}
	for i := range e.events {
		if ev := &e.events[i]; ev.Kind == evSettle && ev.Proc == proc && ev.Text == "" {
			for _, it := range ev.Items {
				if slices.Contains(ids, it.ID) && it.Outcome == store.OutcomeDone.String() {
					states[it.ID] = it.State
				}
			}
		}
	}
	return states
}

// end1 drains one process and waits for its end.
func (e *env) end1(proc string) {
	e.t.Helper()
	for _, p := range e.procs {
		if p.name == proc {
			p.term()
			if err := p.wait(); err != nil {
				e.t.Errorf("%s ended with %v", proc, err)
			}
		}
	}
}
