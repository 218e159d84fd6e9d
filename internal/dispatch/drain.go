package dispatch

import (
	"slices"
	"time"

	"github.com/twolane/twolane/internal/mutant"
	"github.com/twolane/twolane/store"
)

// Report says what a drain left. Held = Settled + GivenBack + Lost + len(Running) + len(Unsettled).
type Report struct {
	Held      int      // commands that the worker had when the drain began, and those a late claim brought
	Settled   int      // of them, ended by their handlers
	GivenBack int      // returned for others to run
	Lost      int      // whose lease was not current any more when their outcome came
	Running   []string // ids whose handlers have not returned: they keep their leases, which end one visibility timeout from now
	Unsettled []string // ids whose outcome the store has not confirmed
	Abandoned []string // ids whose handlers have not returned either, but whose leases were ended as losses before: not among the held ones
	Claim     bool     // a claim call was not answered: what it got comes back one visibility timeout after it
	Took      time.Duration
}

// drainer ends a worker within one budget: an eighth for a claim in flight if that is all there is to wait for, three quarters for the
// invocations, then their contexts end; at fifteen sixteenths the worker is taken off, and what still ends then is settled until the end.
type drainer struct {
	on     bool
	start  time.Duration // of the drain
	began  time.Duration // of its budget
	budget time.Duration
	cut    bool // the contexts were ended
	report Report
	late   int           // commands that a late claim brought
	seen   time.Duration // the last Step
	over   bool
}

func (d *drainer) wake() time.Duration {
	if !d.on || d.over {
		return 0
	}
	for _, at := range [...]time.Duration{d.claimEnd(), d.cutAt(), d.goneAt()} {
		if at > d.seen {
			return at
		}
	}
	return d.endAt()
}

func (d *drainer) claimEnd() time.Duration { return d.began + d.budget/8 }
func (d *drainer) cutAt() time.Duration    { return d.began + d.budget*3/4 }
func (d *drainer) goneAt() time.Duration   { return d.began + d.budget - d.budget/16 }
func (d *drainer) endAt() time.Duration    { return d.began + d.budget - d.budget/64 }

// Drain ends the worker within budget. A second call may shorten the budget, never lengthen it.
func (c *Core) Drain(now, budget time.Duration) {
	d := &c.drain
	budget = max(budget, time.Millisecond)
	if d.on {
		if left := d.began + d.budget - now; budget < left {
			// What was to come in the old budget comes in the new one.
			d.began, d.budget = now, budget
		}
		return
	}
	d.on, d.start, d.began, d.budget = true, now, now, budget
	d.report.Held = c.open
	c.claim.bad.after, c.settle.bad.after = 0, 0 // the budget may be shorter than a pause after a failure
	c.event(Event{Kind: DrainStarted, N: c.open, D: budget})
	for _, inv := range slices.Clone(c.live) {
		if inv.waiting > 0 {
			c.unstart(inv, "the worker drains")
		}
	}
}

// stepDrain takes the drain one step further.
func (c *Core) stepDrain(now time.Duration) {
	d := &c.drain
	if !d.on || d.over {
		c.out.Done = d.over
		return
	}
	d.seen = now
	if now >= d.cutAt() && !d.cut {
		d.cut = true
		if mutant.On(mutant.GiveBackRunning) {
			for _, inv := range slices.Clone(c.live) {
				c.unstart(inv, "the worker drains")
			}
		}
		for _, inv := range c.live {
			c.cancelCall(now, inv, ErrDraining)
		}
	}
	idle := len(c.live) == 0 && c.settle.unsettled() == 0 && len(c.renew.extra) == 0 && !c.renew.extraOut
	claiming := c.claim.call != nil && now < d.claimEnd()
	switch {
	case c.renew.backGone && idle, now >= d.endAt():
		c.endDrain(now)
	// A tick that is still on its way would register the worker again behind its last renewal.
	case !c.renew.sentGone && (idle && !claiming && c.renew.flight == 0 || now >= d.goneAt()):
		c.renew.sentGone = true
		c.sendRenew(now, slices.Clone(c.leases[:min(len(c.leases), store.MaxItems)]), renewGone)
		call := c.out.Renew[len(c.out.Renew)-1]
		call.Timeout = min(call.Timeout, max(time.Millisecond, d.endAt()-now))
	}
}

func (c *Core) endDrain(now time.Duration) {
	d := &c.drain
	d.over, c.out.Done = true, true
	r := &d.report
	r.Held += d.late
	r.Claim = c.claim.call != nil
	r.Took = now - d.start
	for _, inv := range c.live {
		for _, it := range inv.Items {
			switch {
			case it.phase == running:
				r.Running = append(r.Running, it.Cmd.ID)
			case inv.gone && c.runs[it.Cmd.ID] == it:
				r.Abandoned = append(r.Abandoned, it.Cmd.ID)
			}
		}
	}
	pending := c.settle.pending
	if c.settle.call != nil {
		pending = append(slices.Clone(c.settle.call.items), pending...)
	}
	for _, it := range pending {
		r.Unsettled = append(r.Unsettled, it.Cmd.ID)
	}
	for _, it := range c.leases {
		if it.phase == flushing {
			r.Unsettled = append(r.Unsettled, it.Cmd.ID)
		}
	}
	slices.Sort(r.Running)
	slices.Sort(r.Unsettled)
	slices.Sort(r.Abandoned)
	c.event(Event{Kind: Drained, D: r.Took, N: r.Held})
}

// count notes the end of an item.
func (d *drainer) count(it *Item, state store.SettleState) {
	switch {
	case !d.on:
	case state == store.SettleLost || state == store.SettleUnknown:
		d.report.Lost++
	case it.out.Kind == store.OutcomeGiveBack:
		d.report.GivenBack++
	default:
		d.report.Settled++
	}
}

// Draining reports whether a drain has begun.
func (c *Core) Draining() bool { return c.drain.on }

// Report is what a drain that is over left.
func (c *Core) Report() Report { return c.drain.report }
