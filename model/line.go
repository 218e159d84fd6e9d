package model

// A class says how a line is treated. A cancel visit of a suspect is a class of its own: it passes what cancel visits
// pass, and runs alone as suspects do.
type class uint8

const (
	first class = iota
	rerun
	holder
	suspect
	cancelVisit
	suspectVisit
)

func (c class) visit() bool   { return c == cancelVisit || c == suspectVisit }
func (c class) suspect() bool { return c == suspect || c == suspectVisit }

// A world is a scenario and the rules that move its states.
type world struct {
	sc    *Scenario
	group [maxCommands]uint8 // commands with equal queue, type and keys share a group
	order []int              // limits in the order of admission: scope command, invocation, rates

	counted [maxLimits]uint8 // with CountOnce: the members at the start of the claim call
}

func newWorld(sc *Scenario) *world {
	m := &world{sc: sc}
	for i, c := range sc.Commands {
		m.group[i] = uint8(i)
		for j, d := range sc.Commands[:i] {
			if c.Queue == d.Queue && c.Type == d.Type && c.Keys == d.Keys {
				m.group[i] = m.group[j]
				break
			}
		}
	}
	for _, in := range []func(Limit) bool{
		func(l Limit) bool { return l.Command }, func(l Limit) bool { return !l.Command && !l.Rate }, func(l Limit) bool { return l.Rate },
	} {
		for l, lim := range sc.Limits {
			if in(lim) {
				m.order = append(m.order, l)
			}
		}
	}
	return m
}

// start is the first state.
func (m *world) start() state {
	s := state{max: [maxLimits]uint8{noLimit, noLimit}, left: m.sc.Faults}
	for l, lim := range m.sc.Limits {
		if !lim.Absent {
			s.max[l] = lim.Max
		}
	}
	for i, c := range m.sc.Commands {
		if !c.Later {
			m.submit(&s, i)
		}
	}
	for w := range s.proc {
		s.proc[w].mode = exited
		if w < len(m.sc.Workers) {
			s.proc[w].mode, s.proc[w].heard = up, true
		}
	}
	s.canonical()
	return s
}

func (m *world) class(r *record) class {
	sus := r.losses >= 2
	switch {
	case r.status == Processing && r.has(cancelReq) && sus && m.sc.Bug != CancelNotSuspect:
		return suspectVisit
	case r.status == Processing && r.has(cancelReq):
		return cancelVisit
	case sus:
		return suspect
	case (r.status == Processing || m.holder(r)) && m.sc.Bug != HoldersInLine:
		return holder
	case r.fails > 0:
		return rerun
	}
	return first
}

// line names the line in which command i stands. Suspects that hold a slot stand in one of their own.
func (m *world) line(s *state, i int) uint16 {
	r := &s.cmd[i]
	own := uint16(0)
	if m.holder(r) && r.status == Pending && m.sc.Bug != HoldersInLine {
		own = 1
	}
	return uint16(m.group[i])<<8 | own<<5 | uint16(r.lane())<<4 | uint16(m.class(r))
}

// same reports whether commands i and j stand ready in one line.
func (m *world) same(s *state, i, j int) bool {
	return s.cmd[j].place == Ready && m.line(s, i) == m.line(s, j)
}

// join makes command i ready: last of its line, which may be a filed one.
func (m *world) join(s *state, i int) {
	n := uint8(0)
	for j := range s.cmd {
		if s.cmd[j].place == Ready {
			n++
		}
	}
	r := &s.cmd[i]
	r.place, r.order, r.filed, r.turn = Ready, n+1, 0, 0
	for j := range s.cmd {
		if j != i && m.same(s, i, j) {
			r.filed, r.turn = s.cmd[j].filed, s.cmd[j].turn
			return
		}
	}
}

// toFront gives ready command i the first place of its line back.
func (m *world) toFront(s *state, i int) {
	r := &s.cmd[i]
	for j := range s.cmd {
		if s.cmd[j].place == Ready && s.cmd[j].order < r.order {
			s.cmd[j].order++
		}
	}
	r.order = 1
}

// leave takes a ready command out of its line.
func (m *world) leave(s *state, i int) {
	r := &s.cmd[i]
	if r.place != Ready {
		return
	}
	for j := range s.cmd {
		if s.cmd[j].order > r.order {
			s.cmd[j].order--
		}
	}
	r.place, r.order, r.filed, r.turn = Nowhere, 0, 0, 0
}

// head reports whether command i is the first of its line.
func (m *world) head(s *state, i int) bool {
	if s.cmd[i].place != Ready {
		return false
	}
	for j := range s.cmd {
		if j != i && m.same(s, i, j) && s.cmd[j].order < s.cmd[i].order {
			return false
		}
	}
	return true
}

// setLine writes where the line of command i is filed.
func (m *world) setLine(s *state, i int, filed, turn uint8) {
	for j := range s.cmd {
		if m.same(s, i, j) {
			s.cmd[j].filed, s.cmd[j].turn = filed, turn
		}
	}
}

// file puts the line of command i under limit l: at the tail, or where it is if it is there already. It leaves any other key, where the
// next one has its turn.
func (m *world) file(s *state, i, l int) {
	r := &s.cmd[i]
	from, turn := int(r.under())-1, r.turn
	if from != l {
		turn = m.tail(s, l)
	}
	to := uint8(l + 1)
	if m.closed(s, l) {
		to |= shut
	}
	if m.setLine(s, i, to, turn); from >= 0 && from != l {
		m.hint(s, from)
	}
}

// unfile opens the line of command i: it is filed nowhere, and whoever stood behind it has its turn.
func (m *world) unfile(s *state, i int) {
	from := int(s.cmd[i].under()) - 1
	if m.setLine(s, i, 0, 0); from >= 0 {
		m.hint(s, from)
	}
}

// tail is a turn behind all lines filed under limit l.
func (m *world) tail(s *state, l int) uint8 {
	t := uint8(0)
	for j := range s.cmd {
		if s.cmd[j].under() == uint8(l+1) {
			t = max(t, s.cmd[j].turn)
		}
	}
	return t + 1
}

// front is the head of the line that room of limit l belongs to, or -1: the oldest that is not paused. A closed key has none.
func (m *world) front(s *state, l int) int {
	best := -1
	for i := range s.cmd {
		r := &s.cmd[i]
		if r.under() == uint8(l+1) && !m.closed(s, l) && !m.stopped(s, i) && (best < 0 || r.turn < s.cmd[best].turn) && m.head(s, i) {
			best = i
		}
	}
	return best
}

// sweep opens the lines filed under limit l, older than its front, that are paused: they have no claim.
func (m *world) sweep(s *state, l int) {
	f := m.front(s, l)
	for i := range s.cmd {
		r := &s.cmd[i]
		if r.under() == uint8(l+1) && (f < 0 || r.turn < s.cmd[f].turn) && m.stopped(s, i) && m.head(s, i) {
			m.setLine(s, i, 0, 0)
		}
	}
}

// stopped reports whether a pause keeps the line of command i.
func (m *world) stopped(s *state, i int) bool { return m.paused(s, i) && !m.class(&s.cmd[i]).visit() }
