package storetest

import (
	"fmt"
	"time"

	"github.com/twolane/twolane/store"
)

// exit is one way out of an invocation. c is leased by w1, with nothing else live.
type exit struct {
	name string
	poll bool // c is PROCESSING
	keep bool // its slots of scope command stay
	run  func(f *fixture, c *store.Command)
}

func leaving(kind store.OutcomeKind, change ...func(*store.Settlement)) func(f *fixture, c *store.Command) {
	return func(f *fixture, c *store.Command) { f.settle(c, kind, change...) }
}

// killed lets the worker of c die.
func killed(f *fixture, _ *store.Command) { f.Pass(f.v) }

// stalled lets the lease of c run out while its worker lives.
func stalled(f *fixture, _ *store.Command) {
	for range 4 {
		f.renew("w1")
		f.Advance(f.v / 4)
		f.renew("w1")
	}
	f.renew("w1")
}

func forced(f *fixture, c *store.Command) {
	f.tryCancel(store.CancelRequest{IDs: []string{c.ID}, Force: true})
}

func deleted(f *fixture, c *store.Command) {
	f.ok(f.act(store.ActDelete, c.ID, func(r *store.ActRequest) { r.Force = true }))
}

func purged(f *fixture, c *store.Command) {
	r, err := f.s.Act(f.ctx(), store.ActRequest{Kind: store.ActDelete, Filter: &store.Filter{Queue: "q", Status: c.Status, Before: c.Created + 1}, Force: true})
	f.ok(err)
	f.check(r.Done == 1, "purged %d", r.Done)
}

func cancelled(kind store.OutcomeKind, change ...func(*store.Settlement)) func(f *fixture, c *store.Command) {
	return func(f *fixture, c *store.Command) {
		f.cancel(c.ID)
		f.settle(c, kind, change...)
	}
}

// visited is a poll that ends with a cancel asked, and the visit that follows.
func visited(change ...func(f *fixture, c *store.Command)) func(f *fixture, c *store.Command) {
	return func(f *fixture, c *store.Command) {
		f.settle(c, store.OutcomeProcessing, hook, delay(time.Hour))
		f.cancel(c.ID)
		v := f.claim1("w1", store.Repoll, c.ID)
		for _, ch := range change {
			ch(f, v)
		}
	}
}

// late lets the deadline of c pass, at rest or leased, with what run does before.
func late(run func(f *fixture, c *store.Command)) func(f *fixture, c *store.Command) {
	return func(f *fixture, c *store.Command) {
		run(f, c)
		f.Pass(2 * long)
	}
}

// long is a delay that ends before the deadline of what leaves, 2*long one that does not.
const long = 30 * time.Second

var exits = []exit{
	{"done", false, false, leaving(store.OutcomeDone)},
	{"fail", false, false, leaving(store.OutcomeFail)},
	{"drop", false, false, leaving(store.OutcomeFail, func(s *store.Settlement) { s.Reason = store.ReasonDropped })},
	{"too_large", false, false, leaving(store.OutcomeFail, func(s *store.Settlement) { s.Reason = store.ReasonTooLarge })},
	{"retry_or_panic", false, false, leaving(store.OutcomeRetry, delay(long), errText("panic: boom"))},
	{"undecodable", false, false, leaving(store.OutcomeRetry, delay(long), decode)},
	{"snooze", false, false, leaving(store.OutcomeSnooze, delay(long))},
	{"park", false, true, leaving(store.OutcomeProcessing, delay(long))},
	{"throttled", false, false, leaving(store.OutcomeThrottled, delay(long), observed(1e6))},
	{"give_back_unstarted", false, false, leaving(store.OutcomeGiveBack, delay(long), unstarted)},
	{"give_back_in_drain", false, false, leaving(store.OutcomeGiveBack, delay(long))},
	{"abandon", false, true, leaving(store.OutcomeAbandon)},
	{"lost_lease", false, true, stalled},
	{"worker_killed", false, true, killed},
	{"cancel_during_done", false, false, cancelled(store.OutcomeDone)},
	{"cancel_during_error", false, false, cancelled(store.OutcomeRetry)},
	{"cancel_during_park", false, true, cancelled(store.OutcomeProcessing, hook)},
	{"cancel_during_give_back", false, false, cancelled(store.OutcomeGiveBack, unstarted)},
	{"cancel_and_killed", false, false, func(f *fixture, c *store.Command) {
		f.cancel(c.ID)
		killed(f, c)
	}},
	{"force", false, false, forced},
	{"delete", false, false, deleted},
	{"purge", false, false, purged},
	{"deadline_error", false, false, leaving(store.OutcomeRetry, delay(2*long))},
	{"deadline_killed", false, false, late(killed)},
	{"deadline_in_backoff", false, false, late(leaving(store.OutcomeSnooze, delay(long)))},
	{"poll_done", true, false, leaving(store.OutcomeDone)},
	{"poll_fail", true, false, leaving(store.OutcomeFail)},
	{"poll_error", true, true, leaving(store.OutcomeRetry, delay(long))},
	{"poll_again", true, true, leaving(store.OutcomeProcessing, delay(long))},
	{"poll_snooze", true, true, leaving(store.OutcomeSnooze, delay(long))},
	{"poll_throttled", true, true, leaving(store.OutcomeThrottled, delay(long), observed(1e6))},
	{"poll_give_back", true, true, leaving(store.OutcomeGiveBack, delay(long))},
	{"poll_abandon", true, true, leaving(store.OutcomeAbandon)},
	{"poll_lost_lease", true, true, stalled},
	{"poll_killed", true, true, killed},
	{"poll_force", true, false, forced},
	{"poll_delete", true, false, deleted},
	{"poll_purge", true, false, purged},
	{"poll_cancel_error", true, false, cancelled(store.OutcomeRetry)},
	{"poll_deadline", true, false, late(leaving(store.OutcomeProcessing, delay(10*long)))},
	{"visit_done", true, false, visited(leaving(store.OutcomeCancelled))},
	{"visit_error", true, true, visited(leaving(store.OutcomeCancelRetry, delay(time.Minute)))},
	{"visit_killed", true, true, visited(killed)},
	{"visit_force", true, false, visited(forced)},
	{"visit_over", true, false, visited(func(f *fixture, c *store.Command) {
		f.settle(c, store.OutcomeCancelRetry, delay(time.Minute))
		f.Pass(store.DefaultCancelFor)
	})},
}

// everyLimit is each kind of a limit in each scope, exactly full with one command of that cost.
func everyLimit(cost int) (all []store.Limit) {
	for scope, s := range map[store.Scope]string{store.ScopeInvocation: "i", store.ScopeCommand: "c"} {
		for by, name := range map[store.By]string{store.ByAll: "all", store.ByQueue: "queue", store.ByType: "type", store.ByGroup: "group", store.ByKey: "key"} {
			l := store.Limit{Name: name + "-" + s, By: by, Scope: scope, Max: cost}
			if by == store.ByKey {
				l.Key = "k"
			}
			all = append(all, l)
		}
	}
	return all
}

func valueOf(l *store.Limit) string {
	return map[store.By]string{store.ByQueue: "q", store.ByType: "t", store.ByGroup: "g", store.ByKey: "v"}[l.By]
}

// leaves runs one exit under every kind of limit and checks who is a member afterwards, that a repeated and a stale settle change nothing, and that
// the next one in line runs exactly if nothing is held.
func (f *fixture) leaves(x exit, cost int) {
	f.Helper()
	limits := everyLimit(cost)
	f.limits(limits...)
	expect := func(what string, inv, cmd int) {
		f.Helper()
		for i := range limits {
			want := inv
			if limits[i].Scope == store.ScopeCommand {
				want = cmd
			}
			if st := f.limit(limits[i].Name, valueOf(&limits[i])); st.Members != want || len(st.Holders) != min(want, 1) {
				f.Fatalf("%s, cost %d, %s: %s has %d members %v, not %d", x.name, cost, what, st.Key, st.Members, st.Holders, want)
			}
		}
	}
	alike := []func(*store.Submission){costing(cost), inGroup("g"), keyed("k", "v")}
	id := fmt.Sprintf("%s-%d", x.name, cost)
	f.submit(sub(id, append(alike, func(s *store.Submission) { s.Deadline = f.now.Add(long + long/2) })...))
	c := f.claim1("w1", store.Intake, id)
	if x.poll {
		f.settle(c, store.OutcomeProcessing)
		expect("parked", 0, cost)
		f.Pass(time.Second)
		c = f.claim1("w1", store.Repoll, id)
	}
	f.Pass(10 * time.Millisecond)
	f.submit(sub(id+"-next", alike...))
	expect("leased", cost, cost)
	f.check(len(f.claim("w2", store.Intake, 5)) == 0, "%s: two run", x.name)
	x.run(f, c)
	held := 0
	if x.keep {
		held = cost
	}
	expect("left", 0, held)
	for _, k := range []store.OutcomeKind{store.OutcomeDone, store.OutcomeRetry, store.OutcomeGiveBack, store.OutcomeAbandon} {
		if r := f.trySettle(c, k); r.State == store.SettleDone {
			f.Fatalf("%s: a stale %s was accepted", x.name, k)
		}
	}
	expect("settled once more", 0, held)
	f.Pass(2 * time.Second)
	got := f.claim("w3", store.Intake, 5)
	switch {
	case held == 0:
		f.check(len(got) == 1 && got[0].ID == id+"-next", "%s: next in line is not claimed but %v", x.name, ids(got))
		expect("the next one runs", cost, cost)
	default:
		for _, g := range got {
			f.check(g.ID == id, "%s: %s runs though the slot is held", x.name, g.ID)
		}
	}
	for _, g := range got {
		f.settle(g, store.OutcomeDone)
	}
	f.finish()
}

func exitCases() (all []kase) {
	for _, x := range exits {
		all = append(all, kase{"F007_F010_" + x.name, "every way out of an invocation gives back once, under every kind of limit, whatever the cost; a stale or repeated release changes nothing", func(f *fixture) {
			for _, cost := range []int{1, 3} {
				f.leaves(x, cost)
			}
		}})
	}
	return all
}
