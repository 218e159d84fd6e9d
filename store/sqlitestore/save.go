package sqlitestore

import (
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// columns works out the columns that follow from the record, but for the score.
func (w *writer) columns(r *row) (columns, error) {
	c := r.c
	var cols columns
	if c.Status.Terminal() {
		if !c.Tombstone {
			cols.ended = int64(c.Ended)
		}
		if c.PurgeAt != 0 {
			cols.waits, cols.at = waitsPurge, int64(c.PurgeAt)
		}
		return cols, nil
	}
	cols.ukey = c.UniqueKey
	switch c.Place {
	case store.InLine:
		l, err := w.st.line(r.k, c, rule.Line(c))
		if err != nil {
			return cols, err
		}
		r.line = l
		cols.line, cols.since, cols.ends = l.ln, since(c), restEnds(c)
	case store.Scheduled:
		cols.waits, cols.at = waitsFor(w.st.ns.clocks.Run, r.k.q.q, c)
		cols.ends = restEnds(c)
	case store.Leased:
		cols.waits, cols.at, cols.flag = waitsLease, int64(c.LeaseUntil), flag(c)
	}
	return cols, nil
}

func since(c *store.Command) int64 {
	if c.Status == store.Processing {
		return int64(c.Due)
	}
	return int64(c.Eligible)
}

func flag(c *store.Command) int64 {
	var f int64
	if c.Overdue {
		f = 1 + int64(c.Lane())
	}
	if c.CancelAsked != 0 {
		f += 4
	}
	return f
}

// waitsFor is the clock that a scheduled command of a queue waits for first, and until when.
func waitsFor(run store.Millis, q int64, c *store.Command) (waits, at int64) {
	if c.Due > run || c.NotBefore == 0 {
		return 8*q + waitsRun, int64(c.Due)
	}
	return 8*q + waitsWall, int64(c.NotBefore)
}

// restEnds is when time alone ends a command at rest, or its cancel visits.
func restEnds(c *store.Command) int64 {
	if c.Place == store.InLine && rule.Class(c).Visit() {
		return int64(c.CancelUntil)
	}
	return int64(rule.EndsAt(c))
}

func (w *writer) score(r *row) int64 { return int64(rule.Score(r.k.q.cfg.Order, r.c)) }

const insertRow = "INSERT INTO cmd (n, id, k, status, place, q, line, score, since, waits, at, ends, ukey, grp, sum, rec) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"

const insertNew = insertRow + " ON CONFLICT (id) DO NOTHING"

// insert writes a new row that was prepared; ifNew, unless the id is known: then it answers false.
func (w *writer) insert(r *row, p *prepared, ifNew bool) (bool, error) {
	c := r.c
	cols := columns{ukey: c.UniqueKey, ends: restEnds(c)}
	if c.Place == store.InLine {
		var err error
		if r.line, err = w.st.line(r.k, c, p.line); err != nil {
			return false, err
		}
		cols.line, cols.score, cols.since = r.line.ln, w.score(r), since(c)
	} else {
		cols.waits, cols.at = waitsFor(w.st.ns.clocks.Run, r.k.q.q, c)
	}
	sql := insertRow
	if ifNew {
		sql = insertNew
	}
	st := w.q(sql).Int(r.n).Text(c.ID).Int(r.k.k).Int(int64(c.Status)).Int(int64(c.Place)).Int(r.k.q.q)
	cols.bindLine(st)
	cols.bindAt(st)
	err := st.IntOrNull(cols.ends).TextOrNull(cols.ukey).TextOrNull(c.Group).Int(checksum(c.ID, c.Group, r.k.k, c, p.rec)).Blob(p.rec).Run()
	if err != nil || ifNew && w.c.Changes() == 0 {
		return false, err
	}
	r.vals, r.cols = p.vals, cols
	if err := w.bodies(r.n, p.outs); err != nil {
		return false, err
	}
	w.tally(r)
	if c.Place == store.InLine {
		w.enter(r)
	}
	return true, nil
}

func (c *columns) bindLine(st stmt) {
	if c.line != 0 {
		st.Int(c.line).Int(c.score).Int(c.since)
	} else {
		st.Null().Null().Null()
	}
}

func (c *columns) bindAt(st stmt) {
	if c.waits != 0 {
		st.Int(c.waits).Int(c.at)
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
	groupEnd = 1 << iota
	groupLine
	groupAt
	groupEnds
	groupFlag
	groupUnique
	groupMove
	groupHolds
	groups = 8
)

var groupColumns = [groups]string{"status=?, ended=?", "line=?, score=?, since=?", "waits=?, at=?", "ends=?", "flag=?", "ukey=?", "k=?, q=?", "holds=?, hold=?"}

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
	mask := r.changed(&old, &cols)
	var was, now membership
	if len(r.held)+len(c.Holds) > 0 {
		if was, err = w.st.membership(r.was.place, c.Cost, r.held); err != nil {
			return err
		}
		if now, err = w.st.membership(c.Place, c.Cost, c.Holds); err != nil {
			return err
		}
		if was.holds != now.holds || was.hold() != now.hold() {
			mask |= groupHolds
		}
	}
	rec, vals, outs := encode(c, &r.vals, r.tail)
	st := w.update(mask).Int(int64(c.Place)).Int(checksum(c.ID, c.Group, r.k.k, c, rec)).Blob(rec)
	if mask&groupEnd != 0 {
		st.Int(int64(c.Status)).IntOrNull(cols.ended)
	}
	if mask&groupLine != 0 {
		cols.bindLine(st)
	}
	if mask&groupAt != 0 {
		cols.bindAt(st)
	}
	if mask&groupEnds != 0 {
		st.IntOrNull(cols.ends)
	}
	if mask&groupFlag != 0 {
		st.IntOrNull(cols.flag)
	}
	if mask&groupUnique != 0 {
		st.TextOrNull(cols.ukey)
	}
	if mask&groupMove != 0 {
		st.Int(r.k.k).Int(r.k.q.q)
	}
	if mask&groupHolds != 0 {
		st.TextOrNull(now.holds).IntOrNull(now.hold())
	}
	if err := st.Int(r.n).Run(); err != nil {
		return err
	}
	if err := w.bodies(r.n, outs); err != nil {
		return err
	}
	r.vals, r.cols = vals, cols
	c.Events = nil // they are packed now: the next change of the row in this step adds to them
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
	if len(was.rest) > 1 || len(now.rest) > 1 {
		if err := w.also(r.n, &was, &now); err != nil {
			return err
		}
	}
	return w.st.join(r, c.Holds)
}

// changed says which groups of columns differ from how the row is stored.
func (r *row) changed(old, now *columns) int {
	mask := 0
	for i, differs := range [groups]bool{
		r.was.status != r.c.Status || old.ended != now.ended,
		old.line != now.line || old.score != now.score || old.since != now.since,
		old.waits != now.waits || old.at != now.at,
		old.ends != now.ends,
		old.flag != now.flag,
		old.ukey != now.ukey,
		r.was.k != r.k,
	} {
		if differs {
			mask |= 1 << i
		}
	}
	return mask
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
	if len(r.held) > 0 {
		was, err := w.st.membership(r.was.place, r.c.Cost, r.held)
		if err != nil {
			return err
		}
		if err := w.also(r.n, &was, &membership{}); err != nil {
			return err
		}
		if err := w.st.join(r, nil); err != nil {
			return err
		}
	}
	if r.cols.line != 0 {
		return w.leave(r.line, r.cols)
	}
	return nil
}
