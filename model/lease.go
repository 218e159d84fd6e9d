package model

// ownerHeard reports whether the store thinks that the owner of the lease of command i is alive.
func (m *world) ownerHeard(s *state, i int) bool {
	o := s.cmd[i].owner - 1
	if o < maxWorkers {
		return s.proc[o].heard
	}
	return s.proc[o-maxWorkers].oldHeard
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

// reap ends the expired lease of command i. It is a loss only if its owner's own heartbeat is dead too.
func (m *world) reap(s *state, i int) {
	r := &s.cmd[i]
	lost := !m.ownerHeard(s, i) || m.sc.Bug == LossWhileOwnerLives
	alone := r.losses >= 2
	r.flags |= unknown
	to := Ready
	if lost {
		r.losses++
		if r.losses >= 2 {
			to = backoff(r.status)
		}
	}
	if lost && alone && r.losses >= m.sc.lossesToEnd() {
		m.end(s, i, Failed, WorkerLost)
		return
	}
	m.comeBack(s, i, to)
}
