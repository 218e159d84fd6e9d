package dispatch

import (
	"slices"
	"time"

	"github.com/twolane/twolane/internal/mutant"
	"github.com/twolane/twolane/store"
)

const (
	minSleep   = 20 * time.Millisecond  // between claims that were asked for by time alone
	lazySleep  = 100 * time.Millisecond // the same after many that brought nothing
	barrenMany = 20
	moreMany   = 10              // claims in a row that brought only "more"
	busyHere   = 5 * time.Second // until an id that still runs here may come again
)

// claimer decides when to claim. One call is in flight at most; its permits are asked until its answer is known.
type claimer struct {
	call   *ClaimCall // in flight, or to be repeated: its answer was not seen
	flight bool
	asked  [2]int
	bad    backoff

	// hungry[lane] says that the last claim was bounded by our permits: by those for all, or by reserved ones.
	hungry [2][2]bool
	more   int           // claims in a row that said "more" and brought nothing
	barren int           // claims in a row that brought nothing
	woken  bool          // by the store, while a call was in flight
	next   time.Duration // when to claim though nothing is known
	floor  time.Duration // next is not before it, unless woken
	due    time.Duration // what fell due by our own settles since the last claim was sent; 0 is nothing
	last   time.Duration // when the last claim was answered
}

func (cl *claimer) wake(c *Core) time.Duration {
	if cl.flight || !c.renew.reg {
		return 0
	}
	if cl.call != nil {
		if c.drain.on && max(c.drain.seen, cl.bad.after) >= c.drain.claimEnd() {
			return 0 // it is not repeated any more
		}
		return max(1, cl.bad.after)
	}
	if c.drain.on {
		return 0
	}
	if !c.roomy() {
		return 0
	}
	g := c.gates.wake()
	if g > 0 && (c.gates.hold > 0 || g < cl.next) {
		return g
	}
	return max(1, cl.next)
}

// soon lets a claim follow at once.
func (cl *claimer) soon() {
	if cl.flight {
		cl.woken = true
		return
	}
	cl.next = 0
}

// dueIn notes that a command of ours falls due in d.
func (cl *claimer) dueIn(now, d time.Duration) {
	at := max(now+d, cl.floor)
	cl.next = min(cl.next, at)
	if cl.due == 0 || at < cl.due {
		cl.due = at
	}
}

// roomy reports whether a claim could bring anything.
func (c *Core) roomy() bool {
	if c.settle.unsettled() >= c.maxUnsettled() {
		return false
	}
	return len(c.want[0]) > 0 && c.free(0) > 0 || len(c.want[1]) > 0 && c.free(1) > 0
}

// Woken takes a wake-up of the store's watcher.
func (c *Core) Woken(now time.Duration, w store.Wake) {
	cl := &c.claim
	switch w.Kind {
	case store.WakeWork:
		if !c.serves(w.Queue) {
			return
		}
		if len(c.want[w.Lane&1]) > 0 && c.free(w.Lane&1) == 0 {
			cl.hungry[w.Lane&1] = [2]bool{true, true}
		}
	case store.WakeCancel:
		if it := c.runs[w.ID]; it != nil && it.cause == nil {
			c.soon(it)
		}
		return
	case store.WakeAll:
		cl.hungry = [2][2]bool{{true, true}, {true, true}}
	default:
		return
	}
	if cl.flight {
		cl.woken = !mutant.On(mutant.ForgetWakeUp)
		return
	}
	cl.next = min(cl.next, now+c.jitter())
}

// stepClaim sends a claim if there is a reason.
func (c *Core) stepClaim(now time.Duration) {
	cl := &c.claim
	if cl.flight || !c.renew.reg || now < cl.bad.after {
		return
	}
	switch {
	case cl.call != nil && !c.drain.on: // the same again: what it may have got is ours
		if mutant.On(mutant.DrawNewNonce) {
			cl.call.Req.Nonce = c.cfg.Nonce()
		}
		c.sendClaim(now, cl.call)
		return
	case cl.call != nil && now < c.drain.claimEnd(): // only what it has got, to give it back
		cl.call.Req.Wants, cl.call.Req.Free = nil, [2]int{}
		c.sendClaim(now, cl.call)
		return
	case c.drain.on:
		return
	}
	if !c.roomy() || c.gates.held(now) || !(now >= cl.next || c.wanted() || c.gates.look(now)) {
		return
	}
	call := &ClaimCall{first: now}
	c.share.ask(c, call)
	if !c.gates.none() {
		c.shape(now, call)
	}
	c.share.admitSuspect(c, now, call)
	if len(call.Req.Wants) == 0 {
		cl.next = now + c.cfg.Poll
		return
	}
	call.Req.Worker, call.Req.Nonce = c.cfg.Worker.ID, c.cfg.Nonce()
	cl.asked = call.Req.Free
	c.sendClaim(now, call)
}

// wanted reports whether permits are free that the last claims lacked.
func (c *Core) wanted() bool {
	for l := range store.Lanes {
		lane := store.Lane(l)
		if len(c.want[l]) == 0 || c.free(lane) == 0 {
			continue
		}
		reserved := c.share.outstanding(lane)
		if c.claim.hungry[l][0] && c.free(lane) > reserved || c.claim.hungry[l][1] && reserved > 0 {
			return true
		}
	}
	return false
}

func (c *Core) sendClaim(now time.Duration, call *ClaimCall) {
	cl := &c.claim
	call.sent, call.Timeout = now, callTimeout(c.v)
	call.tries++
	cl.call, cl.flight, cl.due = call, true, 0
	c.out.Claim = call
}

// Claimed takes the answer to a claim.
func (c *Core) Claimed(now time.Duration, call *ClaimCall, reply store.ClaimReply, err error) {
	cl := &c.claim
	cl.flight = false
	if err != nil {
		c.failed(now, &cl.bad, "claim", err)
		return // call stays: it is repeated with its nonce
	}
	cl.call, cl.asked = nil, [2]int{}
	cl.last = now
	c.worked(now, &cl.bad, "claim")
	c.replied(now, &reply.MaintainReply)
	n := len(reply.Grants)
	c.event(Event{Kind: ClaimDone, D: now - call.sent, N: n})
	c.limitsSaid(call, &reply)
	started := len(c.live)
	for i := range reply.Grants {
		c.granted(now, call, &reply, &reply.Grants[i])
	}
	if c.gates.sent && len(c.live) == started { // at full speed it would go through the whole queue
		c.gates.hold = now + gateHold
	}
	c.gates.sent = false
	c.roomsUsed(now, call, reply.Grants)
	if len(reply.Wants) == len(call.Req.Wants) {
		c.share.answer(c, call, &reply)
	}
	c.planClaim(now, call, &reply)
}

// planClaim decides when to claim again.
func (c *Core) planClaim(now time.Duration, call *ClaimCall, reply *store.ClaimReply) {
	cl := &c.claim
	sleep := time.Duration(float64(c.cfg.Poll) * (0.9 + 0.2*c.cfg.Rand()))
	if d := reply.Next; d > 0 && d < sleep {
		spread := c.jitter()
		if c.workers > 4 { // one of them gets what falls due: the others need not come at once
			spread += time.Duration(c.cfg.Rand() * float64(min(250*time.Millisecond, time.Duration(c.workers-4)*d/4)))
		}
		sleep = min(sleep, d+spread)
	}
	if len(reply.Grants) > 0 {
		cl.barren, cl.more = 0, 0
	} else {
		cl.barren++
	}
	floor := minSleep
	if cl.barren > barrenMany {
		floor = lazySleep
	}
	cl.floor = now + floor
	cl.next = now + max(sleep, floor)
	if reply.More || slices.ContainsFunc(reply.Wants, func(w store.WantReport) bool { return w.Why == store.WhyMore }) {
		if cl.more++; cl.more < moreMany {
			cl.next = now
		} else {
			cl.next, cl.more = now+minSleep, 0
		}
	}
	if call.tries > 1 { // it may have been the answer to an earlier try, which says nothing of what is there now
		cl.next = now
	}
	if cl.due > 0 {
		cl.next = min(cl.next, max(cl.due, cl.floor))
	}
	if cl.woken {
		cl.woken = false
		cl.next = min(cl.next, now+c.jitter())
	}
}

// granted takes one grant: it starts, is proven first, or goes back.
func (c *Core) granted(now time.Duration, call *ClaimCall, reply *store.ClaimReply, g *store.Grant) {
	if len(g.Items) == 0 {
		return
	}
	i, known := c.types[g.Items[0].Type]
	young := g.Class.Suspect() && c.suspectYoung(now)
	switch {
	case c.drain.on:
		c.drain.late += len(g.Items)
		c.giveBack(now, call.sent, g, 0, "the worker drains")
		return
	case !known || !c.serves(g.Items[0].Queue):
		c.giveBack(now, call.sent, g, busyHere, "this worker cannot run its type")
		return
	case young:
		c.giveBack(now, call.sent, g, busyHere, "another suspect runs here")
		return
	case c.held[g.Lane&1] >= c.cfg.Permits[g.Lane&1]: // a repeated claim: its batch has come apart, since one of it was cancelled meanwhile
		c.giveBack(now, call.sent, g, 0, "no permit is free for it")
		return
	case now-call.sent > c.v/2:
		c.giveBack(now, call.sent, g, 0, "the claim took too long")
		return
	}
	busy := func(cmd *store.Command) bool { return c.runs[cmd.ID] != nil && !mutant.On(mutant.StartTwice) }
	if slices.ContainsFunc(g.Items, busy) {
		b := store.Grant{Lane: g.Lane, Class: g.Class}
		g.Items = slices.DeleteFunc(slices.Clone(g.Items), func(cmd *store.Command) bool {
			if busy(cmd) {
				b.Items = append(b.Items, cmd)
				return true
			}
			return false
		})
		c.giveBack(now, call.sent, &b, busyHere, "it still runs here")
		if len(g.Items) == 0 {
			return
		}
	}
	if !c.verdicts(now, call, g) {
		return
	}
	inv := newInvocation(c.cfg.Types[i], g)
	inv.Wait, inv.started = c.waited(reply.Now, g), now
	c.enter(inv)
	for _, it := range inv.Items {
		if d := it.Cmd.Deadline; d != 0 && !g.Class.Visit() {
			it.endsAt = max(1, now+d.Sub(reply.Now))
		}
		c.hold(it, call.first)
	}
	term := g.Items[0].LeaseUntil.Sub(g.Items[0].LeasedAt) // shorter than V if that was raised before the claim was repeated
	if now-call.first < c.v/4 && (term <= 0 || term >= c.v) {
		c.begin(now, inv)
		return
	}
	inv.waiting = len(inv.Items)
	for _, it := range inv.Items {
		it.sent = call.sent // giving up is counted from the try that was answered
		c.soon(it)
	}
}

// waited is how long the longest-waiting command of a grant had been eligible.
func (c *Core) waited(now store.Millis, g *store.Grant) time.Duration {
	d := time.Duration(0)
	for _, cmd := range g.Items {
		since := cmd.Eligible
		if cmd.Status == store.Processing {
			since = cmd.Due - c.runAhead
		} else if since == 0 {
			since = now
		}
		d = max(d, now.Sub(since))
	}
	return d
}

// giveBack returns commands whose handler was not called.
func (c *Core) giveBack(now, sent time.Duration, g *store.Grant, delay time.Duration, why string) {
	inv := c.unstarted(g)
	for _, it := range inv.Items {
		c.hold(it, sent)
		c.returnUnstarted(it, delay, why)
	}
}

// unstarted is the invocation of a grant that ends without a call of its handler.
func (c *Core) unstarted(g *store.Grant) *Invocation {
	t := &Type{Name: g.Items[0].Type}
	if i, ok := c.types[t.Name]; ok {
		t = c.cfg.Types[i]
	}
	inv := newInvocation(t, g)
	inv.over = true
	return inv
}

func (c *Core) returnUnstarted(it *Item, delay time.Duration, why string) {
	it.out = store.Settlement{ID: it.Cmd.ID, Lease: it.Cmd.Lease, Kind: store.OutcomeGiveBack, Delay: delay, Unstarted: true, Error: why}
	c.event(Event{Kind: GaveBack, Item: it, Inv: it.Inv, Lane: it.Inv.Lane, Type: it.Inv.Type.Name, Queue: it.Inv.Queue, Text: why})
	c.enqueue(it)
}

// proven says that the lease of an item is good; the handler starts when all of its invocation are.
func (c *Core) proven(now time.Duration, it *Item) {
	if it.proved {
		return
	}
	it.proved = true
	it.Inv.waiting--
	c.startProven(now, it.Inv)
}

// disproven takes an item out of an invocation that has not started.
func (c *Core) disproven(now time.Duration, it *Item) {
	inv := it.Inv
	if !it.proved {
		inv.waiting--
	}
	inv.left--
	inv.Items = slices.DeleteFunc(inv.Items, func(o *Item) bool { return o == it })
	c.close(it, store.SettleLost)
	c.startProven(now, inv)
}

func (c *Core) startProven(now time.Duration, inv *Invocation) {
	switch {
	case inv.waiting > 0:
	case len(inv.Items) == 0 && mutant.On(mutant.ForgetPermit):
	case len(inv.Items) == 0:
		c.leave(inv)
	case c.drain.on:
		c.unstart(inv, "the worker drains")
	default:
		c.begin(now, inv)
	}
}

// giveBackProving gives up on an invocation that could not be proven in time.
func (c *Core) giveBackProving(now time.Duration, inv *Invocation) {
	if !inv.over {
		c.unstart(inv, "the claim took too long")
	}
}

// unstart gives back an invocation that has not started.
func (c *Core) unstart(inv *Invocation, why string) {
	c.leave(inv)
	for _, it := range inv.Items {
		if it.phase <= running {
			c.returnUnstarted(it, 0, why)
		}
	}
}

func (c *Core) suspectYoung(now time.Duration) bool {
	return c.suspect != nil && now-c.suspect.started < 2*c.v
}

func (c *Core) serves(queue string) bool { return c.share.index(queue) >= 0 }
