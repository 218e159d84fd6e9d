package storetest

import (
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/twolane/twolane/store"
)

func (d *duo) equal(what string, got, want any) {
	if diff := cmp.Diff(want, got, emptyIsNil); diff != "" {
		d.rt.Fatalf("%s: the store (+) does not agree with the model (-):\n%s", what, diff)
	}
}

// getAll reads every command there may be, in the order of randomAll.
func (d *duo) getAll(s store.Store) []*store.Command {
	cs, err := s.Get(d.ctx, randomAll, store.GetOptions{})
	d.ok(err)
	return cs
}

// agree compares every command, field by field, minus what stores may count for themselves.
func (d *duo) agree(rt *rapid.T) {
	d.rt = rt
	got, want := d.getAll(d.s), d.getAll(d.m)
	for i, id := range randomAll {
		a, b := got[i], want[i]
		if a != nil && b != nil {
			d.sameLease(a, b)
			for _, c := range []*store.Command{a, b} {
				c.Seq, c.Fingerprint, c.Lease, c.Settled = 0, 0, store.LeaseName{}, store.LeaseName{}
			}
			if a.Place == store.Leased {
				a.LeasedAt -= d.lease
				a.LeaseUntil -= d.lease
			}
			if pausing(a) && pausing(b) { // its length depends on the number of the lost lease; runSuspects ends it
				a.Due, b.Due = 0, 0
			}
		}
		d.equal("command "+id, a, b)
	}
}

func pausing(c *store.Command) bool {
	return c.Losses >= 2 && c.Due != 0 && (c.Place == store.Scheduled || c.Place == store.InLine)
}

// sameLease checks that the names of the current and of the last settled lease are two names of one lease.
func (d *duo) sameLease(a, b *store.Command) {
	for _, l := range [][2]store.LeaseName{{a.Lease, b.Lease}, {a.Settled, b.Settled}} {
		if l == [2]store.LeaseName{} {
			continue
		}
		if !slices.ContainsFunc(d.pairs, func(p pair) bool { return p.id == a.ID && p.s == l[0] && p.m == l[1] }) {
			d.rt.Fatalf("%s has lease %q settled %q, the model %q and %q: not the same ones", a.ID, a.Lease, a.Settled, b.Lease, b.Settled)
		}
	}
}

// agreeOnNumbers compares stats and lists; both stores have done their maintenance.
func (d *duo) agreeOnNumbers() {
	a, b := d.stats(d.s), d.stats(d.m)
	a.LeaseAt -= d.lease
	for i := range a.Workers {
		a.Workers[i].Expires -= d.lease
	}
	a.Bytes, b.Bytes = 0, 0
	byID := func(x, y store.Worker) int { return strings.Compare(x.ID, y.ID) }
	slices.SortFunc(a.Workers, byID)
	slices.SortFunc(b.Workers, byID)
	for i := range a.Queues {
		for l := range a.Queues[i].Lanes {
			x, y := &a.Queues[i].Lanes[l], b.Queues[i].Lanes[l]
			if x.AtLeast && x.Eligible <= y.Eligible {
				x.Eligible, x.AtLeast = y.Eligible, false
			}
		}
		byType := func(x, y store.TypeStats) int {
			if x.Type != y.Type {
				return strings.Compare(x.Type, y.Type)
			}
			return int(x.Lane) - int(y.Lane)
		}
		idle := func(t store.TypeStats) bool { return t.InLine == 0 && t.Leased == 0 }
		a.Queues[i].Types, b.Queues[i].Types = slices.DeleteFunc(a.Queues[i].Types, idle), slices.DeleteFunc(b.Queues[i].Types, idle)
		slices.SortFunc(a.Queues[i].Types, byType)
		slices.SortFunc(b.Queues[i].Types, byType)
	}
	for _, m := range []map[string]int{a.Groups, b.Groups, a.Outbox, b.Outbox} {
		for k, n := range m {
			if n == 0 {
				delete(m, k)
			}
		}
	}
	d.equal("stats", a, b)
	for _, q := range randomQueues {
		for status := store.Pending; status <= store.Cancelled; status++ {
			d.equal("list of "+q+" "+status.String(), d.list(d.s, q, status), d.list(d.m, q, status))
		}
	}
}

func (d *duo) list(s store.Store, queue string, status store.Status) []string {
	var all []string
	r := store.ListRequest{Filter: store.Filter{Queue: queue, Status: status}, Limit: 3}
	for i := 0; ; i++ {
		p, err := s.List(d.ctx, r)
		d.ok(err)
		all = append(all, ids(p.Commands)...)
		if r.Cursor = p.Cursor; r.Cursor == "" {
			slices.Sort(all)
			return all
		}
		if i > 200 {
			d.rt.Fatal("a list never ends")
		}
	}
}
