package sqlitestore

import (
	"fmt"
	"hash/fnv"
	"math"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// lineRow is a row of table line: the commands alike to every limit that wait for one kind of turn. While somebody stands in it its head is the
// score of its first command.
type lineRow struct {
	ln    int64
	name  string
	k     *kindRow
	lane  store.Lane
	class store.Class
	some  bool // somebody stands in it
	head  int64
	stale bool // the head has left, and who is first now is not known yet
	fresh bool // not in the table yet
	dirty bool
	came  int      // commands that have come to stand in it
	used  int      // writer.steps at the last change
	sure  rule.Now // when a command of it was found to be claimable, if none has left since

	grouped bool   // it is known by its group, for fair turns
	group   string // its group, if so
	filing
	moved  bool           // more than the head differs from the table
	alike  *store.Command // what its commands are to limits; nil until asked for
	limits []applied      // that apply to it, as of limitsAt
	epoch  int64
}

// filing is how a line waits for a limit.
type filing struct {
	room   *roomRow // where it is filed, if it is
	ord    int64
	since  store.Millis // run clock
	opened store.Millis // run clock since when it may take room; 0 while it is shut
	passed int64
}

const (
	// neverFits is added to the order of lines whose cost is over the limit.
	neverFits = 1 << 60
	// never is after all.
	never = math.MaxInt64
)

// shut reports whether claims do not look at the line.
func (f *filing) shut() bool { return f.room != nil && f.opened == 0 }

// unfit reports whether the line is filed as one that never fits.
func (f *filing) unfit() bool { return f.ord >= neverFits }

// like is what the commands of the line are to limits.
func (l *lineRow) like() *store.Command {
	if l.alike == nil {
		c, ok := rule.ParseLine(l.name)
		if !ok { // nothing but rule.LineName makes names
			c = &store.Command{Queue: l.k.q.name, Type: l.k.name, Cost: 1, Status: store.Pending}
		}
		l.alike = c
	}
	return l.alike
}

// line returns the line that a command stands in when it is in line, whose name is rule.Line of it.
func (s *state) line(k *kindRow, c *store.Command, name string) (*lineRow, error) {
	if l := s.lines[name]; l != nil {
		return l, nil
	}
	for ln := lineNumber(name); ; ln = (ln + 1) &^ (-1 << 62) {
		l, err := s.lineBy(ln)
		if err != nil {
			return nil, err
		}
		if l == nil {
			l = &lineRow{ln: ln, name: name, k: k, lane: c.Lane(), class: rule.Class(c), fresh: true}
			if k.q.fair != groupsNone {
				l.grouped, l.group = true, c.Group
			}
			s.keepLine(l)
			return l, nil
		}
		if l.name == name {
			return l, nil
		}
	}
}

// lineNumber is where the row of a line is looked for first.
func lineNumber(name string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	n := h.Sum64()
	n ^= n >> 32
	return int64(n>>2) | 1
}

func (s *state) keepLine(l *lineRow) { s.lines[l.name], s.linesBy[l.ln] = l, l }

// lineBy returns a line by its number, or nil.
func (s *state) lineBy(ln int64) (*lineRow, error) {
	if l := s.linesBy[ln]; l != nil {
		return l, nil
	}
	st := s.w.q("SELECT name, k, lane, class, head, grp, room, ord, since, opened, passed FROM line WHERE ln=?").Int(ln)
	ok, err := st.Step()
	if err != nil || !ok {
		return nil, err
	}
	l := &lineRow{ln: ln, name: st.ColText(0), lane: store.Lane(st.ColInt(2)), class: store.Class(st.ColInt(3)), some: !st.ColNull(4), head: st.ColInt(4)}
	if l.grouped = !st.ColNull(5); l.grouped {
		l.group = st.ColText(5)
	}
	k, r := st.ColInt(1), st.ColInt(6)
	if l.passed = st.ColInt(10); r != 0 {
		l.ord, l.since, l.opened = st.ColInt(7), store.Millis(st.ColInt(8)), store.Millis(st.ColInt(9))
	}
	st.Reset()
	if l.k, err = s.kindBy(k); err != nil {
		return nil, err
	}
	if r != 0 {
		if l.room, err = s.roomBy(r); err != nil {
			return nil, fmt.Errorf("line %q: %w", l.name, err)
		}
	}
	s.keepLine(l)
	return l, nil
}

func (s *state) touchLine(l *lineRow) {
	if !l.dirty {
		l.dirty, l.used = true, s.w.steps
		s.dirtyLines = append(s.dirtyLines, l)
	}
}

// enter notes that a command with this score has come to stand in line.
func (s *state) enter(l *lineRow, score int64) {
	l.came++
	if !l.some || !l.stale && score < l.head {
		l.some, l.head = true, score
		s.touchLine(l)
	}
}

// leave notes that a command with this score has left its line.
func (s *state) leave(l *lineRow, score int64) {
	l.sure = rule.Now{}
	if l.some && score == l.head {
		l.stale = true
		s.touchLine(l)
	}
}

// next takes the word of one who has read the line, when came commands had come, who is first in it now, if anybody.
func (s *state) next(l *lineRow, came int, some bool, head int64) {
	if came == l.came {
		l.some, l.head, l.stale = some, head, false
	} else {
		l.some, l.stale = true, true
	}
	s.touchLine(l)
}

// settleHead finds out who is first in line.
func (s *state) settleHead(l *lineRow) error {
	if !l.stale {
		return nil
	}
	st := s.w.q("SELECT score FROM cmd WHERE line=? ORDER BY score LIMIT 1").Int(l.ln)
	ok, err := st.Step()
	if err != nil {
		return err
	}
	l.some, l.head, l.stale = ok, 0, false
	if ok {
		l.head = st.ColInt(0)
		st.Reset()
	}
	return nil
}

// flushLines writes the lines that have changed, as a claim needs them.
func (s *state) flushLines() error {
	for _, l := range s.dirtyLines {
		l.dirty = false
		if err := s.settleHead(l); err != nil {
			return err
		}
		if !l.some && (l.room != nil || l.passed > 0) { // nobody waits in it
			s.emptied(l)
		}
		if err := s.flushLine(l); err != nil {
			return err
		}
	}
	s.dirtyLines = s.dirtyLines[:0]
	return s.flushGroups()
}

func (s *state) flushLine(l *lineRow) error {
	if l.grouped {
		s.touchGroup(l)
	}
	switch {
	case l.fresh && !l.some: // came and went: it never was
		delete(s.lines, l.name)
		delete(s.linesBy, l.ln)
		return nil
	case l.fresh:
		st := s.w.q("INSERT INTO line (ln, name, k, lane, class, head) VALUES (?,?,?,?,?,?)")
		if l.grouped {
			st = s.w.q("INSERT INTO line (ln, name, k, lane, class, head, grp) VALUES (?,?,?,?,?,?,?)")
		}
		st = l.bindHead(st.Int(l.ln).Text(l.name).Int(l.k.k).Int(int64(l.lane)).Int(int64(l.class)))
		if l.grouped {
			st = st.Text(l.group)
		}
		l.fresh = false
		s.w.numbers.newLines++
		if err := st.Run(); err != nil || !l.moved {
			return err
		}
	}
	if !l.moved {
		return l.bindHead(s.w.q("UPDATE line SET head=? WHERE ln=?")).Int(l.ln).Run()
	}
	l.moved = false
	st := l.bindHead(s.w.q("UPDATE line SET head=?, shut=?, room=?, ord=?, since=?, opened=?, passed=? WHERE ln=?"))
	if l.room != nil {
		shut := int64(1)
		if l.opened != 0 {
			shut = 0
		}
		st.Int(shut).Int(l.room.r).Int(l.ord).Int(int64(l.since)).Int(int64(l.opened))
	} else {
		st.Int(0).Null().Null().Null().Int(0)
	}
	return st.Int(l.passed).Int(l.ln).Run()
}

func (l *lineRow) bindHead(st stmt) stmt {
	if l.some {
		return st.Int(l.head)
	}
	return st.Null()
}
