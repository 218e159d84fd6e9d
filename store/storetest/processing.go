package storetest

import (
	"time"

	"github.com/twolane/twolane/store"
)

var processingCases = []kase{
	{"word", "PROCESSING is what the handler said: a crash during Execute runs Execute again, a crash during Check runs Check again", func(f *fixture) {
		f.start("a")
		f.Pass(f.v)
		c := f.claim1("w2", store.Intake, "a")
		f.check(c.Status == store.Pending, "%s", show(c))
		f.settle(c, store.OutcomeProcessing, state("s"))
		f.Pass(time.Second)
		f.claim1("w2", store.Repoll, "a")
		f.Pass(f.v)
		c = f.claim1("w3", store.Repoll, "a")
		f.check(c.Status == store.Processing && string(c.State) == "s", "%s", show(c))
	}},
	{"counters", "starts, failures in a row, losses in a row and polls are counted apart", func(f *fixture) {
		f.submit(sub("a"))
		step := func(kind store.OutcomeKind, want [4]int) {
			f.Helper()
			cs := append(f.claim("w1", store.Intake, 1), f.claim("w1", store.Repoll, 1)...)
			f.check(len(cs) == 1, "nothing to claim before %s: %s", kind, show(f.get("a")))
			if kind == 0 {
				f.Pass(f.v)
			} else {
				f.settle(cs[0], kind, delay(time.Second))
				f.Pass(11 * time.Second)
			}
			g := f.get("a")
			f.check([4]int{g.Starts, g.Failures, g.Losses, g.Polls} == want, "after %s: %s, want %v", kind, show(g), want)
		}
		step(store.OutcomeRetry, [4]int{1, 1, 0, 0})
		step(0, [4]int{2, 1, 1, 0}) // lost
		step(store.OutcomeGiveBack, [4]int{3, 1, 1, 0})
		step(store.OutcomeSnooze, [4]int{4, 1, 0, 0})
		step(store.OutcomeProcessing, [4]int{5, 0, 0, 0})
		step(store.OutcomeRetry, [4]int{6, 1, 0, 1})
		step(0, [4]int{7, 1, 1, 1})
		step(store.OutcomeThrottled, [4]int{8, 1, 0, 2})
		step(store.OutcomeProcessing, [4]int{9, 0, 0, 3})
		step(store.OutcomeDone, [4]int{10, 0, 0, 4})
	}},
	{"first_event", "the first Processing of a run is an event, uneventful polls are not", func(f *fixture) {
		f.park("a")
		for range 3 {
			f.Pass(time.Second)
			f.settle(f.claim1("w1", store.Repoll, "a"), store.OutcomeProcessing)
		}
		es := f.get("a").Events
		f.check(len(es) == 1 && es[0].Kind == store.EventProcessing, "%+v", es)
	}},
	{"parked_at_once", "a thousand commands are parked in one call, and each is due when it said", func(f *fixture) {
		f.submit(many("a", store.MaxItems)...)
		cs := f.claim("w1", store.Intake, store.MaxItems)
		f.check(len(cs) == store.MaxItems, "claimed %d", len(cs))
		req := store.SettleRequest{Worker: "w1"}
		for i, c := range cs {
			req.Items = append(req.Items, store.Settlement{ID: c.ID, Lease: c.Lease, Kind: store.OutcomeProcessing, Delay: time.Duration(1+i%2) * time.Second})
		}
		rs, err := f.s.Settle(f.ctx(), req)
		f.ok(err)
		for i, r := range rs {
			f.check(r.State == store.SettleDone && r.Status == store.Processing, "item %d: %+v", i, r)
		}
		f.Pass(time.Second)
		first := f.claim("w1", store.Repoll, store.MaxItems)
		f.check(len(first) == store.MaxItems/2, "after 1 s %d are due", len(first))
		f.Pass(time.Second)
		second := f.claim("w1", store.Repoll, store.MaxItems)
		f.check(len(second) == store.MaxItems/2, "after 2 s %d more are due", len(second))
	}},
}
