package proctest

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twolane/twolane"
)

func (e *env) limit(l twolane.Limit) {
	e.t.Helper()
	e.must(e.c.SetLimit(e.t.Context(), l))
}

// atOnce is how many invocations ran at once at most. Those of a dead process go on for half a visibility timeout: its leases do, at the least.
func (e *env) atOnce() (most int) {
	e.t.Helper()
	type edge struct {
		at int64
		d  int
	}
	var edges []edge
	e.read()
	for _, inv := range e.invocations() {
		end := min(inv.end, inv.fenced)
		for i := range e.events {
			if ev := &e.events[i]; ev.Kind == evKill && ev.Text == inv.proc && inv.end == ev.At {
				end = ev.At + int64(e.v/2)
			}
		}
		edges = append(edges, edge{inv.start, 1}, edge{end, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.d, b.d)) })
	n := 0
	for _, x := range edges {
		n += x.d
		most = max(most, n)
	}
	return most
}

// empty checks that nobody is a member of a limit and nothing waits for it.
func (e *env) empty(limit string) {
	e.t.Helper()
	st, err := e.c.Limit(e.t.Context(), limit, "")
	e.must(err)
	if st.Members != 0 || st.Lines != 0 || len(st.Holders) != 0 {
		e.t.Errorf("everything has ended, and limit %s: %+v", limit, st)
	}
}

// TestF028_KilledHolder: a worker that holds all of a limit is killed. Within the visibility timeout and a second all of it is in use again by the one
// that lives; until then nobody is let in; what the dead one had started holds its slots of scope command, and is what runs again.
func TestF028_KilledHolder(t *testing.T) {
	stores(t, func(t *testing.T, open func(*testing.T) *env) {
		for name, scope := range map[string]twolane.Scope{"invocation": twolane.ScopeInvocation, "command": twolane.ScopeCommand} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				const most = 4
				e := open(t)
				e.limit(twolane.Limit{Name: "l", Max: most, Scope: scope})
				victim := e.startReady(spec{Proc: "victim", Permits: 2 * most})[0]
				held := e.submit("hold", most, params{Until: e.file("go")})
				e.until("the victim to hold all of it", 20*time.Second, func() bool { return e.running(held) })
				e.startReady(spec{Proc: "other", Permits: 2 * most})
				waiting := e.submit("hold", 2*most, params{Until: e.file("go")})
				time.Sleep(e.v) // the other one asks again and again
				e.read()
				if e.count(evFenced, "victim") > 0 && e.stall(0, now()) > 0 { // it is no holder any more
					e.touch("go")
					e.finish(20 * time.Second)
					t.Skip("the machine stood still for so long that leases were lost")
				}
				if n := len(e.runs("other")); n > 0 {
					t.Fatalf("%d run beside a limit that is full", n)
				}
				at := e.kill(victim)
				back := e.until("all of it to be in use again", e.v+20*time.Second, func() bool { return len(e.runs("other")) == most })
				if took, want := back.Sub(at), e.v+tick+e.stall(at.UnixNano(), back.UnixNano()); took > want {
					t.Errorf("the capacity of the dead one was back after %v, want at most %v", took, want)
				} else {
					t.Logf("the capacity was in use again %v after the kill", took)
				}
				if again := e.running(held); scope == twolane.ScopeCommand && !again {
					t.Errorf("what the dead one had started waits for what has not: %v run", e.runs("other"))
				}
				if n := e.atOnce(); n > most {
					t.Errorf("%d at once under a limit of %d", n, most)
				}
				e.touch("go")
				e.until("the rest to run", 20*time.Second, func() bool { return e.count(evEnd, "other") == len(held)+len(waiting) })
				e.finish(20 * time.Second)
				if n := e.atOnce(); n > most {
					t.Errorf("%d at once under a limit of %d", n, most)
				}
				e.empty("l")
			})
		}
	})
}

// TestF104_F109_LongerThanAnyWindow: ten requests, each longer than the visibility timeout, under a limit of two, before two workers: exactly two at a time.
func TestF104_F109_LongerThanAnyWindow(t *testing.T) {
	stores(t, func(t *testing.T, open func(*testing.T) *env) {
		e := open(t)
		e.limit(twolane.Limit{Name: "l", By: twolane.ByAll, Max: 2})
		e.startReady(spec{Proc: "a", Permits: 10}, spec{Proc: "b", Permits: 10})
		e.submit("work", 10, params{Ms: int(e.v.Milliseconds()) * 3 / 2})
		e.finish(10*e.v + 20*time.Second)
		if n := e.atOnce(); n != 2 {
			t.Errorf("%d at once at most", n)
		}
		if invs := e.invocations(); len(invs) == 10 {
			e.gaps(invs, 2, tick)
		} else if n := e.count(evFenced, ""); n == 0 || len(invs) != 10+n { // on a machine that stands still leases are lost
			t.Errorf("%d invocations of 10 commands, of which %d lost their lease", len(invs), n)
		}
		e.empty("l")
	})
}

// gaps checks that a slot of so many that is given back is taken again within d.
func (e *env) gaps(invs []*invocation, slots int, d time.Duration) {
	e.t.Helper()
	var ends []int64
	for _, inv := range invs {
		ends = append(ends, inv.end)
	}
	slices.Sort(ends)
	worst := time.Duration(0)
	for i := slots; i < len(invs); i++ { // in the order of their starts: this one has the slot of the end with that number
		free := ends[i-slots]
		if free == math.MaxInt64 || invs[i].start < free {
			continue
		}
		gap := time.Duration(invs[i].start-free) - e.stall(free, invs[i].start)
		if worst = max(worst, gap); gap > d {
			e.t.Errorf("a slot stood free for %v while %s waited", gap, invs[i].id)
		}
	}
	e.t.Logf("a slot that was given back was taken again within %v", worst)
}

// TestF010_RandomRetries: limit 2 and commands that retry at random, before three workers of which one is killed: never more than two at once, nothing for
// longer than the backoff, and in the end nobody is a member.
func TestF010_RandomRetries(t *testing.T) {
	stores(t, func(t *testing.T, open func(*testing.T) *env) {
		e := open(t)
		e.limit(twolane.Limit{Name: "l", Max: 2})
		ps := e.startReady(spec{Proc: "a", Permits: 10}, spec{Proc: "b", Permits: 10}, spec{Proc: "c", Permits: 10})
		n := 300
		if strings.Contains(t.Name(), "sqlite") {
			n = 150
		}
		e.submit("flaky", n, params{})
		e.until("half of them", 60*time.Second, func() bool { return e.count(evEnd, "") > n })
		e.kill(ps[0])
		e.finish(60 * time.Second)
		if most := e.atOnce(); most != 2 {
			t.Errorf("%d at once at most", most)
		}
		invs := e.invocations()
		if len(invs) < n*3/2 {
			t.Errorf("%d invocations of %d commands: they did not retry", len(invs), n)
		}
		last, worst := invs[0].start, time.Duration(0)
		for _, inv := range invs {
			pause := time.Duration(inv.start-last) - e.stall(last, inv.start)
			if worst = max(worst, pause); e.died(last, inv.start) {
				pause -= e.v + tick
			}
			if pause > flakyBackoff+tick/2 {
				t.Errorf("nothing was started for %v", pause)
			}
			last = inv.start
		}
		t.Logf("%d invocations, the longest pause between two of them was %v", len(invs), worst)
		e.empty("l")
	})
}

// died reports whether a process was killed between two moments, or so shortly before that what it held is not back.
func (e *env) died(from, to int64) bool {
	for i := range e.events {
		if ev := &e.events[i]; ev.Kind == evKill && ev.At <= to && ev.At+int64(e.v+tick) >= from {
			return true
		}
	}
	return false
}
