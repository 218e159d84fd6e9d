package sqlitestore

import (
	"hash/fnv"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// lineRow is a row of table line: the commands alike to every limit that wait for one kind of turn. While it is open its head is the score
// of its first command.
type lineRow struct {
	ln    int64
	name  string
	k     *kindRow
	lane  store.Lane
	class store.Class
	open  bool
	head  int64
	stale bool // the head has left, and who is first now is not known yet
	fresh bool // not in the table yet
	dirty bool
	came  int // commands that have come to stand in it
	used  int // writer.steps at the last change
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
	st := s.w.q("SELECT name, k, lane, class, head FROM line WHERE ln=?").Int(ln)
	ok, err := st.Step()
	if err != nil || !ok {
		return nil, err
	}
	l := &lineRow{ln: ln, name: st.ColText(0), lane: store.Lane(st.ColInt(2)), class: store.Class(st.ColInt(3)), open: !st.ColNull(4), head: st.ColInt(4)}
	k := st.ColInt(1)
	st.Reset()
	if l.k, err = s.kindBy(k); err != nil {
		return nil, err
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
	if !l.open || !l.stale && score < l.head {
		l.open, l.head = true, score
		s.touchLine(l)
	}
}

// leave notes that a command with this score has left its line.
func (s *state) leave(l *lineRow, score int64) {
	if l.open && score == l.head {
		l.stale = true
		s.touchLine(l)
	}
}

// next takes the word of one who has read the line, when came commands had come, who is first in it now, if anybody.
func (s *state) next(l *lineRow, came int, open bool, head int64) {
	if came == l.came {
		l.open, l.head, l.stale = open, head, false
	} else {
		l.open, l.stale = true, true
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
	l.open, l.head, l.stale = ok, 0, false
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
		if l.fresh {
			if !l.open { // came and went: it never was
				delete(s.lines, l.name)
				delete(s.linesBy, l.ln)
				continue
			}
			st := s.w.q("INSERT INTO line (ln, name, k, lane, class, head) VALUES (?,?,?,?,?,?)").
				Int(l.ln).Text(l.name).Int(l.k.k).Int(int64(l.lane)).Int(int64(l.class))
			if err := l.bindHead(st).Run(); err != nil {
				return err
			}
			l.fresh = false
			s.w.numbers.newLines++
			continue
		}
		if err := l.bindHead(s.w.q("UPDATE line SET head=? WHERE ln=?")).Int(l.ln).Run(); err != nil {
			return err
		}
	}
	s.dirtyLines = s.dirtyLines[:0]
	return nil
}

func (l *lineRow) bindHead(st stmt) stmt {
	if l.open {
		return st.Int(l.head)
	}
	return st.Null()
}
