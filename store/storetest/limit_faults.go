package storetest

import (
	"fmt"
	"time"

	"github.com/twolane/twolane/store"
)

var limitFaultCases = []kase{
	{"F010_ten_failures", "limit 1, a command that fails ten times and then succeeds, three more behind it: no wedge, and nothing in flight between attempts", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 1})
		f.submit(sub("bad"))
		f.submit(many("more", 3)...)
		fails, done := 0, 0
		for range 200 {
			cs := f.claim("w1", store.Intake, 5)
			f.check(len(cs) <= 1, "%d at once", len(cs))
			for _, c := range cs {
				f.members("l", "", 1)
				if c.ID == "bad" && fails < 10 {
					fails++
					f.settle(c, store.OutcomeRetry, delay(time.Second))
				} else {
					done++
					f.settle(c, store.OutcomeDone)
				}
				f.members("l", "", 0)
			}
			f.Pass(250 * time.Millisecond)
		}
		f.check(fails == 10 && done == 4, "%d failures, %d done", fails, done)
	}},
	{"F028_F005_killed_holder", "a worker killed while it holds N of N: the room is back a visibility timeout and a second later, and never over-admitted meanwhile", func(f *fixture) {
		for _, scope := range []store.Scope{store.ScopeInvocation, store.ScopeCommand} {
			f.limits(store.Limit{Name: "l", Max: 2, Scope: scope})
			f.submit(many(fmt.Sprint("a", scope), 10)...)
			f.check(len(f.claim("dead", store.Intake, 5)) == 2, "not two")
			since, n := f.now, 0
			for n == 0 {
				f.check(f.now.Sub(since) <= f.v+time.Second, "nothing for %v", f.now.Sub(since))
				f.renew("w1")
				n = len(f.claim("w1", store.Intake, 5))
				f.check(n == 0 || f.now.Sub(since) >= f.v, "over-admitted after %v", f.now.Sub(since))
				f.Pass(500 * time.Millisecond)
			}
			f.check(n == 2, "%d at once", n)
			for _, id := range f.limit("l", "").Holders {
				f.settle(f.get(id), store.OutcomeDone)
			}
			f.limits()
			f.finish()
		}
	}},
	{"F104_F109_longer_than_any_window", "long requests under a limit of two: exactly two at a time, for as long as they run and are renewed", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 2})
		f.submit(many("a", 10)...)
		done := 0
		for done < 10 {
			cs := f.claim("w1", store.Intake, 5)
			f.check(len(cs) == 2, "%d at once", len(cs))
			for range 40 {
				f.Advance(f.v / 4)
				f.renew("w1", cs...)
				f.check(len(f.claim("w2", store.Intake, 5)) == 0, "a third")
			}
			for _, c := range cs {
				f.settle(c, store.OutcomeDone)
				done++
			}
		}
	}},
	{"F004_F103_waits_hold_nothing", "a command of one key runs for long: those that wait for the key hold no slot of another, and the next starts with its end", func(f *fixture) {
		f.limits(store.Limit{Name: "key", By: store.ByKey, Key: "k", Max: 1}, store.Limit{Name: "all", Max: 3})
		f.submit(many("a", 10, keyed("k", "x"))...)
		c := f.claim("w1", store.Intake, 10)[0]
		for range 20 {
			f.Advance(f.v / 4)
			f.renew("w1", c)
			f.claim("w2", store.Intake, 10)
		}
		f.members("all", "", 1)
		f.submit(many("b", 5)...)
		f.check(len(f.claim("w2", store.Intake, 10)) == 2, "others do not run beside")
		f.settle(c, store.OutcomeAbandon)
		f.members("key", "x", 0)
		f.check(len(f.claim("w3", store.Intake, 10)) == 1, "the next does not start with its end")
	}},
	{"F006_slow_heartbeat", "a worker whose heartbeat comes late, before and after the reaper: the count is right in both cases, and a second release is refused", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 1})
		f.submit(many("a", 3)...)
		c := f.claim("w1", store.Intake, 1)[0]
		for range 10 {
			f.Advance(f.v / 4)
			f.maintain()
			f.Advance(f.v/4 + f.v/8)
			f.check(f.renew("w1", c)[0].State == store.RenewOK, "the lease is lost before its time")
			f.members("l", "", 1)
		}
		f.Pass(f.v)
		f.members("l", "", 0)
		d := f.claim("w2", store.Intake, 1)[0]
		f.check(f.renew("w1", c)[0].State == store.RenewLost, "renewed after the reaper")
		f.check(f.trySettle(c, store.OutcomeDone).State == store.SettleLost, "released twice")
		f.members("l", "", 1)
		f.settle(d, store.OutcomeDone)
		f.members("l", "", 0)
	}},
	{"F007_two_releasers", "two releasers at once: one of them releases", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 5}, store.Limit{Name: "c", Max: 5, Scope: store.ScopeCommand})
		for i := range 10 {
			f.submit(sub(fmt.Sprint("a", i), costing(3)))
			c := f.claim("w1", store.Intake, 1)[0]
			if i%2 == 0 {
				f.Advance(f.v)
			}
			won := f.parallel(4, func(w int) int {
				if w == 3 {
					if _, err := f.s.Maintain(f.ctx()); err != nil {
						f.Error(err)
					}
					return 0
				}
				rs, err := f.s.Settle(f.ctx(), store.SettleRequest{Worker: "w1", Items: []store.Settlement{{ID: c.ID, Lease: c.Lease, Kind: store.OutcomeDone}}})
				if err != nil {
					f.Error(err)
				} else if rs[0].State == store.SettleDone {
					return 1
				}
				return 0
			})
			f.check(won <= 1, "%d released", won)
			f.Pass(f.v)
			if won == 1 {
				f.members("c", "", 0)
			}
			f.finish()
		}
	}},
	{"F026_taken_away", "deleted, cancelled, purged and moved while it holds: the room is back", func(f *fixture) {
		f.limits(store.Limit{Name: "l", By: store.ByQueue, Max: 1, Scope: store.ScopeCommand})
		for i, take := range []func(f *fixture, c *store.Command){deleted, forced, purged, func(f *fixture, c *store.Command) {
			f.settle(c, store.OutcomeProcessing)
			f.ok(f.act(store.ActMove, c.ID, func(r *store.ActRequest) { r.Queue = "q2" }))
			f.Pass(time.Second)
			f.settle(f.claimBoth("w1", 1)[0], store.OutcomeProcessing)
		}} {
			c := f.start(fmt.Sprint("a", i))
			f.Pass(time.Second)
			f.submit(sub(fmt.Sprint("b", i)))
			f.check(len(f.claim("w2", store.Intake, 1)) == 0, "two at once")
			take(f, c)
			f.Pass(time.Second)
			f.settle(f.claim1("w2", store.Intake, fmt.Sprint("b", i)), store.OutcomeDone)
			f.finish()
		}
	}},
	{"F028_park_and_release", "one parks as another releases, at the same instant, many times: nothing stands while its key is free", func(f *fixture) {
		f.limits(store.Limit{Name: "l", By: store.ByKey, Key: "k", Max: 1})
		for i := range 100 {
			f.submit(sub(fmt.Sprint("a", i), keyed("k", "x"), ofType(fmt.Sprint("t", 1+i%2))))
		}
		var done counter
		f.parallel(2, func(w int) int {
			for began := time.Now(); done.n.Load() < 100 && time.Since(began) < 30*time.Second; {
				r := f.claimFor(fmt.Sprint("w", w), store.Intake, 1)
				r.Wants[0].Types[0].Type = fmt.Sprint("t", 1+w)
				reply, err := f.s.Claim(f.ctx(), r)
				if err != nil {
					f.Error(err)
					return 0
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
		f.check(done.n.Load() == 100, "%d of 100 without any time passing: the room stood", done.n.Load())
	}},
	{"F037_reserve", "a limit on the low priority's type keeps slots for what is critical, which starts at once", func(f *fixture) {
		f.limits(store.Limit{Name: "low", By: store.ByType, Max: 1000, Values: map[string]int{"t1": 3}})
		f.submit(many("low", 100, ofType("t1"))...)
		f.check(len(f.claimBoth("w1", 4)) == 3, "low takes the reserve")
		f.submit(sub("critical"))
		cs := f.claimBoth("w1", 1)
		f.check(len(cs) == 1 && cs[0].ID == "critical", "claimed %v", ids(cs))
	}},
	{"F042_released_when_lost", "a settle whose answer is lost is repeated until it is known, and its slot goes once", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 2})
		for i := range 20 {
			c := f.start(fmt.Sprint("a", i))
			f.cancel(c.ID)
			for range 3 {
				f.trySettle(c, store.OutcomeRetry, func(s *store.Settlement) { s.Again = true })
				f.members("l", "", 0)
			}
			f.is(c.ID, store.Cancelled, store.Nowhere)
		}
	}},
	{"F170_no_overlap", "a limit of 1 by key lets nobody overlap, and each end lets the next one in", func(f *fixture) {
		f.limits(store.Limit{Name: "one", By: store.ByKey, Key: "k", Max: 1})
		f.submit(many("a", 12, keyed("k", "x"))...)
		for i, kind := range []store.OutcomeKind{store.OutcomeDone, store.OutcomeFail, store.OutcomeRetry, store.OutcomeSnooze, store.OutcomeProcessing, store.OutcomeGiveBack} {
			cs := f.claim("w1", store.Intake, 5)
			f.check(len(cs) == 1, "round %d: %d", i, len(cs))
			f.check(len(f.claim("w2", store.Intake, 5)) == 0, "overlap")
			f.settle(cs[0], kind, delay(time.Minute))
		}
	}},
}
