package dispatch

import (
	"time"

	"github.com/twolane/twolane/internal/mutant"
	"github.com/twolane/twolane/store"
)

// Core decides what a worker does. It is not safe for concurrent use. Every method takes the time since the worker started, which must
// not go back; what follows from a call is returned by the next Step.
type Core struct {
	cfg   Config
	types map[string]int // index in cfg.Types
	want  [2][]store.TypeWant

	out, spare Actions
	begun      bool

	v         time.Duration // visibility timeout
	workers   int           // live ones of the namespace, as far as known
	runAhead  store.Millis  // of the run clock before the server time
	held      [2]int        // permits of invocations
	live      []*Invocation // whose handler runs, or that are to be proven
	leases    []*Item       // to be renewed
	began     time.Duration // when the last handler began
	open      int           // items whose end the store has not confirmed
	runs      map[string]*Item
	timers    timers
	nextFence time.Duration // no fence before it; 0 if there is none
	starts    []rate        // by type

	suspect *Invocation // the one that keeps others out while it is young
	gone    int         // abandoned handlers that still run
	overdue int         // invocations marked overdue

	claim  claimer
	share  sharer
	gates  gates
	said   []Event // of limits, in a claim
	renew  renewer
	settle settler
	starve starver
	drain  drainer
	tend   tender
}

// New returns the core of a worker that has not started.
func New(cfg Config) *Core {
	c := &Core{cfg: cfg.withDefaults(), types: map[string]int{}, runs: map[string]*Item{}, workers: 1}
	c.v = c.cfg.Visibility
	c.starts = make([]rate, len(c.cfg.Types))
	for i, t := range c.cfg.Types {
		c.types[t.Name] = i
		for l := range t.Lanes {
			if t.Lanes[l] {
				c.want[l] = append(c.want[l], store.TypeWant{Type: t.Name, Batch: max(1, t.Batch[l])})
			}
		}
	}
	c.share.init(&c.cfg)
	c.gates.init(c.cfg.Gates)
	c.claim.hungry = [2][2]bool{{true, true}, {true, true}}
	return c
}

// Step returns what is to be done now. The answer is valid until the next Step.
func (c *Core) Step(now time.Duration) *Actions {
	if !c.begun {
		c.begun = true
		c.starve.last, c.starve.asked, c.tend.done = [2]time.Duration{now, now}, now, now
	}
	c.fire(now)
	c.fences(now)
	c.stepDrain(now)
	if !c.out.Done {
		c.stepRenew(now)
		c.stepSettle(now, false)
		c.stepClaim(now)
		c.stepSettle(now, c.out.Claim != nil)
		c.stepTend(now)
		c.stepStarve(now)
	}
	c.out.Wake = c.wakeAt(now)
	c.out, c.spare = c.spare, c.out
	c.out.reset()
	return &c.spare
}

// wakeAt is the earliest time at which anything is to be decided.
func (c *Core) wakeAt(now time.Duration) time.Duration {
	at := now + time.Second // a suspended machine is noticed within it
	for _, t := range [...]time.Duration{
		c.timers.next(), c.nextFence, c.drain.wake(), c.renew.wake(), c.settle.wake(c), c.claim.wake(c), c.tend.wake(c), c.starve.wake(c),
	} {
		if t > 0 && t < at {
			at = t
		}
	}
	return max(at, now)
}

// free is how many more invocations a lane can run.
func (c *Core) free(l store.Lane) int {
	if mutant.On(mutant.SharedLane) {
		return max(0, c.cfg.Permits[0]+c.cfg.Permits[1]-c.held[0]-c.held[1]-c.claim.asked[0]-c.claim.asked[1])
	}
	return max(0, c.cfg.Permits[l]-c.held[l]-c.claim.asked[l])
}

// jitter spreads what several workers are told at once: one worker never waits.
func (c *Core) jitter() time.Duration {
	n := min(20, c.workers-1)
	if n <= 0 {
		return 0
	}
	return time.Duration(c.cfg.Rand() * float64(n) * float64(time.Millisecond))
}

// event notes something to tell.
func (c *Core) event(e Event) { c.out.Events = append(c.out.Events, e) }

// replied takes over what every reply with maintenance tells.
func (c *Core) replied(now time.Duration, r *store.MaintainReply) {
	if r.Visibility > 0 && r.Visibility != c.v {
		c.v = r.Visibility
		c.renew.at = min(c.renew.at, now+c.v/4)
	}
	c.tend.done = now
	if r.Lost > 0 || r.ClaimLost > 0 {
		c.event(Event{Kind: Reaped, N: r.Lost, M: r.ClaimLost})
	}
}

// failed and worked note the row of failures of one loop.
func (c *Core) failed(now time.Duration, b *backoff, what string, err error) {
	b.fail(now, c.cfg.Rand())
	c.event(Event{Kind: StoreFailed, Text: what, Err: err, N: b.n})
}

func (c *Core) worked(now time.Duration, b *backoff, what string) {
	if d := b.ok(now); d > 0 {
		c.event(Event{Kind: StoreBack, Text: what, D: d})
	}
}

// hold adds a lease that was counted from sent.
func (c *Core) hold(it *Item, sent time.Duration) {
	c.open++
	c.leases = append(c.leases, it)
	it.heldAt = len(c.leases)
	c.lease(it, sent)
}

// lease counts the lease of it anew.
func (c *Core) lease(it *Item, sent time.Duration) {
	it.sent = sent
	at := sent + c.v - c.v/8
	it.fenceAt.Store(int64(at))
	if it.phase == running && (c.nextFence == 0 || at < c.nextFence) {
		c.nextFence = at
	}
}

// drop ends the renewal of it.
func (c *Core) drop(it *Item) {
	if it.heldAt == 0 {
		return
	}
	last := c.leases[len(c.leases)-1]
	c.leases[it.heldAt-1], last.heldAt = last, it.heldAt
	c.leases[len(c.leases)-1] = nil
	c.leases = c.leases[:len(c.leases)-1]
	it.heldAt = 0
}

// begin lets the handler of inv be called.
func (c *Core) begin(now time.Duration, inv *Invocation) {
	inv.started, c.began = now, now
	for _, it := range inv.Items {
		it.phase = running
		c.runs[it.Cmd.ID] = it
		if at := time.Duration(it.fenceAt.Load()); c.nextFence == 0 || at < c.nextFence {
			c.nextFence = at
		}
		if it.endsAt > 0 {
			c.timers.set(&it.timer, it.endsAt)
		}
	}
	if d := inv.Type.MaxRun; d > 0 {
		c.timers.set(&inv.timer, now+d)
	}
	c.starts[c.types[inv.Type.Name]].add(now)
	c.starve.started(c, now, inv.Lane)
	c.out.Start = append(c.out.Start, inv)
	c.event(Event{Kind: Started, Lane: inv.Lane, Queue: inv.Queue, Type: inv.Type.Name, Inv: inv, D: inv.Wait})
}

// enter and leave keep the list of live invocations and the permits.
func (c *Core) enter(inv *Invocation) {
	c.held[inv.Lane]++
	c.share.enter(c, inv)
	c.enterGates(inv)
	c.live = append(c.live, inv)
	inv.listAt = len(c.live)
	if inv.Class.Suspect() {
		c.suspect = inv
	}
}

func (c *Core) leave(inv *Invocation) {
	last := c.live[len(c.live)-1]
	c.live[inv.listAt-1], last.listAt = last, inv.listAt
	c.live[len(c.live)-1] = nil
	c.live = c.live[:len(c.live)-1]
	inv.over = true
	c.timers.stop(&inv.timer)
	if inv.gone {
		c.gone--
	} else {
		c.release(inv)
	}
	if c.suspect == inv { // the next one need not wait
		c.suspect = nil
		c.claim.soon()
	}
}

func (c *Core) release(inv *Invocation) {
	c.held[inv.Lane]--
	c.share.leave(c, inv)
	c.leaveGates(inv)
}

// Ended says that the handler of inv has returned and has answered, or not, for its items.
func (c *Core) Ended(now time.Duration, inv *Invocation) {
	if inv.over {
		return
	}
	c.leave(inv)
	c.event(Event{Kind: Ended, Lane: inv.Lane, Queue: inv.Queue, Type: inv.Type.Name, Inv: inv, D: now - inv.started})
	if inv.overdue {
		c.overdue--
		c.event(Event{Kind: Returned, Inv: inv, Lane: inv.Lane, Type: inv.Type.Name, Queue: inv.Queue, D: now - inv.causeAt})
	}
	for _, it := range inv.Items {
		if it.phase == running {
			c.answered(now, it)
		}
		if c.runs[it.Cmd.ID] == it { // an abandoned one
			delete(c.runs, it.Cmd.ID)
		}
	}
}

// Answered says that an item of a batch has its answer while the call goes on.
func (c *Core) Answered(now time.Duration, it *Item) {
	if it.phase == running && !it.Inv.over {
		c.answered(now, it)
	}
}

func (c *Core) answered(now time.Duration, it *Item) {
	it.Inv.left--
	c.timers.stop(&it.timer)
	if c.runs[it.Cmd.ID] == it {
		delete(c.runs, it.Cmd.ID)
	}
	c.learn(now, it)
	c.finish(now, it)
}

func (c *Core) pulse(now time.Duration) Pulse {
	p := Pulse{
		At: now, Claim: c.claim.last, Renew: c.renew.done, Held: c.held, Leases: len(c.leases), Unsettled: c.settle.unsettled(),
		Overdue: c.overdue, Abandoned: c.gone, Registered: c.renew.reg, Draining: c.drain.on, Visibility: c.v, Workers: c.workers,
	}
	for l := range store.Lanes {
		p.Free[l] = c.cfg.Permits[l] - c.held[l]
		p.Starving[l] = c.starve.lanes[l].why
	}
	p.Gates = c.holding(now)
	return p
}

// Pulse is a reading of the worker's condition.
func (c *Core) Pulse(now time.Duration) Pulse { return c.pulse(now) }
