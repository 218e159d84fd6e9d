package sqlitestore

import (
	"slices"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// stream gives the claimable commands of one type, lane and class in order, over all lines: it looks at heads of open lines only, and reads
// commands of a line once its head is the first of all.
type stream struct {
	w     *writer
	now   rule.Now
	k     *kindRow
	lane  store.Lane
	class store.Class

	// With fair turns: the lines of one group only.
	turn *turnRow
	// With limits: how many commands of a line may have room, the lines that were refused, and those that are known.
	budget  func(l *lineRow, batch int) (int, error)
	refused map[*lineRow]*reading
	seen    map[*lineRow]bool
	batch   int

	heads []*lineRow // lines that are not shut, in the order of their heads, not read yet
	last  int64      // where the next look for heads goes on
	lastN int64
	ended bool // there are no further heads
	lines []*reading
	need  int // commands that are likely to be taken
	skips int // commands at the head that were found to have ended, or to be unreadable
}

// reading is a line that is being read: rows that follow one another from its head.
type reading struct {
	l    *lineRow
	rows []*row
	over bool // rows are all that there are
	came int  // as in the line, when they were read
}

const (
	headsAtOnce = 16
	rowsAtOnce  = 64
	// maxSkips bounds what a claim removes from the heads of lines on its way.
	maxSkips = 100
)

// stream starts a stream. Lines must have been flushed.
func (cl *claim) stream(c *choice, lane store.Lane, class store.Class, need int) *stream {
	s := &stream{w: cl.w, now: cl.now, k: c.k, lane: lane, class: class, need: need, batch: max(1, c.want.Batch), last: -1 << 62, lastN: -1}
	if cl.limited {
		s.budget, s.refused, s.seen = cl.budget, map[*lineRow]*reading{}, map[*lineRow]bool{}
	}
	return s
}

// peek implements [source] for a queue without fair turns.
func (s *stream) peek() (*stream, *reading, float64, error) {
	rd, err := s.first()
	return s, rd, 0, err
}

func (s *stream) skipped() int { return s.skips }

// first returns the line whose first command is next, or nil.
func (s *stream) first() (*reading, error) {
	for {
		best, err := s.best()
		if err != nil || best == nil {
			return nil, err
		}
		r := best.rows[0]
		if s.lane == store.Repoll && r.cols.score > int64(s.now.Run) {
			return nil, nil // nothing is due
		}
		if rule.Claimable(s.now, r.c) && !rule.VisitOver(s.now, r.c) {
			return best, nil
		}
		if s.skips >= maxSkips {
			return nil, nil
		}
		s.skips++
		if err := s.clear(best); err != nil {
			return nil, err
		}
	}
}

// clear removes a command that has ended from the head of its line, as maintenance would.
func (s *stream) clear(rd *reading) error {
	r := rd.rows[0]
	rd.rows = rd.rows[1:]
	err := r.fill(s.w, valError, valEvents)
	if err = s.w.readable(&r, err); err != nil || r == nil {
		return err
	}
	if rule.VisitOver(s.now, r.c) {
		return s.w.change(s.now, r, func(q store.QueueConfig) { rule.EndVisit(s.now, r.c, q) })
	}
	if rule.Ended(s.now, r.c) {
		return s.w.expire(s.now, r)
	}
	rd.over = false    // the row may still stand in this line: it is read again
	return s.w.save(r) // a column told otherwise than the record: it is put right
}

// best is the line whose first row is the first of all, or nil.
func (s *stream) best() (*reading, error) {
	var best *reading
	for i := 0; i < len(s.lines); i++ {
		rd := s.lines[i]
		if err := s.more(rd); err != nil {
			return nil, err
		}
		if len(rd.rows) == 0 {
			s.empty(rd)
			s.lines = slices.Delete(s.lines, i, i+1)
			i--
			continue
		}
		if best == nil || rd.rows[0].cols.score < best.rows[0].cols.score {
			best = rd
		}
	}
	for {
		if err := s.look(); err != nil {
			return nil, err
		}
		if len(s.heads) == 0 || best != nil && s.heads[0].head >= best.rows[0].cols.score {
			return best, nil
		}
		if s.lane == store.Repoll && s.heads[0].head > int64(s.now.Run) {
			return best, nil
		}
		rd := &reading{l: s.heads[0]}
		s.heads = s.heads[1:]
		if err := s.more(rd); err != nil {
			return nil, err
		}
		if len(rd.rows) == 0 { // its only command could not be read
			s.empty(rd)
			continue
		}
		s.lines = append(s.lines, rd)
		if best == nil || rd.rows[0].cols.score < best.rows[0].cols.score {
			best = rd
		}
	}
}

// empty notes that all rows that were read of a line are gone.
func (s *stream) empty(rd *reading) {
	if rd.over {
		s.w.st.next(rd.l, rd.came, false, 0)
		return
	}
	rd.l.stale = true
	s.w.st.touchLine(rd.l)
}

// look reads further heads of open lines.
func (s *stream) look() error {
	if len(s.heads) > 0 || s.ended {
		return nil
	}
	var st stmt
	if s.turn == nil {
		st = s.w.q("SELECT head, ln FROM line WHERE k=? AND lane=? AND shut=0 AND class=? AND head IS NOT NULL AND (head, ln) > (?,?) ORDER BY head, ln LIMIT ?").
			Int(s.k.k).Int(int64(s.lane)).Int(int64(s.class))
	} else {
		st = s.w.q("SELECT head, ln FROM line WHERE k=? AND lane=? AND class=? AND grp=? AND shut=0 AND head IS NOT NULL AND (head, ln) > (?,?) ORDER BY head, ln LIMIT ?").
			Int(s.k.k).Int(int64(s.lane)).Int(int64(s.class)).Text(s.turn.key.grp)
	}
	st.Int(s.last).Int(s.lastN).Int(headsAtOnce)
	var lns [headsAtOnce]int64
	n := 0
	for {
		ok, err := st.Step()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		s.last, s.lastN = st.ColInt(0), st.ColInt(1)
		lns[n] = s.lastN
		n++
	}
	s.ended = n < headsAtOnce
	for _, ln := range lns[:n] {
		l, err := s.w.st.lineBy(ln)
		if err != nil {
			return err
		}
		if l == nil || !l.some || s.seen[l] {
			continue
		}
		if s.seen != nil {
			s.seen[l] = true
		}
		s.heads = append(s.heads, l)
	}
	return nil
}

// more reads on in a line whose rows are used up.
func (s *stream) more(rd *reading) error {
	for len(rd.rows) == 0 && !rd.over {
		limit := max(2, min(rowsAtOnce, s.need+1))
		if s.budget != nil {
			n, err := s.budget(rd.l, s.batch)
			if err != nil {
				return err
			}
			limit = min(limit, n+1)
		}
		st := s.w.q(selectRow + "line=? ORDER BY score, n LIMIT ?").Int(rd.l.ln).Int(int64(limit))
		var bad []error
		n := 0
		for {
			ok, err := st.Step()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			n++
			r, err := s.w.scan(st)
			if err != nil {
				bad = append(bad, err)
				continue
			}
			r.line = rd.l
			rd.rows = append(rd.rows, r)
		}
		rd.over, rd.came = n < limit, rd.l.came
		for _, err := range bad {
			if err := s.w.readable(new(*row), err); err != nil {
				return err
			}
			if s.skips++; s.skips >= maxSkips {
				return nil
			}
		}
	}
	return nil
}

// take removes the first row of a line from the stream, which the caller is about to lease.
func (s *stream) take(rd *reading) *row {
	r := rd.rows[0]
	rd.rows = rd.rows[1:]
	s.need = max(0, s.need-1)
	return r
}

// refuse takes a line out of the stream that a limit has stopped.
func (s *stream) refuse(rd *reading) {
	s.refused[rd.l] = rd
	s.lines = slices.DeleteFunc(s.lines, func(o *reading) bool { return o == rd })
}

// admit implements [source].
func (s *stream) admit(l *lineRow) error {
	if rd := s.refused[l]; rd != nil {
		delete(s.refused, l)
		s.lines = append(s.lines, rd)
	} else if !s.seen[l] {
		s.seen[l] = true
		s.lines = append(s.lines, &reading{l: l})
	}
	return nil
}

// close tells lines whose first rows were taken who is first now, as far as the stream knows.
func (s *stream) close() {
	for _, rd := range s.refused {
		s.lines = append(s.lines, rd)
	}
	for _, rd := range s.lines {
		switch {
		case len(rd.rows) > 0:
			s.w.st.next(rd.l, rd.came, true, rd.rows[0].cols.score)
		default:
			s.empty(rd)
		}
	}
}
