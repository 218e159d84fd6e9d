package model

// served reports whether any worker is left, or will be, that may run command i.
func (m *world) served(s *state, i int) bool {
	for w := range m.sc.Workers {
		mode := s.proc[w].mode
		alive := mode == up || mode == stalled || m.sc.Restart
		if alive && m.sc.serves(w, i, s.cmd[i].lane()) {
			return true
		}
	}
	return false
}

// put adds a slot to worker w.
func (p *process) put(x slot) {
	for j := range p.slots {
		if p.slots[j].cmd == 0 {
			p.slots[j] = x
			return
		}
	}
	panic("model: no slot left")
}

// runs reports whether a handler of command i runs in this process.
func (p *process) runs(i int) bool {
	for _, x := range p.slots {
		if x.running() && x.command() == i {
			return true
		}
	}
	return false
}

// receive is the arrival of a claim's reply at worker w: it starts the handlers. What it must not start it gives back.
func (m *world) receive(s *state, w int, got uint8) {
	p := &s.proc[w]
	for i := range s.cmd {
		if got&(1<<i) == 0 {
			continue
		}
		r := &s.cmd[i]
		lane := r.lane()
		x := slot{cmd: uint8(i + 1), name: r.name, tok: r.tok, phase: uint8(lane) << 7}
		if r.has(visiting) {
			x.phase |= phaseVisit
		}
		if p.mode == draining || p.runs(i) && m.sc.Bug != StartTwice {
			x.phase |= uint8(GiveBack) + 1
		} else {
			p.held[lane]++
		}
		p.put(x)
	}
}

// heardOf returns the leases that the last claim of worker w gave it, and ends the claim.
func (m *world) heardOf(s *state, w int) (got uint8) {
	s.proc[w].claiming = false
	for i := range s.cmd {
		r := &s.cmd[i]
		if r.place == Leased && r.owner == uint8(1+w) && r.has(unheard) {
			if m.sc.Bug != ForgetClaim {
				got |= 1 << i
			}
			r.flags &^= unheard
		}
	}
	return got
}

// finish ends the invocation in slot j of worker w and gives its permit back; the slot becomes after, which is zero or a
// settle still to be answered.
func (m *world) finish(s *state, w, j int, o Outcome, after slot) {
	p := &s.proc[w]
	if x := p.slots[j]; x.running() && !(m.sc.Bug == ForgetPermit && o == Retry) {
		p.held[x.lane()]--
	}
	p.slots[j] = after
}

// kills reports whether the handler in slot x kills its process.
func (m *world) kills(x slot) bool {
	c := &m.sc.Commands[x.command()]
	return c.Poison || c.BadVisit && x.phase&phaseVisit != 0
}

// outcomes is what the handler in slot x may say.
func (m *world) outcomes(s *state, w int, x slot) (out []Outcome) {
	i := x.command()
	r, c := &s.cmd[i], &m.sc.Commands[i]
	switch {
	case m.kills(x):
		return nil
	case x.phase&phaseVisit != 0 && c.BadHook:
		return []Outcome{VisitFail}
	case x.phase&phaseVisit != 0:
		if out = []Outcome{Visited}; c.Retries > 0 {
			out = append(out, VisitFail)
		}
	case c.Forever:
		return []Outcome{Process}
	default:
		out = []Outcome{Done}
		if c.Fails {
			out = append(out, Fail)
		}
		if r.polls < c.Polls {
			out = append(out, Process)
		}
		if r.snoozes < c.Snoozes {
			out = append(out, Snooze)
		}
	}
	if r.fails < c.Retries && x.phase&phaseVisit == 0 {
		out = append(out, Retry)
	}
	if s.proc[w].mode == draining {
		out = append(out, GiveBack)
	}
	return out
}

// crash ends the process of worker w, with all that runs in it and all that it believes.
func (m *world) crash(s *state, w int) {
	heard, old := s.proc[w].heard, s.proc[w].oldHeard
	s.proc[w] = process{mode: crashed, heard: heard, oldHeard: old}
}

// restart starts a new incarnation in the place of worker w; the leases of the one before it stay what they are.
func (m *world) restart(s *state, w int) bool {
	for i := range s.cmd {
		if s.cmd[i].owner == uint8(3+w) {
			return false // two incarnations before: one is enough for the model
		}
	}
	for i := range s.cmd {
		if s.cmd[i].owner == uint8(1+w) && m.sc.Bug != HostIdentity {
			s.cmd[i].owner = uint8(3 + w)
		}
	}
	s.proc[w] = process{mode: up, heard: true, oldHeard: s.proc[w].heard}
	return true
}
