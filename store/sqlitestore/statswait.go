package sqlitestore

import (
	"cmp"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// scheduled counts what is due though nobody has put it in line yet.
func (r *reader) scheduled(q *queueRow, _ []int64, qs *store.QueueStats) error {
	if qs.Scheduled == 0 {
		return nil
	}
	l := &qs.Lanes[store.Intake]
	for clock, now := range map[int64]store.Millis{waitsRun: r.now.Run, waitsWall: r.now.Wall} {
		waits := 8*q.q + clock
		rows, err := r.readable(r.q(selectRow + "waits=? AND at<=? ORDER BY at LIMIT ?").Int(waits).Int(int64(now)).Int(maxAged))
		if err != nil {
			return err
		}
		for _, w := range rows {
			c := w.c
			if !rule.Due(r.now, c) || rule.Ended(r.now, c) {
				nextDue(qs, max(c.NotBefore, c.Due))
				continue
			}
			l.Eligible++
			since := max(c.NotBefore, r.now.Wall-(r.now.Run-c.Due))
			if c.Due == 0 {
				since = c.NotBefore
			}
			older(l, since)
		}
		l.AtLeast = l.AtLeast || len(rows) == maxAged
		// One that has waited for one clock may have to wait for the other, once that was set back: the next few are looked at.
		next, err := r.readable(r.q(selectRow + "waits=? AND at>? ORDER BY at LIMIT ?").Int(waits).Int(int64(now)).Int(maxNext))
		if err != nil {
			return err
		}
		for _, w := range next {
			nextDue(qs, max(w.c.NotBefore, w.c.Due))
		}
	}
	return nil
}

// readable are the rows that st, of selectRow, finds and that can be read.
func (r *reader) readable(st stmt) (all []*row, err error) {
	var bad error
	err = r.rows(st, func(st stmt) {
		switch w, err := scanRow(st, r); err.(type) {
		case nil:
			all = append(all, w)
		case *unreadable:
		default:
			bad = err
		}
	})
	return all, cmp.Or(err, bad)
}

func nextDue(qs *store.QueueStats, due store.Millis) {
	if qs.NextDue == 0 || due < qs.NextDue {
		qs.NextDue = due
	}
}

// leased counts leases that are over but not reaped, and those whose handlers ignore the end of their time.
func (r *reader) leased(q *queueRow, _ []int64, qs *store.QueueStats) error {
	if qs.Lanes[0].Leased+qs.Lanes[1].Leased == 0 {
		return nil
	}
	if err := r.rows(r.q("SELECT at, q, status FROM cmd WHERE waits=1 AND at<=? ORDER BY at LIMIT ?").Int(int64(r.now.Lease)).Int(maxCounted), func(st stmt) {
		if st.ColInt(1) != q.q {
			return
		}
		l := &qs.Lanes[laneOf(store.Status(st.ColInt(2)))]
		l.Expired++
		l.Eligible++
		older(l, r.now.Wall-(r.now.Lease-store.Millis(st.ColInt(0))))
	}); err != nil {
		return err
	}
	return r.rows(r.q("SELECT flag, q FROM cmd WHERE flag IS NOT NULL LIMIT ?").Int(maxCounted), func(st stmt) {
		if lane := st.ColInt(0)&3 - 1; lane >= 0 && st.ColInt(1) == q.q {
			qs.Lanes[lane].Overdue++
		}
	})
}
