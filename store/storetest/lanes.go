package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/twolane/twolane/store"
)

var lanesCases = []kase{
	{"by_status", "intake takes PENDING commands only, repoll takes PROCESSING commands only, and the handler alone moves a command from one to the other", func(f *fixture) {
		c := f.start("a")
		f.check(c.Status == store.Pending && c.Lane() == store.Intake, "%s", show(c))
		f.settle(c, store.OutcomeProcessing, state("s1"))
		f.is("a", store.Processing, store.InLine)
		f.Pass(time.Second)
		f.check(len(f.claim("w1", store.Intake, 1)) == 0, "intake claimed a PROCESSING command")
		c = f.claim1("w1", store.Repoll, "a")
		f.check(c.Status == store.Processing && string(c.State) == "s1", "%s", show(c))
		f.settle(c, store.OutcomeRetry, delay(time.Second), errText("boom"))
		f.is("a", store.Processing, store.InLine)
		f.Pass(time.Second)
		f.check(len(f.claim("w1", store.Intake, 1)) == 0, "a failed poll went to intake")
		c = f.claim1("w1", store.Repoll, "a")
		f.check(string(c.State) == "s1" && c.Failures == 1 && c.Polls == 1 && c.Starts == 3, "%s", show(c))
	}},
	{"never_borrow", "with any number of due polls a new command starts, and with any number of new commands a due poll runs", func(f *fixture) {
		f.submit(many("p", 60)...)
		for _, c := range f.claim("w1", store.Intake, 60) {
			f.settle(c, store.OutcomeProcessing)
		}
		f.submit(many("n", 60)...)
		f.Pass(time.Second)
		r := store.ClaimRequest{Worker: "w1", Nonce: f.drawNonce(), Free: [2]int{2, 3}, Wants: []store.Want{
			{Queue: "q", Lane: store.Repoll, Max: 50, Types: []store.TypeWant{{Type: "t"}}},
			{Queue: "q", Lane: store.Intake, Max: 50, Types: []store.TypeWant{{Type: "t"}}},
		}}
		got := map[store.Lane]int{}
		for _, g := range f.tryClaim(r).Grants {
			got[g.Lane]++
		}
		f.check(got[store.Intake] == 2 && got[store.Repoll] == 3, "granted %v", got)
	}},
	{"due", "a poll is claimable from its due time on, not before, and the delay counts from the settle; less than 100 ms is 100 ms", func(f *fixture) {
		c := f.start("a")
		f.Advance(3 * time.Second)
		f.settle(c, store.OutcomeProcessing, delay(5*time.Second))
		for _, d := range []time.Duration{4999 * time.Millisecond} {
			f.Advance(d)
			f.check(len(f.claim("w1", store.Repoll, 1)) == 0, "polled 1 ms early")
		}
		f.Advance(time.Millisecond)
		c = f.claim1("w1", store.Repoll, "a")
		f.settle(c, store.OutcomeProcessing)
		f.Advance(99 * time.Millisecond)
		f.check(len(f.claim("w1", store.Repoll, 1)) == 0, "polled without a pause")
		f.Advance(time.Millisecond)
		f.claim1("w1", store.Repoll, "a")
	}},
	{"oldest_due_first", "due polls go oldest due first", func(f *fixture) {
		f.submit(many("a", 6)...)
		var want []string
		for i, c := range f.claim("w1", store.Intake, 6) {
			f.settle(c, store.OutcomeProcessing, delay(time.Duration(10-i)*time.Second))
			want = append([]string{c.ID}, want...)
		}
		f.Pass(11 * time.Second)
		got := ids(f.claim("w1", store.Repoll, 10))
		f.check(slices.Equal(got, want), "order is %v", got)
	}},
	{"holds_nothing", "between polls a command has no lease, no owner, and its old lease can neither be renewed nor settled again", func(f *fixture) {
		c := f.start("a")
		f.settle(c, store.OutcomeProcessing, delay(time.Hour))
		g := f.is("a", store.Processing, store.InLine)
		f.check(g.Lease == store.LeaseName{} && g.Owner == "" && g.LeaseUntil == 0 && g.LeasedAt == 0, "%s", show(g))
		f.check(f.renew("w1", c)[0].State == store.RenewLost, "an ended lease was renewed")
		f.check(f.lane(store.Repoll).Leased == 0 && f.lane(store.Repoll).InLine == 1 && f.lane(store.Repoll).Eligible == 0, "%+v", f.lane(store.Repoll))
	}},
	{"any_worker", "any worker may make the next poll", func(f *fixture) {
		f.park("a")
		for i := range 3 {
			f.Pass(time.Second)
			c := f.claim1(fmt.Sprint("other", i), store.Repoll, "a")
			f.settle(c, store.OutcomeProcessing, state(fmt.Sprint("s", i)))
		}
		f.check(string(f.get("a").State) == "s2" && f.get("a").Polls == 3, "%s", show(f.get("a")))
	}},
}
