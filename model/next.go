package model

// A successor is one step out of a state and where it leads.
type successor func(st step, to *state)

// spend takes one of a budget.
func spend(n *uint8) bool {
	if *n == 0 {
		return false
	}
	*n--
	return true
}

// each calls yield with every step that is possible in s0.
func (m *world) each(s0 *state, yield successor) {
	for w := range m.sc.Workers {
		m.eachClaim(s0, w, yield)
		m.eachSettle(s0, w, yield)
		m.eachProcess(s0, w, yield)
	}
	for i := range m.sc.Commands {
		m.eachTime(s0, i, yield)
		m.eachLine(s0, i, yield)
		m.eachUser(s0, i, yield)
	}
	m.eachConfig(s0, yield)
}

func by(kind StepKind, w int) step { return step{kind: kind, who: uint8(w), cmd: noone} }
func on(kind StepKind, i int) step { return step{kind: kind, who: noone, cmd: uint8(i)} }
func at(kind StepKind, x int) step { return step{kind: kind, who: noone, cmd: noone, what: uint8(x)} }

func (st step) fairly() step {
	st.fair = true
	return st
}

func (m *world) eachClaim(s0 *state, w int, yield successor) {
	p := &s0.proc[w]
	if p.claiming && (p.mode == up || p.mode == draining) {
		s := *s0
		m.receive(&s, w, m.heardOf(&s, w))
		yield(by(StepClaimAgain, w).fairly(), &s)
	}
	if p.mode != up || p.claiming {
		return
	}
	s := *s0
	got := m.claim(&s, w)
	if s == *s0 {
		return
	}
	if got == 0 { // it only filed lines
		yield(by(StepClaim, w).fairly(), &s)
		return
	}
	if m.sc.Bug == PopBeforeLease {
		m.eachPop(s0, w, &s, got, yield)
		return
	}
	committed := s
	m.receive(&s, w, got)
	yield(by(StepClaim, w).fairly(), &s)

	if lost := committed; spend(&lost.left.LostClaim) {
		lost.proc[w].claiming = true
		for i := range lost.cmd {
			if got&(1<<i) != 0 {
				lost.cmd[i].flags |= unheard
			}
		}
		st := by(StepClaim, w)
		st.fate = ReplyLost
		yield(st, &lost)
	}
	if undone := *s0; spend(&undone.left.FailOver) {
		undone.proc[w] = s.proc[w]
		st := by(StepClaim, w)
		st.fate = RolledBack
		yield(st, &undone)
	}
}

// eachPop is a claim that removes the commands first and records the leases in a step of its own, which a crash prevents.
func (m *world) eachPop(s0 *state, w int, after *state, got uint8, yield successor) {
	s := *s0
	for i := range s.cmd {
		if got&(1<<i) != 0 {
			m.leave(&s, i)
		}
	}
	yield(by(StepClaim, w).fairly(), &s)
	marked := *after
	m.receive(&marked, w, got)
	yield(by(StepMark, w).fairly(), &marked)
}

func (m *world) eachSettle(s0 *state, w int, yield successor) {
	p := &s0.proc[w]
	if p.mode != up && p.mode != draining {
		return
	}
	for j, x := range p.slots {
		if x.cmd == 0 {
			continue
		}
		i := x.command()
		st := step{kind: StepSettle, who: uint8(w), cmd: uint8(i), committed: x.phase&phaseCommitted != 0}
		st.stale = s0.cmd[i].place != Leased || s0.cmd[i].name != x.name
		if !x.running() {
			s := *s0
			o := Outcome(x.phase&phaseOutcome) - 1
			st.kind, st.what, st.fair = StepSettleAgain, uint8(o), true
			st.ans = m.settle(&s, x, o, x.phase&phaseSent != 0)
			m.finish(&s, w, j, o, slot{})
			yield(st, &s)
			continue
		}
		for _, o := range m.outcomes(s0, w, x) {
			s := *s0
			st := st
			st.what, st.fair = uint8(o), true
			m.finish(&s, w, j, o, slot{})
			freed := s
			st.ans = m.settle(&s, x, o, false)
			yield(st, &s)
			st.fair = false
			again := slot{x.cmd, x.name, x.tok, x.phase | uint8(o) + 1 | phaseSent}
			if lost := s; st.ans == OK && spend(&lost.left.LostSettle) {
				again.phase |= phaseCommitted
				lost.proc[w].slots[j] = again
				again.phase &^= phaseCommitted
				st.fate = ReplyLost
				yield(st, &lost)
			}
			if spend(&freed.left.FailedSettle) {
				freed.proc[w].slots[j] = again
				st.fate = NotSent
				yield(st, &freed)
			}
			if st.ans != OK {
				break // every outcome of a stale owner is refused alike
			}
		}
		if p.mode == draining && m.sc.Bug == GiveBackRunning {
			s := *s0
			st.kind, st.what, st.fair = StepGiveAway, uint8(GiveBack), true
			if st.ans = m.settle(&s, x, GiveBack, false); st.ans == OK {
				yield(st, &s)
			}
		}
	}
}

func (m *world) eachProcess(s0 *state, w int, yield successor) {
	p := &s0.proc[w]
	s := *s0
	alive := p.mode == up || p.mode == draining
	if alive {
		if m.renew(&s, w); s != *s0 {
			yield(by(StepRenew, w).fairly(), &s)
		}
		for _, x := range p.slots {
			if x.running() && m.kills(x) {
				s = *s0
				m.crash(&s, w)
				st := by(StepPoison, w).fairly()
				st.cmd = x.cmd - 1
				yield(st, &s)
			}
		}
	}
	if s = *s0; alive && spend(&s.left.Crash) {
		m.crash(&s, w)
		yield(by(StepCrash, w), &s)
	}
	if s = *s0; p.mode == up && spend(&s.left.Stall) {
		s.proc[w].mode = stalled
		yield(by(StepStall, w), &s)
	}
	if s = *s0; p.mode == up && spend(&s.left.Drain) {
		s.proc[w].mode = draining
		yield(by(StepDrain, w), &s)
	}
	if p.mode == stalled {
		s = *s0
		s.proc[w].mode = up
		yield(by(StepContinue, w).fairly(), &s)
	}
	if p.mode == draining && !p.claiming && p.openSlots() == maxSlots {
		s = *s0
		s.proc[w].mode, s.proc[w].heard = exited, false
		yield(by(StepExit, w).fairly(), &s)
	}
	if s = *s0; m.sc.Restart && (p.mode == crashed || p.mode == exited) && m.restart(&s, w) {
		yield(by(StepRestart, w).fairly(), &s)
	}
	if p.heard && (p.mode == stalled || p.mode == crashed) {
		s = *s0
		s.proc[w].heard = false
		yield(by(StepHeartbeat, w).fairly(), &s)
	}
	if p.oldHeard {
		s = *s0
		s.proc[w].oldHeard = false
		yield(by(StepOldHeartbeat, w).fairly(), &s)
	}
}
