package storetest

import (
	"fmt"
	"time"

	"github.com/twolane/twolane/store"
)

var limitChangeCases = []kase{
	{"lower", "lowering a limit evicts nobody: who runs finishes, and nobody is admitted while there are too many", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 5})
		f.submit(many("a", 10)...)
		cs := f.claim("w1", store.Intake, 10)
		f.check(len(cs) == 5, "%d", len(cs))
		f.limits(store.Limit{Name: "l", Max: 2})
		for i, c := range cs[:4] {
			f.check(f.renew("w1", cs[i:]...)[0].State == store.RenewOK, "a lease was taken")
			f.Pass(2 * time.Second)
			n := len(f.claim("w2", store.Intake, 10))
			f.check(n == 0, "%d admitted with %d members", n, 5-i)
			f.settle(c, store.OutcomeDone)
		}
		f.check(len(f.claim("w2", store.Intake, 10)) == 1, "not one with one member")
	}},
	{"raise", "raising opens what waits within a re-test", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 1})
		f.submit(many("a", 5)...)
		f.submit(many("b", 5, ofType("t1"))...)
		f.check(len(f.claimBoth("w1", 10)) == 1 && len(f.claimBoth("w1", 10)) == 0, "not one")
		f.limits(store.Limit{Name: "l", Max: 8})
		f.Pass(time.Second)
		f.check(len(f.claimRest("w1", 20)) == 7, "not seven more")
	}},
	{"remove", "removing a limit lets everything go within a re-test; those that were members are none when they come back", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 1, Scope: store.ScopeCommand})
		f.submit(many("a", 5)...)
		c := f.claim("w1", store.Intake, 10)[0]
		f.settle(c, store.OutcomeProcessing)
		f.check(len(f.claim("w1", store.Intake, 10)) == 0, "two")
		f.limits()
		f.Pass(time.Second)
		f.check(len(f.claim("w1", store.Intake, 10)) == 4, "not four more")
		p := f.claim1("w1", store.Repoll, c.ID)
		f.check(len(p.Holds) == 0, "%s is still a member of %v", show(p), p.Holds)
	}},
	{"close", "0 closes: nobody is admitted, polls neither, until it is opened again", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 3})
		f.settle(f.start("p"), store.OutcomeProcessing)
		f.submit(many("a", 3)...)
		f.limits(store.Limit{Name: "l", Max: 0})
		for range 5 {
			f.Pass(time.Second)
			f.check(len(f.claimBoth("w1", 10)) == 0, "a closed limit lets something in")
		}
		f.limits(store.Limit{Name: "l", Max: 10})
		f.Pass(time.Second)
		f.check(len(f.claimRest("w1", 10)) == 4, "not all after it was opened")
	}},
	{"add", "members of a new limit join with their next claim; what is PROCESSING joins one of scope command without waiting, even over its max", func(f *fixture) {
		f.submit(many("p", 3)...)
		for _, c := range f.claim("w1", store.Intake, 3) {
			f.settle(c, store.OutcomeProcessing)
		}
		f.submit(sub("run"), sub("wait"))
		run := f.claim1("w1", store.Intake, "run")
		f.limits(store.Limit{Name: "l", Max: 1, Scope: store.ScopeCommand})
		f.members("l", "", 0)
		f.Pass(time.Second)
		cs := f.claim("w1", store.Repoll, 10)
		f.check(len(cs) == 3, "polls wait for a new limit: %v", ids(cs))
		f.members("l", "", 3)
		f.check(len(f.claim("w1", store.Intake, 10)) == 0, "admitted over the limit")
		for _, c := range cs {
			f.settle(c, store.OutcomeDone)
		}
		f.settle(run, store.OutcomeRetry, delay(time.Minute))
		f.members("l", "", 0)
		f.Pass(time.Second)
		f.claim1("w1", store.Intake, "wait")
	}},
	{"redefine", "a limit that comes to count by another thing, or in another scope, counts each command anew with its next claim", func(f *fixture) {
		f.limits(store.Limit{Name: "l", By: store.ByType, Max: 5, Scope: store.ScopeCommand})
		f.settle(f.start("p", inGroup("g")), store.OutcomeProcessing)
		f.members("l", "t", 1)
		f.limits(store.Limit{Name: "l", By: store.ByGroup, Max: 5})
		f.Pass(time.Second)
		c := f.claim1("w1", store.Repoll, "p")
		f.members("l", "g", 1)
		f.members("l", "t", 0)
		f.settle(c, store.OutcomeProcessing)
		f.members("l", "g", 0)
	}},
	{"not_about_it", "what waits for a limit that comes to be about others, or in a scope in which it need not wait, waits no more", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 3})
		f.settle(f.start("p"), store.OutcomeProcessing)
		f.submit(sub("a"))
		f.limits(store.Limit{Name: "l", Max: 0})
		f.Pass(time.Second)
		f.check(len(f.claimBoth("w1", 5)) == 0, "closed and yet claimed")
		f.limits(store.Limit{Name: "l", Max: 0, Scope: store.ScopeCommand})
		f.Pass(time.Second)
		f.settle(f.claim1("w1", store.Repoll, "p"), store.OutcomeDone)
		f.check(len(f.claimBoth("w1", 5)) == 0, "closed and yet claimed")
		f.limits(store.Limit{Name: "l", By: store.ByKey, Key: "k"})
		f.Pass(time.Second)
		f.claim1("w1", store.Intake, "a")
	}},
	{"classify_later", "a limit that comes to classify, or to be a rate, holds nobody back any more, not even what never fitted", func(f *fixture) {
		for i, l := range []store.Limit{{Name: "l", Max: 2, Classify: true}, {Name: "l", Rate: 100}} {
			f.limits(store.Limit{Name: "l", Max: 3})
			f.submit(sub(fmt.Sprint("a", i), costing(3)))
			f.limits(store.Limit{Name: "l", Max: 2})
			f.check(len(f.claim("w1", store.Intake, 5)) == 0, "a cost of 3 under a limit of 2")
			f.limits(l)
			f.Pass(time.Second)
			f.settle(f.claim1("w1", store.Intake, fmt.Sprint("a", i)), store.OutcomeDone)
		}
	}},
	{"F029_validated", "a limit that contradicts itself cannot be stored: the error names the field, nothing changes, and what was in force stays", func(f *fixture) {
		f.limits(store.Limit{Name: "good", Max: 1})
		for field, l := range map[string]store.Limit{
			"limits.name":       {Name: "bad name"},
			"limits.good.name":  {Name: "good"},
			"limits.l.max":      {Name: "l", Max: -1},
			"limits.l.by":       {Name: "l", By: 9},
			"limits.l.key":      {Name: "l", By: store.ByKey, Max: 1},
			"limits.l.scope":    {Name: "l", Scope: 7, Max: 1},
			"limits.l.rate":     {Name: "l", Rate: -1},
			"limits.l.per":      {Name: "l", Rate: 1, Per: -time.Second},
			"limits.l.burst":    {Name: "l", Rate: 1, Burst: -1},
			"limits.l.queues":   {Name: "l", Max: 1, Queues: []string{"a b"}},
			"limits.l.values":   {Name: "l", Max: 1, Values: map[string]int{"x": 1}},
			"limits.l.values.x": {Name: "l", By: store.ByGroup, Max: 1, Values: map[string]int{"x": -1}},
			"limits.l.until":    {Name: "l", Max: 1, Until: -1},
			"limits.l.classify": {Name: "l", Rate: 1, Classify: true},
		} {
			c, err := f.s.Config(f.ctx())
			f.ok(err)
			c.Limits = append(c.Limits, l)
			_, err = f.s.Configure(f.ctx(), c.Version, c)
			var inv *store.InvalidError
			f.check(isInvalid(err, &inv) && inv.Field == field, "%s: %v", field, err)
		}
		for _, most := range []int{1_000_000_000_000, -1} {
			c, err := f.s.Config(f.ctx())
			f.ok(err)
			c.Limits[0].Max = most
			_, err = f.s.Configure(f.ctx(), c.Version, c)
			f.wrong(err, store.ErrInvalid)
		}
		f.submit(many("a", 3)...)
		f.check(len(f.claim("w1", store.Intake, 5)) == 1, "the limit in force is gone")
	}},
	{"config_kept", "limits, weights and values come back as they were written", func(f *fixture) {
		want := store.Config{
			Queues: map[string]store.QueueConfig{"q": {Fair: true, Weights: map[string]float64{"a": 0.5, "b": 3}}},
			Limits: []store.Limit{
				{Name: "one", Queues: []string{"q", "q2"}, By: store.ByKey, Key: "tenant", Max: 7, Scope: store.ScopeCommand, Values: map[string]int{"big": 70, "shut": 0}},
				{Name: "two", By: store.ByGroup, Rate: 2.5, Per: time.Minute, Burst: 9, Until: epoch.Add(time.Hour), Values: map[string]int{"": 0}},
				{Name: "three", Max: 3, Classify: true},
			},
		}
		got, err := f.s.Configure(f.ctx(), 0, want)
		f.ok(err)
		want.Version = 1
		f.same(want, got)
		got, err = f.s.Config(f.ctx())
		f.ok(err)
		f.same(want, got)
	}},
	{"F112_survives", "limits, members and what waits survive a restart", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 2, Scope: store.ScopeCommand})
		f.submit(many("a", 5)...)
		cs := f.claim("w1", store.Intake, 5)
		f.settle(cs[0], store.OutcomeProcessing, delay(time.Minute))
		f.claim("w1", store.Intake, 5)
		f.reopen()
		f.members("l", "", 2)
		f.check(len(f.claim("w1", store.Intake, 5)) == 0, "over the limit after a restart")
		f.settle(cs[1], store.OutcomeDone)
		f.Pass(time.Second)
		f.check(len(f.claim("w1", store.Intake, 5)) == 1, "nothing is claimed after a restart")
	}},
	{"two_handles", "two handles of one namespace never admit more than the limit together", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 3})
		g := f.second()
		f.submit(many("a", 50)...)
		for i := range 10 {
			n := len(f.claim("w1", store.Intake, 5)) + len(g.claim("w2", store.Intake, 5))
			f.check(n == 3, "round %d: %d at once", i, n)
			for _, id := range f.limit("l", "").Holders {
				f.settle(f.get(id), store.OutcomeDone)
			}
		}
	}},
	{"concurrent", "claims and settles at once by many never go over a limit, and all is given back", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 3}, store.Limit{Name: "g", By: store.ByGroup, Max: 1, Scope: store.ScopeCommand})
		for i := range 120 {
			f.submit(sub(fmt.Sprint("a", i), inGroup(fmt.Sprint("g", i%7)), ofType(fmt.Sprint("t", 1+i%2))))
		}
		var over, done counter
		f.parallel(6, func(w int) int {
			for range 400 {
				if done.n.Load() == 120 {
					break
				}
				r := f.claimFor(fmt.Sprint("w", w), store.Intake, 2)
				r.Wants[0].Types = []store.TypeWant{{Type: "t1"}, {Type: "t2"}}
				reply, err := f.s.Claim(f.ctx(), r)
				if err != nil {
					f.Error(err)
					return 0
				}
				if st, err := f.s.Limit(f.ctx(), store.LimitKey{Limit: "l"}); err != nil || st.Members > 3 {
					over.n.Add(1)
				}
				for _, c := range items(reply.Grants) {
					rs, err := f.s.Settle(f.ctx(), store.SettleRequest{Worker: c.Owner, Items: []store.Settlement{{ID: c.ID, Lease: c.Lease, Kind: store.OutcomeDone}}})
					if err != nil || rs[0].State != store.SettleDone {
						f.Errorf("%v %v", rs, err)
					}
					done.n.Add(1)
				}
			}
			return 0
		})
		f.check(over.n.Load() == 0, "%d times over the limit", over.n.Load())
		f.finish()
	}},
}
