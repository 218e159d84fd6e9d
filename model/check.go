package model

// A Kind of violation.
type Kind uint8

// The kinds. Each is one promise of the design that did not hold.
const (
	NoViolation    Kind = iota
	KindPlace           // each live command is in exactly one legal place, a terminal one in none
	KindLease           // the leased commands and the leases are the same set
	KindStale           // a stale owner changes nothing
	KindSettle          // a committed settle is never answered "lost", another never "already", and none is applied twice
	KindClaim           // a repeated claim returns the same leases while they are current
	KindForeign         // a claim takes what its worker serves, of queues that are not paused; cancel visits pass
	KindTwoLive         // at most one live invocation among the current leases of a command
	KindTwice           // a worker never starts an id that still runs in it
	KindGivenAway       // a command whose handler runs is not given back
	KindPermits         // permits held are running invocations
	KindBorrow          // lanes never borrow
	KindLiveOwner       // a live owner that renews never loses its lease
	KindCounters        // only a returned error is a failure, only a dead owner a loss
	KindSuspects        // at most one suspect in a worker
	KindNeighbour       // a command that kills its process fails no neighbour
	KindTerminal        // a terminal command stays what it is
	KindLimit           // no claim is admitted while members >= max
	KindMembership      // members are what the places imply
	KindIdle            // room that has stood for a second is anybody's
	KindStuck           // CAN: the goal can be reached by fair steps alone
	KindStarved         // WILL: no fair cycle avoids the goal
	KindLane            // no lane starts nothing for ever with an eligible command and a free permit
)

var kindTexts = [...]string{
	"", "a command is not in exactly one legal place", "the leased commands and the leases differ",
	"a stale owner changed something", "a settle was answered wrongly or applied twice",
	"a repeated claim did not return its current leases", "a claim took what it must not", "two live invocations on current leases",
	"a worker started an id that still runs in it", "a running handler's command was given back",
	"permits held differ from running invocations", "one lane borrowed from the other", "a live owner's lease expired",
	"a failure or a loss was counted wrongly", "two suspects in one worker", "a neighbour of a poison command failed",
	"a terminal command changed", "a full limit admitted one more", "members differ from what the places imply",
	"room that had stood for a second was refused",
	"stuck: the goal cannot be reached any more by fair steps", "starved: a fair cycle never reaches the goal",
	"a lane starts nothing for ever though it could",
}

// String says what went wrong.
func (k Kind) String() string { return kindTexts[k] }

// check compares two states, before slots are sorted, and returns the first promise that the step between them broke.
func (m *world) check(a *state, st step, b *state) Kind {
	if k := m.checkRecords(a, st, b); k != NoViolation {
		return k
	}
	if k := m.checkWorkers(a, st, b); k != NoViolation {
		return k
	}
	return m.checkLimits(a, st, b)
}

func (m *world) checkRecords(a *state, st step, b *state) Kind {
	var orders uint8
	ready := 0
	for i := range b.cmd {
		r, was := &b.cmd[i], &a.cmd[i]
		switch legal := legalPlace(r); {
		case !legal:
			return KindPlace
		case (r.place == Leased) != (r.name != 0) || (r.place == Leased) != (r.owner != 0):
			return KindLease
		}
		if r.place == Ready {
			ready++
			orders |= 1 << r.order
		}
		if was.status.Terminal() && r.status != was.status && st.kind != StepDelete {
			return KindTerminal
		}
		if k := m.checkCounters(a, st, i, r, was); k != NoViolation {
			return k
		}
	}
	if orders != 1<<(ready+1)-2 {
		return KindPlace // two commands in one place of the line, or a gap
	}
	switch st.kind {
	case StepSettle, StepSettleAgain, StepGiveAway:
		switch {
		case st.stale && st.fate != NotSent && a.cmd != b.cmd:
			return KindStale
		case st.committed && (st.ans == Lost || st.ans == OK), st.ans == Already && !st.committed:
			return KindSettle
		}
	}
	return NoViolation
}

func legalPlace(r *record) bool {
	switch r.status {
	case Pending:
		return r.place == Scheduled || r.place == Ready || r.place == Leased
	case Processing:
		return r.place == Parked || r.place == Ready || r.place == Leased
	}
	return r.place == Nowhere && r.order == 0 && r.filed == 0
}

func (m *world) checkCounters(a *state, st step, i int, r, was *record) Kind {
	switch {
	case r.status == Absent || was.status == Absent:
		return NoViolation
	case r.losses > was.losses && (st.kind != StepReap || m.ownerHeard(a, i)):
		return KindCounters
	case r.fails > was.fails && Outcome(st.what) != Retry:
		return KindCounters
	case st.kind == StepReap && st.cmd == uint8(i) && r.live() && r.losses == was.losses && m.ownerCrashed(a, i):
		return KindCounters
	case r.reason == WorkerLost && was.reason != WorkerLost && !m.sc.Commands[i].Poison && !m.sc.Commands[i].BadVisit && m.onlyPoison():
		return KindNeighbour
	}
	return NoViolation
}

// onlyPoison reports whether nothing but a poison command ends processes in this scenario.
func (m *world) onlyPoison() bool {
	f := &m.sc.Faults
	if f.Crash != 0 || f.Stall != 0 {
		return false
	}
	n := 0
	for _, c := range m.sc.Commands {
		if c.Poison || c.BadVisit {
			n++
		}
	}
	return n == 1
}

func (m *world) checkWorkers(a *state, st step, b *state) Kind {
	for w := range m.sc.Workers {
		p, was := &b.proc[w], &a.proc[w]
		var running [2]uint8
		for j, x := range p.slots {
			if !x.running() {
				continue
			}
			i := x.command()
			running[x.lane()]++
			if was.slots[j] == x && current(a, x) && !current(b, x) &&
				st.kind != StepReap && st.kind != StepForce && st.kind != StepDelete {
				return KindGivenAway
			}
			for _, y := range p.slots[j+1:] {
				if y.running() && y.cmd == x.cmd {
					return KindTwice
				}
			}
			if w == 0 && m.holds(b, x) && b.cmd[i].status != Absent {
				for _, y := range b.proc[1].slots {
					if y.running() && y.cmd == x.cmd && m.holds(b, y) {
						return KindTwoLive
					}
				}
			}
		}
		switch wk := &m.sc.Workers[w]; {
		case running != p.held:
			return KindPermits
		case m.sc.Bug != OneSharedLane && (running[Intake] > wk.Intake || running[Repoll] > wk.Repoll):
			return KindBorrow
		}
		if k := m.checkLeases(a, st, b, w); k != NoViolation {
			return k
		}
	}
	return NoViolation
}

// current reports whether slot x has the current lease of its command, whatever the store compares.
func current(s *state, x slot) bool {
	r := &s.cmd[x.command()]
	return r.place == Leased && r.name == x.name
}

// knows reports whether this process has a slot for the current lease of command i.
func (p *process) knows(s *state, i int) bool {
	for _, x := range p.slots {
		if x.cmd == uint8(i+1) && current(s, x) {
			return true
		}
	}
	return false
}

func (m *world) checkLeases(a *state, st step, b *state, w int) Kind {
	p := &b.proc[w]
	suspects := 0
	for i := range b.cmd {
		r, was := &b.cmd[i], &a.cmd[i]
		if r.place != Leased || r.owner != uint8(1+w) {
			continue
		}
		if r.losses >= 2 {
			suspects++
		}
		switch {
		case st.kind == StepExpire && st.cmd == uint8(i) && p.mode != crashed && p.heard && !r.has(late) && p.knows(b, i):
			return KindLiveOwner
		case st.kind == StepRenew && was.has(expired) && !r.has(expired) && (st.who != uint8(w) || !p.knows(b, i)):
			return KindStale
		case st.kind == StepClaimAgain && st.who == uint8(w) && !p.knows(b, i) && was.has(unheard):
			return KindClaim
		}
		if was.place == Leased && was.name == r.name {
			continue
		}
		if a.proc[w].mode != up || !m.sc.serves(w, i, was.lane()) || m.paused(a, i) && !r.has(visiting) {
			return KindForeign
		}
	}
	if suspects > 1 && m.sc.Bug != CancelNotSuspect { // which is to be seen by what it does
		return KindSuspects
	}
	return NoViolation
}

func (m *world) checkLimits(a *state, st step, b *state) Kind {
	if st.kind == StepClaim && st.fate == Arrived && m.idles(a, int(st.who), b) {
		return KindIdle
	}
	for l := range m.sc.Limits {
		if m.sc.Limits[l].Rate {
			if m.overRate(a, l, b) {
				return KindLimit
			}
			continue
		}
		bit := uint8(1) << l
		admitted := uint8(0)
		for i := range m.sc.Commands {
			r, was := &b.cmd[i], &a.cmd[i]
			in := r.members&bit != 0
			if in && (!m.wants(b, i, l) || !m.activeIn(b, i, l)) {
				return KindMembership
			}
			kept := was.members&bit != 0 && r.live() && st.kind != StepDelete && !m.sc.Commands[i].Recurs
			if kept && !in && b.max[l] != noLimit && m.activeIn(b, i, l) {
				return KindMembership
			}
			if r.place == Leased && (was.place != Leased || was.name != r.name) && !r.has(visiting) && m.wants(b, i, l) {
				if !in {
					return KindMembership
				}
				if was.members&bit == 0 && !m.exempt(a, i, l) {
					admitted++
				}
			}
		}
		if admitted > 0 && a.used(l)+admitted > b.max[l] {
			return KindLimit
		}
	}
	return NoViolation
}

// overRate reports whether more was started between a and b than rate l had tokens for.
func (m *world) overRate(a *state, l int, b *state) bool {
	started := uint8(0)
	for i := range m.sc.Commands {
		r, was := &b.cmd[i], &a.cmd[i]
		if r.place == Leased && (was.place != Leased || was.name != r.name) && m.wants(b, i, l) && !m.exempt(a, i, l) {
			started++
		}
	}
	return started > 0 && a.max[l] < b.max[l]+started
}

// idles reports whether a claim of worker w refused an open line for room that had stood for a second.
func (m *world) idles(a *state, w int, b *state) bool {
	var got [2]int
	for i := range m.sc.Commands {
		if a.cmd[i].place == Ready && b.cmd[i].place == Leased {
			got[a.cmd[i].lane()]++
		}
	}
	if got[Intake]+got[Repoll] == a.proc[w].openSlots() {
		return false
	}
	for i := range m.sc.Commands {
		r := &a.cmd[i]
		if r.filed != 0 && r.filed&called == 0 || !m.claimable(a, w, i) || !m.claimable(b, w, i) || !m.head(a, i) || m.free(a, w, r.lane()) == got[r.lane()] {
			continue
		}
		free, stood := true, false
		for l := range m.sc.Limits {
			if m.wants(b, i, l) && !m.exempt(b, i, l) && r.members&(1<<l) == 0 {
				here := a.stood&b.stood&(1<<l) != 0
				free = free && b.room(l) && (here || m.front(a, l) < 0 && m.front(b, l) < 0)
				stood = stood || here
			}
		}
		if free && stood {
			return true
		}
	}
	return false
}
