package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twolane/twolane/store"
)

var concurrencyCases = []kase{
	{"F063_F070_50_pollers_one_start_each", "fifty pollers and a thousand commands that fall due in the same millisecond make a thousand starts", func(f *fixture) {
		f.submit(many("a", 1000, func(s *store.Submission) { s.Delay = time.Second })...)
		f.Advance(time.Second)
		var mu sync.Mutex
		starts := map[string]int{}
		f.parallel(50, func(i int) int {
			empty := 0
			for n := 0; empty < 2 && n < 500; n++ {
				r := f.claimFor(fmt.Sprint("w", i), store.Intake, 10)
				r.Nonce = fmt.Sprintf("w%02dn%06d", i, n)
				reply, err := f.s.Claim(f.ctx(), r)
				if err != nil {
					f.Error(err)
					return 0
				}
				if len(reply.Grants) == 0 && !reply.More {
					empty++
				}
				mu.Lock()
				for _, c := range items(reply.Grants) {
					starts[c.ID]++
				}
				mu.Unlock()
			}
			return 0
		})
		f.check(len(starts) == 1000, "%d commands started", len(starts))
		for id, n := range starts {
			f.check(n == 1, "%s started %d times", id, n)
		}
		f.check(f.lane(store.Intake).Leased == 1000, "%+v", f.lane(store.Intake))
	}},
	{"F031_queue_full", "a cap of ten lets exactly ten of fifty through that submit at once", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.MaxReady = 10 })
		n := f.parallel(50, func(i int) int {
			rs, err := f.s.Submit(f.ctx(), store.SubmitRequest{Items: []store.Submission{sub(fmt.Sprint("a", i))}})
			switch {
			case err != nil:
				f.Error(err)
			case rs[0].Created:
				return 1
			case !errors.Is(rs[0].Err, store.ErrQueueFull):
				f.Errorf("%+v", rs[0])
			}
			return 0
		})
		f.check(n == 10, "%d accepted", n)
	}},
	{"same_id", "of many that submit the same id at once exactly one creates it", func(f *fixture) {
		n := f.parallel(30, func(int) int {
			rs, err := f.s.Submit(f.ctx(), store.SubmitRequest{Items: []store.Submission{sub("a")}})
			if err != nil || rs[0].Err != nil {
				f.Errorf("%v %+v", err, rs)
			} else if rs[0].Created {
				return 1
			}
			return 0
		})
		f.check(n == 1, "created %d times", n)
	}},
	{"settle_race", "of a settle, a cancel by force, a delete and the reaper that meet over one lease exactly one ends it", func(f *fixture) {
		f.submit(many("a", 60)...)
		cs := f.claim("w1", store.Intake, 60)
		f.Pass(f.v - f.v/4)
		f.Advance(f.v / 4)
		won := make([]int, len(cs))
		var mu sync.Mutex
		f.parallel(4, func(i int) int {
			for k, c := range cs {
				n := 0
				switch i {
				case 0:
					rs, err := f.s.Settle(f.ctx(), store.SettleRequest{Worker: "w1", Items: []store.Settlement{{ID: c.ID, Lease: c.Lease, Kind: store.OutcomeDone}}})
					if err != nil {
						f.Error(err)
					} else if rs[0].State == store.SettleDone {
						n = 1
					}
				case 1:
					rs, err := f.s.Cancel(f.ctx(), store.CancelRequest{IDs: []string{c.ID}, Force: true})
					if err != nil {
						f.Error(err)
					} else if rs[0].State == store.CancelEnded {
						n = 1
					}
				case 2:
					if k%3 == 0 {
						if _, err := f.s.Maintain(f.ctx()); err != nil {
							f.Error(err)
						}
					}
				case 3:
					if _, err := f.s.Renew(f.ctx(), store.RenewRequest{Worker: store.Worker{ID: "w1"}, Leases: []store.RenewItem{{ID: c.ID, Lease: c.Lease}}}); err != nil {
						f.Error(err)
					}
				}
				mu.Lock()
				won[k] += n
				mu.Unlock()
			}
			return 0
		})
		for k, c := range cs {
			g := f.get(c.ID)
			f.check(won[k] == 1 && g.Status.Terminal(), "%d ended %s", won[k], show(g))
		}
	}},
	{"two_handles", "handles of one namespace see one another's work at once and hand out each command once", func(f *fixture) {
		g := f.second()
		f.submit(many("a", 100)...)
		var mu sync.Mutex
		seen := map[string]int{}
		f.parallel(6, func(i int) int {
			s := []store.Store{f.s, g.s}[i%2]
			for n := range 30 {
				r := f.claimFor(fmt.Sprint("w", i), store.Intake, 4)
				r.Nonce = fmt.Sprintf("w%02dn%06d", i, n)
				reply, err := s.Claim(f.ctx(), r)
				if err != nil {
					f.Error(err)
					return 0
				}
				mu.Lock()
				for _, c := range items(reply.Grants) {
					seen[c.ID]++
				}
				mu.Unlock()
			}
			return 0
		})
		f.check(len(seen) == 100, "%d commands granted", len(seen))
		for id, n := range seen {
			f.check(n == 1, "%s granted %d times", id, n)
		}
		f.check(g.get("a-0000").Place == store.Leased, "the other handle reads something else")
	}},
	{"audit_live", "an audit of a store at work finds nothing, since there is nothing", func(f *fixture) {
		done := make(chan struct{})
		var audits sync.WaitGroup
		audits.Go(func() {
			for {
				r, err := f.s.Audit(f.ctx())
				if err != nil || len(r.Violations) > 0 {
					f.Errorf("audit: %v %q", err, r.Violations)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
		f.parallel(4, func(w int) int {
			for n := range 25 {
				items := many(fmt.Sprintf("a-%d-%d", w, n), 5, func(s *store.Submission) { s.UniqueKey = "u-" + s.ID; s.Group = fmt.Sprint("g", n%3) })
				if _, err := f.s.Submit(f.ctx(), store.SubmitRequest{Items: items}); err != nil {
					f.Error(err)
					return 0
				}
				r := f.claimFor(fmt.Sprint("w", w), store.Intake, 5)
				r.Nonce = fmt.Sprintf("w%02dn%06d", w, n)
				reply, err := f.s.Claim(f.ctx(), r)
				if err != nil {
					f.Error(err)
					return 0
				}
				req := store.SettleRequest{Worker: r.Worker}
				for i, g := range reply.Grants {
					c := g.Items[0]
					req.Items = append(req.Items, store.Settlement{ID: c.ID, Lease: c.Lease, Kind: outcomes[(n+i)%len(outcomes)], Delay: 100 * time.Millisecond})
				}
				if _, err := f.s.Settle(f.ctx(), req); err != nil {
					f.Error(err)
					return 0
				}
			}
			return 0
		})
		close(done)
		audits.Wait()
	}},
	{"context", "a call whose context has ended does nothing and says so, and leaves the store usable", func(f *fixture) {
		ctx, cancel := context.WithCancel(f.ctx())
		cancel()
		_, err := f.s.Submit(ctx, store.SubmitRequest{Items: many("a", 1)})
		f.wrong(err, context.Canceled)
		_, err = f.s.Claim(ctx, f.claimFor("w1", store.Intake, 1))
		f.wrong(err, context.Canceled)
		f.check(f.get("a-0000") == nil, "a cancelled call was made")
		f.submit(sub("b"))
	}},
}
