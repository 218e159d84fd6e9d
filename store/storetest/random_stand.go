package storetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/twolane/twolane/store"
)

// stand claims all there is until for three seconds nothing has been granted and nothing has changed its place or its memberships: a
// lease that runs out makes room too. Whatever could still run then has stood with room for it.
func (g *gauge) stand(rt *rapid.T) {
	g.rt = rt
	all := g.all()
	for quiet := 0; quiet < 30; quiet++ {
		granted := g.claimNow("w3", 50, gaugeQueues, gaugeTypes, store.Lanes[:], 1)
		g.step(100 * time.Millisecond)
		before := all
		all = g.all()
		if granted > 0 || !maps.EqualFunc(before, all, func(a, b *store.Command) bool { return a.Place == b.Place && slices.Equal(a.Holds, b.Holds) }) {
			quiet = 0
		}
	}
	st, err := g.s.Stats(g.t.Context(), store.StatsRequest{Overview: true})
	g.ok(err)
	const long = 2500 // what became due or free only just now has not stood
	if slices.ContainsFunc(g.cfg.Limits, func(l store.Limit) bool { return l.Until != 0 && l.Until <= g.now && l.Until > g.now-long }) {
		return
	}
	ready := map[string]*store.Command{}
	for id, c := range all {
		pause := g.cfg.Queue(c.Queue).Paused(g.now)
		paused := pause == store.PauseAll || pause == store.PauseIntake && c.Status == store.Pending
		due := c.Status == store.Pending && c.Eligible < g.now-long || c.Status == store.Processing && c.Due < st.Run-long
		if c.Place == store.InLine && due && (!paused || c.Status == store.Processing && c.CancelAsked != 0) {
			ready[id] = c
		}
	}
	fits := func(c *store.Command, k store.LimitKey, l *store.Limit) bool {
		return l.Rate > 0 || exempt(c, l) || members(all, k)+c.Cost <= most(l, k.Value)
	}
	for _, id := range slices.Sorted(maps.Keys(ready)) {
		c, stopped := ready[id], false
		for k, l := range g.applying(c) {
			stopped = stopped || !fits(c, k, l)
			for _, d := range ready { // room is being saved for a larger one
				m, of := g.applying(d)[k], most(l, k.Value)
				stopped = stopped || m != nil && !exempt(c, l) && d.Cost > c.Cost && d.Cost <= of && !fits(d, k, m)
			}
		}
		if !stopped {
			var states []string
			for k, l := range g.applying(c) {
				st, err := g.s.Limit(g.t.Context(), k)
				g.ok(err)
				states = append(states, fmt.Sprintf("%+v of %+v", st, *l))
			}
			rt.Fatalf("%s (cost %d) has stood for 3 s though all of its limits have room: %s", show(c), c.Cost, strings.Join(states, "; "))
		}
	}
}
