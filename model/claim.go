package model

// free is the number of permits with which worker w may claim in that lane.
func (m *world) free(s *state, w int, lane Lane) int {
	p, wk := &s.proc[w], &m.sc.Workers[w]
	if p.mode != up || p.claiming || !p.heard { // one that may be taken for dead renews before it claims
		return 0
	}
	if m.shared() {
		return int(wk.Intake+wk.Repoll) - int(p.held[Intake]+p.held[Repoll])
	}
	return int(wk.permits(lane)) - int(p.held[lane])
}

// openSlots is an artefact of the model: a worker that waits for the answers to many settles claims less.
func (p *process) openSlots() (n int) {
	for _, x := range p.slots {
		if x.cmd == 0 {
			n++
		}
	}
	return n
}

// claimable reports whether worker w may run ready command i, limits and permits aside.
func (m *world) claimable(s *state, w, i int) bool {
	r := &s.cmd[i]
	if r.place != Ready || !m.sc.serves(w, i, r.lane()) {
		return false
	}
	c := m.class(r)
	if m.paused(s, i) && (!c.visit() || m.sc.Bug == CancelStopsAtPause) && (c != rerun || m.sc.Bug != IgnorePause) {
		return false
	}
	return !c.suspect() || m.sc.Bug == SuspectsTogether || !m.runsSuspect(s, w)
}

// paused reports whether command i stands in a lane that is paused.
func (m *world) paused(s *state, i int) bool {
	return s.pause[m.sc.Commands[i].Queue] > uint8(s.cmd[i].lane())
}

// shared reports whether the lanes are one.
func (m *world) shared() bool { return m.sc.Bug == OneSharedLane || m.sc.Bug == BorrowPermit }

// runsSuspect reports whether worker w has the lease of a suspect.
func (m *world) runsSuspect(s *state, w int) bool {
	for i := range s.cmd {
		if r := &s.cmd[i]; r.place == Leased && r.owner == uint8(1+w) && r.losses >= 2 {
			if m.sc.Bug == CancelNotSuspect && r.has(visiting) {
				continue
			}
			return true
		}
	}
	return false
}

// claim is one call of worker w for both lanes: it leases what its permits and the limits allow, eligible longest first,
// and files each line that it could not serve. It returns the commands that it leased, as bits.
func (m *world) claim(s *state, w int) (got uint8) {
	shared := m.shared()
	for l := range m.sc.Limits {
		m.counted[l] = s.used(l)
	}
	lanes := [...]Lane{Intake, Repoll}
	if shared || m.sc.Bug == FirstLaneOnly {
		lanes = [...]Lane{Repoll, Intake}
	}
	taken, open := 0, s.proc[w].openSlots()
	for _, lane := range lanes {
		room := m.free(s, w, lane)
		if shared {
			room -= taken
		}
		for ; room > 0 && taken < open; room-- {
			i := m.next(s, w, lane)
			if i < 0 {
				break
			}
			got |= 1 << i
			taken++
		}
		if m.sc.Bug == FirstLaneOnly && got != 0 {
			break
		}
	}
	return got
}

// next leases the command that worker w may run next in that lane, or returns -1.
func (m *world) next(s *state, w int, lane Lane) int {
	refused := uint8(0) // one that was refused is not tried again before the next grant
	for {
		best := -1
		for i := range s.cmd {
			r := &s.cmd[i]
			if refused&(1<<i) == 0 && r.lane() == lane && (r.filed == 0 || r.filed&called != 0) && m.claimable(s, w, i) && m.head(s, i) &&
				(best < 0 || r.order < s.cmd[best].order) {
				best = i
			}
		}
		if best < 0 {
			return -1
		}
		full, members := m.admit(s, best)
		if full < 0 {
			m.lease(s, w, best, members)
			return best
		}
		if m.sc.Bug == TakeOneByOne {
			s.cmd[best].members |= members
		}
		m.sweep(s, full)
		m.file(s, best, full)
		refused |= 1 << best
	}
}

// lease gives command i to worker w. What is left of its line is an open line like any other.
func (m *world) lease(s *state, w, i int, members uint8) {
	r := &s.cmd[i]
	from := int(r.under()) - 1
	m.setLine(s, i, 0, 0)
	visit := m.class(r).visit()
	rates := m.takeTokens(s, i)
	m.leave(s, i)
	r.place, r.owner, r.name = Leased, uint8(1+w), s.fresh(i)
	if m.sc.Bug == TokenWithoutNonce {
		s.token++
		r.tok = s.token
	}
	if visit {
		r.flags |= visiting
	}
	r.members |= members
	if from >= 0 {
		m.hint(s, from)
	}
	for l := range m.sc.Limits {
		if (members|rates)&(1<<l) != 0 {
			s.stood &^= 1 << l
			m.hint(s, l)
		}
	}
}

// takeTokens takes one token of each rate that looks at command i; a cancel visit takes them without waiting. It returns the rates.
func (m *world) takeTokens(s *state, i int) (rates uint8) {
	for l, lim := range m.sc.Limits {
		if lim.Rate && m.wants(s, i, l) {
			rates |= 1 << l
			if s.max[l] > 0 && m.sc.Bug != ForgetToken {
				s.max[l]--
			}
		}
	}
	return rates
}
