package sqlitestore

import (
	"context"
	"fmt"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// Audit implements [store.Store]. It reads one snapshot of the whole store, and SQLite checks that tables and indexes agree; while it runs, the log
// cannot begin anew.
func (s *Store) Audit(ctx context.Context) (store.AuditReport, error) {
	var rep store.AuditReport
	err := s.read(ctx, func(r *reader) error {
		a := &audit{r: r, ctx: ctx, lines: map[int64]*auditLine{}, kinds: map[int64]*kindRow{}, queues: map[int64]*queueRow{}, reasons: map[reasonKey]int64{},
			groups: map[string]int64{}, topics: map[string]int64{}, bodies: map[int64]value{}, waits: map[int64]string{},
			members: map[int64]auditMember{}, sums: map[store.LimitKey]int{}, rooms: map[int64]*roomRow{}, roomsBy: map[store.LimitKey]*roomRow{}}
		err := a.run()
		rep = a.rep
		return err
	})
	return rep, err
}

// audit counts again what the tables say they have counted.
type audit struct {
	r       *reader
	ctx     context.Context
	rep     store.AuditReport
	lines   map[int64]*auditLine
	kinds   map[int64]*kindRow
	queues  map[int64]*queueRow
	reasons map[reasonKey]int64
	groups  map[string]int64
	topics  map[string]int64
	bodies  map[int64]value  // rows that table body must have
	waits   map[int64]string // topics by the number of the command that waits for delivery
	tokens  map[uint64]string
	members map[int64]auditMember
	sums    map[store.LimitKey]int // costs of the members
	rooms   map[int64]*roomRow
	roomsBy map[store.LimitKey]*roomRow
}

type auditLine struct {
	name  string
	head  int64
	count int
}

func (a *audit) bad(key, format string, args ...any) {
	if len(a.rep.Violations) < 1000 {
		a.rep.Violations = append(a.rep.Violations, key+": "+fmt.Sprintf(format, args...))
	}
}

func (a *audit) run() error {
	for _, f := range [...]func() error{a.integrity, a.commands, a.lineRows, a.counters, a.tallies, a.outbox, a.values, a.workers, a.rates, a.limits, a.filed} {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// integrity lets SQLite compare every index with its table.
func (a *audit) integrity() error {
	return a.r.rows(a.r.q("PRAGMA integrity_check(100)"), func(st stmt) {
		if what := st.ColText(0); what != "ok" {
			a.bad("file", "%s", what)
		}
	})
}

// commands checks each record by itself, against its columns, and adds it to all numbers.
func (a *audit) commands() error {
	a.tokens = map[uint64]string{}
	st := a.r.q(selectRow + "n>0 ORDER BY n")
	for i := 0; ; i++ {
		if i%1000 == 0 {
			if err := a.ctx.Err(); err != nil {
				st.Reset()
				return err
			}
		}
		ok, err := st.Step()
		if err != nil || !ok {
			return err
		}
		a.rep.Commands++
		w, err := scanRow(st, a.r)
		if u, ok := err.(*unreadable); ok {
			a.bad(u.id, "%s", u.why)
			continue
		}
		if err == nil {
			err = w.fill(a.r, valParams, valState, valResult, valError, valProgress, valEvents, valMetadata)
		}
		if err == nil {
			err = w.unfold()
		}
		if u, ok := err.(*unreadable); ok {
			a.bad(u.id, "%s", u.why)
		} else if err != nil {
			st.Reset()
			return err
		}
		a.command(w, st.ColInt(2))
	}
}

func (a *audit) command(w *row, k int64) {
	c := w.c
	bad := func(format string, args ...any) { a.bad(c.ID, format, args...) }
	for _, v := range rule.Check(c) {
		bad("%s", v)
	}
	ns := &a.r.ns
	if c.Seq > ns.seq || uint64(w.n) > ns.seq {
		bad("arrived as number %d, row %d, but only %d have", c.Seq, w.n, ns.seq)
	}
	if c.Place == store.Leased {
		a.rep.Leased++
		if other, ok := a.tokens[c.Lease.Token]; ok {
			bad("has the lease token %d of %s", c.Lease.Token, other)
		}
		a.tokens[c.Lease.Token] = c.ID
		if c.Lease.Token > ns.token {
			bad("has lease token %d, but only %d were given", c.Lease.Token, ns.token)
		}
	}
	a.columns(w)
	a.count(w, k)
	a.member(w)
	for i := range w.vals {
		if w.vals[i].out {
			a.bodies[bodyRow(w.n, i)] = w.vals[i]
		}
	}
	if c.Notify != "" && c.Status.Terminal() && c.PurgeAt == 0 {
		a.waits[w.n] = c.Notify
	}
}

// columns checks that the columns follow from the record.
func (a *audit) columns(w *row) {
	c, cols := w.c, w.cols
	want := columns{}
	if c.Status.Terminal() {
		if !c.Tombstone {
			want.ended = int64(c.Ended)
		}
		if c.PurgeAt != 0 {
			want.waits, want.at = waitsPurge, int64(c.PurgeAt)
		}
	} else {
		want.ukey = c.UniqueKey
	}
	switch c.Place {
	case store.InLine:
		want.line, want.score, want.since, want.ends = cols.line, cols.score, since(c), restEnds(c)
		if c.Status == store.Processing {
			want.score = int64(c.Due)
		}
		a.inLine(w)
	case store.Scheduled:
		want.ends, want.waits, want.at = restEnds(c), 8*w.q+waitsRun, int64(c.Due)
		if cols.waits == 8*w.q+waitsWall {
			want.waits, want.at = cols.waits, int64(c.NotBefore)
		}
	case store.Leased:
		want.waits, want.at, want.flag = waitsLease, int64(c.LeaseUntil), flag(c)
	}
	if cols != want {
		a.bad(c.ID, "is indexed as %+v, but its record says %+v", cols, want)
	}
}

// inLine checks that a command stands in the line of its name.
func (a *audit) inLine(w *row) {
	name := rule.Line(w.c)
	l := a.lines[w.cols.line]
	if l == nil {
		l = &auditLine{name: name, head: w.cols.score}
		a.lines[w.cols.line] = l
	}
	if l.name != name {
		a.bad(w.c.ID, "belongs in line %q but stands in line %q", name, l.name)
	}
	l.head = min(l.head, w.cols.score)
	l.count++
}

func (a *audit) count(w *row, k int64) {
	c := w.c
	kind := a.kinds[k]
	if kind == nil {
		kind = &kindRow{k: k, name: c.Type}
		a.kinds[k] = kind
	}
	q := a.queues[w.q]
	if q == nil {
		q = &queueRow{q: w.q, name: c.Queue}
		a.queues[w.q] = q
	}
	if !c.Status.Terminal() && c.Group != "" {
		a.groups[c.Group]++
	}
	switch {
	case c.Place == store.InLine:
		kind.inline[c.Lane()]++
	case c.Place == store.Scheduled:
		kind.scheduled++
		q.scheduled++
	case c.Place == store.Leased:
		kind.leased[c.Lane()]++
	case c.Tombstone:
	case c.Status == store.Succeeded:
		q.succeeded++
	case c.Status == store.Failed:
		q.failed++
		a.reasons[reasonKey{w.q, c.Reason}]++
	default:
		q.cancelled++
	}
	if c.Status == store.Pending && c.Place != store.Leased {
		q.ready++
	}
}
