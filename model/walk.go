package model

import "math/rand/v2"

// Walk draws a trajectory of that many operations. The same seed and number give the same one. It makes the steps that
// the checker explores, on a clock: processes crash, stall and come back, replies are lost, leases end, ids are deleted
// and submitted again. Each claim asks for everything that its queues and types have, or for one of several fresh
// commands, so that every answer is determined: what a store does differently is a fault, of the store or of the model.
func Walk(seed uint64, steps int) *Trajectory {
	w := newWalk(seed, false)
	for len(w.t.Ops) < steps {
		w.step()
	}
	w.t.Ops = w.t.Ops[:steps]
	return w.t
}

const (
	walkTypes   = 2
	leaseTicks  = 5   // ticks without renewal that end a lease or a heartbeat
	doubtTicks  = 3   // ticks without a sign after which nobody can tell whether a worker lives
	longTicks   = 5   // ticks from a grant to the last renewal after which a loss begins a new row
	graceTicks  = 6   // ticks past the deadline from which renewals are refused
	claimsOfOne = 250 // leases of one command in a walk; ghost names are bytes
)

// A walker holds the state of the model and what its clock adds to it.
type walker struct {
	t   *Trajectory
	r   *rand.Rand
	m   *world
	s   state
	now int // ticks
	seq int

	cmd  [maxCommands]walkCommand
	proc [maxWorkers]walkProcess

	claims int

	// Of walks with limits.
	limits  bool
	version [maxLimits]int
	open    *openClaim
	next    int // operation that is handed out next
	stand   standing
}

type walkCommand struct {
	due      int // tick at which it falls due, while it waits
	deadline int // tick at which it has passed; 0 for none
	cancelAt int // tick of the first rest after the cancel request
	leasedAt int
	renewed  int
	seq      int      // order of arrival
	claim    [256]int // the claim of each ghost name
	names    int

	starts, polls int

	kept bool // it is still a member of a limit of scope command that was removed
}

type walkProcess struct {
	up          bool
	stalled     bool
	incarnation int
	renewed     int // tick of the last renewal
	oldRenewed  int // of the incarnation before it
	last        int // its last claim
	knows       []held
}

// A held is one lease that a worker believes to have, or to have settled without an answer.
type held struct {
	slot
	claim int
	sent  bool
	out   Outcome
	delay int

	unstarted bool
}

func newWalk(seed uint64, limits bool) *walker {
	w := &walker{r: rand.New(rand.NewPCG(seed, 0x6d6f64656c)), t: &Trajectory{Seed: seed, Workers: maxWorkers, Queues: maxQueues}, limits: limits}
	sc := &Scenario{Name: "walk", MaxLosses: 5}
	if limits {
		sc.Limits = w.drawLimits()
	}
	for range maxCommands {
		c := WalkCommand{Queue: w.r.IntN(maxQueues), Type: w.r.IntN(walkTypes), Hook: w.r.IntN(2) == 0}
		if limits {
			c.Keys = uint8(w.r.IntN(1 << maxLimits))
		}
		w.t.Commands = append(w.t.Commands, c)
		sc.Commands = append(sc.Commands, Command{
			Queue: uint8(c.Queue), Type: uint8(c.Type), Keys: c.Keys, Hook: c.Hook, Retries: 255, Later: true, Deadline: true,
		})
	}
	for range maxWorkers {
		sc.Workers = append(sc.Workers, Worker{Intake: maxCommands, Repoll: maxCommands, Queues: 1<<maxQueues - 1, Types: 1<<walkTypes - 1})
	}
	w.m = newWorld(sc)
	w.s = w.m.start()
	for p := range w.proc {
		w.s.proc[p].mode, w.s.proc[p].heard = exited, false
	}
	return w
}

// step emits one operation or a few.
func (w *walker) step() {
	i, p := w.r.IntN(maxCommands), w.r.IntN(maxWorkers)
	switch n := w.r.IntN(100); {
	case !w.proc[p].up:
		w.restart(p)
	case n < 16:
		if w.s.cmd[i].status.Terminal() && w.r.IntN(4) > 0 {
			w.remove(i)
		}
		w.submit(i)
	case n < 42:
		w.claim(p)
	case n < 70:
		w.settle(p)
	case n < 74:
		w.renew(p)
	case n < 77:
		w.cancel(i, w.r.IntN(4) == 0)
	case n < 78:
		w.remove(i)
	case n < 81:
		w.pause(w.r.IntN(maxQueues))
	case n < 82:
		w.crash(p)
	case n < 83 && w.limits:
		w.changeLimit(w.r.IntN(maxLimits))
	case n < 84 && w.limits:
		w.stand = standing{on: true, p: p}
	case n < 83:
		w.crash(p)
	case n < 84:
		w.proc[p].stalled = true
	default:
		w.tick()
	}
}

// emit adds an operation with the commands as they are after it.
func (w *walker) emit(o Op) {
	w.look(&o)
	w.t.Ops = append(w.t.Ops, o)
}

func (w *walker) look(o *Op) {
	for i := range w.s.cmd {
		o.After = append(o.After, w.view(i))
	}
	for l := range w.m.sc.Limits {
		if w.s.max[l] != noLimit {
			o.Members = append(o.Members, int(w.s.used(l)))
		}
	}
}

func (w *walker) view(i int) View {
	r, c := &w.s.cmd[i], &w.cmd[i]
	v := View{Status: r.status, Place: r.place, Reason: r.reason}
	if !r.live() {
		return v
	}
	v.Starts, v.Failures, v.Losses, v.Polls = c.starts, int(r.fails), int(r.losses), c.polls
	v.CancelAsked = r.has(cancelReq)
	v.Resting = r.losses >= 2 && r.atRest()
	if r.place == Leased {
		v.Lease = LeaseRef{i, c.claim[r.name]}
	}
	for l := range w.m.sc.Limits {
		if r.members&(1<<l) != 0 {
			v.Holds = append(v.Holds, l)
		}
	}
	return v
}

// submit creates a command, or finds that it is there already.
func (w *walker) submit(i int) {
	o := Op{Kind: OpSubmit, Command: i}
	if w.s.cmd[i].status == Absent {
		if w.r.IntN(4) == 0 {
			o.Delay = 1 + w.r.IntN(3)
		}
		if w.r.IntN(4) == 0 {
			o.Deadline = 3 + w.r.IntN(8)
		}
		o.Want.Created = true
		w.m.submit(&w.s, i)
		c := &w.cmd[i]
		*c = walkCommand{claim: c.claim, names: c.names}
		w.seq++
		c.seq = w.seq
		if o.Deadline > 0 {
			c.deadline = w.now + o.Deadline
		}
		if o.Delay > 0 {
			w.m.wait(&w.s, i)
			c.due = w.now + o.Delay
		}
	}
	w.emit(o)
}

func (w *walker) cancel(i int, force bool) {
	r := &w.s.cmd[i]
	if r.losses > 0 && w.m.sc.Commands[i].Hook && !force {
		return // its visits would be those of a suspect
	}
	o := Op{Kind: OpCancel, Command: i, Force: force}
	switch {
	case r.status == Absent:
		o.Want.Cancel = CancelNotFound
	case r.status == Cancelled:
		o.Want.Cancel = CancelEnded
	case r.status.Terminal():
		o.Want.Cancel = CancelTooLate
	case force:
		o.Want.Cancel = CancelEnded
		w.m.force(&w.s, i)
	default:
		if !r.has(cancelReq) {
			w.cmd[i].cancelAt = w.now
		}
		w.m.cancel(&w.s, i)
		if o.Want.Cancel = CancelRequested; r.status == Cancelled {
			o.Want.Cancel = CancelEnded
		}
	}
	w.emit(o)
}

func (w *walker) remove(i int) {
	o := Op{Kind: OpDelete, Command: i, Want: Want{Found: w.s.cmd[i].status != Absent}}
	w.m.remove(&w.s, i)
	w.emit(o)
}

func (w *walker) pause(q int) {
	mode := w.r.IntN(3)
	if w.r.IntN(2) == 0 {
		mode = 0
	}
	w.s.pause[q] = uint8(mode)
	w.emit(Op{Kind: OpPause, Queue: q, Pause: mode})
}
