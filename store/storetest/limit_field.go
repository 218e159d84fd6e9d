package storetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twolane/twolane/store"
)

// limitFieldCases are further faults of limits that real queues had.
var limitFieldCases = []kase{
	{"F106_replies_lost", "a claim and a settle whose replies are lost are made again three times: taken once, given back once", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 2}, store.Limit{Name: "c", Max: 2, Scope: store.ScopeCommand})
		f.submit(many("a", 20)...)
		for range 10 {
			r := f.claimFor("w1", store.Intake, 1)
			c := items(f.tryClaim(r).Grants)[0]
			for range 3 {
				got := items(f.tryClaim(r).Grants)
				f.check(len(got) == 1 && got[0].ID == c.ID, "the repeated claim got %v", ids(got))
				f.members("l", "", 1)
			}
			f.settle(c, store.OutcomeDone)
			for range 3 {
				res := f.trySettle(c, store.OutcomeDone, func(s *store.Settlement) { s.Again = true })
				f.check(res.State == store.SettleAlready, "%+v", res)
				f.members("l", "", 0)
				f.members("c", "", 0)
			}
		}
	}},
	{"F107_silent_holder", "a holder that is silent for two leases and comes back is refused: of those whose lease is current there are never more than the limit", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 2})
		f.submit(many("a", 6)...)
		old := f.claim("silent", store.Intake, 5)
		f.Pass(2 * f.v)
		now := f.claim("w1", store.Intake, 5)
		f.check(len(old) == 2 && len(now) == 2, "%d and %d", len(old), len(now))
		for i, r := range f.renew("silent", old...) {
			f.check(r.State == store.RenewLost, "%s was renewed", old[i].ID)
			f.check(f.trySettle(old[i], store.OutcomeDone).State == store.SettleLost, "%s was settled", old[i].ID)
		}
		f.members("l", "", 2)
		f.check(len(f.claim("silent", store.Intake, 5)) == 0, "a third")
	}},
	{"F110_keys_apart", "two keys of limit 2 run four at once, follow-ups are limited too, and what waited keeps its priority", func(f *fixture) {
		f.limits(store.Limit{Name: "l", By: store.ByKey, Key: "k", Max: 2})
		for i := range 20 {
			f.submit(sub(fmt.Sprintf("%02d", i), keyed("k", fmt.Sprint(i%2)), func(s *store.Submission) { s.Priority = uint8(200 - 10*i) }))
		}
		var order []string
		for range 5 {
			cs := f.claim("w1", store.Intake, 20)
			f.check(len(cs) == 4, "%d at once", len(cs))
			slices.SortFunc(cs, func(a, b *store.Command) int { return int(a.Priority) - int(b.Priority) })
			for _, c := range cs {
				order = append(order, c.ID)
				f.settle(c, store.OutcomeDone)
			}
		}
		want := slices.Sorted(slices.Values(order))
		slices.Reverse(want)
		f.same(want, order)
		f.submit(sub("parent"))
		children := many("child", 5, keyed("k", "0"))
		f.settle(f.claim1("w1", store.Intake, "parent"), store.OutcomeDone, func(s *store.Settlement) { s.FollowUps = children })
		f.check(len(f.claim("w1", store.Intake, 20)) == 2, "follow-ups are not limited")
	}},
	{"F116_no_wake_ups", "with every wake-up dropped, whoever waits for a limit gets in by polling, within a re-test", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 1})
		f.submit(many("a", 4)...)
		f.submit(many("b", 4, ofType("t1"))...)
		n, last := 0, f.now
		var run []*store.Command
		for n < 8 {
			f.Pass(250 * time.Millisecond)
			for _, c := range run {
				f.settle(c, store.OutcomeDone)
			}
			if run = f.claimBoth("w1", 5); len(run) > 0 {
				n, last = n+len(run), f.now
			}
			f.check(f.now.Sub(last) <= 2*time.Second, "nothing for 2 s, %d of 8", n)
		}
	}},
	{"F160_three_levels", "limits by queue, type and key at once, under random commands: each is exact at every instant, against a count of who runs", func(f *fixture) {
		f.limits(store.Limit{Name: "queue", By: store.ByQueue, Max: 6}, store.Limit{Name: "type", By: store.ByType, Max: 4, Scope: store.ScopeCommand},
			store.Limit{Name: "key", By: store.ByKey, Key: "k", Max: 2})
		rnd := rand.New(rand.NewPCG(3, 4))
		for i := range 200 {
			change := []func(*store.Submission){inQueue([]string{"q", "q2"}[rnd.IntN(2)]), ofType([]string{"t", "t1", "t2"}[rnd.IntN(3)])}
			if rnd.IntN(3) > 0 {
				change = append(change, keyed("k", fmt.Sprint(rnd.IntN(5))))
			}
			f.submit(sub(fmt.Sprintf("a%03d", i), change...))
		}
		run, parked := map[string]*store.Command{}, map[string]string{}
		done := 0
		for step := 0; done < 200; step++ {
			f.check(step < 4000, "%d of 200 after %d steps", done, step)
			for _, c := range f.claimBoth(fmt.Sprint("w", rnd.IntN(3)), 1+rnd.IntN(5)) {
				run[c.ID] = c
				delete(parked, c.ID)
			}
			queue, typ, keys := map[string]int{}, map[string]int{}, map[string]int{}
			for _, c := range run {
				queue[c.Queue]++
				typ[c.Type]++
				for _, k := range c.Keys {
					keys[k.Value]++
				}
			}
			for _, t := range parked {
				typ[t]++
			}
			for _, level := range []struct {
				name string
				of   map[string]int
				max  int
			}{{"queue", queue, 6}, {"type", typ, 4}, {"key", keys, 2}} {
				for v, n := range level.of {
					f.check(n <= level.max, "%d run under %s %s", n, level.name, v)
					f.members(level.name, v, n)
				}
			}
			for _, id := range slices.Sorted(maps.Keys(run)) {
				c := run[id]
				switch rnd.IntN(6) {
				case 0, 1:
					f.settle(c, store.OutcomeDone)
					done++
				case 2:
					f.settle(c, store.OutcomeRetry, delay(200*time.Millisecond))
					if c.Status == store.Processing { // what it polls for goes on
						parked[id] = c.Type
					}
				case 3:
					f.settle(c, store.OutcomeProcessing, delay(300*time.Millisecond))
					parked[id] = c.Type
				default:
					continue
				}
				delete(run, id)
			}
			f.Pass(100 * time.Millisecond)
			byWorker := map[string][]*store.Command{}
			for _, c := range run {
				byWorker[c.Owner] = append(byWorker[c.Owner], c)
			}
			for w, cs := range byWorker {
				f.renew(w, cs...)
			}
		}
		f.finish()
	}},
}
