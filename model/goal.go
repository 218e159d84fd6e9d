package model

// goal reports whether nothing is left to do in s: each command that must end is terminal or waits for a reason that
// the design allows.
func (m *world) goal(s *state) bool {
	var excused uint8
	for grown := true; grown; {
		grown = false
		for i := range m.sc.Commands {
			if excused&(1<<i) == 0 && m.excused(s, i, excused) {
				excused |= 1 << i
				grown = true
			}
		}
	}
	must := m.sc.Must
	if must == 0 {
		must = 1<<len(m.sc.Commands) - 1
	}
	return excused&must == must
}

// excused reports whether command i is terminal or may wait where it is; the commands in others may, too.
func (m *world) excused(s *state, i int, others uint8) bool {
	r, c := &s.cmd[i], &m.sc.Commands[i]
	if !r.live() {
		return r.status != Absent || !c.Later || s.left.Delete != m.sc.Faults.Delete
	}
	if r.place == Leased || r.has(cancelReq) || r.has(late) {
		return false
	}
	if m.paused(s, i) || !m.served(s, i) {
		return true
	}
	for l := range m.sc.Limits {
		if !m.wants(s, i, l) || r.members&(1<<l) != 0 || m.exempt(s, i, l) || m.sc.Limits[l].Rate {
			continue
		}
		waiting := uint8(0) // members that will not move
		for j := range s.cmd {
			if s.cmd[j].members&(1<<l) != 0 && others&(1<<j) != 0 {
				waiting++
			}
		}
		if waiting >= s.max[l] {
			return true
		}
	}
	return false
}

// startable reports whether a worker has a free permit of that lane for an eligible command that its limits would admit.
func (m *world) startable(s *state, lane Lane) bool {
	for i := range m.sc.Commands {
		if s.cmd[i].place == Ready && s.cmd[i].lane() == lane && m.usable(s, i) {
			return true
		}
	}
	return false
}

// starts reports whether the step from a to b leases a command of that lane.
func starts(a, b *state, lane Lane) bool {
	for i := range a.cmd {
		if a.cmd[i].place == Ready && a.cmd[i].lane() == lane && b.cmd[i].place == Leased {
			return true
		}
	}
	return false
}
