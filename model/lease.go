package model

// ownerHeard reports whether the store thinks that the owner of the lease of command i is alive.
func (m *world) ownerHeard(s *state, i int) bool {
	o := s.cmd[i].owner - 1
	if o < maxWorkers {
		return s.proc[o].heard
	}
	return s.proc[o-maxWorkers].oldHeard
}

// ownerCrashed reports whether the process that took the lease of command i is no more.
func (m *world) ownerCrashed(s *state, i int) bool {
	o := s.cmd[i].owner - 1
	return o >= maxWorkers || s.proc[o].mode == crashed
}

// inDoubt reports whether the reaper must wait with the expired lease of command i: its owner has died, and its heartbeat not yet. Nobody can tell
// it from an owner that never learnt of the lease until its next sign, which will not come.
func (m *world) inDoubt(s *state, i int) bool {
	return m.ownerHeard(s, i) && m.ownerCrashed(s, i) && m.sc.Bug != LossWhileOwnerLives
}

// renews reports whether the owner of the lease of command i runs, knows that it has it, and may renew it.
func (m *world) renews(s *state, i int) bool {
	r := &s.cmd[i]
	if r.owner > maxWorkers || r.has(late) {
		return false
	}
	p := &s.proc[r.owner-1]
	if p.mode != up && p.mode != draining && p.mode != stalled {
		return false
	}
	for _, x := range p.slots {
		if x.cmd == uint8(i+1) && x.name == r.name {
			return true
		}
	}
	return false
}

// mayExpire reports whether time alone can end the lease of command i: its owner is silent, or does not know it, or is
// refused because of the deadline.
func (m *world) mayExpire(s *state, i int) bool {
	r := &s.cmd[i]
	if r.place != Leased || r.has(expired) {
		return false
	}
	return !m.ownerHeard(s, i) || !m.renews(s, i) && r.owner <= maxWorkers && s.proc[r.owner-1].mode != crashed ||
		m.sc.Bug == ReapLiveOwner
}

// renew is one renewal by worker w of all that it knows: its heartbeat, and each lease that is still current, expired or
// not, unless its deadline is over.
func (m *world) renew(s *state, w int) {
	p := &s.proc[w]
	p.heard = true
	for _, x := range p.slots {
		if x.cmd != 0 {
			m.renewOne(s, x)
		}
	}
}

func (m *world) renewOne(s *state, x slot) Answer {
	r := &s.cmd[x.command()]
	if r.place != Leased || !m.holds(s, x) || r.has(late) {
		return Lost
	}
	r.flags &^= expired
	return OK
}

// reap ends the expired lease of command i. It is a loss only if its owner's own heartbeat is dead too. From the second loss
// in a row on the command waits, and only as a suspect can it reach the last.
func (m *world) reap(s *state, i int) {
	r := &s.cmd[i]
	r.flags |= unknown
	if m.ownerHeard(s, i) && m.sc.Bug != LossWhileOwnerLives {
		m.comeBack(s, i)
		return
	}
	switch r.losses++; {
	case r.losses >= m.sc.lossesToEnd() && r.has(cancelReq):
		m.cancelled(s, i)
	case r.losses >= m.sc.lossesToEnd():
		m.end(s, i, Failed, WorkerLost)
	case r.losses >= 2:
		m.comeBack(s, i)
		m.wait(s, i)
	default:
		m.comeBack(s, i)
	}
}
