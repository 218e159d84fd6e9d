package proctest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
)

// TestF003_AllWorkersKilled: all workers die at once; workers with new names run everything again, and none of the old names comes back.
func TestF003_AllWorkersKilled(t *testing.T) {
	stores(t, func(t *testing.T, open func(*testing.T) *env) {
		e := open(t)
		ps := e.startReady(spec{Proc: "a1"}, spec{Proc: "a2"}, spec{Proc: "a3"}, spec{Proc: "a4"})
		ids := e.submit("hold", 20, params{Until: e.file("go")})
		e.until("all to run", 20*time.Second, func() bool { return e.running(ids) })
		death := e.kill(ps...)
		e.startReady(spec{Proc: "b1", Permits: 10}, spec{Proc: "b2", Permits: 10})
		// Until the first call of a new worker time stands still for leases; from then on they have a visibility timeout again.
		first := int64(math.MaxInt64)
		for i := range e.events {
			if ev := &e.events[i]; ev.Kind == evReady && ev.Sent > death.UnixNano() {
				first = min(first, ev.Sent)
			}
		}
		t.Logf("the last one ran again %v after the first heartbeat of a new worker", e.resumedFrom(ids, death, time.Unix(0, first)))
		e.touch("go")
		e.finish(20 * time.Second)
		for _, r := range e.get() {
			if r.cmd.Starts < 2 || r.cmd.Failures != 0 {
				t.Errorf("%s, want a second start and no failure", r)
			}
		}
	})
}

// TestF068_KilledAtRandomMoments: 64 commands, a worker with concurrency 10 that is killed at a random moment, another that goes on. All reach a
// terminal record, none twice.
func TestF068_KilledAtRandomMoments(t *testing.T) {
	stores(t, func(t *testing.T, open func(*testing.T) *env) {
		for round := range rounds(t) {
			t.Run(fmt.Sprint(round), func(t *testing.T) {
				t.Parallel()
				e := open(t)
				ps := e.startReady(spec{Proc: "victim", Permits: 10}, spec{Proc: "other", Permits: 10})
				e.submit("work", 40, params{Ms: 5 + rand.IntN(40)})
				e.submit("long", 24, params{Ms: rand.IntN(20), Polls: 1 + rand.IntN(3)})
				time.Sleep(rand.N(500 * time.Millisecond))
				at := e.kill(ps[0])
				e.read()
				if held := e.held("victim"); len(held) > 0 {
					e.resumed(held, at)
				}
				e.finish(20 * time.Second)
			})
		}
	})
}

// TestF074_OrphansRunElsewhere: one of three workers is killed and no process is started; what it ran goes on in the others.
func TestF074_OrphansRunElsewhere(t *testing.T) {
	stores(t, func(t *testing.T, open func(*testing.T) *env) {
		e := open(t)
		ps := e.startReady(spec{Proc: "a", Permits: 15}, spec{Proc: "b", Permits: 15}, spec{Proc: "c", Permits: 15})
		ids := e.submit("hold", 15, params{Until: e.file("go")})
		e.until("all to run", 20*time.Second, func() bool { return e.running(ids) })
		victim := ps[0] // the one that has most of them
		for _, p := range ps {
			if len(e.runs(p.name)) > len(e.runs(victim.name)) {
				victim = p
			}
		}
		at := e.kill(victim)
		e.read()
		held := e.held(victim.name)
		if len(held) == 0 {
			t.Fatal("the victim ran nothing")
		}
		t.Logf("%d commands ran again within %v of the kill", len(held), e.resumed(held, at))
		e.touch("go")
		e.finish(20 * time.Second)
	})
}

// TestF073_KilledAroundTheResult: a worker killed in its first attempt is followed by a second attempt; one killed after the store took the
// result, and before it could know, leaves a command that is done.
func TestF073_KilledAroundTheResult(t *testing.T) {
	stores(t, func(t *testing.T, open func(*testing.T) *env) {
		e := open(t)
		taken := e.startReady(spec{Proc: "taken", DieTaken: true})[0]
		done := e.submit("work", 1, params{Ms: 1})
		select {
		case <-taken.done:
			e.j.add(event{Kind: evKill, Sent: now(), Text: taken.name})
		case <-time.After(20 * time.Second):
			t.Fatal("the process did not kill itself")
		}
		during := e.startReady(spec{Proc: "during"})[0]
		again := e.submit("hold", 1, params{Until: e.file("go")})
		e.until("the first attempt", 20*time.Second, func() bool { return e.running(again) })
		at := e.kill(during)
		e.startReady(spec{Proc: "after"})
		e.resumedFrom(again, at, time.Now()) // nobody lived before
		e.touch("go")
		e.ended(20 * time.Second)
		time.Sleep(2 * e.v) // nothing may happen
		e.finish(time.Second)
		for _, r := range e.get() {
			switch {
			case r.cmd.Status != store.Succeeded, r.cmd.Failures != 0, r.id == done[0] && r.cmd.Starts != 1, r.id == again[0] && r.cmd.Starts < 2:
				t.Errorf("%s, want SUCCEEDED after one start of %s and two of %s", r, done[0], again[0])
			}
		}
	})
}

// TestF062_SameName: a worker's identity is its incarnation, whatever it calls itself. Two processes with one name do not disturb each other, and
// what a killed one had is run again although its name lives on and is used anew at once.
func TestF062_SameName(t *testing.T) {
	stores(t, func(t *testing.T, open func(*testing.T) *env) {
		e := open(t)
		ps := e.startReady(spec{Proc: "one", Name: "twin", Permits: 10}, spec{Proc: "two", Name: "twin", Permits: 10})
		ids := e.submit("hold", 10, params{Until: e.file("go")})
		e.until("all to run", 20*time.Second, func() bool { return e.running(ids) })
		time.Sleep(2 * e.v) // nobody may lose a lease to a namesake
		e.read()
		for i := range e.events {
			if ev := &e.events[i]; ev.Kind == evFenced && e.stall(ev.At-int64(e.v), ev.At) == 0 {
				t.Errorf("%s lost %s beside its namesake", ev.Proc, ev.Items[0].ID)
			}
		}
		e.until("all to run", 20*time.Second, func() bool { return e.running(ids) })
		victim := ps[0]
		if len(e.runs(victim.name)) == 0 {
			victim = ps[1]
		}
		at := e.kill(victim)
		e.start(spec{Proc: "three", Name: "twin", Permits: 10})
		e.read()
		e.resumed(e.held(victim.name), at)
		e.touch("go")
		e.finish(20 * time.Second)
	})
}

// TestF102_F149_HandlerEndsTheProcess: a command that takes its process with it waits longer each time, its count of losses is kept, and it ends
// as worker_lost; its neighbours in the same processes do not.
func TestF102_F149_HandlerEndsTheProcess(t *testing.T) {
	stores(t, func(t *testing.T, open func(*testing.T) *env) {
		e := open(t)
		_, err := e.c.Configure(t.Context(), func(c *twolane.Config) error {
			c.Queues[twolane.DefaultQueue] = twolane.QueueConfig{MaxLosses: 3}
			return nil
		})
		e.must(err)
		e.start(spec{Proc: "p0", Permits: 8})
		poison := e.submit("exit", 1, params{})[0]
		e.submit("work", 20, params{Ms: 300})
		for n := 1; ; n++ { // somebody starts the worker again each time, as a supervisor does
			p := e.procs[len(e.procs)-1]
			e.until("the end of the process or of the poison", 60*time.Second, func() bool { return p.ended() || e.over(poison) })
			if !p.ended() {
				break
			}
			e.j.add(event{Kind: evKill, Sent: now(), Text: p.name})
			e.start(spec{Proc: fmt.Sprint("p", n), Permits: 8})
		}
		e.finish(20 * time.Second)
		var deaths, starts []int64
		for i := range e.events {
			switch ev := &e.events[i]; {
			case ev.Kind == evStart && ev.Items[0].ID == poison:
				if n := len(starts); ev.Items[0].Losses != n {
					t.Errorf("at start %d the command has %d losses", n+1, ev.Items[0].Losses)
				}
				starts = append(starts, ev.At)
			case ev.Kind == evKill:
				deaths = append(deaths, ev.At)
			}
		}
		if len(starts) != 3 || len(deaths) != 3 {
			for _, r := range e.get() {
				if r.id == poison {
					t.Logf("%s: %+v", r, r.cmd.Events)
				}
			}
			t.Fatalf("the poison was started %d times and killed %d processes, want 3", len(starts), len(deaths))
		}
		first, second := time.Duration(starts[1]-deaths[0]), time.Duration(starts[2]-deaths[1])
		t.Logf("it was started again %v and %v after the end of a process", first, second)
		// After the first loss it need not wait; after the second it waits for 2.5 s to 5 s beyond the end of its lease.
		if most := e.resume() + e.stall(deaths[0], starts[1]); first > most {
			t.Errorf("after the first loss it waited for %v, want at most %v", first, most)
		}
		if second < 2500*time.Millisecond {
			t.Errorf("after the second loss it waited for %v only", second)
		}
		for _, r := range e.get() {
			want, reason := store.Succeeded, store.Reason("")
			if r.id == poison {
				want, reason = store.Failed, store.ReasonWorkerLost
			}
			if r.cmd.Status != want || r.cmd.Reason != reason || r.cmd.Failures != 0 {
				t.Errorf("%s %s, want %s %s", r, r.cmd.Reason, want, reason)
			}
		}
	})
}

// over reports whether a command has ended.
func (e *env) over(id string) bool {
	for _, r := range e.get() {
		if r.id == id {
			return r.cmd != nil && r.cmd.Status.Terminal()
		}
	}
	return false
}

// touch makes a file of this test exist.
func (e *env) touch(name string) {
	e.t.Helper()
	e.must(os.WriteFile(e.file(name), nil, 0o600))
}
