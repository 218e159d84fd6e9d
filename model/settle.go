package model

// An Outcome is what a settle says about an invocation.
type Outcome uint8

// The outcomes. Visited and VisitFail are how a cancel visit ends; GiveBack says that the handler did not run, or returned
// because its worker is draining.
const (
	Done Outcome = iota
	Fail
	Retry
	Snooze
	Process
	Visited
	VisitFail
	GiveBack
	endOfOutcomes
)

// String names the outcome.
func (o Outcome) String() string {
	return [...]string{"Done", "Fail", "error", "Snooze", "Processing", "cancelled", "cancel error", "give back"}[o]
}

// An Answer is what the store says to a settle or a renewal of one lease.
type Answer uint8

// The answers.
const (
	OK      Answer = iota // done, or renewed
	Already               // the same settle was committed before
	Lost                  // the lease is not current
	Unsure                // a repeated settle that came too late to tell
)

// String names the answer as a settle gives it.
func (a Answer) String() string { return [...]string{"done", "already", "lost", "unknown"}[a] }

// holds reports whether the store takes the lease in x for the current one.
func (m *world) holds(s *state, x slot) bool {
	r := &s.cmd[x.command()]
	if r.place != Leased {
		return m.sc.Bug == DeleteKeepsLease && r.status == Absent || m.sc.Bug == ForceKeepsLease && r.status == Cancelled
	}
	switch m.sc.Bug {
	case SkipLeaseCompare:
		return true
	case TokenWithoutNonce:
		return r.tok == x.tok
	}
	return r.name == x.name
}

// settle is the store's step: it compares the whole lease name and moves the command, or changes nothing.
func (m *world) settle(s *state, x slot, o Outcome, again bool) Answer {
	r := &s.cmd[x.command()]
	if m.holds(s, x) {
		m.apply(s, x.command(), o)
		if r.status != Absent && !m.sc.Commands[x.command()].Recurs {
			r.settled, r.setToken = x.name, x.tok
		}
		return OK
	}
	if m.sc.Bug == ForgetSettled {
		return Lost
	}
	same := r.settled == x.name && x.name != 0
	if m.sc.Bug == TokenWithoutNonce {
		same = r.setToken == x.tok && x.tok != 0
	}
	switch {
	case r.status != Absent && same:
		return Already
	case again:
		return Unsure
	}
	return Lost
}

// apply moves command i as its handler says. Only what the handler says ends the rows of failures and losses; a give-back
// leaves everything as it was before the claim.
func (m *world) apply(s *state, i int, o Outcome) {
	r := &s.cmd[i]
	if o == GiveBack {
		again := m.runsAtOwner(s, i)
		if m.comeBack(s, i); again {
			m.wait(s, i)
		}
		return
	}
	r.losses = 0
	r.flags &^= unknown
	switch o {
	case Done:
		m.end(s, i, Succeeded, NoReason)
	case Fail:
		m.end(s, i, Failed, ByHandler)
	case Visited:
		m.cancelled(s, i)
	case VisitFail:
		m.comeBack(s, i)
		m.wait(s, i)
	case Retry:
		r.fails = min(r.fails+1, max(m.sc.Commands[i].Retries, 1))
		m.comeBack(s, i)
		m.waitUnlessVisit(s, i)
		if m.sc.Bug == LeakMembership && r.live() {
			r.members = m.sc.Commands[i].Keys
		}
	case Snooze:
		r.snoozes++
		name, owner := r.name, r.owner
		m.comeBack(s, i)
		m.waitUnlessVisit(s, i)
		if m.sc.Bug == KeepLease {
			r.name, r.owner = name, owner
		}
	case Process:
		r.status, r.fails = Processing, 0
		if !m.sc.Commands[i].Forever {
			r.polls++
		}
		m.comeBack(s, i)
		m.waitUnlessVisit(s, i)
	}
}

// runsAtOwner reports whether the owner of the lease of command i still runs it from before.
func (m *world) runsAtOwner(s *state, i int) bool {
	o := s.cmd[i].owner
	return o != 0 && s.proc[(o-1)%maxWorkers].runs(i)
}

// comeBack brings command i to rest, where it was before its lease, unless a cancel request or a deadline has come
// meanwhile.
func (m *world) comeBack(s *state, i int) {
	r := &s.cmd[i]
	m.unlease(s, i)
	switch {
	case r.has(cancelReq):
		m.cancelAtRest(s, i)
	case r.has(late):
		m.deadlineAtRest(s, i)
	default:
		m.rest(s, i)
	}
}

// wait takes a command that came to rest out of its line until it falls due.
func (m *world) wait(s *state, i int) {
	r := &s.cmd[i]
	if r.place != Ready {
		return
	}
	m.leave(s, i)
	r.place = Scheduled
	if r.status == Processing {
		r.place = Parked
	}
}

func (m *world) waitUnlessVisit(s *state, i int) {
	if !s.cmd[i].has(cancelReq) {
		m.wait(s, i)
	}
}

// unlease ends the lease of command i.
func (m *world) unlease(s *state, i int) {
	r := &s.cmd[i]
	r.place, r.name, r.tok, r.owner = Nowhere, 0, 0, 0
	r.flags &^= expired | unheard | visiting
}

// rest puts command i, which has no lease and is in no line, back in line, before all that came after it, and ends the
// memberships that its place no longer implies.
func (m *world) rest(s *state, i int) {
	m.join(s, i)
	m.toFront(s, i)
	m.release(s, i)
}

// end makes command i terminal, from whatever place.
func (m *world) end(s *state, i int, st Status, why Reason) {
	m.leave(s, i)
	r := &s.cmd[i]
	settled, setToken, held := r.settled, r.setToken, r.members
	*r = record{status: st, reason: why, settled: settled, setToken: setToken}
	for l := range m.sc.Limits {
		if held&(1<<l) != 0 {
			m.hint(s, l)
		}
	}
	if m.sc.Commands[i].Recurs {
		*r = record{}
		m.submit(s, i)
	}
}
