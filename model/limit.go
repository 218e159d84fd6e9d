package model

// used is the number of members of limit l.
func (s *state) used(l int) (n uint8) {
	for i := range s.cmd {
		n += s.cmd[i].members >> l & 1
	}
	return n
}

// room reports whether limit l would admit one more; a limit that is not there always would. A rate has no members, and as much room as tokens.
func (s *state) room(l int) bool { return s.max[l] == noLimit || s.used(l) < s.max[l] }

// closed reports whether limit l admits nothing, whoever leaves it.
func (m *world) closed(s *state, l int) bool { return s.max[l] == 0 && !m.sc.Limits[l].Rate }

// wants reports whether limit l exists and looks at command i.
func (m *world) wants(s *state, i, l int) bool {
	return s.max[l] != noLimit && m.sc.Commands[i].Keys&(1<<l) != 0
}

// exempt reports whether command i joins limit l without waiting: cancel visits pass all limits, and what may be active
// already never waits for a limit of scope command.
func (m *world) exempt(s *state, i, l int) bool {
	r := &s.cmd[i]
	if r.status == Processing && r.has(cancelReq) {
		return true
	}
	if m.sc.Bug == PollsWait {
		return false
	}
	return m.sc.Limits[l].Command && (r.status == Processing || m.holder(r))
}

// holder reports whether a lost worker's command kept a slot of scope command.
func (m *world) holder(r *record) bool {
	if r.has(unknown) {
		for l, lim := range m.sc.Limits {
			if lim.Command && r.members&(1<<l) != 0 {
				return true
			}
		}
	}
	return false
}

// admit tests the head of a line against all its limits. It returns the first one that stops it, or -1, and the
// limits in which the command would be a member.
func (m *world) admit(s *state, i int) (full int, members uint8) {
	r := &s.cmd[i]
	if m.class(r).visit() { // it passes them all, and joins none
		return -1, 0
	}
	for _, l := range m.order {
		bit := uint8(1) << l
		switch {
		case !m.wants(s, i, l):
			continue
		case r.members&bit != 0, m.exempt(s, i, l):
		case !m.roomInCall(s, l), m.behind(s, i, l):
			return l, members
		}
		if !m.sc.Limits[l].Rate {
			members |= bit
		}
	}
	return -1, members
}

func (m *world) roomInCall(s *state, l int) bool {
	if m.sc.Bug == CountOnce {
		return m.counted[l] < s.max[l]
	}
	return s.room(l)
}

// behind reports whether older lines are filed under limit l, to whom its room belongs. Room that has stood for a second is anybody's.
func (m *world) behind(s *state, i, l int) bool {
	if m.sc.Bug == NewcomerTakesRoom || s.stood&(1<<l) != 0 && m.sc.Bug != RoomIsKept {
		return false
	}
	f := m.front(s, l)
	return f >= 0 && !m.same(s, i, f) && (s.cmd[i].under() != uint8(l+1) || s.cmd[i].filed&called == 0)
}

// activeIn reports whether the place of command i makes it count in limit l.
func (m *world) activeIn(s *state, i, l int) bool {
	r := &s.cmd[i]
	return r.place == Leased || m.sc.Limits[l].Command && r.live() && (r.status == Processing || r.has(unknown))
}

// release ends the memberships that the place of command i no longer implies.
func (m *world) release(s *state, i int) {
	r := &s.cmd[i]
	for l := range m.sc.Limits {
		if bit := uint8(1) << l; r.members&bit != 0 && !m.activeIn(s, i, l) {
			r.members &^= bit
			m.hint(s, l)
		}
	}
}

// hint opens the front of limit l if there is room. Nothing depends on it.
func (m *world) hint(s *state, l int) {
	if m.sweep(s, l); m.sc.NoHints {
		m.noted(s, l)
		return
	}
	m.call(s, l)
}

// noted ends the standing of room that is there no more, or for nobody.
func (m *world) noted(s *state, l int) int {
	f := m.front(s, l)
	if f < 0 || !s.room(l) {
		s.stood &^= 1 << l
		return -1
	}
	return f
}

func (m *world) call(s *state, l int) {
	if f := m.noted(s, l); f >= 0 {
		m.setLine(s, f, s.cmd[f].filed&^shut|called, s.cmd[f].turn)
	}
}

// retest looks again at the line of command i, its head. It reports whether anything changed.
func (m *world) retest(s *state, i int) bool {
	before, r := *s, &s.cmd[i]
	l := int(r.under()) - 1
	switch {
	case s.max[l] == noLimit || r.filed&shut != 0 && !m.closed(s, l): // what stopped it is gone
		m.unfile(s, i)
		return true
	case !s.room(l):
		m.setLine(s, i, r.filed&^called, r.turn)
	case s.stood&(1<<l) != 0: // the oldest did not use it: whoever waits may
		m.setLine(s, i, r.filed|called, r.turn)
	}
	m.sweep(s, l)
	m.call(s, l)
	return *s != before
}

// stand is a second in which room of limit l stood for its front, which was called, and nobody could use it: it is anybody's.
func (m *world) stand(s *state, l int) bool {
	f := m.front(s, l)
	if s.max[l] == noLimit || s.stood&(1<<l) != 0 || f < 0 || s.cmd[f].filed&called == 0 || !s.room(l) || m.usable(s, f) {
		return false
	}
	s.stood |= 1 << l
	return true
}

// pass takes its place from the line of command i, which was called and let room stand: the line is open again, and joins the tail when a
// claim next finds the limit full. At the tail it must not keep its claim: a line that needs two limits would wait for ever behind one
// such line under each.
func (m *world) pass(s *state, i int) bool {
	r := &s.cmd[i]
	l := int(r.under()) - 1
	if r.filed&called == 0 || s.stood&(1<<l) == 0 || !s.room(l) {
		return false
	}
	if m.sc.Bug != PassedKeepsClaim {
		m.unfile(s, i)
	} else if t := m.tail(s, l); t != r.turn+1 {
		s.stood &^= 1 << l
		m.setLine(s, i, uint8(l+1), t)
		m.hint(s, l)
	} else {
		return false
	}
	return true
}

// usable reports whether some worker could claim command i now.
func (m *world) usable(s *state, i int) bool {
	for w := range m.sc.Workers {
		if m.claimable(s, w, i) && m.free(s, w, s.cmd[i].lane()) > 0 {
			full, _ := m.admit(s, i)
			return full < 0
		}
	}
	return false
}

// Changes of the configuration. A new limit gets members at their next claims; a lowered one evicts nobody.

func (m *world) setMax(s *state, l int, n uint8) {
	s.max[l] = n
	if n == noLimit {
		for i := range s.cmd {
			s.cmd[i].members &^= 1 << l
		}
	}
	m.hint(s, l)
}
