package sqlitestore

import "github.com/twolane/twolane/store"

// tally brings the numbers that people see up to date with how the row is stored now.
func (w *writer) tally(r *row) {
	now := tallied{r.k, r.c.Status, r.c.Place, r.c.Reason, r.c.Tombstone}
	if now == r.was {
		return
	}
	group := r.c.Group
	if r.was.k != nil {
		w.count(r.was, group, -1)
	}
	w.count(now, group, +1)
	r.was = now
}

func (w *writer) count(t tallied, group string, d int64) {
	lane := laneOf(t.status)
	switch {
	case !t.status.Terminal():
		if group != "" {
			w.st.groups[group] += d
		}
		switch t.place {
		case store.InLine:
			t.k.inline[lane] += d
		case store.Scheduled:
			t.k.scheduled += d
			t.k.q.scheduled += d
		case store.Leased:
			t.k.leased[lane] += d
		}
		w.st.touchKind(t.k)
		if t.status != store.Pending || t.place == store.Leased {
			return
		}
		t.k.q.ready += d
	case t.tombstone:
		return
	case t.status == store.Succeeded:
		t.k.q.succeeded += d
	case t.status == store.Failed:
		t.k.q.failed += d
		w.st.reasons[reasonKey{t.k.q.q, t.reason}] += d
	default:
		t.k.q.cancelled += d
	}
	w.st.touchQueue(t.k.q)
}

func laneOf(s store.Status) store.Lane {
	if s == store.Processing {
		return store.Repoll
	}
	return store.Intake
}
