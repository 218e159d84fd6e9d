package sqlitestore

import (
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// columns works out the columns that follow from the record.
func (w *writer) columns(r *row) (columns, error) {
	c := r.c
	cols := columns{}
	if c.Status.Terminal() {
		if !c.Tombstone {
			cols.ord = int64(c.Ended)
		}
		cols.purge = int64(c.PurgeAt)
		return cols, nil
	}
	cols.ord, cols.ukey = r.n, c.UniqueKey
	switch c.Place {
	case store.InLine:
		l, err := w.st.line(r.k, c)
		if err != nil {
			return cols, err
		}
		r.line = l
		cols.line, cols.since = l.ln, int64(c.Eligible)
		if c.Status == store.Processing {
			cols.since = int64(c.Due)
		}
		cols.ends = restEnds(c)
	case store.Scheduled:
		cols.clock, cols.at = waitsFor(w.st.ns.clocks.Run, c)
		cols.ends = restEnds(c)
	case store.Leased:
		cols.until = int64(c.LeaseUntil)
		if c.Overdue {
			cols.overdue = 1 + int64(c.Lane())
		}
		if c.CancelAsked != 0 {
			cols.asked = 1
		}
	}
	return cols, nil
}

// waitsFor is the clock that a scheduled command waits for first (0 run, 1 server time), and until when.
func waitsFor(run store.Millis, c *store.Command) (clock, at int64) {
	if c.Due > run || c.NotBefore == 0 {
		return 0, int64(c.Due)
	}
	return 1, int64(c.NotBefore)
}

// restEnds is when time alone ends a command at rest, or its cancel visits.
func restEnds(c *store.Command) int64 {
	if c.Place == store.InLine && rule.Class(c) == store.ClassCancel {
		return int64(c.CancelUntil)
	}
	return int64(rule.EndsAt(c))
}

func (w *writer) score(r *row) int64 { return int64(rule.Score(r.k.q.cfg.Order, r.c)) }

const insertRow = "INSERT INTO cmd (n, id, k, status, place, q, ord, line, score, since, clock, at, until, ends, purge, ukey, grp, sum, rec) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,NULL,?,NULL,?,?,?,?)"

// insert writes a new row, unless the id is known: then it answers false.
func (w *writer) insert(r *row, ifNew bool) (bool, error) {
	cols, err := w.columns(r)
	if err != nil {
		return false, err
	}
	if r.c.Place == store.InLine {
		cols.score = w.score(r)
	}
	rec, vals, outs := encode(r.c, &r.vals, nil)
	sql := insertRow
	if ifNew {
		sql += " ON CONFLICT (id) DO NOTHING"
	}
	c := r.c
	st := w.q(sql).Int(r.n).Text(c.ID).Int(r.k.k).Int(int64(c.Status)).Int(int64(c.Place)).Int(r.k.q.q).Int(cols.ord)
	bindPlace(st, c.Place, &cols)
	err = st.IntOrNull(cols.ends).TextOrNull(cols.ukey).TextOrNull(c.Group).Int(checksum(c.ID, c.Group, r.k.k, c, rec)).Blob(rec).Run()
	if err != nil || ifNew && w.c.Changes() == 0 {
		return false, err
	}
	r.vals, r.cols = vals, cols
	if err := w.bodies(r.n, outs); err != nil {
		return false, err
	}
	w.tally(r)
	if c.Place == store.InLine {
		w.enter(r)
	}
	return true, nil
}

// bindPlace binds line, score, since, clock and at.
func bindPlace(st stmt, p store.Place, cols *columns) {
	if p == store.InLine {
		st.Int(cols.line).Int(cols.score).Int(cols.since)
	} else {
		st.Null().Null().Null()
	}
	if p == store.Scheduled {
		st.Int(cols.clock).Int(cols.at)
	} else {
		st.Null().Null()
	}
}

func (w *writer) bodies(n int64, outs []out) error {
	for _, o := range outs {
		st := w.q("DELETE FROM body WHERE b=?").Int(bodyRow(n, o.which))
		if o.data != nil {
			st.Reset()
			st = w.q("INSERT OR REPLACE INTO body (b, data) VALUES (?,?)").Int(bodyRow(n, o.which)).Blob(o.data)
		}
		if err := st.Run(); err != nil {
			return err
		}
	}
	return nil
}

// enter notes that the row stands in line now.
func (w *writer) enter(r *row) {
	w.st.enter(r.line, r.cols.score)
	r.k.q.arrived[r.line.lane]++
	w.st.touchQueue(r.k.q)
}

// Groups of columns that an update writes only if they change, since each of them costs an index.
const (
	groupList = 1 << iota
	groupLine
	groupAt
	groupUntil
	groupEnds
	groupPurge
	groupKey
	groupMove
	groupOverdue
	groupAsked
	groups = 10
)

var groupColumns = [groups]string{"status=?, ord=?", "line=?, score=?, since=?", "clock=?, at=?", "until=?", "ends=?", "purge=?", "ukey=?", "k=?, q=?", "overdue=?", "asked=?"}

// update returns the statement that writes the record, the place and these groups.
func (w *writer) update(mask int) stmt {
	if st := w.updates[mask]; st != nil {
		return st
	}
	sql := "UPDATE cmd SET place=?, sum=?, rec=?"
	for i, cols := range groupColumns {
		if mask&(1<<i) != 0 {
			sql += ", " + cols
		}
	}
	w.updates[mask] = w.q(sql + " WHERE n=?")
	return w.updates[mask]
}

// save writes a row that was changed, and everything that follows from the change: numbers, heads of lines, large values.
func (w *writer) save(r *row) error {
	c, old := r.c, r.cols
	oldLine := r.line
	cols, err := w.columns(r)
	if err != nil {
		return err
	}
	if c.Place == store.InLine {
		if cols.score = old.score; old.line != cols.line || c.Status == store.Processing || cols.score != w.score(r) {
			cols.score = w.score(r)
		}
	}
	mask := 0
	mark := func(group int, changed bool) {
		if changed {
			mask |= group
		}
	}
	placed := r.was.place != c.Place
	mark(groupList, r.was.status != c.Status || old.ord != cols.ord)
	mark(groupLine, old.line != cols.line || old.score != cols.score || old.since != cols.since)
	mark(groupAt, placed && (r.was.place == store.Scheduled || c.Place == store.Scheduled) || old.clock != cols.clock || old.at != cols.at)
	mark(groupUntil, old.until != cols.until)
	mark(groupEnds, old.ends != cols.ends)
	mark(groupPurge, old.purge != cols.purge)
	mark(groupKey, old.ukey != cols.ukey)
	mark(groupMove, r.was.k != r.k)
	mark(groupOverdue, old.overdue != cols.overdue)
	mark(groupAsked, old.asked != cols.asked)
	rec, vals, outs := encode(c, &r.vals, r.tail)
	st := w.update(mask).Int(int64(c.Place)).Int(checksum(c.ID, c.Group, r.k.k, c, rec)).Blob(rec)
	if mask&groupList != 0 {
		st.Int(int64(c.Status)).IntOrNull(cols.ord)
	}
	if mask&groupLine != 0 {
		if c.Place == store.InLine {
			st.Int(cols.line).Int(cols.score).Int(cols.since)
		} else {
			st.Null().Null().Null()
		}
	}
	if mask&groupAt != 0 {
		if c.Place == store.Scheduled {
			st.Int(cols.clock).Int(cols.at)
		} else {
			st.Null().Null()
		}
	}
	if mask&groupUntil != 0 {
		st.IntOrNull(cols.until)
	}
	if mask&groupEnds != 0 {
		st.IntOrNull(cols.ends)
	}
	if mask&groupPurge != 0 {
		st.IntOrNull(cols.purge)
	}
	if mask&groupKey != 0 {
		st.TextOrNull(cols.ukey)
	}
	if mask&groupMove != 0 {
		st.Int(r.k.k).Int(r.k.q.q)
	}
	if mask&groupOverdue != 0 {
		st.IntOrNull(cols.overdue)
	}
	if mask&groupAsked != 0 {
		st.IntOrNull(cols.asked)
	}
	if err := st.Int(r.n).Run(); err != nil {
		return err
	}
	if err := w.bodies(r.n, outs); err != nil {
		return err
	}
	r.vals, r.cols = vals, cols
	if mask&groupLine != 0 {
		if old.line != 0 {
			if err := w.leave(oldLine, old); err != nil {
				return err
			}
		}
		if c.Place == store.InLine {
			w.enter(r)
		}
	}
	if c.Place != store.InLine {
		r.line = nil
	}
	w.tally(r)
	return nil
}

// leave notes that a row has left the line of its old columns.
func (w *writer) leave(l *lineRow, old columns) error {
	if l == nil || l.ln != old.line {
		var err error
		if l, err = w.st.lineBy(old.line); err != nil || l == nil {
			return err
		}
	}
	w.st.leave(l, old.score)
	return nil
}

// remove deletes a row, its large values, and its part in all numbers.
func (w *writer) remove(r *row) error {
	if err := w.q("DELETE FROM cmd WHERE n=?").Int(r.n).Run(); err != nil {
		return err
	}
	for i := range r.vals {
		if r.vals[i].out {
			if err := w.q("DELETE FROM body WHERE b=?").Int(bodyRow(r.n, i)).Run(); err != nil {
				return err
			}
		}
	}
	w.count(r.was, r.c.Group, -1)
	if r.cols.line != 0 {
		return w.leave(r.line, r.cols)
	}
	return nil
}
