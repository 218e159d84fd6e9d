package model

// used is the number of members of limit l.
func (s *state) used(l int) (n uint8) {
	for i := range s.cmd {
		n += s.cmd[i].members >> l & 1
	}
	return n
}

// room reports whether limit l would admit one more; a limit that is not there always would.
func (s *state) room(l int) bool { return s.max[l] == noLimit || s.used(l) < s.max[l] }

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
	return m.sc.Limits[l].Command && (r.status == Processing || r.has(unknown))
}

// admit tests the head of a line against all its limits. It returns the first one that stops it, or -1, and the
// limits in which the command would be a member.
func (m *world) admit(s *state, i int) (full int, members uint8) {
	r := &s.cmd[i]
	for _, l := range m.order {
		bit := uint8(1) << l
		switch {
		case !m.wants(s, i, l):
			continue
		case r.members&bit != 0, m.exempt(s, i, l):
		case !m.roomInCall(s, l), m.behind(s, i, l):
			return l, members
		}
		members |= bit
	}
	return -1, members
}

func (m *world) roomInCall(s *state, l int) bool {
	if m.sc.Bug == CountOnce {
		return m.counted[l] < s.max[l]
	}
	return s.room(l)
}

// behind reports whether older lines are filed under limit l, to whom its room belongs.
func (m *world) behind(s *state, i, l int) bool {
	if m.sc.Bug == NewcomerTakesRoom {
		return false
	}
	o := m.oldest(s, l)
	return o >= 0 && !m.same(s, i, o)
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

// hint opens the oldest line filed under limit l if there is room. Nothing depends on it.
func (m *world) hint(s *state, l int) {
	if m.sc.NoHints || !s.room(l) {
		return
	}
	if i := m.oldest(s, l); i >= 0 {
		m.setLine(s, i, s.cmd[i].filed|called, s.cmd[i].turn)
	}
}

// retest opens the line of command i, its head, if the limit that it is filed under has room for it. It reports whether
// anything changed.
func (m *world) retest(s *state, i int) bool {
	r := &s.cmd[i]
	if r.filed == 0 || r.filed&called != 0 {
		return false
	}
	l := int(r.filed) - 1
	if s.max[l] == noLimit {
		m.setLine(s, i, 0, 0)
		return true
	}
	if !s.room(l) || m.behind(s, i, l) {
		return false
	}
	m.setLine(s, i, r.filed|called, r.turn)
	return true
}

// pass takes from the oldest line under a limit its claim to room that nobody can use for it: the line is open again, and
// joins the tail when a claim next finds the limit full. At the tail it must not keep its claim: a line that needs two
// limits would wait for ever behind one such line under each.
func (m *world) pass(s *state, i int) bool {
	r := &s.cmd[i]
	if r.filed == 0 {
		return false
	}
	l := int(r.filed&^called) - 1
	if s.max[l] == noLimit || !s.room(l) || m.behind(s, i, l) || m.usable(s, i) {
		return false
	}
	if m.sc.Bug != PassedKeepsClaim {
		m.setLine(s, i, 0, 0)
	} else if t := m.tail(s, l); t != r.turn+1 {
		m.setLine(s, i, uint8(l+1), t)
	} else {
		return false
	}
	m.hint(s, l)
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
