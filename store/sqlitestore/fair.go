package sqlitestore

import (
	"github.com/twolane/twolane/store"
)

// Fair turns are start-time fair queueing between the groups of one queue and lane: the group with the smallest virtual start is served, and
// its next start lies one turn, divided by its weight, later. Table turn has a row for each group and stream (type, lane, class) in which a line of
// the group can be claimed from, with the head of the first such line. Who waits for nothing costs nothing.

// What queueRow.fair says besides a number of a line.
const (
	groupsNone = 0  // lines do not know their group
	groupsAll  = -1 // all of them do
)

type turnKey struct {
	q    int64
	lane store.Lane
	grp  string
}

// turnRow is what the rows of table turn say about one group: where its last turn ended.
type turnRow struct {
	key   turnKey
	q     *queueRow
	last  float64
	dirty bool
}

// groupKey is a stream of one group.
type groupKey struct {
	k     int64
	lane  store.Lane
	class store.Class
	grp   string
}

func (s *state) turn(q *queueRow, lane store.Lane, grp string) (*turnRow, error) {
	key := turnKey{q.q, lane, grp}
	if t := s.turns[key]; t != nil {
		return t, nil
	}
	t := &turnRow{key: key, q: q}
	st := s.w.q("SELECT max(last) FROM turn WHERE q=? AND lane=? AND grp=?").Int(q.q).Int(int64(lane)).Text(grp)
	if _, err := st.Step(); err != nil {
		return nil, err
	}
	t.last = st.ColFloat(0)
	st.Reset()
	s.turns[key] = t
	return t, nil
}

// start is the virtual start of a group's next turn.
func (t *turnRow) start() float64 { return max(t.q.v[t.key.lane], t.last) }

// served takes a turn of a group.
func (s *state) served(t *turnRow) {
	at := t.start()
	w := t.q.cfg.Weights[t.key.grp]
	if w == 0 {
		w = 1
	}
	t.last = at + 1/w
	if !t.dirty {
		t.dirty = true
		s.dirtyTurns = append(s.dirtyTurns, t)
	}
	if t.q.v[t.key.lane] != at {
		t.q.v[t.key.lane] = at
		s.turnQueue(t.q)
	}
}

func (s *state) turnQueue(q *queueRow) {
	q.turned = true
	s.touchQueue(q)
}

// touchGroup notes that the first line of a group in its stream may be another now.
func (s *state) touchGroup(l *lineRow) {
	s.dirtyGroups[groupKey{l.k.k, l.lane, l.class, l.group}] = l
}

// flushGroups writes which line of each touched group is first.
func (s *state) flushGroups() error {
	for key, l := range s.dirtyGroups {
		st := s.w.q("SELECT head FROM line WHERE k=? AND lane=? AND class=? AND grp=? AND shut=0 AND head IS NOT NULL ORDER BY head LIMIT 1").
			Int(key.k).Int(int64(key.lane)).Int(int64(key.class)).Text(key.grp)
		some, err := st.Step()
		if err != nil {
			return err
		}
		head := int64(0)
		if some {
			head = st.ColInt(0)
			st.Reset()
		}
		t, err := s.turn(l.k.q, key.lane, key.grp)
		if err != nil {
			return err
		}
		last := t.last
		if last <= t.q.v[key.lane] {
			last = 0 // it lies behind: all such groups are alike
		}
		bind := func(st stmt) stmt {
			return st.Int(t.q.q).Int(int64(key.lane)).Text(key.grp).Int(key.k).Int(int64(key.class))
		}
		switch {
		case some:
			st = bind(s.w.q("INSERT INTO turn (q, lane, grp, k, class, last, head) VALUES (?1,?2,?3,?4,?5,?6,?7) ON CONFLICT DO UPDATE SET last=?6, head=?7")).
				Float(last).Int(head)
		case last > 0:
			st = bind(s.w.q("UPDATE turn SET head=NULL WHERE q=? AND lane=? AND grp=? AND k=? AND class=?"))
		default:
			st = bind(s.w.q("DELETE FROM turn WHERE q=? AND lane=? AND grp=? AND k=? AND class=?"))
		}
		if err := st.Run(); err != nil {
			return err
		}
	}
	clear(s.dirtyGroups)
	return nil
}

// flushTurns writes the turns that groups have had.
func (s *state) flushTurns() error {
	for _, t := range s.dirtyTurns {
		t.dirty = false
		if err := s.w.q("UPDATE turn SET last=? WHERE q=? AND lane=? AND grp=?").Float(t.last).Int(t.key.q).Int(int64(t.key.lane)).Text(t.key.grp).Run(); err != nil {
			return err
		}
	}
	s.dirtyTurns = s.dirtyTurns[:0]
	return nil
}

// toggleFair lets the lines of a queue learn their groups if it has become fair, and forgets that they know them if it is so no more.
func (s *state) toggleFair(q *queueRow) error {
	switch {
	case q.cfg.Fair && q.fair == groupsNone:
		_, err := s.group(q)
		return err
	case !q.cfg.Fair && q.fair != groupsNone:
		q.fair = groupsNone
		s.turnQueue(q)
	}
	return nil
}

// fairLines is how many lines one step of [state.group] looks at.
const fairLines = 500

// group lets some more lines of a fair queue learn their groups; it reports whether it has looked at as many as it may. Lines that are made
// meanwhile know theirs.
func (s *state) group(q *queueRow) (more bool, err error) {
	if err := s.flushLines(); err != nil {
		return false, err
	}
	var lns []int64
	st := s.w.q("SELECT ln FROM line WHERE ln>? ORDER BY ln LIMIT ?").Int(max(q.fair, 0)).Int(fairLines)
	for {
		ok, err := st.Step()
		if err != nil {
			return false, err
		}
		if !ok {
			break
		}
		lns = append(lns, st.ColInt(0))
	}
	q.fair = groupsAll
	if more = len(lns) == fairLines; more {
		q.fair = lns[len(lns)-1]
	}
	s.turnQueue(q)
	for _, ln := range lns {
		l, err := s.lineBy(ln)
		if err != nil {
			return false, err
		}
		if l == nil || l.k.q != q || l.grouped {
			continue
		}
		l.grouped, l.group = true, l.like().Group
		if err := s.w.q("UPDATE line SET grp=? WHERE ln=?").Text(l.group).Int(ln).Run(); err != nil {
			return false, err
		}
		s.touchGroup(l)
	}
	return more, s.flushGroups()
}

// fair goes on to let lines of queues that have become fair learn their groups, and forgets groups whose turns lie behind.
func (u *upkeep) fair() error {
	s := u.w.st
	for _, q := range s.queuesBy {
		if q.fair == groupsNone {
			continue
		}
		for q.fair != groupsAll && !u.late(1) {
			if _, err := s.group(q); err != nil {
				return err
			}
		}
		u.rep.More = u.rep.More || q.fair != groupsAll
		for lane := range store.Lanes {
			if err := u.forgetTurns(q, store.Lane(lane)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (u *upkeep) forgetTurns(q *queueRow, lane store.Lane) error {
	s := u.w.st
	var gone []groupKey
	st := u.w.q("SELECT grp, k, class FROM turn WHERE q=? AND lane=? AND head IS NULL AND last<=? LIMIT 100").Int(q.q).Int(int64(lane)).Float(q.v[lane])
	for {
		ok, err := st.Step()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		gone = append(gone, groupKey{st.ColInt(1), lane, store.Class(st.ColInt(2)), st.ColText(0)})
	}
	for _, g := range gone {
		key := turnKey{q.q, lane, g.grp}
		if t := s.turns[key]; t != nil && (t.dirty || t.last > q.v[lane]) {
			continue
		}
		if err := u.w.q("DELETE FROM turn WHERE q=? AND lane=? AND grp=? AND k=? AND class=?").Int(q.q).Int(int64(lane)).Text(g.grp).Int(g.k).Int(int64(g.class)).Run(); err != nil {
			return err
		}
		delete(s.turns, key)
	}
	return nil
}
