package storetest

import (
	"fmt"
	"time"

	"github.com/twolane/twolane/store"
)

// flow claims with every worker each step and settles what it got after hold, for d; it returns how many were done, by type.
func (f *fixture) flow(d, step, hold time.Duration, claim func() []*store.Command) map[string]int {
	f.Helper()
	type run struct {
		c   *store.Command
		end store.Millis
	}
	var runs []run
	done := map[string]int{}
	for end := f.now.Add(d); f.now < end; f.Pass(step) {
		kept := runs[:0]
		for _, r := range runs {
			if r.end > f.now {
				kept = append(kept, r)
				continue
			}
			f.settle(r.c, store.OutcomeDone)
			done[r.c.Type]++
		}
		runs = kept
		for _, c := range claim() {
			runs = append(runs, run{c, f.now.Add(hold)})
		}
	}
	for _, r := range runs {
		f.settle(r.c, store.OutcomeDone)
		done[r.c.Type]++
	}
	return done
}

var limitLineCases = []kase{
	{"full_blocks_nobody", "a full key never blocks others: what stands behind its commands runs", func(f *fixture) {
		f.limits(store.Limit{Name: "tenant", By: store.ByGroup, Max: 1})
		f.submit(many("a", 500, inGroup("a"))...)
		f.submit(many("b", 5, inGroup("b"), ofType("t1"))...)
		f.submit(sub("c", inGroup("c")))
		got := map[string]int{}
		for _, c := range f.claimBoth("w1", 100) {
			got[c.Group]++
		}
		f.check(got["a"] == 1 && got["b"] == 1 && got["c"] == 1, "%v", got)
	}},
	{"tenants", "with a full limit and a large backlog of one tenant, the first command of another runs with the next claim", func(f *fixture) {
		f.limits(store.Limit{Name: "tenant", By: store.ByGroup, Max: 2})
		f.submit(many("a", 2000, inGroup("a"))...)
		f.check(len(f.claim("w1", store.Intake, 10)) == 2, "not two of a")
		f.submit(many("b", 10, inGroup("b"))...)
		got := f.claim("w1", store.Intake, 10)
		f.check(len(got) == 2 && got[0].Group == "b" && got[1].Group == "b", "claimed %v", ids(got))
	}},
	{"opened_at_once", "who makes room opens the oldest line: the claim behind the settle gets it, with no time between", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 1})
		f.submit(many("a", 5)...)
		c := f.claim("w1", store.Intake, 5)[0]
		for i := range 4 {
			f.check(len(f.claim("w2", store.Intake, 5)) == 0, "two at once")
			f.settle(c, store.OutcomeDone)
			cs := f.claim("w2", store.Intake, 5)
			f.check(len(cs) == 1, "round %d: %d claimed at once after room was made", i, len(cs))
			c = cs[0]
		}
	}},
	{"newcomer", "room belongs to the line that waits for it: whoever comes later stands behind it, whatever its priority, for as long as a second", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 2})
		c := f.start("run", costing(2))
		f.submit(sub("old", ofType("t1"), costing(2), func(s *store.Submission) { s.Priority = 9 }))
		f.check(len(f.claimBoth("w1", 5)) == 0, "over the limit")
		f.settle(c, store.OutcomeDone)
		f.submit(many("new", 5)...)
		for range 3 {
			cs := f.claim("w2", store.Intake, 5)
			f.check(len(cs) == 0, "%v took the room of the one that waits", ids(cs))
			f.Pass(200 * time.Millisecond)
		}
		cs := f.claimBoth("w1", 5)
		f.check(len(cs) == 1 && cs[0].ID == "old", "claimed %v", ids(cs))
		f.settle(cs[0], store.OutcomeDone)
		f.finish()
	}},
	{"turns", "the lines that wait for one key have it in turn, whatever their numbers, types, queues and lanes", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 1})
		f.submit(many("a", 60)...)
		f.submit(many("b", 60, inQueue("q2"))...)
		f.submit(many("c", 60, ofType("t1"))...)
		f.submit(many("p", 60, ofType("t2"))...)
		got := map[string]int{}
		for range 80 {
			cs := f.claimBoth("w1", 10)
			f.check(len(cs) == 1, "%d at once", len(cs))
			got[cs[0].Queue+cs[0].Type]++
			f.settle(cs[0], store.OutcomeDone)
		}
		for k, n := range got {
			f.check(n >= 18 && n <= 22, "%s had %d of 80 turns: %v", k, n, got)
		}
		f.check(len(got) == 4, "%v", got)
	}},
	{"lanes_share", "two lanes that share a full limit: a new command beside polls without end has its turn", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 1})
		for i := range 5 {
			c := f.start(fmt.Sprint("p", i))
			f.settle(c, store.OutcomeProcessing)
		}
		f.submit(sub("new"))
		seen := false
		for range 20 {
			f.Pass(time.Second)
			for _, c := range f.claimBoth("w1", 10) {
				seen = seen || c.ID == "new"
				kind := store.OutcomeProcessing
				if c.ID == "new" {
					kind = store.OutcomeDone
				}
				f.settle(c, kind)
			}
		}
		f.check(seen, "the new command was not claimed in 20 s")
	}},
	{"F176_cost_not_starved", "the sum of costs never goes over the limit, and a cost of 7 is not starved by costs of 1 and 3", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 10})
		f.submit(many("one", 300, ofType("t1"))...)
		f.submit(many("three", 100, ofType("t2"), costing(3))...)
		f.submit(many("seven", 20, costing(7))...)
		most := 0
		got := f.flow(60*time.Second, 100*time.Millisecond, 900*time.Millisecond, func() []*store.Command {
			cs := f.claimBoth("w1", 50)
			most = max(most, f.limit("l", "").Members)
			return cs
		})
		f.check(most == 10, "%d members at most", most)
		f.check(got["t"] >= 10 && got["t1"] >= 30 && got["t2"] >= 15, "done in a minute: %v", got)
		f.limits()
		f.finish()
	}},
	{"pause_inside", "lines of a paused queue hold no room back: others have it at once, and they have their turn after the pause", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 1})
		f.submit(sub("run"))
		c := f.claim1("w1", store.Intake, "run")
		for i := range 20 {
			f.submit(sub(fmt.Sprint("p", i), inQueue("q2"), inGroup(fmt.Sprint("g", i))))
		}
		f.claimBoth("w1", 10)
		f.submit(sub("other", ofType("t1")))
		f.claimBoth("w1", 10)
		f.queue("q2", func(q *store.QueueConfig) { q.Pause = store.PauseAll })
		f.settle(c, store.OutcomeDone)
		cs := f.claimBoth("w1", 10)
		f.check(len(cs) == 1 && cs[0].ID == "other", "claimed %v", ids(cs))
		f.settle(cs[0], store.OutcomeDone)
		f.Pass(3 * time.Second)
		f.check(len(f.claimBoth("w1", 10)) == 0, "claimed from a paused queue")
		f.queue("q2", func(q *store.QueueConfig) { q.Pause = store.PauseNone })
		f.finish()
	}},
	{"no_worker", "lines whose type no worker knows any more let room stand for at most two seconds, however many they are", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 2})
		f.submit(many("run", 2)...)
		cs := f.claimBoth("w1", 5)
		f.check(len(cs) == 2, "%d", len(cs))
		for i := range 30 {
			f.submit(sub(fmt.Sprint("x", i), ofType("t2"), inGroup(fmt.Sprint("g", i))))
		}
		f.claimBoth("w1", 5)
		f.Pass(100 * time.Millisecond)
		f.submit(sub("a"), sub("b", ofType("t1")))
		f.check(len(f.claimBoth("w1", 5)) == 0, "over the limit")
		for _, c := range cs {
			f.settle(c, store.OutcomeDone)
		}
		r := f.claimFor("w2", store.Intake, 5)
		r.Wants[0].Types = []store.TypeWant{{Type: "t"}, {Type: "t1"}}
		var got []string
		for range 22 {
			f.Pass(100 * time.Millisecond)
			r.Nonce = f.drawNonce()
			for _, c := range items(f.claimAll(r)) {
				got = append(got, c.ID)
				f.settle(c, store.OutcomeDone)
			}
		}
		f.check(len(got) == 2, "after 2.2 s %v had run", got)
		f.finish()
	}},
	{"passed_line", "a line that let room stand loses its place, is counted as passed, and is not forgotten", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 1})
		f.submit(sub("run"))
		c := f.claim1("w1", store.Intake, "run")
		f.submit(sub("x", ofType("t2")), sub("a"))
		f.claimBoth("w1", 5)
		f.check(f.limit("l", "").Lines == 2, "%+v", f.limit("l", ""))
		f.settle(c, store.OutcomeDone)
		f.Pass(1100 * time.Millisecond)
		f.Pass(1100 * time.Millisecond)
		f.submit(sub("b", ofType("t1")))
		r := f.claimFor("w2", store.Intake, 1)
		r.Wants[0].Types = []store.TypeWant{{Type: "t"}, {Type: "t1"}}
		cs := items(f.claimAll(r))
		f.check(len(cs) == 1, "nothing was claimed 2.2 s after room came")
		f.claimBoth("w1", 5)
		var passed []int
		for _, l := range f.limit("l", "").Filed {
			passed = append(passed, l.Passed)
			f.check(l.Type != "t2" || l.Passed == 1, "%+v", l)
		}
		f.check(len(passed) == 2, "%+v", f.limit("l", ""))
		f.settle(cs[0], store.OutcomeDone)
		f.finish()
	}},
	{"two_passed", "a line in a paused queue under each of two limits, and a command that needs both: it runs", func(f *fixture) {
		f.limits(store.Limit{Name: "a", By: store.ByKey, Key: "a", Max: 1}, store.Limit{Name: "b", By: store.ByKey, Key: "b", Max: 1})
		both := []func(*store.Submission){keyed("a", "1"), keyed("b", "1")}
		f.submit(sub("run", both...))
		c := f.claim1("w1", store.Intake, "run")
		f.submit(sub("pa", inQueue("q2"), keyed("a", "1")), sub("pb", inQueue("q2"), keyed("b", "1")), sub("want", both...))
		f.claimBoth("w1", 5)
		f.settle(c, store.OutcomeDone)
		// From here on nobody serves q2.
		got := 0
		for range 30 {
			f.Pass(100 * time.Millisecond)
			got += len(f.claim("w2", store.Intake, 5))
		}
		f.check(got == 1, "not claimed within 3 s")
		f.settle(f.get("want"), store.OutcomeDone)
		f.finish()
	}},
	{"cancelled_in_line", "the next in line is cancelled, deleted or moved while it waits: the one behind it runs", func(f *fixture) {
		f.limits(store.Limit{Name: "l", By: store.ByQueue, Max: 1})
		for i, gone := range []func(id string){
			func(id string) { f.cancel(id) },
			func(id string) { f.ok(f.act(store.ActDelete, id)) },
			func(id string) { f.ok(f.act(store.ActMove, id, func(r *store.ActRequest) { r.Queue = "q9" })) },
		} {
			p := fmt.Sprint(i)
			f.submit(sub(p + "run"))
			c := f.claim1("w1", store.Intake, p+"run")
			f.submit(sub(p+"next", ofType("t1")), sub(p+"last"))
			f.claimBoth("w1", 5)
			f.settle(c, store.OutcomeDone)
			gone(p + "next")
			cs := f.claimBoth("w1", 5)
			if len(cs) == 0 {
				f.Pass(1100 * time.Millisecond)
				cs = f.claimBoth("w1", 5)
			}
			f.check(len(cs) == 1 && cs[0].ID == p+"last", "claimed %v", ids(cs))
			f.settle(cs[0], store.OutcomeDone)
		}
	}},
	{"batch", "a batch takes no more than its limit lets in, and leaves room to older lines", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 4})
		f.submit(many("a", 30)...)
		r := f.claimFor("w1", store.Intake, 10)
		r.Wants[0].Types[0].Batch = 10
		got := items(f.claimAll(r))
		f.check(len(got) == 4, "%d in all batches", len(got))
		f.submit(sub("other", ofType("t1")))
		f.claimBoth("w2", 5)
		for _, c := range got {
			f.settle(c, store.OutcomeDone)
		}
		n := map[string]int{}
		for _, c := range f.claimBoth("w2", 10) {
			n[c.Type]++
		}
		f.check(n["t"] == 3 && n["t1"] == 1, "%v", n)
	}},
}
