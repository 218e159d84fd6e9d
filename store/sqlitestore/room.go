package sqlitestore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// roomRow is a row of table room: one counted value of a limit. Its members are summed from the records that say that they hold it, in the
// transaction that writes them.
type roomRow struct {
	r       int64
	key     store.LimitKey
	members int
	lines   int          // filed
	stood   store.Millis // run clock since when room has stood for the oldest of them
	at      store.Millis // run clock: when time alone may change something for them; 0 is unknown
	tat     rule.Bucket
	epoch   int64 // as all of its lines were last asked whether they still wait
	asked   int64 // how far a round of questions has come

	fresh bool // not in the table yet
	dirty bool
	moved bool // more than the members and tat differs from the table
	left  bool // a member has left in this transaction
	used  int  // writer.steps at the last change

	// oldest are the oldest of its lines that could ever fit, in order. Others have been filed after upTo.
	oldest []*lineRow
	upTo   int64
}

// room returns the row of a counted value, made if need be. The row is written, if it comes to be used, at the end of the transaction.
func (s *state) room(key store.LimitKey) (*roomRow, error) {
	if rm := s.rooms[key]; rm != nil {
		return rm, nil
	}
	if s.ns.rooms > 0 {
		rm, err := s.readRoom(s.w.q(selectRoom + "name=? AND value=?").Text(key.Limit).Text(key.Value))
		if err != nil || rm != nil {
			return rm, err
		}
	}
	if s.lastRoom == 0 {
		st := s.w.q("SELECT max(r) FROM room")
		if _, err := st.Step(); err != nil {
			return nil, err
		}
		s.lastRoom = st.ColInt(0)
		st.Reset()
	}
	s.lastRoom++
	rm := &roomRow{r: s.lastRoom, key: key, fresh: true, upTo: never, used: s.w.steps}
	s.keepRoom(rm)
	return rm, nil
}

func (s *state) keepRoom(rm *roomRow) { s.rooms[rm.key], s.roomsBy[rm.r] = rm, rm }

const selectRoom = "SELECT r, name, value, members, lines, stood, at, tat, epoch, asked FROM room WHERE "

// roomBy returns a row by its number.
func (s *state) roomBy(r int64) (*roomRow, error) {
	if rm := s.roomsBy[r]; rm != nil {
		return rm, nil
	}
	rm, err := s.readRoom(s.w.q(selectRoom + "r=?").Int(r))
	if err == nil && rm == nil {
		err = fmt.Errorf("there is no counted value number %d", r)
	}
	return rm, err
}

func (s *state) readRoom(st stmt) (*roomRow, error) {
	ok, err := st.Step()
	if err != nil || !ok {
		return nil, err
	}
	rm := s.scanRoom(st)
	st.Reset()
	return rm, nil
}

// scanRoom takes the row that st stands at, unless it is known already.
func (s *state) scanRoom(st stmt) *roomRow {
	if rm := s.roomsBy[st.ColInt(0)]; rm != nil {
		return rm
	}
	rm := roomOf(st)
	if rm.used = s.w.steps; rm.lines == 0 {
		rm.upTo = never
	}
	s.keepRoom(rm)
	return rm
}

// roomOf is the row that st, of selectRoom, stands at.
func roomOf(st stmt) *roomRow {
	return &roomRow{
		r: st.ColInt(0), key: store.LimitKey{Limit: st.ColText(1), Value: st.ColText(2)}, members: int(st.ColInt(3)), lines: int(st.ColInt(4)),
		stood: store.Millis(st.ColInt(5)), at: store.Millis(st.ColInt(6)), tat: rule.Bucket(st.ColFloat(7)), epoch: st.ColInt(8), asked: st.ColInt(9),
	}
}

// touchRoom notes that the row has changed.
func (s *state) touchRoom(rm *roomRow) {
	rm.moved = true
	s.countRoom(rm)
}

// countRoom notes that nothing but the members or tat has changed.
func (s *state) countRoom(rm *roomRow) {
	if !rm.dirty {
		rm.dirty, rm.used = true, s.w.steps
		s.dirtyRooms = append(s.dirtyRooms, rm)
	}
}

func (s *state) flushRooms() error {
	for _, rm := range s.dirtyRooms {
		rm.dirty = false
		if !rm.moved && !rm.fresh {
			if err := s.w.q("UPDATE room SET members=?, tat=? WHERE r=?").Int(int64(rm.members)).Float(float64(rm.tat)).Int(rm.r).Run(); err != nil {
				return err
			}
			continue
		}
		rm.moved = false
		st := s.w.q("UPDATE room SET members=?, lines=?, stood=?, at=?, tat=?, epoch=?, asked=? WHERE r=?")
		if rm.fresh {
			if rm.members == 0 && rm.lines == 0 && rm.tat == 0 { // came and went: it never was
				continue
			}
			st = s.w.q("INSERT INTO room (members, lines, stood, at, tat, epoch, asked, r, name, value) VALUES (?,?,?,?,?,?,?,?,?,?)")
		}
		st.Int(int64(rm.members)).Int(int64(rm.lines)).Int(int64(rm.stood)).IntOrNull(int64(rm.at)).Float(float64(rm.tat)).Int(rm.epoch).Int(rm.asked).Int(rm.r)
		if rm.fresh {
			rm.fresh = false
			s.ns.rooms++
			st.Text(rm.key.Limit).Text(rm.key.Value)
		}
		if err := st.Run(); err != nil {
			return err
		}
	}
	s.dirtyRooms = s.dirtyRooms[:0]
	return nil
}

// membership is how a row is a member of limits, as its columns say it.
type membership struct {
	holds string  // its cost and the rooms
	rest  []int64 // at rest: the rooms that it holds for the time of the command. The first is column hold, the others are in table also.
}

// membership works out what the columns say of a command of that cost in that place.
func (s *state) membership(place store.Place, cost int, holds []store.Hold) (m membership, err error) {
	if len(holds) == 0 {
		return m, nil
	}
	b := strconv.AppendInt(make([]byte, 0, 16), int64(cost), 10)
	for _, h := range holds {
		rm, err := s.room(h.LimitKey)
		if err != nil {
			return m, err
		}
		b = strconv.AppendInt(append(b, ' '), rm.r, 10)
		if place != store.Leased && h.Scope == store.ScopeCommand {
			m.rest = append(m.rest, rm.r)
		}
	}
	m.holds = string(b)
	return m, nil
}

// parseHolds reads column holds.
func parseHolds(s string) (cost int, rooms []int64, err error) {
	for i, f := range strings.Fields(s) {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, nil, err
		}
		if i == 0 {
			cost = int(n)
		} else {
			rooms = append(rooms, n)
		}
	}
	return cost, rooms, nil
}

func (m *membership) hold() int64 {
	if len(m.rest) == 0 {
		return 0
	}
	return m.rest[0]
}

func (m *membership) also() []int64 { return m.rest[min(1, len(m.rest)):] }

// also brings table also up to date for a row whose membership has changed.
func (w *writer) also(n int64, was, now *membership) error {
	for _, r := range was.also() {
		if !slices.Contains(now.also(), r) {
			if err := w.q("DELETE FROM also WHERE r=? AND n=?").Int(r).Int(n).Run(); err != nil {
				return err
			}
		}
	}
	for _, r := range now.also() {
		if !slices.Contains(was.also(), r) {
			if err := w.q("INSERT INTO also (r, n) VALUES (?,?)").Int(r).Int(n).Run(); err != nil {
				return err
			}
		}
	}
	return nil
}

// join counts a row with the members of what it holds now, and no more with those of what it held.
func (s *state) join(r *row, now []store.Hold) error {
	was := r.held
	if len(was) == 0 && len(now) == 0 {
		return nil
	}
	for _, h := range was {
		if holds(now, h.LimitKey) {
			continue
		}
		rm, err := s.room(h.LimitKey)
		if err != nil {
			return err
		}
		s.leaveRoom(rm, r.c.Cost)
	}
	for _, h := range now {
		if holds(was, h.LimitKey) {
			continue
		}
		rm, err := s.room(h.LimitKey)
		if err != nil {
			return err
		}
		rm.members += r.c.Cost
		s.countRoom(rm)
	}
	s.ns.held += int64(min(len(now), 1) - min(len(was), 1))
	r.held = now
	return nil
}

func holds(hs []store.Hold, key store.LimitKey) bool {
	return slices.ContainsFunc(hs, func(h store.Hold) bool { return h.LimitKey == key })
}

// leaveRoom takes a member out of a room; whoever waits for it has its turn before the transaction ends.
func (s *state) leaveRoom(rm *roomRow, cost int) {
	rm.members -= cost
	s.countRoom(rm)
	if rm.lines > 0 && !rm.left {
		rm.left = true
		s.lefts = append(s.lefts, rm)
	}
}

// unhold takes a row whose record cannot be read out of its rooms.
func (w *writer) unhold(n int64) error {
	st := w.q("SELECT holds FROM cmd WHERE n=?").Int(n)
	ok, err := st.Step()
	if err != nil || !ok {
		return err
	}
	holds := st.ColText(0)
	st.Reset()
	if holds == "" {
		return nil
	}
	cost, rooms, err := parseHolds(holds)
	if err != nil {
		return err
	}
	for _, r := range rooms {
		rm, err := w.st.roomBy(r)
		if err != nil {
			return err
		}
		w.st.leaveRoom(rm, cost)
		if err := w.q("DELETE FROM also WHERE r=? AND n=?").Int(r).Int(n).Run(); err != nil {
			return err
		}
	}
	w.st.ns.held--
	return nil
}

// setConfig puts a configuration in force.
func (s *state) setConfig(cfg store.Config) {
	s.cfg = cfg
	s.limits, s.ends = nil, nil
	for i := range s.cfg.Limits {
		l := &s.cfg.Limits[i]
		if s.limits == nil {
			s.limits = map[string]*store.Limit{}
		}
		s.limits[l.Name] = l
		if l.Until != 0 {
			s.ends = append(s.ends, l.Until)
		}
	}
	for _, q := range s.queues {
		q.cfg = s.cfg.Queue(q.name)
	}
}

// limit is the limit of a key, or nil if it is not in force.
func (s *state) limit(now rule.Now, key store.LimitKey) *store.Limit {
	if l := s.limits[key.Limit]; l != nil && l.At(now.Wall) {
		return l
	}
	return nil
}

// epoch numbers the sets of limits in force: by the version of the configuration, and how many of its limits have come to their end.
func (s *state) epoch(now rule.Now) int64 {
	n := 0
	for _, end := range s.ends {
		if now.Wall >= end {
			n++
		}
	}
	return int64(s.ns.version)*(2*store.MaxLimits) + int64(n) + 1
}

// fits reports whether a key could admit a command of the given cost now, and how long until time alone may change that it cannot.
func (s *state) fits(now rule.Now, rm *roomRow, cost int) (bool, time.Duration) {
	return rm.fits(now, s.limit(now, rm.key), cost)
}

// fits is the same under a limit, nil if none is in force.
func (rm *roomRow) fits(now rule.Now, l *store.Limit, cost int) (bool, time.Duration) {
	if l == nil || l.Classify {
		return true, 0
	}
	var wait time.Duration
	if l.Until != 0 {
		wait = l.Until.Sub(now.Wall)
	}
	if l.Rate > 0 {
		r, closed := l.RateOf(rm.key.Value)
		if closed {
			return false, wait
		}
		_, got, next := rm.tat.Take(r, now.Run, 1)
		return got > 0, sooner(wait, next)
	}
	return rm.members+cost <= l.MaxOf(rm.key.Value), wait
}

// takeToken spends a token of a rate without waiting for it.
func (s *state) takeToken(now rule.Now, rm *roomRow, l *store.Limit) {
	if r, closed := l.RateOf(rm.key.Value); !closed {
		rm.tat = rm.tat.Force(r, now.Run)
		s.countRoom(rm)
	}
}
