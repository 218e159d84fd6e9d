package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/faultstore"
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
	{"queue_full", "a cap of ten lets exactly ten of fifty through that submit at once (F031)", func(f *fixture) {
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

// lossy returns the same case on a store that commits the next call of an operation and loses its answer.
func (f *fixture) lossy(op faultstore.Op) (*fixture, *faultstore.Faults) {
	faults := faultstore.New(1)
	g := *f
	g.s = faults.Wrap(f.s)
	faults.Inject(faultstore.Rule{Ops: []faultstore.Op{op}, Fault: faultstore.DropReply, Count: 1})
	return &g, faults
}

var idempotencyCases = []kase{
	{"submit", "a submit that was made and whose answer was lost is repeated without a second command", func(f *fixture) {
		for _, atomic := range []bool{false, true} {
			g, _ := f.lossy(faultstore.Submit)
			req := store.SubmitRequest{Items: many(fmt.Sprint("a", atomic), 5), Atomic: atomic}
			_, err := g.s.Submit(f.ctx(), req)
			f.wrong(err, faultstore.ErrInjected)
			rs, err := g.s.Submit(f.ctx(), req)
			f.ok(err)
			for _, r := range rs {
				f.check(r.Err == nil && !r.Created && r.Status == store.Pending, "%+v", r)
			}
		}
		f.check(len(f.claim("w1", store.Intake, 50)) == 10, "not ten commands")
	}},
	{"F008_F059_claim", "a claim whose answer was lost is repeated with its nonce and gets the same leases; nothing is lost, leaked or granted twice", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.Rates[store.Intake] = store.Rate{Limit: 0.01, Burst: 3} })
		f.submit(many("a", 6)...)
		g, _ := f.lossy(faultstore.Claim)
		r := f.claimFor("w1", store.Intake, 3)
		_, err := g.s.Claim(f.ctx(), r)
		f.wrong(err, faultstore.ErrInjected)
		cs := items(g.tryClaim(r).Grants)
		f.check(len(cs) == 3, "%d leases came back, without a second token each", len(cs))
		for _, c := range cs {
			f.check(c.Starts == 1 && f.get(c.ID).Starts == 1 && f.get(c.ID).Lease == c.Lease, "%s", show(c))
			f.settle(c, store.OutcomeDone)
		}
		f.check(f.lane(store.Intake).Leased == 0 && f.lane(store.Intake).InLine == 3, "%+v", f.lane(store.Intake))
	}},
	{"claim_never_repeated", "a claim whose answer was lost and that nobody repeats costs no failure or loss while its worker lives", func(f *fixture) {
		f.submit(sub("a"))
		g, _ := f.lossy(faultstore.Claim)
		_, err := g.s.Claim(f.ctx(), f.claimFor("w1", store.Intake, 1))
		f.wrong(err, faultstore.ErrInjected)
		for range 5 {
			f.renew("w1")
			f.Advance(f.v / 4)
		}
		f.renew("w1")
		c := f.is("a", store.Pending, store.InLine)
		f.check(c.Failures == 0 && c.Losses == 0, "%s", show(c))
	}},
	{"renew", "a renewal whose answer was lost is repeated", func(f *fixture) {
		c := f.start("a")
		g, _ := f.lossy(faultstore.Renew)
		req := store.RenewRequest{Worker: store.Worker{ID: "w1"}, Leases: []store.RenewItem{{ID: "a", Lease: c.Lease, Progress: []byte("p")}}}
		_, err := g.s.Renew(f.ctx(), req)
		f.wrong(err, faultstore.ErrInjected)
		r, err := g.s.Renew(f.ctx(), req)
		f.ok(err)
		f.check(r.Results[0].State == store.RenewOK && r.Workers == 1, "%+v", r)
	}},
	{"F106_settle", "every outcome that was made and whose answer was lost answers already when it is repeated, three times over, and counts once", func(f *fixture) {
		for i, kind := range outcomes {
			c := f.start(fmt.Sprint("a", i))
			g, _ := f.lossy(faultstore.Settle)
			req := store.SettleRequest{Worker: "w1", Items: []store.Settlement{{ID: c.ID, Lease: c.Lease, Kind: kind, Delay: time.Hour}}}
			_, err := g.s.Settle(f.ctx(), req)
			f.wrong(err, faultstore.ErrInjected)
			before := f.get(c.ID)
			req.Items[0].Again = true
			for range 3 {
				rs, err := g.s.Settle(f.ctx(), req)
				f.ok(err)
				f.check(rs[0].State == store.SettleAlready && rs[0].Status == before.Status, "%s: %+v", kind, rs[0])
			}
			f.check(show(f.get(c.ID)) == show(before), "%s counted twice: %s, then %s", kind, show(before), show(f.get(c.ID)))
		}
	}},
	{"cancel", "a cancel whose answer was lost gets the same answer", func(f *fixture) {
		f.submit(sub("a"))
		g, _ := f.lossy(faultstore.Cancel)
		req := store.CancelRequest{IDs: []string{"a"}, Reason: "why"}
		_, err := g.s.Cancel(f.ctx(), req)
		f.wrong(err, faultstore.ErrInjected)
		rs, err := g.s.Cancel(f.ctx(), req)
		f.ok(err)
		f.check(rs[0].State == store.CancelEnded, "%+v", rs)
	}},
	{"act", "operator work whose answer was lost says the second time that it is done, by its state", func(f *fixture) {
		f.settle(f.start("a"), store.OutcomeFail)
		g, _ := f.lossy(faultstore.Act)
		req := store.ActRequest{Kind: store.ActRetry, IDs: []string{"a"}}
		_, err := g.s.Act(f.ctx(), req)
		f.wrong(err, faultstore.ErrInjected)
		r, err := g.s.Act(f.ctx(), req)
		f.ok(err)
		f.check(r.Done == 0 && isErr(r.Results[0], store.ErrState), "%+v", r)
		f.is("a", store.Pending, store.InLine)
	}},
	{"configure", "a change whose answer was lost conflicts the second time, and the configuration shows that it was made", func(f *fixture) {
		g, _ := f.lossy(faultstore.Configure)
		want := store.Config{Visibility: 3 * time.Second}
		_, err := g.s.Configure(f.ctx(), 0, want)
		f.wrong(err, faultstore.ErrInjected)
		_, err = g.s.Configure(f.ctx(), 0, want)
		f.wrong(err, store.ErrConfigConflict)
		c, err := g.s.Config(f.ctx())
		f.check(err == nil && c.Version == 1 && c.Visibility == 3*time.Second, "%+v %v", c, err)
	}},
	{"outbox", "a read whose answer was lost shows again, an acknowledgement is repeated", func(f *fixture) {
		f.settle(f.start("a", notify("top")), store.OutcomeDone)
		g, _ := f.lossy(faultstore.Outbox)
		req := store.OutboxRequest{Topic: "top", Max: 5, HideFor: 1000}
		_, err := g.s.Outbox(f.ctx(), req)
		f.wrong(err, faultstore.ErrInjected)
		f.Advance(time.Second)
		es, err := g.s.Outbox(f.ctx(), req)
		f.check(err == nil && len(es) == 1, "%v %v", es, err)
		g, _ = f.lossy(faultstore.Outbox)
		req = store.OutboxRequest{Topic: "top", Ack: []uint64{es[0].Seq}}
		_, err = g.s.Outbox(f.ctx(), req)
		f.wrong(err, faultstore.ErrInjected)
		_, err = g.s.Outbox(f.ctx(), req)
		f.ok(err)
		f.check(f.stats().Outbox["top"] == 0, "%v", f.stats().Outbox)
	}},
	{"F001_settle_fails", "commands whose settle always fails run again after their lease; none is leased without an end of its lease", func(f *fixture) {
		f.submit(many("a", 50)...)
		faults := faultstore.New(1)
		g := *f
		g.s = faults.Wrap(f.s)
		faults.Inject(faultstore.Rule{Ops: []faultstore.Op{faultstore.Settle}, Fault: faultstore.FailBefore})
		for _, c := range g.claim("w1", store.Intake, 50) {
			_, err := g.s.Settle(f.ctx(), store.SettleRequest{Worker: "w1", Items: []store.Settlement{{ID: c.ID, Lease: c.Lease, Kind: store.OutcomeDone}}})
			f.wrong(err, faultstore.ErrInjected)
		}
		f.Pass(f.v)
		faults.Heal()
		for _, c := range g.claim("w2", store.Intake, 50) {
			g.settle(c, store.OutcomeDone)
		}
		f.check(f.stats().Queues[0].Succeeded == 50, "%+v", f.stats().Queues[0])
	}},
}
