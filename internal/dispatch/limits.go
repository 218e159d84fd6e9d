package dispatch

import (
	"strings"

	"github.com/twolane/twolane/store"
)

// What limits decided about a claim, as an event of kind LimitDecided tells it.
const (
	Admitted      = "admitted" // commands became members; those of a rate are not told
	LimitRefused  = "refused"  // what was left of a want had to wait for it
	maxLimitNames = 64         // that are counted apart in one claim
)

// limitsSaid tells what limits decided about a claim.
func (c *Core) limitsSaid(call *ClaimCall, reply *store.ClaimReply) {
	said := c.said[:0]
	note := func(l store.Lane, name, why string) {
		for i := range said {
			if e := &said[i]; e.Text == name && e.Lane == l && e.Detail == why {
				e.N++
				return
			}
		}
		if len(said) < maxLimitNames {
			said = append(said, Event{Kind: LimitDecided, Lane: l, Text: name, Detail: why, N: 1})
		}
	}
	for i := range reply.Grants {
		g := &reply.Grants[i]
		if g.Class.Visit() { // it joins nothing
			continue
		}
		for _, cmd := range g.Items {
			for _, h := range cmd.Holds {
				note(g.Lane, h.Limit, Admitted)
			}
		}
	}
	for i := range min(len(reply.Wants), len(call.Req.Wants)) {
		if w := &reply.Wants[i]; w.Why == store.WhyLimit {
			name, _, _ := strings.Cut(w.Detail, "=") // name or name=value
			note(call.Req.Wants[i].Lane, name, LimitRefused)
		}
	}
	for i := range said {
		c.event(said[i])
	}
	c.said = said
}
