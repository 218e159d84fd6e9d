package sqlitestore

import (
	"encoding/json"

	"github.com/twolane/twolane/store"
)

// lineRows checks that the heads of lines are the scores of their first commands.
func (a *audit) lineRows() error {
	err := a.r.rows(a.r.q("SELECT ln, name, head FROM line"), func(st stmt) {
		ln, name, open, head := st.ColInt(0), st.ColText(1), !st.ColNull(2), st.ColInt(2)
		l := a.lines[ln]
		delete(a.lines, ln)
		switch {
		case l == nil && open:
			a.bad(name, "is an open line in which nobody stands")
		case l == nil:
		case !open:
			a.bad(name, "is a closed line in which %d commands stand", l.count)
		case l.name != name:
			a.bad(name, "is the line of commands that belong in line %q", l.name)
		case l.head != head:
			a.bad(name, "has head %d, but its first command has score %d", head, l.head)
		}
	})
	for ln, l := range a.lines {
		a.bad(l.name, "is line number %d with %d commands, but there is no such line", ln, l.count)
	}
	return err
}

// counters compares the numbers of queues and types.
func (a *audit) counters() error {
	if err := a.r.rows(a.r.q("SELECT q, name, ready, succeeded, failed, cancelled, scheduled FROM queue"), func(st stmt) {
		var want queueRow
		if w := a.queues[st.ColInt(0)]; w != nil {
			want = *w
		}
		got := [5]int64{st.ColInt(2), st.ColInt(3), st.ColInt(4), st.ColInt(5), st.ColInt(6)}
		if counted := [5]int64{want.ready, want.succeeded, want.failed, want.cancelled, want.scheduled}; got != counted {
			a.bad("queue "+st.ColText(1), "says %v ready, succeeded, failed, cancelled, scheduled; there are %v", got, counted)
		}
	}); err != nil {
		return err
	}
	return a.r.rows(a.r.q("SELECT k, type, inline0, inline1, leased0, leased1, scheduled FROM kind"), func(st stmt) {
		var want kindRow
		if w := a.kinds[st.ColInt(0)]; w != nil {
			want = *w
		}
		got := [5]int64{st.ColInt(2), st.ColInt(3), st.ColInt(4), st.ColInt(5), st.ColInt(6)}
		if counted := [5]int64{want.inline[0], want.inline[1], want.leased[0], want.leased[1], want.scheduled}; got != counted {
			a.bad("type "+st.ColText(1), "says %v in line, in line (repoll), leased, leased (repoll), scheduled; there are %v", got, counted)
		}
	})
}

// tallies compares live commands by group and failures by reason.
func (a *audit) tallies() error {
	if err := a.r.rows(a.r.q("SELECT name, live FROM grp"), func(st stmt) {
		name, live := st.ColText(0), st.ColInt(1)
		if a.groups[name] != live {
			a.bad("group "+name, "says %d live commands; there are %d", live, a.groups[name])
		}
		delete(a.groups, name)
	}); err != nil {
		return err
	}
	for name, n := range a.groups {
		a.bad("group "+name, "is not counted; it has %d live commands", n)
	}
	if err := a.r.rows(a.r.q("SELECT q, name, n FROM reason"), func(st stmt) {
		k := reasonKey{st.ColInt(0), store.Reason(st.ColText(1))}
		if n := st.ColInt(2); a.reasons[k] != n {
			a.bad("reason "+string(k.name), "says %d in queue %d; there are %d", n, k.q, a.reasons[k])
		}
		delete(a.reasons, k)
	}); err != nil {
		return err
	}
	for k, n := range a.reasons {
		a.bad("reason "+string(k.name), "is not counted in queue %d; there are %d", k.q, n)
	}
	return nil
}

// outbox checks that entries and ends that wait for delivery are the same.
func (a *audit) outbox() error {
	if err := a.r.rows(a.r.q("SELECT seq, topic, n FROM outbox"), func(st stmt) {
		topic, n := st.ColText(1), st.ColInt(2)
		switch want, ok := a.waits[n]; {
		case !ok:
			a.bad("outbox "+topic, "entry %d is of row %d, which waits for no delivery", st.ColInt(0), n)
		case want != topic:
			a.bad("outbox "+topic, "entry %d is of row %d with topic %q", st.ColInt(0), n, want)
		}
		if uint64(st.ColInt(0)) > a.r.ns.entry {
			a.bad("outbox "+topic, "has entry %d, but only %d were made", st.ColInt(0), a.r.ns.entry)
		}
		delete(a.waits, n)
		a.topics[topic]++
	}); err != nil {
		return err
	}
	for n, topic := range a.waits {
		a.bad("outbox "+topic, "has no entry for row %d, which waits for delivery", n)
	}
	if err := a.r.rows(a.r.q("SELECT name, n FROM topic"), func(st stmt) {
		name := st.ColText(0)
		if n := st.ColInt(1); n != a.topics[name] {
			a.bad("topic "+name, "says %d entries; there are %d", n, a.topics[name])
		}
		delete(a.topics, name)
	}); err != nil {
		return err
	}
	for name, n := range a.topics {
		a.bad("topic "+name, "is not counted; it has %d entries", n)
	}
	return nil
}

// values checks that table body has the large values of records and nothing else.
func (a *audit) values() error {
	return a.r.rows(a.r.q("SELECT b FROM body"), func(st stmt) {
		if b := st.ColInt(0); !a.bodies[b].out {
			a.bad("body", "row %d belongs to no record", b)
		}
	})
}

// workers checks that registrations can be read and that their column follows from them.
func (a *audit) workers() error {
	return a.r.rows(a.r.q("SELECT id, expires, json FROM worker"), func(st stmt) {
		var w store.Worker
		id := st.ColText(0)
		if err := json.Unmarshal(st.ColBlob(2), &w); err != nil {
			a.bad("worker "+id, "has a registration that cannot be read: %v", err)
		} else if e := store.Millis(st.ColInt(1)); w.ID != id || e != w.Expires {
			a.bad("worker "+id, "expires at %d; its registration is of %q and says %d", e, w.ID, w.Expires)
		}
	})
}

// rates checks that no rate is spent further ahead than its burst.
func (a *audit) rates() error {
	return a.r.rows(a.r.q("SELECT queue.name, lane, tat FROM bucket JOIN queue ON queue.q=bucket.q"), func(st stmt) {
		name, lane, tat := st.ColText(0), store.Lane(st.ColInt(1)), st.ColFloat(2)
		rate := a.r.cfg.Queue(name).Rates[lane&1]
		if rate.Limit <= 0 {
			return
		}
		// A configuration that was lowered since is applied with the next token.
		step := 1000 / rate.Limit
		if most := float64(a.r.now.Run) + float64(max(1, rate.Burst)+1)*step; tat > most && tat > float64(a.r.now.Run)+86_400_000 {
			a.bad("rate of "+name+"/"+lane.String(), "is spent until %.0f, more than a day after %d", tat, a.r.now.Run)
		}
	})
}
