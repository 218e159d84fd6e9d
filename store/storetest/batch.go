package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/twolane/twolane/store"
)

// claimBatch claims up to n invocations of up to size commands of type "t".
func (f *fixture) claimBatch(w string, lane store.Lane, n, size int) []store.Grant {
	f.Helper()
	r := f.claimFor(w, lane, n)
	r.Wants[0].Types[0].Batch = size
	return f.claimAll(r)
}

var batchCases = []kase{
	{"one_line", "a batch is drawn from one line: one type, group, batch key, set of keys, cost and class; each command has a lease of its own", func(f *fixture) {
		for i := range 60 {
			f.submit(sub(fmt.Sprintf("a-%02d", i), func(s *store.Submission) {
				s.Group, s.BatchKey, s.Cost = []string{"", "g"}[i%2], []string{"", "b"}[i/2%2], 1+i/4%2
				if i%8 == 0 {
					s.Keys = []store.Key{{Name: "k", Value: "v"}}
				}
			}))
		}
		type line struct {
			group, batch, keys string
			cost               int
		}
		seen, leases := map[string]bool{}, map[store.LeaseName]bool{}
		for _, g := range f.claimBatch("w1", store.Intake, 60, 5) {
			f.check(len(g.Items) >= 1 && len(g.Items) <= 5, "%d in a batch of 5", len(g.Items))
			of := func(c *store.Command) line { return line{c.Group, c.BatchKey, fmt.Sprint(c.Keys), c.Cost} }
			for _, c := range g.Items {
				f.check(of(c) == of(g.Items[0]), "%+v beside %+v", of(c), of(g.Items[0]))
				f.check(!seen[c.ID] && !leases[c.Lease], "%s twice, or with another's lease", c.ID)
				seen[c.ID], leases[c.Lease] = true, true
			}
		}
		f.check(len(seen) == 60, "%d of 60 granted", len(seen))
	}},
	{"order", "a batch takes its line in order, and what is left stays in order", func(f *fixture) {
		f.submit(many("a", 10)...)
		var got []string
		for range 3 {
			got = append(got, ids(items(f.claimBatch("w1", store.Intake, 1, 4)))...)
		}
		f.check(slices.IsSorted(got) && len(got) == 10, "%v", got)
	}},
	{"without_batch", "a type without a batch size is granted one by one", func(f *fixture) {
		f.submit(many("a", 5)...)
		got := f.claimAll(f.claimFor("w1", store.Intake, 5))
		f.check(len(got) == 5, "%d grants", len(got))
	}},
	{"of_polls", "the polls of one quantum come together: a thousand on a grid are ten batches of a hundred", func(f *fixture) {
		f.submit(many("a", 1000)...)
		cs := f.claim("w1", store.Intake, 1000)
		for part := range slices.Chunk(cs, 250) {
			req := store.SettleRequest{Worker: "w1"}
			for _, c := range part {
				req.Items = append(req.Items, store.Settlement{ID: c.ID, Lease: c.Lease, Kind: store.OutcomeProcessing, Delay: 5 * time.Second, Grid: 250 * time.Millisecond})
			}
			_, err := f.s.Settle(f.ctx(), req)
			f.ok(err)
			f.Advance(50 * time.Millisecond)
		}
		f.Pass(5*time.Second + 50*time.Millisecond)
		got := f.claimBatch("w1", store.Repoll, 20, 100)
		f.check(len(got) == 10 && len(items(got)) == 1000, "%d batches with %d commands", len(got), len(items(got)))
	}},
	{"items_apart", "every item has its own fate: one settled, cancelled or lost does not touch the others", func(f *fixture) {
		f.submit(many("a", 5)...)
		cs := f.claimBatch("w1", store.Intake, 1, 5)[0].Items
		f.settle(cs[0], store.OutcomeDone)
		f.tryCancel(store.CancelRequest{IDs: []string{cs[1].ID}, Force: true})
		f.ok(f.act(store.ActDelete, cs[2].ID, func(r *store.ActRequest) { r.Force = true }))
		rs := f.renew("w1", cs...)
		for i, want := range []store.RenewState{store.RenewLost, store.RenewLost, store.RenewLost, store.RenewOK, store.RenewOK} {
			f.check(rs[i].State == want, "item %d: %+v", i, rs[i])
		}
		f.settle(cs[3], store.OutcomeProcessing)
		f.settle(cs[4], store.OutcomeRetry, delay(time.Second))
	}},
	{"failed_call", "items that fail together for the same delay are due together again, and batch again", func(f *fixture) {
		f.submit(many("a", 20)...)
		req := store.SettleRequest{Worker: "w1"}
		for _, c := range items(f.claimBatch("w1", store.Intake, 1, 20)) {
			req.Items = append(req.Items, store.Settlement{ID: c.ID, Lease: c.Lease, Kind: store.OutcomeRetry, Delay: time.Second})
		}
		_, err := f.s.Settle(f.ctx(), req)
		f.ok(err)
		f.Pass(time.Second)
		got := f.claimBatch("w1", store.Intake, 5, 20)
		f.check(len(got) == 1 && len(got[0].Items) == 20, "%d batches with %d commands", len(got), len(items(got)))
	}},
	{"repeated", "a repeated claim gets its batches back as batches", func(f *fixture) {
		f.submit(many("a", 10)...)
		r := f.claimFor("w1", store.Intake, 2)
		r.Wants[0].Types[0].Batch = 5
		first, again := f.tryClaim(r).Grants, f.tryClaim(r).Grants
		f.check(len(first) == 2 && len(again) == 2, "%d grants, then %d", len(first), len(again))
		for i := range first {
			f.check(slices.Equal(ids(first[i].Items), ids(again[i].Items)), "%v, then %v", ids(first[i].Items), ids(again[i].Items))
		}
	}},
	{"bytes", "MaxBytes cuts a batch too; what was cut is there at once", func(f *fixture) {
		f.submit(many("a", 10, func(s *store.Submission) { s.Params = make([]byte, 10_000) })...)
		r := f.claimFor("w1", store.Intake, 1)
		r.Wants[0].Types[0].Batch, r.MaxBytes = 10, 35_000
		g := f.tryClaim(r).Grants
		f.check(len(g) == 1 && len(g[0].Items) >= 1 && len(g[0].Items) <= 4, "%d grants, the first with %d", len(g), len(g[0].Items))
		rest := f.claimBatch("w1", store.Intake, 10, 10)
		f.check(len(g[0].Items)+len(items(rest)) == 10, "%d and %d", len(g[0].Items), len(items(rest)))
	}},
	{"suspects_single", "a suspect is a batch of one, whatever the batch size", func(f *fixture) {
		f.submit(many("a", 4)...)
		for i := range 2 {
			f.check(len(f.claim(fmt.Sprint("w", i), store.Intake, 4)) == 4, "not all claimed")
			f.Pass(f.v)
		}
		f.Pass(time.Minute)
		r := f.claimFor("w9", store.Intake, 4)
		r.Wants[0].Types[0].Batch = 4
		g := f.tryClaim(r).Grants
		f.check(len(g) == 1 && len(g[0].Items) == 1, "%d grants with %d commands", len(g), len(items(g)))
	}},
}
