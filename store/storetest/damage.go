package storetest

import (
	"github.com/twolane/twolane/store"
)

var damageCases = []kase{
	{"F147_unreadable", "a record that cannot be read is set aside, counted and shown; it never stops a claim or maintenance", func(f *fixture) {
		for _, part := range []Part{PartRecord, PartMissing} {
			if f.h.Damage == nil {
				f.Skip("the store cannot be damaged from outside")
			}
			p := part.String()
			f.audit = false
			f.submit(many(p, 10)...)
			if !f.h.Damage(f.T, f.s, p+"-0000", part) || !f.h.Damage(f.T, f.s, p+"-0004", part) {
				continue
			}
			seen := map[string]bool{}
			for range 6 {
				for _, c := range f.claim("w1", store.Intake, 20) {
					seen[c.ID] = true
					f.settle(c, store.OutcomeDone)
				}
			}
			f.check(len(seen) == 8 && !seen[p+"-0000"] && !seen[p+"-0004"], "%s: claimed %v", part, seen)
			f.check(f.stats().Lost >= 2, "%s: %d set aside", part, f.stats().Lost)
			f.maintain()
		}
	}},
	{"F002_lease_gone", "a leased command whose entry among the leases is gone is found and runs again", func(f *fixture) {
		if f.h.Damage == nil {
			f.Skip("the store cannot be damaged from outside")
		}
		f.start("a")
		if !f.h.Damage(f.T, f.s, "a", PartLease) {
			f.Skip("record and lease are one")
		}
		r, err := f.s.Audit(f.ctx())
		f.ok(err)
		f.check(len(r.Violations) > 0, "audit does not see it")
		f.audit = false
		f.Pass(3 * f.v)
		f.claim1("w2", store.Intake, "a")
	}},
	{"F002_slot_without_lease", "a command whose lease is gone holds no slot for ever: another one gets in, and so does it", func(f *fixture) {
		if f.h.Damage == nil {
			f.Skip("the store cannot be damaged from outside")
		}
		f.limits(store.Limit{Name: "l", Max: 1})
		f.submit(sub("a"), sub("b"))
		first := f.claim("w1", store.Intake, 2)
		f.check(len(first) == 1, "%d run under a limit of 1", len(first))
		if !f.h.Damage(f.T, f.s, first[0].ID, PartLease) {
			f.Skip("record and lease are one")
		}
		f.audit = false // what follows is what comes of the damage
		for done, end := 0, f.now.Add(100*f.v); done < 2; {
			f.Pass(f.v)
			f.check(f.now < end, "%d of 2 have ended", done)
			for _, c := range f.claim("w2", store.Intake, 2) {
				f.members("l", "", 1)
				f.settle(c, store.OutcomeDone)
				done++
			}
		}
		f.members("l", "", 0)
	}},
}
