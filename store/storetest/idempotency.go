package storetest

import (
	"fmt"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/faultstore"
)

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
