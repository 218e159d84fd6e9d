package storetest

import (
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/twolane/twolane/store"
)

// stale are lease names that are not the current one of c.
func stale(c *store.Command) map[string]store.LeaseName {
	return map[string]store.LeaseName{
		"other nonce": {Token: c.Lease.Token, Nonce: c.Lease.Nonce + "x"}, "other token": {Token: c.Lease.Token + 1, Nonce: c.Lease.Nonce},
		"older token": {Token: c.Lease.Token - 1, Nonce: c.Lease.Nonce}, "no lease": {}, "no nonce": {Token: c.Lease.Token},
	}
}

var renewCases = []kase{
	{"extends", "a renewal gives the lease a whole visibility timeout again, on the lease clock, and leaves its start alone", func(f *fixture) {
		c := f.start("a")
		for range 10 {
			f.Advance(f.v / 4)
			f.check(f.renew("w1", c)[0] == store.RenewResult{State: store.RenewOK}, "renewal refused")
			g := f.is("a", store.Pending, store.Leased)
			f.check(g.LeaseUntil == f.stats().LeaseAt.Add(f.v) && g.LeasedAt == c.LeasedAt && g.Lease == c.Lease, "%s", show(g))
		}
		f.settle(c, store.OutcomeDone)
	}},
	{"whole_name", "a lease is extended only if its whole name is current", func(f *fixture) {
		c := f.start("a")
		before := f.get("a")
		for name, lease := range stale(c) {
			d := *c
			d.Lease = lease
			f.check(f.renew("w1", &d)[0].State == store.RenewLost, "renewed with %s", name)
		}
		d := *c
		d.ID = "unknown"
		f.check(f.renew("w1", &d)[0].State == store.RenewLost, "renewed an unknown command")
		if diff := cmp.Diff(before, f.get("a")); diff != "" {
			f.Fatalf("a refused renewal changed the record:\n%s", diff)
		}
	}},
	{"each_lease", "each lease is answered for itself, in the order of the request", func(f *fixture) {
		f.submit(many("a", 4)...)
		cs := f.claim("w1", store.Intake, 4)
		f.settle(cs[1], store.OutcomeDone)
		f.cancel(cs[2].ID)
		rs := f.renew("w1", cs...)
		want := []store.RenewResult{{State: store.RenewOK}, {State: store.RenewLost}, {State: store.RenewOK, Cancel: true}, {State: store.RenewOK}}
		f.check(slices.Equal(rs, want), "%+v", rs)
	}},
	{"expired_not_reaped", "an expired lease that nobody has reaped is renewed and settled: only the reaper ends a lease, never the owner's own call", func(f *fixture) {
		f.submit(many("a", 2)...)
		cs := f.claim("w1", store.Intake, 2)
		for range 3 {
			f.Advance(f.v / 4)
			f.maintain()
		}
		f.Advance(f.v / 4) // now both have expired, and no call has noticed
		f.check(f.lane(store.Intake).Expired == 2, "%+v", f.lane(store.Intake))
		f.settle(cs[0], store.OutcomeDone)
		f.check(f.renew("w1", cs[1])[0].State == store.RenewOK, "the owner's own renewal reaped it")
		f.settle(cs[1], store.OutcomeDone)
	}},
	{"F169_progress", "progress is stored if it is given, kept otherwise, refused from a stale owner, and gone with the end", func(f *fixture) {
		c := f.start("a")
		send := func(lease store.LeaseName, p []byte) store.RenewState {
			r, err := f.s.Renew(f.ctx(), store.RenewRequest{Worker: store.Worker{ID: "w1"}, Leases: []store.RenewItem{{ID: "a", Lease: lease, Progress: p}}})
			f.ok(err)
			return r.Results[0].State
		}
		f.check(send(c.Lease, []byte("10%")) == store.RenewOK && string(f.get("a").Progress) == "10%", "progress is %q", f.get("a").Progress)
		f.check(send(c.Lease, nil) == store.RenewOK && string(f.get("a").Progress) == "10%", "progress is %q", f.get("a").Progress)
		f.check(send(store.LeaseName{Token: c.Lease.Token, Nonce: "stale0001"}, []byte("99%")) == store.RenewLost && string(f.get("a").Progress) == "10%", "a stale owner wrote progress")
		f.check(send(c.Lease, []byte("90%")) == store.RenewOK && string(f.get("a").Progress) == "90%", "progress is %q", f.get("a").Progress)
		f.settle(c, store.OutcomeDone)
		f.check(len(f.get("a").Progress) == 0, "an ended command shows progress %q", f.get("a").Progress)
	}},
	{"overdue", "a handler that ignores the end of its time is shown, once in the events, until it comes back", func(f *fixture) {
		c := f.start("a")
		for range 3 {
			_, err := f.s.Renew(f.ctx(), store.RenewRequest{Worker: store.Worker{ID: "w1"}, Leases: []store.RenewItem{{ID: "a", Lease: c.Lease, Overdue: true}}})
			f.ok(err)
		}
		g := f.get("a")
		f.check(g.Overdue && f.lane(store.Intake).Overdue == 1 && len(g.Events) == 1 && g.Events[0].Kind == store.EventOverdue, "overdue %v, stats %+v, events %+v", g.Overdue, f.lane(store.Intake), g.Events)
		f.settle(c, store.OutcomeProcessing)
		f.check(!f.get("a").Overdue && f.lane(store.Intake).Overdue == 0, "it is still overdue")
	}},
	{"registration", "a heartbeat registers the worker as it describes itself; it is shown while it lives, and gone when it says so or falls silent", func(f *fixture) {
		w := store.Worker{
			ID: "w1", Name: "n", Host: "h", PID: 7, Version: "v1", Started: epoch - 5, Queues: []string{"q", "q2"}, Types: [2][]string{{"t", "u"}, {"t"}},
			Permits: [2]int{10, 20}, Running: [2]int{1, 2}, Draining: true,
			Gates: []store.GateState{{Gate: "g", Lane: store.Repoll, Queues: []string{"q"}, Types: []string{"t"}, Class: "overflow", Budget: 0.25, Held: 3, Full: true,
				Value: new(0.9), Threshold: new(0.8), Up: true, Read: epoch - 2, Since: epoch - 3, Opens: epoch + 9, Reason: "closed", Detail: "d"}},
		}
		r, err := f.s.Renew(f.ctx(), store.RenewRequest{Worker: w})
		f.ok(err)
		f.check(r.Workers == 1 && len(r.Results) == 0, "%+v", r)
		s := f.stats()
		f.check(len(s.Workers) == 1, "%d workers", len(s.Workers))
		w.Seen, w.Expires = epoch, s.LeaseAt.Add(f.v)
		if d := cmp.Diff(w, s.Workers[0]); d != "" {
			f.Fatalf("registration differs (-want +got):\n%s", d)
		}
		f.renew("w2")
		f.check(len(f.stats().Workers) == 2, "%d workers", len(f.stats().Workers))
		r, err = f.s.Renew(f.ctx(), store.RenewRequest{Worker: store.Worker{ID: "w2"}, Gone: true})
		f.ok(err)
		f.check(r.Workers == 1, "%d workers after one left", r.Workers)
		f.Pass(f.v + f.v/4)
		f.check(len(f.stats().Workers) == 0, "a silent worker is still shown: %+v", f.stats().Workers)
		f.renew("w1")
		f.check(len(f.stats().Workers) == 1, "it did not register again")
	}},
	{"gone_with_leases", "the leases of a worker that left are reaped as they expire, not before", func(f *fixture) {
		c := f.start("a")
		f.renew("w1", c)
		_, err := f.s.Renew(f.ctx(), store.RenewRequest{Worker: store.Worker{ID: "w1"}, Gone: true})
		f.ok(err)
		f.Pass(f.v - time.Second)
		f.is("a", store.Pending, store.Leased)
		f.Pass(time.Second)
		f.is("a", store.Pending, store.InLine)
	}},
	{"gone_claims", "a claim of a worker that left is granted nothing, whether it was made before or not, until the worker registers again", func(f *fixture) {
		f.submit(many("a", 3)...)
		req := f.claimFor("w1", store.Intake, 1)
		claim := func(r store.ClaimRequest) int { return len(f.tryClaim(r).Grants) }
		f.check(claim(req) == 1, "nothing was claimed")
		f.settle(f.get("a-0000"), store.OutcomeDone)
		_, err := f.s.Renew(f.ctx(), store.RenewRequest{Worker: store.Worker{ID: "w1"}, Gone: true})
		f.ok(err)
		n := claim(req)
		f.check(n == 0, "the claim that was on its way got %d", n)
		n = claim(f.claimFor("w1", store.Intake, 1))
		f.check(n == 0, "another claim got %d", n)
		f.check(f.stats().Queues[0].Lanes[store.Intake].Leased == 0, "something is leased to nobody")
		f.check(claim(f.claimFor("w2", store.Intake, 1)) == 1, "another worker gets nothing")
		f.renew("w1")
		f.check(claim(f.claimFor("w1", store.Intake, 1)) == 1, "it registered again and gets nothing")
	}},
	{"invalid", "a heartbeat without a proper worker id, or with too many leases, is refused", func(f *fixture) {
		for _, id := range []string{"", "a b", "{x}"} {
			_, err := f.s.Renew(f.ctx(), store.RenewRequest{Worker: store.Worker{ID: id}})
			f.wrong(err, store.ErrInvalid)
		}
		_, err := f.s.Renew(f.ctx(), store.RenewRequest{Worker: store.Worker{ID: "w1"}, Leases: make([]store.RenewItem, store.MaxItems+1)})
		f.wrong(err, store.ErrTooLarge)
	}},
	{"many", "a heartbeat carries up to MaxItems leases", func(f *fixture) {
		f.submit(many("a", store.MaxItems)...)
		cs := f.claim("w1", store.Intake, store.MaxItems)
		f.check(len(cs) == store.MaxItems, "claimed %d", len(cs))
		f.Advance(f.v / 4)
		for i, r := range f.renew("w1", cs...) {
			f.check(r.State == store.RenewOK, "lease %d: %+v", i, r)
		}
		at := f.stats().LeaseAt.Add(f.v)
		f.check(f.get(cs[999].ID).LeaseUntil == at && f.get(cs[0].ID).LeaseUntil == at, "not all were extended")
	}},
	{"reports", "every call that does maintenance reports the store's time, the version of its configuration and the visibility timeout", func(f *fixture) {
		c := f.configure(func(c *store.Config) { c.Visibility = 8 * time.Second })
		r, err := f.s.Renew(f.ctx(), store.RenewRequest{Worker: store.Worker{ID: "w1"}})
		f.ok(err)
		m := f.maintain()
		k := f.tryClaim(f.claimFor("w1", store.Intake, 1)).MaintainReply
		for _, m := range []store.MaintainReply{r.MaintainReply, m, k} {
			f.check(m.Now == f.now && m.ConfigVersion == c.Version && m.Visibility == 8*time.Second, "%+v", m)
		}
	}},
}
