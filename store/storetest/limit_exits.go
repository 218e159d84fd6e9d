package storetest

import (
	"fmt"
	"maps"
	"slices"
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

// lostTwice lets two workers die with c, as often as its queue allows.
func lostTwice(f *fixture, c *store.Command) {
	f.queue("q", func(q *store.QueueConfig) { q.MaxLosses = 2 })
	killed(f, c)
	f.claim1("w1", c.Lane(), c.ID)
	killed(f, c)
	f.failed(c.ID, store.ReasonWorkerLost)
}

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
	n := f.actAll(store.ActRequest{Kind: store.ActDelete, Filter: &store.Filter{Queue: "q", Status: c.Status, Before: c.Created + 1}, Force: true})
	f.check(n == 1, "purged %d", n)
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

// overrun lets the handler of c go on beyond its deadline, for as long as its worker can renew the lease and then until that is over.
func overrun(f *fixture, c *store.Command) {
	for end := c.Deadline.Add(store.DeadlineGrace + f.v + 2*time.Second); f.now < end; {
		f.Advance(f.v / 4)
		f.renew("w1", c)
		f.maintain()
	}
	f.failed(c.ID, store.ReasonDeadline)
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
	{"retries_exhausted", false, false, leaving(store.OutcomeRetry, delay(long))},
	{"worker_lost", false, false, lostTwice},
	{"force", false, false, forced},
	{"delete", false, false, deleted},
	{"purge", false, false, purged},
	{"deadline_error", false, false, leaving(store.OutcomeRetry, delay(2*long))},
	{"deadline_killed", false, false, late(killed)},
	{"deadline_in_backoff", false, false, late(leaving(store.OutcomeSnooze, delay(long)))},
	{"deadline_overrun", false, false, overrun},
	{"poll_deadline_overrun", true, false, overrun},
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
	{"poll_undecodable", true, true, leaving(store.OutcomeRetry, delay(long), decode)},
	{"poll_retries_exhausted", true, false, leaving(store.OutcomeRetry, delay(long))},
	{"poll_worker_lost", true, false, lostTwice},
	{"poll_cancel_park", true, true, cancelled(store.OutcomeProcessing, hook)},
	{"poll_cancel_killed", true, true, func(f *fixture, c *store.Command) {
		f.settle(c, store.OutcomeProcessing, hook)
		f.Pass(time.Second)
		c = f.claim1("w1", store.Repoll, c.ID)
		f.cancel(c.ID)
		killed(f, c)
	}},
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

// exitChange is what the submission of an exit has besides.
var exitChange = map[string]func(*store.Submission){
	"retries_exhausted":      func(s *store.Submission) { s.MaxFailures = 1 },
	"poll_retries_exhausted": func(s *store.Submission) { s.MaxFailures = 1 },
}

func (x *exit) submission(f *fixture, id string, change ...func(*store.Submission)) store.Submission {
	change = append(change, func(s *store.Submission) { s.Deadline = f.now.Add(long + long/2) })
	if ch := exitChange[x.name]; ch != nil {
		change = append(change, ch)
	}
	return sub(id, change...)
}

// everyLimit is each kind of a limit in each scope, exactly full with one command of that cost. What classifies has members too, if they are within;
// rates have none.
func everyLimit(cost int) (all []store.Limit) {
	for scope, s := range map[store.Scope]string{store.ScopeInvocation: "i", store.ScopeCommand: "c"} {
		for by, name := range map[store.By]string{store.ByAll: "all", store.ByQueue: "queue", store.ByType: "type", store.ByGroup: "group", store.ByKey: "key"} {
			l := store.Limit{Name: name + "-" + s, By: by, Scope: scope, Max: cost}
			if by == store.ByKey {
				l.Key = "k"
			}
			all = append(all, l)
		}
		all = append(all, store.Limit{Name: "set-" + s, Queues: []string{"other", "q"}, Scope: scope, Max: cost},
			store.Limit{Name: "class-" + s, By: store.ByType, Scope: scope, Max: cost, Classify: true},
			store.Limit{Name: "over-" + s, By: store.ByType, Scope: scope, Max: cost - 1, Classify: true})
	}
	return append(all, store.Limit{Name: "rate", By: store.ByType, Rate: 1000, Burst: 1000})
}

// counts reports whether a command of that cost becomes a member.
func counts(l *store.Limit, cost int) bool { return l.Rate == 0 && cost <= l.Max }

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
			switch {
			case !counts(&limits[i], cost):
				want = 0
			case limits[i].Scope == store.ScopeCommand:
				want = cmd
			}
			if st := f.limit(limits[i].Name, valueOf(&limits[i])); st.Members != want || len(st.Holders) != min(want, 1) {
				f.Fatalf("%s, cost %d, %s: %s has %d members %v, not %d", x.name, cost, what, st.Key, st.Members, st.Holders, want)
			}
		}
	}
	alike := []func(*store.Submission){costing(cost), inGroup("g"), keyed("k", "v")}
	id := fmt.Sprintf("%s-%d", x.name, cost)
	f.submit(x.submission(f, id, alike...))
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

// leavesTokens checks that an exit takes the tokens of a rate that its claims took, and gives none back.
func (f *fixture) leavesTokens(x exit) {
	f.Helper()
	const burst = 30
	f.limits(store.Limit{Name: "r", By: store.ByType, Rate: 1e-4, Burst: burst})
	f.granted = 0
	f.submit(x.submission(f, x.name))
	c := f.claim1("w1", store.Intake, x.name)
	if x.poll {
		f.settle(c, store.OutcomeProcessing)
		f.Pass(time.Second)
		c = f.claim1("w1", store.Repoll, x.name)
	}
	f.Pass(10 * time.Millisecond)
	x.run(f, c)
	f.trySettle(c, store.OutcomeGiveBack)
	most := burst
	if g := f.get(x.name); g != nil && !g.Status.Terminal() && g.CancelAsked != 0 {
		most++ // a cancel visit does not wait for a token
	}
	f.submit(many("rest", burst)...)
	for range burst + 5 {
		f.claimRest("w2", burst)
		f.Pass(200 * time.Millisecond)
	}
	f.check(f.granted >= burst && f.granted <= most, "%s: %d starts with %d tokens", x.name, f.granted, burst)
	f.limits()
}

// ends are the ways in which a command that waits for a limit may leave its line.
var ends = map[string]func(f *fixture, id string){
	"cancel": func(f *fixture, id string) { f.cancel(id) },
	"force":  func(f *fixture, id string) { f.tryCancel(store.CancelRequest{IDs: []string{id}, Force: true}) },
	"delete": func(f *fixture, id string) { f.ok(f.act(store.ActDelete, id)) },
	"purge": func(f *fixture, id string) {
		f.actAll(store.ActRequest{Kind: store.ActDelete, Filter: &store.Filter{Queue: "q", Status: store.Pending, Type: "t1"}})
	},
	"start_by": func(*fixture, string) {},
	"deadline": func(*fixture, string) {},
}

// endsFiled checks that a command which ends while its line is filed under a full key changes nobody's membership, and that the line behind it
// has the room that comes.
func (f *fixture) endsFiled(way string) {
	f.Helper()
	limits := everyLimit(1)
	f.limits(limits...)
	alike := []func(*store.Submission){inGroup("g"), keyed("k", "v")}
	batchKey := func(k string) func(*store.Submission) { return func(s *store.Submission) { s.BatchKey = k } }
	c := f.start("run", alike...)
	wait := sub("wait", append(alike, batchKey("w"))...)
	switch way {
	case "start_by":
		wait.StartBy = f.now.Add(5 * time.Second)
	case "deadline":
		wait.Deadline = f.now.Add(5 * time.Second)
	case "purge":
		wait.Type = "t1"
	}
	f.submit(wait)
	f.claimBoth("w2", 5)
	f.submit(sub("behind", append(alike, batchKey("b"))...))
	f.claimBoth("w2", 5)
	lines := func() (n int) {
		for i := range limits {
			for _, v := range []string{valueOf(&limits[i]), "t1"} {
				if limits[i].By == store.ByType || v != "t1" {
					n += f.limit(limits[i].Name, v).Lines
				}
			}
		}
		return n
	}
	f.check(lines() == 2, "%d lines are filed, not 2", lines())
	ends[way](f, "wait")
	for range 6 {
		f.Pass(time.Second)
		f.renew("w1", c)
	}
	if g := f.get("wait"); g != nil {
		f.check(g.Status.Terminal(), "%s", show(g))
	}
	f.check(lines() == 1, "%d lines are filed, not 1", lines())
	for i := range limits {
		if l := &limits[i]; counts(l, 1) {
			f.members(l.Name, valueOf(l), 1)
		}
	}
	f.settle(c, store.OutcomeDone)
	f.Pass(time.Second)
	f.settle(f.claim1("w2", store.Intake, "behind"), store.OutcomeDone)
	f.finish()
}

func exitCases() (all []kase) {
	for _, x := range exits {
		all = append(all, kase{"F007_F010_" + x.name, "every way out of an invocation gives back once, under every kind of limit, whatever the cost; a stale or repeated release changes nothing", func(f *fixture) {
			for _, cost := range []int{1, 3} {
				f.leaves(x, cost)
			}
		}}, kase{"token_" + x.name, "no way out of an invocation gives a token of a rate back", func(f *fixture) { f.leavesTokens(x) }})
	}
	for _, way := range slices.Sorted(maps.Keys(ends)) {
		all = append(all, kase{"F026_filed_" + way, "whoever ends while it waits for a full key leaves its line, gives nothing back that it did not have, and keeps nobody waiting", func(f *fixture) {
			f.endsFiled(way)
		}})
	}
	return all
}
