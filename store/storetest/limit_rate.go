package storetest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twolane/twolane/store"
)

type counter struct{ n atomic.Int64 }

var limitRateCases = []kase{
	{"windows", "a rate limit bounds the starts of each value to rate x t/per + burst in every window, on its own", func(f *fixture) {
		for i, l := range []store.Limit{{Rate: 5, Burst: 1}, {Rate: 60, Per: time.Minute, Burst: 3}, {Rate: 20}} {
			l.Name, l.By, l.Key = "r", store.ByKey, "k"
			f.limits(l)
			for k := range 2 {
				f.submit(many(fmt.Sprintf("r%d-%d", i, k), 100, keyed("k", fmt.Sprint(k)))...)
			}
			f.Pass(2 * time.Minute)
			at := map[string][]store.Millis{}
			for end := f.now.Add(5 * time.Second); f.now < end; f.Pass(50 * time.Millisecond) {
				for _, c := range f.claim("w1", store.Intake, 100) {
					at[c.Keys[0].Value] = append(at[c.Keys[0].Value], f.now)
					f.settle(c, store.OutcomeDone)
				}
			}
			rate, _ := l.RateOf("0")
			for k, ts := range at {
				f.bounded(ts, rate.Limit, rate.Burst)
				f.check(len(ts) >= int(rate.Limit*4.5), "value %s had %d starts in 5 s at %+v", k, len(ts), rate)
			}
			f.check(len(at) == 2, "%d values ran", len(at))
			f.limits()
			f.Pass(time.Second)
			f.finish()
		}
	}},
	{"waits_filed", "what waits for a token waits filed, says for what and when to come, and runs when it was told to come", func(f *fixture) {
		f.limits(store.Limit{Name: "r", By: store.ByType, Rate: 2, Burst: 1})
		f.submit(many("a", 5)...)
		f.submit(many("b", 5, ofType("t1"))...)
		f.check(len(f.claimBoth("w1", 10)) == 2, "not one of each")
		for range 3 {
			r := f.claimFor("w1", store.Intake, 5)
			w := f.tryClaim(r).Wants[0]
			f.check(w.Why == store.WhyLimit && w.Detail == "r=t" && w.Next > 0 && w.Next <= 500*time.Millisecond, "%+v", w)
			st := f.limit("r", "t")
			f.check(st.Lines == 1 && st.Next > 0 && st.Next <= w.Next, "%+v, told %v", st, w.Next)
			f.Advance(w.Next)
			f.check(len(f.claim("w1", store.Intake, 5)) == 1, "nothing after the %v that it was told", w.Next)
		}
	}},
	{"not_taken", "a token is taken last: what another limit stops takes none", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 1}, store.Limit{Name: "r", Rate: 0.001, Burst: 2})
		f.submit(many("a", 5)...)
		c := f.claim("w1", store.Intake, 5)[0]
		for range 3 {
			f.check(len(f.claim("w1", store.Intake, 5)) == 0, "two at once")
			f.Pass(time.Second)
		}
		f.settle(c, store.OutcomeDone)
		c = f.claim("w1", store.Intake, 5)[0]
		f.settle(c, store.OutcomeDone)
		f.check(len(f.claim("w1", store.Intake, 5)) == 0, "a third token of two")
		f.limits()
		f.Pass(time.Second)
		f.check(len(f.claim("w1", store.Intake, 5)) == 3, "%s", show(f.get("a-0002")))
	}},
	{"batch_is_one", "a batch takes one token of a rate, and a member of a concurrency limit for each command", func(f *fixture) {
		f.limits(store.Limit{Name: "r", Rate: 0.01, Burst: 2}, store.Limit{Name: "l", Max: 15})
		f.submit(many("a", 40)...)
		r := f.claimFor("w1", store.Intake, 5)
		r.Wants[0].Types[0].Batch = 10
		g := f.claimAll(r)
		f.check(len(g) == 2 && len(items(g)) == 15, "%d grants with %d commands", len(g), len(items(g)))
		f.members("l", "", 15)
	}},
	{"closed_value", "a value of a rate limit can be closed with 0", func(f *fixture) {
		f.limits(store.Limit{Name: "r", By: store.ByGroup, Rate: 100, Values: map[string]int{"shut": 0}})
		f.submit(sub("a", inGroup("shut")), sub("b", inGroup("open")))
		f.claim1("w1", store.Intake, "b")
		f.Pass(3 * time.Second)
		f.check(len(f.claim("w1", store.Intake, 5)) == 0, "a closed value runs")
	}},
	{"clock_back", "a step of the clock back puts no token out of reach", func(f *fixture) {
		f.limits(store.Limit{Name: "r", Rate: 1, Burst: 1})
		f.submit(many("a", 5)...)
		f.check(len(f.claim("w1", store.Intake, 5)) == 1, "no token")
		f.Advance(-time.Hour)
		f.maintain()
		f.Pass(2 * time.Second)
		f.check(len(f.claim("w1", store.Intake, 5)) == 1, "no token two seconds after a step back")
	}},
}

var fairCases = []kase{
	{"F165_turns", "fair turns: groups are served in turn whatever each has in line, and who comes new has the next turn", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.Fair = true })
		f.submit(many("a", 300, inGroup("a"))...)
		f.check(len(f.claim("w1", store.Intake, 50)) == 50, "not 50 of a")
		f.submit(many("b", 10, inGroup("b"))...)
		got := f.claim("w1", store.Intake, 2)
		f.check(got[0].Group == "b" || got[1].Group == "b", "claimed %v", ids(got))
		n := map[string]int{got[0].Group: 1}
		n[got[1].Group]++
		for range 9 {
			for _, c := range f.claim("w1", store.Intake, 2) {
				n[c.Group]++
			}
		}
		f.check(n["b"] >= 9, "b had %v of 20 turns", n)
	}},
	{"weights", "turns go by weight", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.Fair, q.Weights = true, map[string]float64{"a": 3, "c": 0.5} })
		for _, g := range []string{"a", "b", "c"} {
			f.submit(many(g, 200, inGroup(g))...)
		}
		n := map[string]int{}
		for range 90 {
			for _, c := range f.claim("w1", store.Intake, 1) {
				n[c.Group]++
			}
		}
		f.check(n["a"] >= 57 && n["a"] <= 63 && n["b"] >= 18 && n["b"] <= 22 && n["c"] >= 8 && n["c"] <= 12, "%v of 90", n)
	}},
	{"idle_saves_nothing", "a group that was idle gets its turn and no arrears; groups that came and went leave nothing behind", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.Fair = true })
		for i := range 300 {
			f.submit(sub(fmt.Sprint("x", i), inGroup(fmt.Sprint("x", i))))
		}
		f.check(len(f.claim("w1", store.Intake, 300)) == 300, "not all ran")
		f.submit(many("a", 100, inGroup("a"))...)
		f.claim("w1", store.Intake, 50)
		f.submit(many("b", 60, inGroup("b"))...)
		n := map[string]int{}
		for range 40 {
			n[f.claim("w1", store.Intake, 1)[0].Group]++
		}
		f.check(n["a"] >= 18 && n["b"] >= 18, "%v of 40", n)
	}},
	{"before_priority", "a fair turn goes before priority and deadline; inside a group the queue's order holds", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.Fair = true })
		urgent := func(s *store.Submission) { s.Priority = 0 }
		lazy := func(s *store.Submission) { s.Priority = 9 }
		f.submit(many("a", 10, inGroup("a"), urgent)...)
		f.submit(sub("b1", inGroup("b"), lazy), sub("b0", inGroup("b"), urgent))
		got := ids(f.claim("w1", store.Intake, 4))
		at := map[string]int{}
		for i, id := range got {
			at[id] = i + 1
		}
		f.check(at["b0"] > 0 && at["b1"] > 0 && at["b0"] < at["b1"], "claimed %v", got)
	}},
	{"both_lanes", "polls of a fair queue go in turn too", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.Fair = true })
		f.submit(many("a", 20, inGroup("a"))...)
		for _, c := range f.claim("w1", store.Intake, 20) {
			f.settle(c, store.OutcomeProcessing)
		}
		f.Pass(time.Second)
		f.submit(many("b", 4, inGroup("b"))...)
		for _, c := range f.claim("w1", store.Intake, 4) {
			f.settle(c, store.OutcomeProcessing)
		}
		f.Pass(time.Second)
		n := map[string]int{}
		for _, c := range f.claim("w1", store.Repoll, 8) {
			n[c.Group]++
		}
		f.check(n["b"] == 4, "%v", n)
	}},
	{"with_limit", "a group at its limit gives its turns away and takes up where it stands", func(f *fixture) {
		f.limits(store.Limit{Name: "l", By: store.ByGroup, Max: 2})
		f.queue("q", func(q *store.QueueConfig) { q.Fair = true })
		f.submit(many("a", 50, inGroup("a"))...)
		f.submit(many("b", 50, inGroup("b"))...)
		cs := f.claim("w1", store.Intake, 10)
		f.check(len(cs) == 4, "%d", len(cs))
		for range 20 {
			for _, c := range cs {
				f.settle(c, store.OutcomeDone)
			}
			cs = f.claim("w1", store.Intake, 10)
			n := map[string]int{}
			for _, c := range cs {
				n[c.Group]++
			}
			if n["a"]+n["b"] == 0 {
				break
			}
			f.check(n["a"] == 2 && n["b"] == 2, "%v", n)
		}
		f.finish()
	}},
}
