package storetest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/twolane/twolane/store"
)

// randomLimits makes random sequences of operations under limits that come, change and go. Who of several gets room first is the store's
// choice; what it may not do follows from what a limit is: nobody is admitted over it, membership follows from place and status, and
// room does not stand while somebody can use it.
func randomLimits(t *testing.T, h Harness, budget time.Duration) {
	start, n, failed := time.Now(), 0, false
	for round := 0; round == 0 || !failed && os.Getenv("TWOLANE_RANDOM") != "" && time.Since(start) < budget; round++ {
		rapid.Check(t, func(rt *rapid.T) {
			if !failed && n > 0 && time.Since(start) > budget {
				return
			}
			n++
			g := newGauge(t, rt, h)
			defer func() {
				failed = failed || rt.Failed()
				g.close()
			}()
			rt.Repeat(map[string]func(*rapid.T){
				"submit": g.submit, "submit more": g.submit, "claim": g.claim, "claim more": g.claim, "claim again": g.claim, "settle": g.settle,
				"settle more": g.settle, "advance": g.advance, "cancel": g.cancel, "delete": g.delete, "configure": g.configure, "pause": g.pause,
				"stand": g.stand,
				"":      g.check,
			})
			g.stand(rt)
		})
	}
	t.Logf("%d sequences in %v", n, time.Since(start).Round(time.Millisecond))
}

// gauge is a store and what its limits allow.
type gauge struct {
	t     *testing.T
	rt    *rapid.T
	s     store.Store
	now   store.Millis
	cfg   store.Config
	nonce int
	seq   int
	// holds are the memberships that follow from what was granted and how it ended.
	holds  map[string][]store.Hold
	leases []*store.Command // every grant
}

var (
	gaugeQueues = []string{"qa", "qb"}
	gaugeTypes  = []string{"ta", "tb", "tc"}
)

func newGauge(t *testing.T, rt *rapid.T, h Harness) *gauge {
	g := &gauge{t: t, rt: rt, s: h.Open(t), now: epoch, holds: map[string][]store.Hold{}}
	g.step(0)
	return g
}

func (g *gauge) close() {
	if r, err := g.s.Audit(g.t.Context()); err != nil || len(r.Violations) > 0 {
		g.rt.Errorf("audit found %q, %v", r.Violations, err)
	}
	if err := g.s.Close(); err != nil {
		g.t.Errorf("close: %v", err)
	}
}

func (g *gauge) ok(err error) {
	if err != nil {
		g.rt.Fatal(err)
	}
}

// step moves the clock and does maintenance.
func (g *gauge) step(d time.Duration) {
	for first := true; first || d > 0; first = false {
		part := min(d, store.DefaultV/4)
		d -= part
		g.now = g.now.Add(part)
		g.ok(g.s.(store.Clocker).SetClock(g.t.Context(), g.now))
		for {
			r, err := g.s.Maintain(g.t.Context())
			g.ok(err)
			if !r.More {
				break
			}
		}
	}
}

// all reads every command that was ever submitted.
func (g *gauge) all() map[string]*store.Command {
	m := map[string]*store.Command{}
	var ids []string
	for i := range g.seq {
		ids = append(ids, fmt.Sprintf("c%03d", i))
	}
	if len(ids) == 0 {
		return m
	}
	cs, err := g.s.Get(g.t.Context(), ids, store.GetOptions{NoBlobs: true})
	g.ok(err)
	for _, c := range cs {
		if c != nil {
			m[c.ID] = c
		}
	}
	return m
}

// applying are the limits in force for c, by definition.
func (g *gauge) applying(c *store.Command) map[store.LimitKey]*store.Limit {
	m := map[store.LimitKey]*store.Limit{}
	for i := range g.cfg.Limits {
		l := &g.cfg.Limits[i]
		if len(l.Queues) > 0 && !slices.Contains(l.Queues, c.Queue) || l.Until != 0 && g.now >= l.Until {
			continue
		}
		v := map[store.By]string{store.ByQueue: c.Queue, store.ByType: c.Type, store.ByGroup: c.Group}[l.By]
		if l.By == store.ByKey {
			j := slices.IndexFunc(c.Keys, func(k store.Key) bool { return k.Name == l.Key })
			if j < 0 {
				continue
			}
			v = c.Keys[j].Value
		}
		m[store.LimitKey{Limit: l.Name, Value: v}] = l
	}
	return m
}

// exempt reports whether c joins a limit without waiting for room.
func exempt(c *store.Command, l *store.Limit) bool {
	lost := c.Unknown && slices.ContainsFunc(c.Holds, func(h store.Hold) bool { return h.Scope == store.ScopeCommand })
	return l.Classify || c.Status == store.Processing && c.CancelAsked != 0 || l.Scope == store.ScopeCommand && l.Rate == 0 && (c.Status == store.Processing || lost)
}

func members(all map[string]*store.Command, k store.LimitKey) (n int) {
	for _, c := range all {
		for _, h := range c.Holds {
			if h.LimitKey == k {
				n += c.Cost
			}
		}
	}
	return n
}

func most(l *store.Limit, value string) int {
	if m, ok := l.Values[value]; ok {
		return m
	}
	return l.Max
}

// check compares memberships with places.
func (g *gauge) check(rt *rapid.T) {
	g.rt = rt
	all := g.all()
	for id, c := range all {
		want := g.holds[id]
		if c.Place != store.Leased {
			want = slices.DeleteFunc(slices.Clone(want), func(h store.Hold) bool {
				return h.Scope == store.ScopeInvocation || c.Status.Terminal() || c.Status == store.Pending && !c.Unknown
			})
			g.holds[id] = want
		}
		if len(want) != len(c.Holds) || len(want) > 0 && !slices.Equal(want, c.Holds) {
			rt.Fatalf("%s, unknown %v, holds %v, not %v", show(c), c.Unknown, c.Holds, want)
		}
	}
	keys := map[store.LimitKey]bool{}
	for _, c := range all {
		for k := range g.applying(c) {
			keys[k] = true
		}
	}
	for k := range keys {
		st, err := g.s.Limit(g.t.Context(), k)
		g.ok(err)
		if n := members(all, k); st.Members != n {
			rt.Fatalf("%s has %d members, its records make %d", k, st.Members, n)
		}
	}
}

func (g *gauge) submit(rt *rapid.T) {
	g.rt = rt
	if g.seq >= 60 {
		return
	}
	var items []store.Submission
	for range rapid.IntRange(1, 4).Draw(rt, "n") {
		s := store.Submission{
			ID: fmt.Sprintf("c%03d", g.seq), Queue: one(rt, "queue", gaugeQueues...), Type: one(rt, "type", gaugeTypes...), Group: one(rt, "group", "", "g1", "g2"),
			Cost: one(rt, "cost", 1, 1, 1, 3), MaxFailures: one(rt, "max failures", 0, 0, 2),
		}
		for _, k := range []string{"k1", "k2"} {
			if one(rt, k, false, true) {
				s.Keys = append(s.Keys, store.Key{Name: k, Value: one(rt, "value", "x", "y")})
			}
		}
		items = append(items, s)
		g.seq++
	}
	rs, err := g.s.Submit(g.t.Context(), store.SubmitRequest{Items: items})
	g.ok(err)
	for i, r := range rs {
		never := false
		for k, l := range g.applying(&store.Command{Queue: items[i].Queue, Type: items[i].Type, Group: items[i].Group, Keys: items[i].Keys}) {
			m := most(l, k.Value)
			never = never || l.Rate == 0 && !l.Classify && l.Until == 0 && m > 0 && items[i].Cost > m
		}
		if never != (r.Err != nil) {
			rt.Fatalf("submit of %+v: %v, but never fits: %v", items[i], r.Err, never)
		}
	}
}

func (g *gauge) claim(rt *rapid.T) {
	g.rt = rt
	n := one(rt, "max", 1, 2, 5, 50)
	types := gaugeTypes[:one(rt, "types", 1, 2, 3, 3)]
	lanes := one(rt, "lanes", []store.Lane{store.Intake}, []store.Lane{store.Repoll}, []store.Lane{store.Intake, store.Repoll})
	g.claimNow(one(rt, "worker", "w1", "w2"), n, gaugeQueues[:one(rt, "queues", 1, 2, 2)], types, lanes, one(rt, "batch", 1, 1, 3))
}

// claimNow claims and checks that everything granted was allowed.
func (g *gauge) claimNow(worker string, n int, queues, types []string, lanes []store.Lane, batch int) int {
	g.step(0)
	before := g.all()
	g.nonce++
	r := store.ClaimRequest{Worker: worker, Nonce: fmt.Sprintf("nonce%06d", g.nonce)}
	for _, l := range lanes {
		r.Free[l] = n
		for _, q := range queues {
			w := store.Want{Queue: q, Lane: l, Max: n, Suspect: true, Turn: g.nonce}
			for _, t := range types {
				w.Types = append(w.Types, store.TypeWant{Type: t, Batch: batch})
			}
			r.Wants = append(r.Wants, w)
		}
	}
	reply, err := g.s.Claim(g.t.Context(), r)
	g.ok(err)
	after := g.all()
	waited, joined := map[store.LimitKey]bool{}, map[store.LimitKey]int{}
	for _, c := range items(reply.Grants) {
		b := before[c.ID]
		if b == nil || b.Place != store.InLine {
			g.rt.Fatalf("granted %s, which was %s", show(c), show(b))
		}
		g.leases = append(g.leases, c)
		if b.Status == store.Processing && b.CancelAsked != 0 { // a visit joins nothing, and the lease before it is over
			g.holds[c.ID] = slices.DeleteFunc(slices.Clone(g.holds[c.ID]), func(h store.Hold) bool { return h.Scope == store.ScopeInvocation })
			continue
		}
		var hs []store.Hold
		over := false
		for k, l := range g.applying(c) {
			if l.Rate > 0 {
				continue
			}
			if l.Classify && !slices.ContainsFunc(b.Holds, func(h store.Hold) bool { return h.LimitKey == k }) {
				if !slices.ContainsFunc(c.Holds, func(h store.Hold) bool { return h.LimitKey == k }) { // over it: it had no room, and has none left
					if m := most(l, k.Value); !c.Overflow || members(after, k)+c.Cost <= m {
						g.rt.Fatalf("%s, overflow %v, is no member of %s, which has %d of %d", show(c), c.Overflow, k, members(after, k), m)
					}
					over = true
					continue
				}
				waited[k] = true
			}
			hs = append(hs, store.Hold{LimitKey: k, Scope: l.Scope})
			if slices.ContainsFunc(b.Holds, func(h store.Hold) bool { return h.LimitKey == k }) {
				continue
			}
			if exempt(b, l) && !l.Classify {
				joined[k] += c.Cost
			} else {
				waited[k] = true
			}
		}
		if c.Overflow != over {
			g.rt.Fatalf("%s: overflow is %v", show(c), c.Overflow)
		}
		slices.SortFunc(hs, func(a, b store.Hold) int { return strings.Compare(a.Limit, b.Limit) })
		g.holds[c.ID] = hs
	}
	for k := range waited {
		i := slices.IndexFunc(g.cfg.Limits, func(l store.Limit) bool { return l.Name == k.Limit })
		if m := most(&g.cfg.Limits[i], k.Value); members(after, k)-joined[k] > m {
			g.rt.Fatalf("a claim admitted up to %d members of %s, its max is %d", members(after, k)-joined[k], k, m)
		}
	}
	return len(reply.Grants)
}

func (g *gauge) settle(rt *rapid.T) {
	g.rt = rt
	if len(g.leases) == 0 {
		return
	}
	for range rapid.IntRange(1, 3).Draw(rt, "n") {
		c := one(rt, "lease", g.leases[max(0, len(g.leases)-10):]...)
		st := store.Settlement{
			ID: c.ID, Lease: c.Lease, Kind: one(rt, "kind", append(slices.Clone(outcomes), store.OutcomeDone, store.OutcomeDone, store.OutcomeProcessing)...),
			Delay: one(rt, "delay", 0, time.Second, 5*time.Second), HasHook: one(rt, "hook", false, true), Unstarted: one(rt, "unstarted", false, true),
			Observed: 1e6,
		}
		_, err := g.s.Settle(g.t.Context(), store.SettleRequest{Worker: c.Owner, Items: []store.Settlement{st}})
		g.ok(err)
		g.check(rt)
	}
}

func (g *gauge) advance(rt *rapid.T) {
	g.rt = rt
	g.step(one(rt, "step", 100*time.Millisecond, 500*time.Millisecond, time.Second, 2*time.Second, 5*time.Second, 30*time.Second))
}

func (g *gauge) id(rt *rapid.T) string {
	return fmt.Sprintf("c%03d", rapid.IntRange(0, max(0, g.seq-1)).Draw(rt, "id"))
}

func (g *gauge) cancel(rt *rapid.T) {
	g.rt = rt
	_, err := g.s.Cancel(g.t.Context(), store.CancelRequest{IDs: []string{g.id(rt)}, Force: one(rt, "force", false, false, true)})
	g.ok(err)
}

func (g *gauge) delete(rt *rapid.T) {
	g.rt = rt
	_, err := g.s.Act(g.t.Context(), store.ActRequest{Kind: store.ActDelete, IDs: []string{g.id(rt)}, Force: one(rt, "force", false, true)})
	g.ok(err)
}

func (g *gauge) setConfig(change func(*store.Config)) {
	c := g.cfg.Clone()
	change(&c)
	c, err := g.s.Configure(g.t.Context(), g.cfg.Version, c)
	g.ok(err)
	g.cfg = c
}

func (g *gauge) configure(rt *rapid.T) {
	g.rt = rt
	g.setConfig(func(c *store.Config) {
		c.Limits = nil
		for _, name := range []string{"l1", "l2", "l3"} {
			if one(rt, name, false, true, true) {
				continue
			}
			l := store.Limit{
				Name: name, By: one(rt, "by", store.ByAll, store.ByQueue, store.ByType, store.ByGroup, store.ByKey, store.ByKey), Max: one(rt, "max", 0, 1, 1, 2, 3, 5),
				Scope: one(rt, "scope", store.ScopeInvocation, store.ScopeCommand), Classify: one(rt, "classify", false, false, false, false, true),
			}
			if l.By == store.ByKey {
				l.Key = one(rt, "key", "k1", "k2")
			}
			if one(rt, "rate", false, false, false, true) {
				l.Rate, l.Burst, l.Max, l.Scope, l.Classify = one(rt, "per second", 2.0, 10), 2, 0, store.ScopeInvocation, false
			}
			if one(rt, "some queues", false, false, true) {
				l.Queues = []string{"qa"}
			}
			if one(rt, "until", false, false, false, true) {
				l.Until = g.now.Add(5 * time.Second)
			}
			if l.By == store.ByGroup && l.Rate == 0 && one(rt, "value", false, true) {
				l.Values = map[string]int{"g1": one(rt, "of g1", 0, 1, 3)}
			}
			c.Limits = append(c.Limits, l)
		}
	})
}

func (g *gauge) pause(rt *rapid.T) {
	g.rt = rt
	q := one(rt, "queue", gaugeQueues...)
	mode := one(rt, "mode", store.PauseNone, store.PauseIntake, store.PauseAll)
	fair := one(rt, "fair", false, true)
	g.setConfig(func(c *store.Config) {
		if c.Queues == nil {
			c.Queues = map[string]store.QueueConfig{}
		}
		c.Queues[q] = store.QueueConfig{Pause: mode, Fair: fair}
	})
}
