package proctest

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/twolane/twolane/store"
)

// judge checks what the package comment promises. All processes have ended.
func (e *env) judge() {
	e.t.Helper()
	e.read()
	report, err := e.st.Audit(context.Background())
	e.must(err)
	if len(report.Violations) > 0 {
		e.t.Errorf("audit:\n  %s", strings.Join(report.Violations, "\n  "))
	}
	readings := e.get()
	e.nothingLost(readings)
	e.oneLive()
	e.linearizable(readings)
}

// excused reports whether the server may have forgotten something about a command: it acknowledged something in a lossy window.
func (e *env) excused(id string) bool {
	if len(e.lossy) == 0 {
		return false
	}
	e.read()
	for i := range e.events {
		ev := &e.events[i]
		switch ev.Kind {
		case evSubmit, evClaim, evRenew, evSettle:
		default:
			continue
		}
		for _, w := range e.lossy {
			if ev.At >= w.from && ev.Sent <= w.to && slices.ContainsFunc(ev.Items, func(it item) bool { return it.ID == id }) {
				return true
			}
		}
	}
	return false
}

// nothingLost: every acknowledged submit ended as its handler said, by one accepted result.
func (e *env) nothingLost(readings []reading) {
	e.t.Helper()
	accepted := map[string][]item{}
	for i := range e.events {
		if ev := &e.events[i]; ev.Kind == evSettle {
			for _, it := range ev.Items {
				if it.State == store.SettleDone.String() && it.Outcome == store.OutcomeDone.String() {
					accepted[it.ID] = append(accepted[it.ID], it)
				}
			}
		}
	}
	for _, r := range readings {
		switch {
		case r.cmd == nil:
			if !e.gone[r.id] && !e.excused(r.id) {
				e.t.Errorf("lost: %s was acknowledged and is not there", r.id)
			}
			continue
		case !r.cmd.Status.Terminal():
			e.t.Errorf("lost: %s", r)
			continue
		}
		as := accepted[r.id]
		if len(as) > 1 && !e.gone[r.id] && !e.excused(r.id) {
			e.t.Errorf("%s ended %d times: %+v", r.id, len(as), as)
		}
		// The handlers return their lease as the result. The last answer may have been lost with its process.
		if n := len(as); n > 0 && r.cmd.Status == store.Succeeded && !r.cmd.Tombstone && string(r.cmd.Result) != as[n-1].Lease && !e.excused(r.id) {
			e.t.Errorf("%s ended by lease %s, and its result is that of %s", r.id, as[n-1].Lease, r.cmd.Result)
		}
	}
}

// invocation is one call of a handler.
type invocation struct {
	proc, id, lease    string
	losses             int   // of its worker in a row, before it
	start, end, fenced int64 // MaxInt64 while it has not happened
}

// invocations lists them by their start. The death of its process ends one.
func (e *env) invocations() []*invocation {
	var all []*invocation
	open := map[string]*invocation{} // by lease: a name is used once
	for i := range e.events {
		ev := &e.events[i]
		switch ev.Kind {
		case evStart:
			it := ev.Items[0]
			inv := &invocation{ev.Proc, it.ID, it.Lease, it.Losses, ev.At, math.MaxInt64, math.MaxInt64}
			open[it.Lease] = inv
			all = append(all, inv)
		case evFenced, evEnd:
			if inv := open[ev.Items[0].Lease]; inv != nil {
				if ev.Kind == evEnd {
					inv.end = ev.At
				}
				inv.fenced = min(inv.fenced, ev.At)
			}
		case evKill:
			for _, inv := range all {
				if inv.proc == ev.Text && inv.end == math.MaxInt64 {
					inv.end = ev.At
				}
			}
		}
	}
	return all
}

// lateness is how late a fence may be seen: a process that gets no CPU for so long is a stopped process, and on a busy machine they all are
// at times.
const lateness = 250 * time.Millisecond

// oneLive: when an invocation starts, no other one of its command is live.
func (e *env) oneLive() {
	e.t.Helper()
	byID, broken := map[string][]*invocation{}, e.touched("cancel force", "delete")
	for _, inv := range e.invocations() {
		for _, older := range byID[inv.id] {
			switch at := inv.start; {
			case older.end <= at, older.fenced <= at+int64(lateness), e.stopped(older.proc, at):
			case len(e.lossy) > 0 && e.excused(inv.id):
			case slices.ContainsFunc(broken[inv.id], func(w window) bool { return w.to >= older.start && w.from <= at }): // a user has ended the older lease
			default:
				e.t.Errorf("%s: %s starts it under lease %s while %s runs it under %s, started %v before, neither fenced nor stopped",
					inv.id, inv.proc, inv.lease, older.proc, older.lease, time.Duration(at-older.start))
			}
		}
		byID[inv.id] = append(byID[inv.id], inv)
	}
}

// touched are the calls of users about each command, of some kinds or all.
func (e *env) touched(kinds ...string) map[string][]window {
	all := map[string][]window{}
	for i := range e.events {
		ev := &e.events[i]
		if ev.Kind != evUser || len(kinds) > 0 && !slices.Contains(kinds, ev.Text) {
			continue
		}
		for _, it := range ev.Items {
			all[it.ID] = append(all[it.ID], window{ev.Sent, ev.At})
		}
	}
	return all
}

// stopped reports whether a process was stopped by a signal at a time, or had died.
func (e *env) stopped(proc string, at int64) bool {
	is := false
	for i := range e.events {
		ev := &e.events[i]
		switch {
		case ev.Text != proc:
		case ev.Kind == evStop && ev.At <= at:
			is = true
		case ev.Kind == evResume && ev.At+int64(lateness) <= at:
			is = false
		case ev.Kind == evKill && ev.Sent <= at:
			return true
		}
	}
	return is
}

// held are the commands that a dead process was running when it died.
func (e *env) held(proc string) []string {
	var ids []string
	died := int64(math.MaxInt64)
	for i := range e.events {
		if ev := &e.events[i]; ev.Kind == evKill && ev.Text == proc {
			died = ev.At
		}
	}
	for _, inv := range e.invocations() {
		if inv.proc == proc && inv.end == died {
			ids = append(ids, inv.id)
		}
	}
	return ids
}

// resumed checks that each of the commands starts again after the death of its worker, and within resume of it, and returns how long the slowest
// took. A command that had lost its worker before as well has a pause to wait for: the bound is not for it.
func (e *env) resumed(ids []string, death time.Time) time.Duration {
	e.t.Helper()
	return e.resumedFrom(ids, death, death)
}

// resumedFrom counts from a later moment.
func (e *env) resumedFrom(ids []string, death, since time.Time) time.Duration {
	e.t.Helper()
	first := map[string]*invocation{}
	e.until("the work of dead processes to go on", e.resume()+30*time.Second, func() bool {
		clear(first)
		for _, inv := range e.invocations() {
			if inv.start > death.UnixNano() && first[inv.id] == nil {
				first[inv.id] = inv
			}
		}
		return !slices.ContainsFunc(ids, func(id string) bool { return first[id] == nil })
	})
	slowest := time.Duration(0)
	for _, id := range ids {
		if inv := first[id]; inv.losses < 2 {
			slowest = max(slowest, time.Duration(inv.start-since.UnixNano()))
		}
	}
	if most := e.resume() + e.stall(since.UnixNano(), since.Add(slowest).UnixNano()); slowest > most {
		e.t.Errorf("the work of dead processes went on after %v, want within %v", slowest, most)
	}
	return slowest
}

// running reports whether each of the commands has a live invocation.
func (e *env) running(ids []string) bool {
	run := map[string]bool{}
	for _, inv := range e.invocations() {
		run[inv.id] = run[inv.id] || inv.fenced == math.MaxInt64 && inv.end == math.MaxInt64
	}
	return !slices.ContainsFunc(ids, func(id string) bool { return !run[id] })
}

// runs are the commands that a process runs now.
func (e *env) runs(proc string) []string {
	var ids []string
	for _, inv := range e.invocations() {
		if inv.proc == proc && inv.end == math.MaxInt64 {
			ids = append(ids, inv.id)
		}
	}
	return ids
}

// widest is the largest number of invocations that ran at once after a moment.
func (e *env) widest(since int64) int {
	type edge struct {
		at int64
		by int
	}
	var edges []edge
	for _, inv := range e.invocations() {
		if inv.end > since {
			edges = append(edges, edge{max(since, inv.start), 1}, edge{inv.end, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	n, most := 0, 0
	for _, ed := range edges {
		n += ed.by
		most = max(most, n)
	}
	return most
}
