package dispatch

import (
	"fmt"
	"slices"
	"time"

	"github.com/twolane/twolane/store"
)

// starver finds lanes that start nothing though work is eligible, and says so once per episode.
//
// The reports of claims tell why a queue was given nothing, but not how much waits; a lane without free permits is not asked for at all. So
// a lane that has started nothing for StarvedAfter polls is looked at with a call of Stats, seldom.
type starver struct {
	last   [2]time.Duration // when the lane last started something
	lanes  [2]episode
	flight bool
	asked  time.Duration // when Stats was last sent
	bad    backoff
	none   []unclaimed // types that have commands and no worker, as last told
}

type unclaimed struct {
	queue, typ string
	lane       store.Lane
}

type episode struct {
	on    bool
	since time.Duration
	why   string
}

const lookEvery = 30 // polls between looks at a worker that has nothing to complain of

// patience is how long a lane may start nothing.
func (c *Core) patience() time.Duration { return time.Duration(c.cfg.StarvedAfter) * c.cfg.Poll }

func (s *starver) wake(c *Core) time.Duration {
	if s.flight || c.drain.on || !c.renew.reg {
		return 0
	}
	return max(1, s.due(c))
}

// due is when Stats is to be asked next.
func (s *starver) due(c *Core) time.Duration {
	at := s.asked + lookEvery*c.cfg.Poll
	for _, l := range store.Lanes {
		if len(c.want[l]) > 0 && (s.lanes[l].on || s.suspicious(c, l)) {
			at = min(at, max(s.asked, s.last[l])+c.patience())
		}
	}
	return max(at, s.bad.after)
}

// suspicious reports whether something other than a lack of work may keep the lane from starting.
func (s *starver) suspicious(c *Core, l store.Lane) bool {
	if c.free(l) == 0 || !c.roomy() || c.gates.holds(l) {
		return true
	}
	for q := range c.share.report[l] {
		switch c.share.report[l][q].Why {
		case store.WhyEmpty, store.WhyFull, store.WhyMore:
		default:
			return true
		}
	}
	return false
}

func (c *Core) stepStarve(now time.Duration) {
	s := &c.starve
	if s.flight || c.drain.on || !c.renew.reg || now < s.due(c) {
		return
	}
	s.flight, s.asked = true, now
	c.out.Stats = &StatsCall{Req: store.StatsRequest{Queues: c.cfg.Worker.Queues}, Timeout: callTimeout(c.v)}
}

// started notes that a lane goes on.
func (s *starver) started(c *Core, now time.Duration, l store.Lane) {
	s.last[l] = now
	if s.lanes[l].on {
		s.end(c, now, l)
	}
}

func (s *starver) end(c *Core, now time.Duration, l store.Lane) {
	c.event(Event{Kind: StarvationOver, Lane: l, D: now - s.lanes[l].since, Text: s.lanes[l].why})
	s.lanes[l] = episode{}
}

// Counted takes the answer to a call of Stats.
func (c *Core) Counted(now time.Duration, st store.Stats, err error) {
	s := &c.starve
	s.flight = false
	if err != nil {
		c.failed(now, &s.bad, "stats", err)
		return
	}
	c.worked(now, &s.bad, "stats")
	c.runAhead = max(0, st.Run-st.AsOf)
	c.countUnclaimed(&st)
	for _, l := range store.Lanes {
		if len(c.want[l]) > 0 {
			c.judge(now, l, &st)
		}
	}
}

// judge decides whether a lane starves.
func (c *Core) judge(now time.Duration, l store.Lane, st *store.Stats) {
	s := &c.starve
	n, oldest, queue := 0, time.Duration(0), -1
	for i := range st.Queues {
		q := c.share.index(st.Queues[i].Queue)
		lane := &st.Queues[i].Lanes[l]
		if q < 0 || lane.Eligible == 0 {
			continue
		}
		n += lane.Eligible
		if age := st.AsOf.Sub(lane.OldestEligible); queue < 0 || age > oldest {
			oldest, queue = age, q
		}
	}
	if n == 0 {
		if s.lanes[l].on {
			s.end(c, now, l)
		}
		return
	}
	if now-s.last[l] < c.patience() || oldest < c.patience() {
		return
	}
	why, detail := c.reason(now, l, queue, st)
	if why == "" {
		return // others can run it, and do
	}
	e := &s.lanes[l]
	if e.on {
		e.why = why
		return
	}
	*e = episode{on: true, since: s.last[l], why: why}
	c.event(Event{Kind: Starving, Lane: l, Queue: c.cfg.Queues[queue].Name, N: n, D: oldest, Text: why, Detail: detail})
}

// reason says why a lane starts nothing of a queue, in the words that explain a single command where they mean the same.
func (c *Core) reason(now time.Duration, l store.Lane, q int, st *store.Stats) (why, detail string) {
	if c.claim.bad.n > 0 {
		return "store", "claims fail"
	}
	if c.settle.unsettled() >= c.maxUnsettled() {
		return "unsettled", fmt.Sprintf("%d outcomes are not settled", c.settle.unsettled())
	}
	if c.free(l) == 0 && !c.claim.flight {
		return "permits", c.blocked(now, l)
	}
	if detail, ok := c.gateReason(l, c.cfg.Queues[q].Name); ok {
		return "gate", detail
	}
	r := &c.share.report[l][q]
	switch r.Why {
	case store.WhyEmpty, store.WhyFull, store.WhyMore:
	case store.WhyPaused:
		return "queue_paused", r.Detail
	default:
		return string(r.Why), r.Detail
	}
	for i := range st.Queues {
		if st.Queues[i].Queue != c.cfg.Queues[q].Name {
			continue
		}
		for _, t := range st.Queues[i].Types {
			if t.Lane == l && t.InLine > 0 && t.Workers == 0 {
				return "no_worker", "for type " + t.Type
			}
		}
	}
	if c.suspect != nil {
		return "suspect", c.suspect.Items[0].Cmd.ID
	}
	return "", ""
}

// blocked says who holds the permits of a lane.
func (c *Core) blocked(now time.Duration, l store.Lane) string {
	var oldest *Invocation
	over := 0
	for _, inv := range c.live {
		if inv.Lane != l || inv.gone {
			continue
		}
		if inv.overdue {
			over++
		}
		if oldest == nil || inv.started < oldest.started {
			oldest = inv
		}
	}
	if oldest == nil {
		return ""
	}
	return fmt.Sprintf("all %d permits are held, the longest for %v by %s %s, %d ignore the end of their context",
		c.cfg.Permits[l], (now - oldest.started).Round(time.Millisecond), oldest.Type.Name, oldest.Items[0].Cmd.ID, over)
}

// countUnclaimed tells which types have commands and no worker.
func (c *Core) countUnclaimed(st *store.Stats) {
	var found []unclaimed
	for i := range st.Queues {
		for _, t := range st.Queues[i].Types {
			if t.InLine > 0 && t.Workers == 0 {
				u := unclaimed{st.Queues[i].Queue, t.Type, t.Lane}
				found = append(found, u)
				c.event(Event{Kind: Unclaimable, Queue: u.queue, Type: u.typ, Lane: u.lane, N: t.InLine})
			}
		}
	}
	for _, u := range c.starve.none {
		if !slices.Contains(found, u) {
			c.event(Event{Kind: Unclaimable, Queue: u.queue, Type: u.typ, Lane: u.lane})
		}
	}
	c.starve.none = found
}
