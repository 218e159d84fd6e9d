package dispatch

import (
	"slices"
	"time"

	"github.com/twolane/twolane/internal/mutant"
	"github.com/twolane/twolane/store"
)

// maxChunk is how many leases one call renews.
const maxChunk = 500

// renewer is the state of the heartbeat.
type renewer struct {
	at      time.Duration // of the next tick
	started time.Duration // of this tick
	second  time.Duration // when its second try is due; 0 if there is none to come
	failed  []*RenewCall  // of its first try
	flight  int           // calls of ticks that are not back
	bad     backoff       // only to tell
	reg     bool          // a heartbeat was acknowledged once
	done    time.Duration // when the last call was acknowledged
	sentGone,
	backGone bool

	extra      []*Item // to be renewed at once
	extraOut   bool
	extraAfter backoff
}

func (r *renewer) wake() time.Duration {
	if r.sentGone {
		return 0
	}
	at := r.at
	if len(r.failed) > 0 && r.second > 0 && r.second < at {
		at = r.second
	}
	if len(r.extra) > 0 && !r.extraOut && r.extraAfter.after < at {
		at = max(1, r.extraAfter.after)
	}
	return max(1, at)
}

// stepRenew sends the tick that is due, its second try, and what must be renewed at once.
func (c *Core) stepRenew(now time.Duration) {
	r := &c.renew
	if r.sentGone || mutant.On(mutant.StopRenewAtDrain) && c.drain.on {
		return
	}
	if now >= r.at {
		if r.at += c.v / 4; r.at <= now {
			r.at = now + c.v/4
		}
		r.started, r.second, r.failed = now, now+c.v/8, r.failed[:0]
		c.sendTick(now, c.leases)
	}
	if len(r.failed) > 0 && r.second > 0 && now >= r.second {
		var again []*Item
		for _, call := range r.failed {
			for _, it := range call.items {
				if it.heldAt != 0 {
					again = append(again, it)
				}
			}
		}
		r.second, r.failed = 0, r.failed[:0]
		c.sendTick(now, again)
	}
	if len(r.extra) > 0 && !r.extraOut && now >= r.extraAfter.after {
		r.extra = slices.DeleteFunc(r.extra, func(it *Item) bool { return it.phase >= settling })
		if n := min(len(r.extra), maxChunk); n > 0 {
			r.extraOut = true
			c.sendRenew(now, slices.Clone(r.extra[:n]), renewExtra)
			r.extra = slices.Delete(r.extra, 0, n)
		}
	}
}

// sendTick renews items in chunks; without any it is the registration alone. If the store keeps calls beyond their time, no more than
// four tries of each are left with it.
func (c *Core) sendTick(now time.Duration, items []*Item) {
	if c.renew.flight > 4*(1+len(items)/maxChunk) {
		return
	}
	for {
		n := min(len(items), maxChunk)
		c.renew.flight++
		c.sendRenew(now, slices.Clone(items[:n]), renewTick)
		if items = items[n:]; len(items) == 0 {
			return
		}
	}
}

func (c *Core) sendRenew(now time.Duration, items []*Item, kind renewKind) {
	call := &RenewCall{Timeout: max(c.v/8, time.Millisecond), sent: now, items: items, kind: kind}
	w := c.cfg.Worker
	w.Running = c.held
	w.Draining = c.drain.on
	w.Gates = c.holding(now)
	call.Req = store.RenewRequest{Worker: w, Gone: kind == renewGone, Leases: make([]store.RenewItem, len(items))}
	for i, it := range items {
		ri := store.RenewItem{ID: it.Cmd.ID, Lease: it.Cmd.Lease, Overdue: it.Inv.overdue}
		if p := it.progress.Swap(nil); p != nil {
			ri.Progress = *p
		}
		call.Req.Leases[i] = ri
	}
	c.out.Renew = append(c.out.Renew, call)
}

// Renewed takes the answer to a renewal.
func (c *Core) Renewed(now time.Duration, call *RenewCall, reply store.RenewReply, err error) {
	r := &c.renew
	switch call.kind {
	case renewTick:
		r.flight--
	case renewExtra:
		r.extraOut = false
	case renewGone:
		r.backGone = true
		return
	}
	if err == nil && len(reply.Results) != len(call.items) {
		err = errReplyLength
	}
	if err != nil {
		c.renewFailed(now, call, err)
		return
	}
	c.replied(now, &reply.MaintainReply)
	r.reg, r.done = true, now
	c.workers = max(1, reply.Workers)
	c.worked(now, &r.bad, "renew")
	r.extraAfter.ok(now)
	margin := c.v
	for i, it := range call.items {
		margin = min(margin, it.sent+c.v-now)
		c.renewed(now, call, it, &reply, &reply.Results[i])
	}
	if len(call.items) > 0 {
		c.event(Event{Kind: Margin, F: max(0, margin.Seconds()/c.v.Seconds()), N: len(call.items)})
	}
	if call.kind == renewTick {
		c.event(Event{Kind: RenewDone, D: now - call.sent})
	}
}

// renewed is the answer for one lease.
func (c *Core) renewed(now time.Duration, call *RenewCall, it *Item, reply *store.RenewReply, res *store.RenewResult) {
	switch res.State {
	case store.RenewOK:
		if it.heldAt == 0 {
			break
		}
		if mutant.On(mutant.FenceFromReply) {
			c.lease(it, now)
		} else if call.sent >= it.sent {
			c.lease(it, call.sent)
		}
		if it.phase == proving {
			if it.endsAt > 0 { // the answer to the claim was long on its way, and was taken for fresh
				it.endsAt = min(it.endsAt, max(1, now+it.Cmd.Deadline.Sub(reply.Now)))
			}
			c.proven(now, it)
		}
		if res.Cancel && !it.Inv.Class.Visit() {
			c.cancelItem(now, it, ErrCancelRequested)
		}
	case store.RenewRefused:
		switch {
		case it.phase == proving:
			c.disproven(now, it)
		case !it.Inv.Class.Visit():
			c.cancelItem(now, it, ErrDeadline)
		}
	default:
		switch it.phase {
		case proving:
			c.disproven(now, it)
		case running:
			c.loseLease(now, it, "the store says so")
			c.drop(it)
		case flushing, settling: // a settle under way may have ended it: its answer tells
		}
	}
	if it.phase == flushing {
		c.enqueue(it)
	}
}

func (c *Core) renewFailed(now time.Duration, call *RenewCall, err error) {
	r := &c.renew
	c.failed(now, &r.bad, "renew", err)
	for i, it := range call.items {
		if p := call.Req.Leases[i].Progress; p != nil {
			it.progress.CompareAndSwap(nil, &p)
		}
	}
	if call.kind == renewTick {
		c.event(Event{Kind: RenewDone, D: now - call.sent, F: 1})
		if r.second > 0 && call.sent == r.started {
			r.failed = append(r.failed, call)
		}
		return
	}
	r.extraAfter.fail(now, c.cfg.Rand())
	for _, it := range call.items {
		switch {
		case it.phase == flushing:
			c.enqueue(it)
		case it.phase != proving:
		case now-it.sent > c.v/2:
			c.giveBackProving(now, it.Inv)
		default:
			r.extra = append(r.extra, it)
		}
	}
}

// soon renews it at once, beside the tick.
func (c *Core) soon(it *Item) { c.renew.extra = append(c.renew.extra, it) }

// fences ends the contexts of the invocations whose leases cannot be relied on any more.
func (c *Core) fences(now time.Duration) {
	if c.nextFence == 0 || now < c.nextFence {
		return
	}
	next := time.Duration(0)
	for _, it := range c.leases {
		if it.phase != running || it.lost {
			continue
		}
		at := time.Duration(it.fenceAt.Load())
		if now >= at {
			c.loseLease(now, it, "no renewal was acknowledged in time")
			continue
		}
		if next == 0 || at < next {
			next = at
		}
	}
	c.nextFence = next
}

// loseLease ends the context of it. Its lease is still renewed until the store says that it is lost: while it is current nobody else starts.
func (c *Core) loseLease(now time.Duration, it *Item, why string) {
	if it.lost {
		return
	}
	it.lost = true
	c.event(Event{Kind: LeaseLost, Item: it, Inv: it.Inv, Lane: it.Inv.Lane, Type: it.Inv.Type.Name, Queue: it.Inv.Queue, Text: why})
	c.cancelItem(now, it, ErrLeaseLost)
}

// cancelItem ends the context of one command.
func (c *Core) cancelItem(now time.Duration, it *Item, cause error) {
	if it.phase != running {
		return
	}
	inv := it.Inv
	if len(inv.Items) == 1 {
		c.cancelCall(now, inv, cause)
		return
	}
	if it.cause == nil {
		it.cause = cause
		c.out.Cancel = append(c.out.Cancel, Cancellation{Inv: inv, Item: it, Cause: cause})
	}
	if cause == ErrLeaseLost && !slices.ContainsFunc(inv.Items, func(o *Item) bool { return o.phase == running && !o.lost }) {
		c.cancelCall(now, inv, ErrLeaseLost)
	}
}

// cancelCall ends the context of a whole call, and with it those of its items.
func (c *Core) cancelCall(now time.Duration, inv *Invocation, cause error) {
	if inv.cause != nil || inv.over {
		return
	}
	inv.cause, inv.causeAt = cause, now
	for _, it := range inv.Items {
		if it.cause == nil && it.phase == running {
			it.cause = cause
		}
	}
	c.out.Cancel = append(c.out.Cancel, Cancellation{Inv: inv, Cause: cause})
	if cause == ErrDraining {
		c.timers.stop(&inv.timer) // drain has its own end
		return
	}
	c.timers.set(&inv.timer, now+c.cfg.Grace)
}

// fire does what the timers say.
func (c *Core) fire(now time.Duration) {
	for t := c.timers.pop(now); t != nil; t = c.timers.pop(now) {
		if t.item != nil {
			c.cancelItem(now, t.item, ErrDeadline)
			continue
		}
		inv := t.inv
		if inv.cause == nil {
			c.event(Event{Kind: RunTooLong, Inv: inv, Lane: inv.Lane, Type: inv.Type.Name, Queue: inv.Queue, D: now - inv.started})
			c.cancelCall(now, inv, ErrMaxRun)
			continue
		}
		inv.overdue = true
		c.overdue++
		c.event(Event{Kind: MarkedOverdue, Inv: inv, Lane: inv.Lane, Type: inv.Type.Name, Queue: inv.Queue, D: now - inv.causeAt})
		if c.cfg.Overdue == Abandon {
			c.abandon(inv)
		}
	}
}

// abandon gives the permit of an invocation to others and ends its leases as losses. Its ids are not started here while it runs.
func (c *Core) abandon(inv *Invocation) {
	inv.gone = true
	c.gone++
	c.release(inv)
	c.event(Event{Kind: Abandoned, Inv: inv, Lane: inv.Lane, Type: inv.Type.Name, Queue: inv.Queue})
	for _, it := range inv.Items {
		if it.phase != running || !it.answered.CompareAndSwap(0, hasAnswer+uint32(store.OutcomeAbandon)) {
			continue // one that has just answered is settled as ever
		}
		inv.left--
		c.timers.stop(&it.timer)
		it.out = store.Settlement{ID: it.Cmd.ID, Lease: it.Cmd.Lease, Kind: store.OutcomeAbandon, Error: "its handler ignores the end of its context: " + inv.cause.Error()}
		c.enqueue(it) // it stays in runs
	}
}
