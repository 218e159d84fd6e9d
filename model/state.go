package model

import (
	"cmp"
	"slices"
)

// A Status of a command, as users see it.
type Status uint8

// The statuses. Absent is no command at all.
const (
	Absent Status = iota
	Pending
	Processing
	Succeeded
	Failed
	Cancelled
)

// Terminal reports whether a command with this status has ended.
func (s Status) Terminal() bool { return s >= Succeeded }

// String is the status as users see it.
func (s Status) String() string {
	return [...]string{"absent", "PENDING", "PROCESSING", "SUCCEEDED", "FAILED", "CANCELLED"}[s]
}

// A Place is where the store keeps a command.
type Place uint8

// The places. A PROCESSING command that is not due yet is Parked: in line, and not eligible.
const (
	Nowhere Place = iota
	Scheduled
	Ready
	Parked
	Leased
)

// String names the place.
func (p Place) String() string {
	return [...]string{"-", "scheduled", "ready", "parked", "leased"}[p]
}

// A Reason says why a command is FAILED.
type Reason uint8

// The reasons.
const (
	NoReason Reason = iota
	ByHandler
	WorkerLost
	DeadlineExceeded
)

// String is the reason as users see it.
func (r Reason) String() string {
	return [...]string{"", "error", "worker_lost", "deadline_exceeded"}[r]
}

// A Lane is intake (PENDING commands) or repoll (PROCESSING commands).
type Lane uint8

// The lanes.
const (
	Intake Lane = iota
	Repoll
)

// String names the lane.
func (l Lane) String() string { return [...]string{"intake", "repoll"}[l] }

// Flags of a record.
const (
	expired    uint8 = 1 << iota // its lease has expired
	unheard                      // its lease was given by a claim whose reply was lost
	cancelReq                    // cancel was requested
	cancelOver                   // the time for cancel visits is over
	late                         // its deadline has passed
	unknown                      // its last owner was lost: it may still be active somewhere
	visiting                     // its lease is for a cancel visit
	byDeadline                   // the cancel request came from the deadline
)

// Marks of a filed line.
const (
	called uint8 = 0x80 // a re-test or a hint has opened it; it keeps its turn until it has used it
	shut   uint8 = 0x40 // its key was closed when it was last looked at: it has no claim to room, and is open when the key is
)

// noLimit is the max of a limit that is not configured.
const noLimit uint8 = 255

// A record is one command as the store keeps it. The zero record is no command.
type record struct {
	status Status
	place  Place
	reason Reason

	name, tok         uint8 // the lease: its ghost name, and its token where tokens matter
	owner             uint8 // 1+w, or 3+w for an earlier incarnation of worker w
	settled, setToken uint8 // the lease that settled last

	flags                         uint8
	fails, polls, snoozes, losses uint8
	members                       uint8 // bit l: counts in limit l
	filed, turn                   uint8 // the limit+1 that its line is filed under, with marks, and the line's rank there
	order                         uint8 // its rank among all ready commands
}

func (r *record) has(flag uint8) bool { return r.flags&flag != 0 }
func (r *record) atRest() bool {
	return r.place == Scheduled || r.place == Ready || r.place == Parked
}
func (r *record) live() bool { return r.status == Pending || r.status == Processing }

// under is the limit+1 that the line of r is filed under.
func (r *record) under() uint8 { return r.filed &^ (called | shut) }

func (r *record) lane() Lane {
	if r.status == Processing {
		return Repoll
	}
	return Intake
}

// Modes of a worker process.
const (
	up uint8 = iota
	stalled
	crashed
	draining
	exited
)

// The phase of a slot: 0 in the low bits while the handler runs, else 1 + the outcome that is to be settled.
const (
	phaseOutcome   uint8 = 0x0f
	phaseSent      uint8 = 0x10 // this settle was sent before
	phaseCommitted uint8 = 0x20 // and the store has it
	phaseVisit     uint8 = 0x40
	phaseRepoll    uint8 = 0x80
)

// A slot is what a worker believes about one lease: it runs its invocation, or has to settle it.
type slot struct{ cmd, name, tok, phase uint8 } // cmd: 1 + command

func (x slot) running() bool { return x.cmd != 0 && x.phase&phaseOutcome == 0 }
func (x slot) lane() Lane    { return Lane(x.phase >> 7) }
func (x slot) command() int  { return int(x.cmd) - 1 }

// A process is one worker: what it believes, and what the store believes of it.
type process struct {
	mode     uint8
	heard    bool // the store: its heartbeat is alive
	oldHeard bool // the same of the incarnation before it
	claiming bool // a claim was sent and its reply was lost
	held     [2]uint8
	slots    [maxSlots]slot
}

// A state is the whole world. It is compared and hashed as a value.
type state struct {
	cmd   [maxCommands]record
	proc  [maxWorkers]process
	pause [maxQueues]uint8 // 1: intake, 2: both lanes
	max   [maxLimits]uint8 // of a rate: the tokens that are left
	stood uint8            // bit l: room of limit l has stood for a second, and is anybody's
	token uint8            // the counter of lease tokens, where tokens matter
	left  Faults
}

// canonical forgets what nobody can tell apart: numbers of names, the order of slots, gaps in ranks.
func (s *state) canonical() {
	for w := range s.proc {
		slices.SortFunc(s.proc[w].slots[:], func(a, b slot) int {
			return cmp.Or(cmp.Compare(b.cmd, a.cmd), cmp.Compare(a.phase, b.phase), cmp.Compare(a.name, b.name))
		})
	}
	for i := range s.cmd {
		r := &s.cmd[i]
		if !s.refers(i, r.settled) {
			r.settled, r.setToken = 0, 0
		}
		if r.has(unheard) && (r.owner > maxWorkers || !s.proc[r.owner-1].claiming) {
			r.flags &^= unheard
		}
		s.rename(i)
	}
	s.closeTurns()
}

// refers reports whether some worker remembers this lease of command i.
func (s *state) refers(i int, name uint8) bool {
	for w := range s.proc {
		for _, x := range s.proc[w].slots {
			if x.cmd == uint8(i+1) && x.name == name {
				return name != 0
			}
		}
	}
	return false
}

// rename gives the leases of command i the smallest numbers, in a fixed order.
func (s *state) rename(i int) {
	var to [256]uint8
	var n uint8
	as := func(name *uint8) {
		if *name == 0 {
			return
		}
		if to[*name] == 0 {
			n++
			to[*name] = n
		}
		*name = to[*name]
	}
	as(&s.cmd[i].name)
	as(&s.cmd[i].settled)
	for w := range s.proc {
		for j := range s.proc[w].slots {
			if x := &s.proc[w].slots[j]; x.cmd == uint8(i+1) {
				as(&x.name)
			}
		}
	}
}

// fresh is a name that no lease of command i has while anybody remembers it.
func (s *state) fresh(i int) uint8 {
	for name := uint8(1); ; name++ {
		if s.cmd[i].name != name && s.cmd[i].settled != name && !s.refers(i, name) {
			return name
		}
	}
}

// closeTurns numbers the lines filed under each limit 1, 2, 3 without gaps.
func (s *state) closeTurns() {
	for l := range uint8(maxLimits) {
		for t := uint8(1); ; t++ {
			next := uint8(255)
			for i := range s.cmd {
				if r := &s.cmd[i]; r.under() == l+1 && r.turn >= t {
					next = min(next, r.turn)
				}
			}
			if next == 255 {
				break
			}
			for i := range s.cmd {
				if r := &s.cmd[i]; r.under() == l+1 && r.turn == next {
					r.turn = t
				}
			}
		}
	}
}
