package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/twolane/twolane/store"
)

// limits replaces the limits of the namespace; a case that calls it is skipped by stores that keep none.
func (f *fixture) limits(ls ...store.Limit) {
	f.Helper()
	f.configure(func(c *store.Config) { c.Limits = ls })
}

// limit reads one value of a limit.
func (f *fixture) limit(name, value string) store.LimitState {
	f.Helper()
	st, err := f.s.Limit(f.ctx(), store.LimitKey{Limit: name, Value: value})
	f.ok(err)
	return st
}

// members checks how many members a value of a limit has.
func (f *fixture) members(name, value string, want int) {
	f.Helper()
	if st := f.limit(name, value); st.Members != want {
		f.Fatalf("%s has %d members, not %d: %v", st.Key, st.Members, want, st.Holders)
	}
}

// claimBoth leases up to n commands of types "t", "t1" and "t2" in queues "q" and "q2", in both lanes.
func (f *fixture) claimBoth(w string, n int) []*store.Command {
	f.Helper()
	r := store.ClaimRequest{Worker: w, Nonce: f.drawNonce(), Free: [2]int{n, n}}
	for _, q := range []string{"q", "q2"} {
		for _, l := range store.Lanes {
			r.Wants = append(r.Wants, store.Want{Queue: q, Lane: l, Max: n, Suspect: true, Types: []store.TypeWant{{Type: "t"}, {Type: "t1"}, {Type: "t2"}}})
		}
	}
	return items(f.claimAll(r))
}

// claimRest repeats claimBoth until it brings nothing: a grant in one lane may open a line in the other.
func (f *fixture) claimRest(w string, n int) (all []*store.Command) {
	f.Helper()
	for {
		cs := f.claimBoth(w, n)
		if all = append(all, cs...); len(cs) == 0 {
			return all
		}
	}
}

// finish lets everything end well and checks that no limit has a member left, and that nothing waits for one.
func (f *fixture) finish() {
	f.Helper()
	for range 200 {
		for _, c := range f.claimBoth("finisher", 100) {
			kind := store.OutcomeDone
			if c.CancelAsked != 0 {
				kind = store.OutcomeCancelled
			}
			f.settle(c, kind)
		}
		live := 0
		st, err := f.s.Stats(f.ctx(), store.StatsRequest{})
		f.ok(err)
		for _, q := range st.Queues {
			live += q.Scheduled + q.Lanes[0].InLine + q.Lanes[0].Leased + q.Lanes[1].InLine + q.Lanes[1].Leased
		}
		if live == 0 {
			for _, l := range st.Limits {
				f.check(l.Members == 0 && l.Lines == 0 && len(l.Values) == 0, "nothing is live, and limit %+v", l)
			}
			return
		}
		f.Pass(max(f.v/4, 15*time.Second))
	}
	f.Fatal("not everything ends")
}

func keyed(name, value string) func(*store.Submission) {
	return func(s *store.Submission) { s.Keys = append(s.Keys, store.Key{Name: name, Value: value}) }
}

func inGroup(g string) func(*store.Submission)   { return func(s *store.Submission) { s.Group = g } }
func inQueue(q string) func(*store.Submission)   { return func(s *store.Submission) { s.Queue = q } }
func ofType(t string) func(*store.Submission)    { return func(s *store.Submission) { s.Type = t } }
func costing(c int) func(*store.Submission)      { return func(s *store.Submission) { s.Cost = c } }
func unstarted(s *store.Settlement)              { s.Unstarted = true }
func decode(s *store.Settlement)                 { s.Decode = true }
func observed(r float64) func(*store.Settlement) { return func(s *store.Settlement) { s.Observed = r } }

var limitCases = []kase{
	{"by", "a limit counts all, or apart by queue, type, group, or the value of a key; without the key it does not apply", func(f *fixture) {
		for i, by := range []store.By{store.ByAll, store.ByQueue, store.ByType, store.ByGroup, store.ByKey} {
			l := store.Limit{Name: "l", By: by, Max: 2}
			if by == store.ByKey {
				l.Key = "k"
			}
			f.limits(l)
			p := fmt.Sprint("p", i)
			f.submit(many(p+"a", 3, keyed("k", "1"), inGroup("g1"), ofType("t1"))...)
			f.submit(many(p+"b", 3, keyed("k", "2"), inGroup("g2"), ofType("t2"), inQueue("q2"))...)
			f.submit(many(p+"c", 3)...)
			got := f.claimBoth("w1", 100)
			want := map[store.By]int{store.ByAll: 2, store.ByQueue: 4, store.ByType: 6, store.ByGroup: 6, store.ByKey: 7}[by]
			f.check(len(got) == want, "by %d: %d run, not %d: %v", by, len(got), want, ids(got))
			f.check(len(f.claimBoth("w2", 100)) == 0, "by %d: more run on a second claim", by)
			f.limits()
			for _, c := range append(got, f.claimBoth("w1", 100)...) {
				f.settle(c, store.OutcomeDone)
			}
			f.finish()
		}
	}},
	{"queues", "a limit covers the queues that it names, together", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Queues: []string{"q", "q2"}, Max: 3})
		f.submit(many("a", 3)...)
		f.submit(many("b", 3, inQueue("q2"))...)
		f.submit(many("c", 3, inQueue("q3"))...)
		f.check(len(f.claimBoth("w1", 100)) == 3, "not three of the covered queues")
		r := f.claimFor("w1", store.Intake, 10)
		r.Wants[0].Queue = "q3"
		f.check(len(f.claimAll(r)) == 3, "a queue that is not covered waits")
	}},
	{"scopes", "scope invocation counts while leased; scope command from the first claim until the end or a returned outcome that left it PENDING", func(f *fixture) {
		f.limits(store.Limit{Name: "inv", Max: 5}, store.Limit{Name: "cmd", Max: 5, Scope: store.ScopeCommand})
		check := func(what string, inv, cmd int) {
			f.Helper()
			f.members("inv", "", inv)
			f.members("cmd", "", cmd)
		}
		c := f.start("a")
		check("leased", 1, 1)
		f.same([]store.Hold{{LimitKey: store.LimitKey{Limit: "cmd"}, Scope: store.ScopeCommand}, {LimitKey: store.LimitKey{Limit: "inv"}}}, c.Holds)
		f.settle(c, store.OutcomeRetry, delay(time.Minute))
		check("backoff", 0, 0)
		f.Pass(time.Minute)
		f.settle(f.claim1("w1", store.Intake, "a"), store.OutcomeProcessing)
		check("parked", 0, 1)
		f.Pass(time.Second)
		c = f.claim1("w1", store.Repoll, "a")
		check("polled", 1, 1)
		f.settle(c, store.OutcomeRetry)
		check("poll failed", 0, 1)
		f.Pass(time.Second)
		f.settle(f.claim1("w1", store.Repoll, "a"), store.OutcomeDone)
		check("ended", 0, 0)
	}},
	{"holder", "a lost worker's command keeps its slot of scope command, never waits for such a slot, and goes before others; the retry that its handler returns gives the slot back", func(f *fixture) {
		f.limits(store.Limit{Name: "vm", Max: 1, Scope: store.ScopeCommand}, store.Limit{Name: "vm2", Max: 1, Scope: store.ScopeCommand, By: store.ByKey, Key: "k"})
		f.start("a", keyed("k", "x"))
		f.submit(sub("b", keyed("k", "x")))
		f.Pass(f.v)
		g := f.is("a", store.Pending, store.InLine)
		f.check(g.Unknown && len(g.Holds) == 2, "%s holds %v, unknown %v", show(g), g.Holds, g.Unknown)
		f.members("vm", "", 1)
		cs := f.claim("w2", store.Intake, 5)
		f.check(len(cs) == 1 && cs[0].ID == "a", "claimed %v", ids(cs))
		f.check(len(f.claim("w3", store.Intake, 5)) == 0, "two at once")
		f.settle(cs[0], store.OutcomeRetry, delay(time.Hour))
		g = f.get("a")
		f.check(!g.Unknown && len(g.Holds) == 0, "%s holds %v", show(g), g.Holds)
		f.claim1("w2", store.Intake, "b")
	}},
	{"suspect_holder", "a suspect that holds a slot does not stand behind one that waits for it", func(f *fixture) {
		f.limits(store.Limit{Name: "vm", Max: 1, Scope: store.ScopeCommand})
		f.submit(sub("a"))
		f.lose("w1", store.Intake, "a")
		f.lose("w2", store.Intake, "a")
		f.submit(sub("b"))
		c := f.claimWhen("w3", "a")
		f.check(c.Losses == 2, "%s", show(c))
		f.settle(c, store.OutcomeDone)
		f.finish()
	}},
	{"all_or_none", "several limits of one command are taken all or none: one that is refused holds nothing", func(f *fixture) {
		f.limits(store.Limit{Name: "a", By: store.ByKey, Key: "a", Max: 1}, store.Limit{Name: "b", By: store.ByKey, Key: "b", Max: 1},
			store.Limit{Name: "c", By: store.ByKey, Key: "c", Max: 1, Scope: store.ScopeCommand})
		f.submit(sub("hold", keyed("b", "1")))
		h := f.claim1("w1", store.Intake, "hold")
		f.submit(sub("both", keyed("a", "1"), keyed("b", "1"), keyed("c", "1")), sub("other", keyed("a", "1")))
		f.claim1("w1", store.Intake, "other")
		f.members("a", "1", 1)
		f.members("c", "1", 0)
		f.settle(h, store.OutcomeDone)
		f.Pass(3 * time.Second)
		f.check(len(f.claim("w1", store.Intake, 5)) == 0, "granted without all of its limits")
		f.members("b", "1", 0)
		f.members("c", "1", 0)
		f.settle(f.get("other"), store.OutcomeDone)
		f.Pass(time.Second)
		f.claim1("w1", store.Intake, "both")
		for _, n := range []string{"a", "b", "c"} {
			f.members(n, "1", 1)
		}
	}},
	{"deadlock", "commands that need two limits in any order never block each other for good", func(f *fixture) {
		f.limits(store.Limit{Name: "a", By: store.ByKey, Key: "a", Max: 1}, store.Limit{Name: "b", By: store.ByKey, Key: "b", Max: 1, Scope: store.ScopeCommand})
		for i := range 10 {
			f.submit(sub(fmt.Sprint("a", i), keyed("a", "1"), ofType("t1")), sub(fmt.Sprint("b", i), keyed("b", "1"), ofType("t2")), sub(fmt.Sprint("c", i), keyed("a", "1"), keyed("b", "1")))
		}
		done := 0
		for range 40 {
			cs := f.claimBoth("w1", 10)
			for _, c := range cs {
				f.settle(c, store.OutcomeDone)
			}
			done += len(cs)
			f.Pass(500 * time.Millisecond)
		}
		f.check(done == 30, "%d of 30 in 20 s", done)
	}},
	{"F032_never_fits", "a command that can never fit is refused at submit, with the field; a limit of 0 refuses none; lowering lets the large one wait, named, and keeps nobody behind it", func(f *fixture) {
		f.limits(store.Limit{Name: "l", By: store.ByType, Max: 4, Values: map[string]int{"t1": 0}})
		var inv *store.InvalidError
		r := f.trySubmit(sub("five", costing(5)), sub("four", costing(4)), sub("closed", costing(5), ofType("t1")))
		f.check(isInvalid(r[0].Err, &inv) && inv.Field == "cost", "%+v", r[0])
		f.check(r[1].Err == nil && r[2].Err == nil, "%+v", r)
		f.check(f.get("five") == nil, "a refused command is there")
		f.limits(store.Limit{Name: "l", By: store.ByType, Max: 3})
		f.check(len(f.claim("w1", store.Intake, 5)) == 0, "a cost of 4 ran under a limit of 3")
		f.submit(sub("one"), sub("two", costing(2)))
		f.check(len(f.claim("w1", store.Intake, 5)) == 2, "the large one keeps others waiting")
		st := f.limit("l", "t")
		f.check(st.Lines == 1 && st.Filed[0].Never && st.Filed[0].Waiting == 1, "%+v", st)
		all, err := f.s.Stats(f.ctx(), store.StatsRequest{Overview: true})
		f.ok(err)
		f.check(len(all.Limits) == 1 && all.Limits[0].Never == 1 && all.Limits[0].Lines == 1, "%+v", all.Limits)
		f.limits(store.Limit{Name: "l", By: store.ByType, Max: 7})
		f.Pass(time.Second)
		f.claim1("w1", store.Intake, "four")
	}},
	{"values", "single values have a limit of their own, and 0 closes one", func(f *fixture) {
		f.limits(store.Limit{Name: "l", By: store.ByGroup, Max: 1, Values: map[string]int{"big": 3, "shut": 0}})
		for _, g := range []string{"big", "shut", "other"} {
			f.submit(many(g, 4, inGroup(g))...)
		}
		got := map[string]int{}
		for _, c := range f.claim("w1", store.Intake, 100) {
			got[c.Group]++
		}
		f.check(got["big"] == 3 && got["shut"] == 0 && got["other"] == 1, "%v", got)
	}},
	{"classify", "a limit that classifies admits what is over it and marks it as overflow for the time of its lease; members are those who are within", func(f *fixture) {
		f.limits(store.Limit{Name: "reserved", Max: 2, Classify: true})
		f.submit(many("a", 4)...)
		cs := f.claim("w1", store.Intake, 10)
		over := 0
		for _, c := range cs {
			if c.Overflow {
				over++
			}
		}
		f.check(len(cs) == 4 && over == 2, "%d granted, %d as overflow", len(cs), over)
		f.members("reserved", "", 2)
		i := slices.IndexFunc(cs, func(c *store.Command) bool { return c.Overflow })
		f.settle(cs[i], store.OutcomeRetry, delay(time.Hour))
		f.check(!f.get(cs[i].ID).Overflow, "the mark stays after the lease")
	}},
	{"classify_sustained", "whoever is over a limit that classifies takes none of its room: as long as more want to run than it has, all of it is reserved", func(f *fixture) {
		f.limits(store.Limit{Name: "quota", By: store.ByGroup, Max: 3, Classify: true})
		f.submit(many("a", 200, inGroup("a"))...)
		run := f.claim("w1", store.Intake, 10)
		for round := range 30 {
			reserved := 0
			for _, c := range run {
				if !c.Overflow {
					reserved++
				}
			}
			st := f.limit("quota", "a")
			f.check(reserved == 3 && st.Members == 3 && len(st.Holders) == 3, "round %d: %d of %d are reserved, members %v", round, reserved, len(run), st.Holders)
			i := slices.IndexFunc(run, func(c *store.Command) bool { return c.Overflow == (round%3 == 0) })
			f.settle(run[i], store.OutcomeDone)
			run = append(slices.Delete(run, i, i+1), f.claim("w1", store.Intake, 1)...)
		}
	}},
	{"classify_scope", "a command that is within a limit that classifies stays so from poll to poll, and one that was over it comes in when there is room", func(f *fixture) {
		f.limits(store.Limit{Name: "quota", Max: 1, Classify: true, Scope: store.ScopeCommand})
		poll := func(id string) *store.Command {
			f.Helper()
			f.Pass(time.Second)
			return f.claim1("w1", store.Repoll, id)
		}
		f.settle(f.start("in"), store.OutcomeProcessing)
		c := poll("in")
		f.check(!c.Overflow, "it stands in its own way")
		f.settle(c, store.OutcomeProcessing, delay(10*time.Second))
		c = f.start("over")
		f.check(c.Overflow, "not over the limit")
		f.settle(c, store.OutcomeProcessing)
		c = poll("over")
		f.check(c.Overflow && len(c.Holds) == 0, "%v %v", c.Overflow, c.Holds)
		f.settle(c, store.OutcomeProcessing, delay(30*time.Second))
		f.Pass(9 * time.Second)
		f.settle(f.claim1("w1", store.Repoll, "in"), store.OutcomeDone)
		f.Pass(21 * time.Second)
		f.check(!poll("over").Overflow, "there is room")
		f.members("quota", "", 1)
	}},
	{"until", "a limit with an end is not in force from that time on, and whoever waited for it runs", func(f *fixture) {
		f.limits(store.Limit{Name: "gate", By: store.ByType, Max: 9, Values: map[string]int{"t": 0}, Until: f.now.Add(10 * time.Second)})
		f.submit(sub("a"))
		w := f.tryClaim(f.claimFor("w1", store.Intake, 5)).Wants[0]
		f.check(w.Why == store.WhyLimit && w.Detail == "gate=t" && w.Granted == 0, "%+v", w)
		f.check(f.limit("gate", "t").Next == 10*time.Second, "%+v", f.limit("gate", "t"))
		f.Pass(9 * time.Second)
		f.check(len(f.claim("w1", store.Intake, 5)) == 0, "opened early")
		f.Pass(2 * time.Second)
		f.claim1("w1", store.Intake, "a")
		_, err := f.s.Limit(f.ctx(), store.LimitKey{Limit: "gate", Value: "t"})
		f.wrong(err, store.ErrNotFound)
	}},
	{"state", "the state of a limit lists its holders by id and the lines that wait, oldest first", func(f *fixture) {
		f.limits(store.Limit{Name: "l", Max: 3})
		f.submit(sub("b", costing(2)), sub("a"))
		cs := f.claim("w1", store.Intake, 5)
		f.check(len(cs) == 2, "claimed %v", ids(cs))
		f.submit(many("x", 3, inGroup("g"))...)
		f.claim("w1", store.Intake, 5)
		f.Pass(time.Second)
		f.submit(many("y", 2, ofType("t1"))...)
		f.claimBoth("w1", 5)
		st := f.limit("l", "")
		f.check(st.Max == 3 && st.Members == 3 && slices.Equal(st.Holders, []string{"a", "b"}), "%+v", st)
		f.check(st.Lines == 2 && len(st.Filed) == 2 && st.Filed[0].Group == "g" && st.Filed[0].Waiting == 3 && st.Filed[1].Type == "t1" && st.Filed[1].Waiting == 2, "%+v", st)
		f.check(st.Filed[0].Since < st.Filed[1].Since && st.Filed[0].Queue == "q" && st.Filed[0].Lane == store.Intake && !st.Filed[0].Opened, "%+v", st.Filed)
		ls := f.stats().Limits
		f.check(len(ls) == 1 && ls[0].Name == "l" && ls[0].Members == 3 && ls[0].Lines == 2 && len(ls[0].Values) == 1, "%+v", ls)
		w := f.tryClaim(f.claimFor("w1", store.Intake, 5)).Wants[0]
		f.check(w.Why == store.WhyLimit && w.Detail == "l", "%+v", w)
		_, err := f.s.Limit(f.ctx(), store.LimitKey{Limit: "none"})
		f.wrong(err, store.ErrNotFound)
	}},
	{"visit_passes", "a cancel visit passes a full limit and a closed one and joins none; what it holds of scope command stays until the end", func(f *fixture) {
		f.limits(store.Limit{Name: "inv", Max: 1}, store.Limit{Name: "cmd", Max: 1, Scope: store.ScopeCommand}, store.Limit{Name: "r", Rate: 0.01, Burst: 3})
		f.park("p", hook)
		f.submit(sub("run", ofType("t1")))
		f.limits(store.Limit{Name: "inv", Max: 0}, store.Limit{Name: "cmd", Max: 0, Scope: store.ScopeCommand}, store.Limit{Name: "r", Rate: 0.01, Burst: 3})
		f.Pass(time.Second)
		f.check(len(f.claimBoth("w1", 5)) == 0, "closed limits let something through")
		f.cancel("p")
		c := f.claim1("w1", store.Repoll, "p")
		f.members("inv", "", 0)
		f.members("cmd", "", 1)
		f.settle(c, store.OutcomeCancelRetry)
		f.members("cmd", "", 1)
		f.Pass(time.Second)
		f.settle(f.claim1("w1", store.Repoll, "p"), store.OutcomeCancelled)
		f.members("cmd", "", 0)
	}},
}
