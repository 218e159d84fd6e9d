package model

// eachTime yields what time and maintenance may do to command i.
func (m *world) eachTime(s0 *state, i int, yield successor) {
	r, c := &s0.cmd[i], &m.sc.Commands[i]
	change := func(kind StepKind, do func(s *state)) {
		s := *s0
		do(&s)
		yield(on(kind, i).fairly(), &s)
	}
	switch {
	case r.place == Scheduled, r.place == Parked:
		change(StepDue, func(s *state) { m.join(s, i) })
	case m.mayExpire(s0, i):
		change(StepExpire, func(s *state) { s.cmd[i].flags |= expired })
	case r.place == Leased && r.has(expired) && !m.inDoubt(s0, i):
		change(StepReap, func(s *state) { m.reap(s, i) })
	}
	if m.overdue(s0, i) {
		change(StepEnd, func(s *state) { m.expire(s, i) })
	}
	if r.status == Processing && c.Hook && r.has(cancelReq) && !r.has(cancelOver) && (r.atRest() || r.has(visiting)) &&
		!m.sc.NoCancelTimeout && m.sc.Bug != NoCancelEnd {
		change(StepTimeout, func(s *state) { s.cmd[i].flags |= cancelOver })
	}
	if r.live() && c.Deadline && !r.has(late) {
		if s := *s0; spend(&s.left.Deadline) {
			s.cmd[i].flags |= late
			yield(on(StepDeadline, i), &s)
		}
	}
}

// eachLine yields what maintenance may do to the line whose head is command i.
func (m *world) eachLine(s0 *state, i int, yield successor) {
	if s0.cmd[i].filed == 0 || !m.head(s0, i) {
		return
	}
	lowest := i // a line goes by the lowest of its commands, whoever is its head
	for j := range i {
		if m.same(s0, i, j) {
			lowest = j
			break
		}
	}
	if s := *s0; m.sc.Bug != ForgetRetest && m.retest(&s, i) {
		yield(on(StepRetest, lowest).fairly(), &s)
	}
	if s := *s0; m.sc.Bug != NeverPass && m.pass(&s, i) {
		yield(on(StepPass, lowest).fairly(), &s)
	}
}

// eachUser yields what users may do to command i.
func (m *world) eachUser(s0 *state, i int, yield successor) {
	r := &s0.cmd[i]
	if r.status == Absent {
		s := *s0
		if m.sc.Commands[i].Later && s.left.Resubmit == m.sc.Faults.Resubmit && s.left.Delete == m.sc.Faults.Delete {
			m.submit(&s, i)
			yield(on(StepSubmit, i).fairly(), &s)
		} else if spend(&s.left.Resubmit) {
			m.submit(&s, i)
			yield(on(StepSubmit, i), &s)
		}
		return
	}
	if s := *s0; r.live() && !r.has(cancelReq) && spend(&s.left.Cancel) {
		m.cancel(&s, i)
		yield(on(StepCancel, i), &s)
	}
	if s := *s0; r.live() && spend(&s.left.Force) {
		m.force(&s, i)
		yield(on(StepForce, i), &s)
	}
	if s := *s0; spend(&s.left.Delete) {
		m.remove(&s, i)
		yield(on(StepDelete, i), &s)
	}
}

// eachConfig yields pauses and changes of limits.
func (m *world) eachConfig(s0 *state, yield successor) {
	for q := range maxQueues {
		if s := *s0; m.queueUsed(q) && s.pause[q] == 0 {
			if spend(&s.left.Pause) {
				s.pause[q] = 1
				yield(at(StepPause, q), &s)
			}
			if s = *s0; spend(&s.left.PauseAll) {
				s.pause[q] = 2
				yield(at(StepPause, q), &s)
			}
		}
		if s := *s0; s.pause[q] != 0 && spend(&s.left.Resume) {
			s.pause[q] = 0
			yield(at(StepResume, q), &s)
		}
	}
	for l := range m.sc.Limits {
		there := s0.max[l] != noLimit
		if s := *s0; m.sc.Bug != NeverPass && m.stand(&s, l) {
			yield(ofLimit(StepStand, l), &s)
		}
		if m.sc.Limits[l].Rate {
			if s := *s0; there && s.max[l] < m.sc.Limits[l].Max {
				s.max[l]++
				yield(ofLimit(StepToken, l), &s)
			}
		}
		change := func(kind StepKind, n uint8, budget func(*Faults) *uint8) {
			if s := *s0; spend(budget(&s.left)) {
				m.setMax(&s, l, n)
				yield(at(kind, l), &s)
			}
		}
		if there {
			if !m.sc.Limits[l].Rate {
				change(StepRaise, s0.max[l]+1, func(f *Faults) *uint8 { return &f.Raise })
			}
			change(StepRemove, noLimit, func(f *Faults) *uint8 { return &f.Remove })
		} else {
			change(StepAdd, m.sc.Limits[l].Max, func(f *Faults) *uint8 { return &f.Add })
		}
		if there && s0.max[l] > 0 && !m.sc.Limits[l].Rate {
			change(StepLower, s0.max[l]-1, func(f *Faults) *uint8 { return &f.Lower })
		}
	}
}

func ofLimit(kind StepKind, l int) step {
	return step{kind: kind, who: noone, cmd: uint8(l), what: uint8(l), fair: true}
}

func (m *world) queueUsed(q int) bool {
	for _, c := range m.sc.Commands {
		if int(c.Queue) == q {
			return true
		}
	}
	return false
}
