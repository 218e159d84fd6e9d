package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twolane/twolane/store"
)

// runs are the leases that live workers of a case hold.
type runs struct {
	f   *fixture
	cs  []*store.Command
	rnd *rand.Rand
}

// renew keeps all of them, and the heartbeats of their owners.
func (r *runs) renew() {
	by := map[string][]*store.Command{}
	for _, c := range r.cs {
		by[c.Owner] = append(by[c.Owner], c)
	}
	for w, cs := range by {
		r.f.renew(w, cs...)
	}
}

// take removes one at random.
func (r *runs) take() *store.Command {
	i := r.rnd.IntN(len(r.cs))
	c := r.cs[i]
	r.cs = slices.Delete(r.cs, i, i+1)
	return c
}

var limitKillCases = []kase{
	{"F010_a_thousand_retries", "limit 2 with 1,000 commands that retry at random: never more than two, back to none, and never nothing for longer than the backoff", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 2})
		n, backoff := 1000, time.Second
		if testing.Short() {
			n = 200
		}
		f.submit(many("a", n)...)
		run := runs{f: f, rnd: rand.New(rand.NewPCG(1, 2))}
		done, retried, last := 0, 0, f.now
		for step := 0; done < n; step++ {
			cs := f.claim(fmt.Sprint("w", run.rnd.IntN(3)), store.Intake, 5)
			if run.cs = append(run.cs, cs...); len(run.cs) > 2 {
				f.Fatalf("%d at once", len(run.cs))
			}
			if len(cs) > 0 || len(run.cs) == 2 {
				last = f.now
			}
			f.check(f.now.Sub(last) <= backoff, "nothing was claimed for %v though there is room; %d done", f.now.Sub(last), done)
			for range run.rnd.IntN(3) {
				if len(run.cs) == 0 {
					break
				}
				c := run.take()
				switch run.rnd.IntN(4) {
				case 0:
					f.settle(c, store.OutcomeRetry, delay(time.Duration(run.rnd.Int64N(int64(backoff)))))
					retried++
				default:
					f.settle(c, store.OutcomeDone)
					done++
				}
			}
			if step%50 == 0 {
				f.members("l", "", len(run.cs))
			}
			f.Pass(50 * time.Millisecond)
			run.renew()
		}
		f.check(retried > n/5, "only %d retries", retried)
		f.finish()
	}},
	{"F005_random_kills", "limit 5, workers that die and claims whose replies are lost, at random: never more than five, throughput is never zero for longer than a lease, and nobody is a member in the end", func(f *fixture) {
		f.limits(store.Limit{Name: "inv", Max: 5}, store.Limit{Name: "cmd", Max: 5, Scope: store.ScopeCommand, By: store.ByType})
		f.queue("q", func(q *store.QueueConfig) { q.MaxLosses = 1000 })
		const n = 300
		f.submit(many("a", n)...)
		run := runs{f: f, rnd: rand.New(rand.NewPCG(5, 6))}
		worker, done, kills, last := 0, 0, 0, f.now
		for step := 0; done < n; step++ {
			f.check(f.now.Sub(last) <= f.v+2*time.Second, "nothing was done for %v; %d of %d", f.now.Sub(last), done, n)
			w := fmt.Sprint("w", worker)
			f.renew(w)
			r := f.claimFor(w, store.Intake, 1+run.rnd.IntN(3))
			got := items(f.tryClaim(r).Grants)
			switch {
			case len(got) > 0 && run.rnd.IntN(8) == 0: // the reply is lost and never asked for again
			case len(got) > 0 && run.rnd.IntN(8) == 0: // the reply is lost, and asked for again
				again := ids(items(f.tryClaim(r).Grants))
				slices.Sort(again)
				first := ids(got)
				slices.Sort(first)
				f.same(first, again)
				run.cs = append(run.cs, got...)
			default:
				run.cs = append(run.cs, got...)
			}
			for _, k := range []store.LimitKey{{Limit: "inv"}, {Limit: "cmd", Value: "t"}} {
				st := f.limit(k.Limit, k.Value)
				f.check(st.Members <= 5 && st.Members >= len(run.cs), "%d members of %s, %d run", st.Members, k, len(run.cs))
			}
			switch {
			case run.rnd.IntN(40) == 0: // the worker dies with all that it has
				run.cs = slices.DeleteFunc(run.cs, func(c *store.Command) bool { return c.Owner == w })
				worker++
				kills++
			case len(run.cs) > 0 && run.rnd.IntN(3) > 0:
				f.settle(run.take(), store.OutcomeDone)
				done, last = done+1, f.now
			}
			f.Pass(300 * time.Millisecond)
			run.renew()
		}
		f.check(kills > 5, "only %d workers died", kills)
		f.finish()
	}},
	{"F165_backlog", "a tenant with a full limit and thousands in line does not hold another one back: the other's commands start with the next claim", func(f *fixture) {
		f.backlog(false)
	}},
	{"F165_backlog_fair", "the same in fair turns", func(f *fixture) { f.backlog(true) }},
}

// backlog gives group a thousands of commands behind a full limit, and group b ten that start as its own limit lets them.
func (f *fixture) backlog(fair bool) {
	f.Helper()
	f.limits(store.Limit{Name: "tenant", By: store.ByGroup, Max: 3})
	f.queue("q", func(q *store.QueueConfig) { q.Fair = fair })
	f.submit(many("a", 3000, inGroup("a"))...)
	held := f.claim("w1", store.Intake, 5)
	f.check(len(held) == 3, "%d of a run", len(held))
	f.submit(many("b", 10, inGroup("b"))...)
	for started := 0; started < 10; {
		cs := f.claim("w1", store.Intake, 5)
		f.check(len(cs) == 3 || started+len(cs) == 10, "%d of b with one claim", len(cs))
		for _, c := range cs {
			f.check(c.Group == "b", "%s runs", c.ID)
			f.settle(c, store.OutcomeDone)
		}
		started += len(cs)
	}
	f.settle(held[0], store.OutcomeDone)
	cs := f.claim("w1", store.Intake, 5)
	f.check(len(cs) == 1 && cs[0].Group == "a", "claimed %v", ids(cs))
}
