package model

// cancel asks for the end of command i. What rests and needs no visit ends at once.
func (m *world) cancel(s *state, i int) {
	r := &s.cmd[i]
	if !r.live() || r.has(cancelReq) && !r.has(byDeadline) {
		return
	}
	r.flags &^= byDeadline
	if r.place == Leased {
		r.flags |= cancelReq
		return
	}
	if r.has(cancelReq) { // the deadline came first: the visit is under way
		return
	}
	m.leave(s, i)
	r.flags |= cancelReq
	m.cancelAtRest(s, i)
}

// cancelAtRest moves command i on, which has a cancel request, no lease and stands in no line: it ends, or is due for its
// cancel visit.
func (m *world) cancelAtRest(s *state, i int) {
	r := &s.cmd[i]
	if r.status == Pending || !m.sc.Commands[i].Hook || r.has(cancelOver) {
		m.cancelled(s, i)
		return
	}
	m.rest(s, i)
}

// cancelled ends command i as its cancel request says.
func (m *world) cancelled(s *state, i int) {
	if s.cmd[i].has(byDeadline) {
		m.end(s, i, Failed, DeadlineExceeded)
		return
	}
	m.end(s, i, Cancelled, NoReason)
}

// deadlineAtRest ends command i at its deadline; with a Cancel hook, by a cancel visit.
func (m *world) deadlineAtRest(s *state, i int) {
	r := &s.cmd[i]
	if r.status == Pending || !m.sc.Commands[i].Hook {
		m.end(s, i, Failed, DeadlineExceeded)
		return
	}
	m.leave(s, i)
	r.flags |= cancelReq | byDeadline
	m.rest(s, i)
}

// overdue reports whether maintenance has to move command i because of a time that has passed.
func (m *world) overdue(s *state, i int) bool {
	r := &s.cmd[i]
	if !r.atRest() {
		return false
	}
	if m.sc.Bug == DeadlineNeedsWorker && r.has(late) && !r.has(cancelReq) {
		return m.served(s, i)
	}
	return r.has(late) && !r.has(cancelReq) || r.has(cancelOver)
}

// expire is maintenance for a command at rest: its deadline, or the time for its cancel visits, is over.
func (m *world) expire(s *state, i int) {
	if s.cmd[i].has(cancelOver) {
		m.leave(s, i)
		m.cancelAtRest(s, i)
		return
	}
	m.deadlineAtRest(s, i)
}

// force ends command i at once, in whatever place; a lease is broken.
func (m *world) force(s *state, i int) { m.end(s, i, Cancelled, NoReason) }

// remove deletes command i, in whatever place; a lease is broken. The id can be submitted again.
func (m *world) remove(s *state, i int) {
	m.leave(s, i)
	held := s.cmd[i].members
	s.cmd[i] = record{}
	for l := range m.sc.Limits {
		if held&(1<<l) != 0 {
			m.hint(s, l)
		}
	}
}

// submit creates command i.
func (m *world) submit(s *state, i int) {
	c := &m.sc.Commands[i]
	s.cmd[i] = record{status: Pending}
	switch {
	case c.Forever, c.Parked:
		s.cmd[i].status, s.cmd[i].place = Processing, Parked
	case c.Delayed:
		s.cmd[i].place = Scheduled
	default:
		m.join(s, i)
	}
}
