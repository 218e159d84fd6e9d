package storetest

import (
	"fmt"
	"time"

	"github.com/twolane/twolane/store"
)

// others may come between two releasers of one invocation; r is the claim that leased it.
var others = []struct {
	name string
	run  func(f *fixture, c *store.Command, r store.ClaimRequest) error
}{
	{"replay", func(f *fixture, _ *store.Command, r store.ClaimRequest) error {
		_, err := f.s.Claim(f.ctx(), r)
		return err
	}},
	{"cancel", func(f *fixture, c *store.Command, _ store.ClaimRequest) error {
		_, err := f.s.Cancel(f.ctx(), store.CancelRequest{IDs: []string{c.ID}})
		return err
	}},
	{"force", func(f *fixture, c *store.Command, _ store.ClaimRequest) error {
		_, err := f.s.Cancel(f.ctx(), store.CancelRequest{IDs: []string{c.ID}, Force: true})
		return err
	}},
	{"delete", func(f *fixture, c *store.Command, _ store.ClaimRequest) error {
		_, err := f.s.Act(f.ctx(), store.ActRequest{Kind: store.ActDelete, IDs: []string{c.ID}, By: "test", Force: true})
		return err
	}},
	{"renew", func(f *fixture, c *store.Command, _ store.ClaimRequest) error {
		_, err := f.s.Renew(f.ctx(), store.RenewRequest{
			Worker: store.Worker{ID: "w1", Queues: []string{"q"}, Types: [2][]string{{"t"}, {"t"}}}, Leases: []store.RenewItem{{ID: c.ID, Lease: c.Lease}},
		})
		return err
	}},
}

// raced lets two releasers of one invocation, a third that says something else, the reaper and somebody else come at once, under every kind of limit: one
// of them releases at most, and members are what the place of the command makes of it, whoever it was.
func (f *fixture) raced(kind store.OutcomeKind, poll bool) {
	f.Helper()
	const cost = 2
	limits := everyLimit(cost)
	f.limits(limits...)
	for i := range 2 * len(others) {
		f.Pass(time.Second) // what throttling has lowered has a token again
		id := fmt.Sprintf("c%d", i)
		f.submit(sub(id, costing(cost), inGroup("g"), keyed("k", "v")))
		lane := store.Intake
		if poll {
			f.settle(f.claim1("w1", lane, id), store.OutcomeProcessing)
			f.Pass(time.Second)
			lane = store.Repoll
		}
		r := f.claimFor("w1", lane, 1)
		reply := f.tryClaim(r)
		f.check(len(reply.Grants) == 1, "%s was not granted: %+v", show(f.get(id)), reply.Wants)
		c := items(reply.Grants)[0]
		if i%2 == 1 {
			f.Advance(f.v) // it may be reaped
		}
		settle := func(kind store.OutcomeKind, again bool) int {
			s := store.Settlement{ID: c.ID, Lease: c.Lease, Kind: kind, Again: again, Delay: time.Duration(i%3) * 10 * time.Second, Observed: 1e6}
			rs, err := f.s.Settle(f.ctx(), store.SettleRequest{Worker: "w1", Items: []store.Settlement{s}})
			switch {
			case err != nil:
				f.Error(err)
			case rs[0].State == store.SettleDone:
				return 1
			}
			return 0
		}
		other := others[i/2]
		won := f.parallel(5, func(w int) int {
			switch w {
			case 0, 1:
				return settle(kind, w == 1)
			case 2:
				return settle(store.OutcomeSnooze, false)
			case 3:
				if _, err := f.s.Maintain(f.ctx()); err != nil {
					f.Error(err)
				}
			case 4:
				if err := other.run(f, c, r); err != nil {
					f.Error(err)
				}
			}
			return 0
		})
		f.check(won <= 1, "%s beside %s: %d released", kind, other.name, won)
		inv, cmd := 0, 0
		g := f.get(id)
		if g != nil && g.Place == store.Leased {
			inv, cmd = cost, cost
		}
		if g != nil && !g.Status.Terminal() && (g.Status == store.Processing || g.Unknown) {
			cmd = cost
		}
		for j := range limits {
			l, want := &limits[j], inv
			switch {
			case !counts(l, cost):
				want = 0
			case l.Scope == store.ScopeCommand:
				want = cmd
			}
			if st := f.limit(l.Name, valueOf(l)); st.Members != want || len(st.Holders) != min(want, 1) {
				f.Fatalf("%s beside %s left %s; %s has %d members %v, not %d", kind, other.name, show(g), st.Key, st.Members, st.Holders, want)
			}
		}
		f.finish()
	}
}

func raceCases() (all []kase) {
	for _, kind := range []store.OutcomeKind{
		store.OutcomeDone, store.OutcomeFail, store.OutcomeRetry, store.OutcomeSnooze, store.OutcomeProcessing, store.OutcomeThrottled, store.OutcomeGiveBack, store.OutcomeAbandon,
	} {
		for lane, poll := range map[string]bool{"intake": false, "repoll": true} {
			all = append(all, kase{fmt.Sprintf("F007_two_releasers_%s_%s", kind, lane), "two releasers at once, a stale one, the reaper, and a replay, a cancel or a delete beside them: one releases, under every kind of limit", func(f *fixture) {
				f.raced(kind, poll)
			}})
		}
	}
	return append(all, kase{"F007_settled_together", "invocations that end in every way in one call leave exactly those members who have a place for it", func(f *fixture) {
		f.settleTogether()
	}})
}

// settleTogether ends invocations in every way in one call: the set of members has to be what is left of them, by whatever way a store takes each.
func (f *fixture) settleTogether() {
	const cost = 2
	limits := everyLimit(1)
	for i := range limits {
		if limits[i].Rate == 0 {
			limits[i].Max = 1000
		} else {
			limits[i].Rate, limits[i].Burst = 1000, 1000
		}
	}
	f.limits(append(limits, store.Limit{Name: "shut", By: store.ByKey, Key: "shut", Max: 0})...)
	f.submit(sub("waits", keyed("shut", "x"))) // somebody waits for some key: then more is looked at
	kinds := []store.OutcomeKind{store.OutcomeDone, store.OutcomeRetry, store.OutcomeProcessing, store.OutcomeFail, store.OutcomeSnooze, store.OutcomeDone, store.OutcomeGiveBack}
	for i := range 3 * len(kinds) {
		f.submit(sub(fmt.Sprintf("c%02d", i), costing(cost*(1+i%2)), inGroup(fmt.Sprintf("g%d", i%3)), keyed("k", fmt.Sprintf("v%d", i%2))))
	}
	for round := range 3 {
		cs := f.claim("w1", store.Intake, 100)
		cs = append(cs, f.claim("w1", store.Repoll, 100)...)
		f.check(len(cs) > 0, "round %d: nothing runs", round)
		req := store.SettleRequest{Worker: "w1"}
		for i, c := range cs {
			req.Items = append(req.Items, store.Settlement{ID: c.ID, Lease: c.Lease, Kind: kinds[(i+round)%len(kinds)]})
		}
		res, err := f.s.Settle(f.ctx(), req)
		f.ok(err)
		for i, r := range res {
			f.check(r.State == store.SettleDone && r.Err == nil, "%s: %s, %v", req.Items[i].ID, r.State, r.Err)
		}
		want := map[store.LimitKey]int{}
		for _, c := range cs {
			if c = f.get(c.ID); c != nil {
				for _, h := range c.Holds {
					want[h.LimitKey] += c.Cost
				}
			}
		}
		for i := range limits {
			for _, v := range []string{valueOf(&limits[i]), "g0", "g1", "g2", "v0", "v1"} {
				k := store.LimitKey{Limit: limits[i].Name, Value: v}
				if st := f.limit(k.Limit, v); st.Members != want[k] {
					f.Fatalf("round %d: %s has %d members, the commands say %d", round, k, st.Members, want[k])
				}
			}
		}
		f.Pass(time.Minute)
	}
	_, err := f.s.Cancel(f.ctx(), store.CancelRequest{IDs: []string{"waits"}})
	f.ok(err)
	f.finish()
}
