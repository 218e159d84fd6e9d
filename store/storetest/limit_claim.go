package storetest

import (
	"fmt"
	"time"

	"github.com/twolane/twolane/store"
)

// limitClaimCases are what one claim makes of several lines that limits stop.
var limitClaimCases = []kase{
	{"room_of_the_first", "room that is too small for the first line is not for those behind it, also in the claim that stops the first", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 5})
		c := f.start("run")
		f.submit(sub("big", ofType("t1"), costing(5)))
		f.submit(many("small", 2)...)
		got := f.claimBoth("w1", 5)
		f.check(len(got) == 0, "claimed %v past the line that waits", ids(got))
		f.settle(c, store.OutcomeDone)
		got = f.claimBoth("w1", 5)
		f.check(len(got) == 1 && got[0].ID == "big", "claimed %v", ids(got))
	}},
	{"stands_again", "room that its first line lets stand goes to who waits behind it, the first time and each time after that", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 1})
		for i := range 3 {
			c := f.start(fmt.Sprint("run", 2*i))
			f.submit(sub(fmt.Sprint("away", i), ofType("t1")))
			f.check(len(f.claimBoth("w1", 5)) == 0, "over the limit")
			f.settle(c, store.OutcomeDone)
			f.Pass(3 * time.Second) // nobody runs t1: it loses its place, and nobody waits
			c = f.start(fmt.Sprint("run", 2*i+1))
			f.check(len(f.claimBoth("w1", 5)) == 0, "over the limit")
			f.submit(sub(fmt.Sprint("here", i)))
			f.check(len(f.claimBoth("w1", 5)) == 0, "over the limit")
			f.settle(c, store.OutcomeDone)
			var got []*store.Command
			for range 25 {
				if got = f.claim("w1", store.Intake, 5); len(got) > 0 {
					break
				}
				f.Pass(100 * time.Millisecond)
			}
			f.check(len(got) == 1, "round %d: room has stood for more than two seconds", i)
			f.settle(got[0], store.OutcomeDone)
			for _, c := range f.claimRest("w1", 5) {
				f.settle(c, store.OutcomeDone)
			}
		}
	}},
	{"heads_of_a_paused_queue", "lines of a paused queue that wait no more stand where their first commands do", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 1})
		f.start("run")
		var subs []store.Submission
		for i := range 240 { // more than one step lets go when a queue is paused
			first := sub(fmt.Sprintf("first%03d", i), inGroup(fmt.Sprint("g", i)))
			subs = append(subs, first)
			if i >= 140 {
				subs[len(subs)-1].Deadline = f.now.Add(5 * time.Second)
			}
			if i%2 == 0 {
				subs = append(subs, sub(fmt.Sprintf("second%03d", i), inGroup(first.Group)))
			}
		}
		f.submit(subs...)
		f.check(len(f.claimBoth("w1", 300)) == 0, "over the limit")
		f.queue("q", func(q *store.QueueConfig) { q.Pause = store.PauseAll })
		f.Advance(5 * time.Second)
		f.maintain()
		f.mustAudit()
		f.Pass(3 * time.Second)
	}},
	{"given_up_behind_it", "a member that a grant gives up lets in who has just filled the limit", func(f *fixture) {
		f.limits(store.Limit{Name: "a", By: store.ByKey, Key: "k1", Max: 5, Scope: store.ScopeCommand})
		for _, x := range []struct {
			id, k1, k2 string
			due        time.Duration
		}{{"m", "m", "x", 200 * time.Millisecond}, {"l1", "l", "x", 2 * time.Second}, {"l2", "l", "x", 3 * time.Second}, {"p", "x", "y", 4 * time.Second}} {
			c := f.start(x.id, keyed("k1", x.k1), keyed("k2", x.k2))
			f.settle(c, store.OutcomeProcessing, state("s"), delay(x.due))
		}
		f.limits(store.Limit{Name: "a", By: store.ByKey, Key: "k2", Max: 2})
		f.Pass(time.Second)
		m := f.claim1("w1", store.Repoll, "m")
		f.members("a", "x", 2) // p is a member from before
		f.Pass(2500 * time.Millisecond)
		f.check(len(f.claimBoth("w1", 5)) == 0, "over the limit")
		f.settle(m, store.OutcomeDone)
		f.Pass(600 * time.Millisecond)
		got := items(f.tryClaim(f.claimFor("w1", store.Repoll, 5)).Grants)
		f.mustAudit()
		got = append(got, f.claimRest("w1", 5)...)
		f.check(len(got) == 3, "claimed %v", ids(got))
		f.members("a", "x", 2)
		f.members("a", "y", 1)
	}},
}
