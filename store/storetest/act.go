package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twolane/twolane/store"
)

// actAll repeats a filtered action until its cursor is empty and returns how many were done.
func (f *fixture) actAll(r store.ActRequest) int {
	f.Helper()
	done := 0
	for range 1000 {
		reply, err := f.s.Act(f.ctx(), r)
		f.ok(err)
		done += reply.Done
		if r.Cursor, r.UpTo = reply.Cursor, reply.UpTo; r.Cursor == "" {
			return done
		}
	}
	f.Fatal("a filtered action never ends")
	return 0
}

func force(r *store.ActRequest) { r.Force = true }

func as(a store.RetryAs) func(*store.ActRequest) { return func(r *store.ActRequest) { r.As = a } }

var actCases = []kase{
	{"retry", "a retry brings a FAILED or CANCELLED command back under its id, its counters in a row at zero, anew in line", func(f *fixture) {
		f.submit(sub("a", func(s *store.Submission) { s.MaxFailures = 2; s.Metadata = map[string]string{"m": "v"} }))
		for range 2 {
			f.settle(f.claim1("w1", store.Intake, "a"), store.OutcomeRetry, delay(time.Second), errText("boom"))
			f.Pass(time.Second)
		}
		f.failed("a", store.ReasonRetriesExhausted)
		f.submit(sub("b"))
		f.ok(f.act(store.ActRetry, "a"))
		g := f.is("a", store.Pending, store.InLine)
		f.check(g.Failures == 0 && g.Losses == 0 && g.Starts == 2 && g.Ended == 0 && g.PurgeAt == 0 && g.Reason == "" && g.Was == 0 && g.Metadata["m"] == "v", "%s", show(g))
		last := g.Events[len(g.Events)-1]
		f.check(last.Kind == store.EventRetried && last.Text == "test", "%+v", last)
		f.check(slices.Equal(ids(f.claim("w1", store.Intake, 5)), []string{"b", "a"}), "it did not arrive anew")
		f.cancel("b")
		f.tryCancel(store.CancelRequest{IDs: []string{"b"}, Force: true})
		f.ok(f.act(store.ActRetry, "b"))
		g = f.claim1("w1", store.Intake, "b")
		f.check(g.CancelAsked == 0 && g.CancelReason == "", "the old cancel is still asked: %s", show(g))
	}},
	{"retry_of_ended_by_time", "a retry of what time has ended at rest tells of its end and of the retry, once each", func(f *fixture) {
		f.submit(sub("a", func(s *store.Submission) { s.Deadline = epoch.Add(time.Minute) }))
		f.Advance(time.Hour) // nobody has written that it has ended
		f.ok(f.act(store.ActRetry, "a", func(r *store.ActRequest) { r.Deadline = f.now.Add(time.Hour) }))
		var kinds []store.EventKind
		for _, e := range f.is("a", store.Pending, store.InLine).Events {
			kinds = append(kinds, e.Kind)
		}
		f.same([]store.EventKind{store.EventEnded, store.EventRetried}, kinds)
	}},
	{"retry_where", "a retry goes to the lane in which the command ended, unless told otherwise; Check is refused to one that was not PROCESSING", func(f *fixture) {
		end := func(id string, polled, stateful bool) {
			f.Helper()
			c := f.start(id)
			if polled {
				f.settle(c, store.OutcomeProcessing, func(s *store.Settlement) {
					if stateful {
						s.SetState, s.State = true, []byte("vm")
					}
				})
				f.Pass(time.Second)
				c = f.claim1("w1", store.Repoll, id)
			}
			f.settle(c, store.OutcomeFail)
		}
		end("new", false, false)
		end("old", true, true)
		end("bare", true, false)
		f.settle(f.start("parked"), store.OutcomeProcessing, delay(time.Hour))
		f.cancel("parked") // PROCESSING, without state, hook or a poll
		f.wrong(f.act(store.ActRetry, "new", as(store.AsCheck)), store.ErrState)
		f.ok(f.act(store.ActRetry, "new"))
		f.is("new", store.Pending, store.InLine)
		for _, id := range []string{"old", "bare", "parked"} {
			f.ok(f.act(store.ActRetry, id))
			f.is(id, store.Processing, store.InLine)
		}
		cs := f.claim("w1", store.Repoll, 5)
		f.check(len(cs) == 3, "a retried poll is not due at once: %v", ids(cs))
		for _, c := range cs {
			f.settle(c, store.OutcomeFail)
		}
		f.ok(f.act(store.ActRetry, "old", as(store.AsExecute)))
		g := f.is("old", store.Pending, store.InLine)
		f.check(len(g.State) == 0 && !g.HasHook, "it starts with an old state: %q", g.State)
		f.settle(f.claim("w1", store.Intake, 5)[1], store.OutcomeFail)
		f.ok(f.act(store.ActRetry, "old"))
		f.is("old", store.Pending, store.InLine)
		f.ok(f.act(store.ActRetry, "bare", as(store.AsCheck)))
		f.is("bare", store.Processing, store.InLine)
	}},
	{"retry_refused", "only what FAILED or was CANCELLED can be retried; after its deadline it needs a new one", func(f *fixture) {
		c := f.start("live", deadlineIn(time.Hour))
		f.wrong(f.act(store.ActRetry, "live"), store.ErrState)
		f.settle(c, store.OutcomeDone)
		f.wrong(f.act(store.ActRetry, "live"), store.ErrState)
		f.wrong(f.act(store.ActRetry, "unknown"), store.ErrNotFound)
		f.submit(sub("late", deadlineIn(time.Second)))
		f.Advance(time.Second)
		f.maintain()
		f.wrong(f.act(store.ActRetry, "late"), store.ErrState)
		f.ok(f.act(store.ActRetry, "late", func(r *store.ActRequest) { r.Deadline = f.now.Add(time.Minute) }))
		f.check(f.is("late", store.Pending, store.InLine).Deadline == f.now.Add(time.Minute), "the new deadline is not kept")
		f.Advance(time.Minute)
		f.maintain()
		f.failed("late", store.ReasonDeadline)
	}},
	{"F026_delete", "a delete removes a command wherever it is; a leased one only by force, which breaks the lease", func(f *fixture) {
		f.submit(sub("later", func(s *store.Submission) { s.Delay = time.Hour }))
		f.settle(f.start("done"), store.OutcomeDone)
		f.park("parked", delay(time.Hour))
		c := f.start("leased")
		f.submit(sub("line"))
		f.wrong(f.act(store.ActDelete, "leased"), store.ErrState)
		for _, id := range []string{"later", "done", "parked", "line"} {
			f.ok(f.act(store.ActDelete, id))
			f.check(f.get(id) == nil, "%s is still there", id)
			f.wrong(f.act(store.ActDelete, id), store.ErrNotFound)
		}
		f.ok(f.act(store.ActDelete, "leased", force))
		f.check(f.renew("w1", c)[0].State == store.RenewLost && f.trySettle(c, store.OutcomeDone).State == store.SettleLost, "the owner still holds it")
		s := f.stats().Queues[0]
		f.check(s.Lanes[0].Leased+s.Lanes[0].InLine+s.Lanes[1].InLine+s.Scheduled+s.Succeeded == 0, "%+v", s)
	}},
	{"F026_move", "a move takes a live command that is not leased to another queue, in its place and with all it has", func(f *fixture) {
		f.submit(sub("line", key("u")), sub("later", func(s *store.Submission) { s.Delay = time.Hour }))
		to := func(r *store.ActRequest) { r.Queue = "q2" }
		for _, id := range []string{"line", "later"} {
			f.ok(f.act(store.ActMove, id, to))
			f.check(f.get(id).Queue == "q2" && f.get(id).Events[0].Kind == store.EventMoved, "%s %+v", show(f.get(id)), f.get(id).Events)
		}
		f.park("parked")
		f.ok(f.act(store.ActMove, "parked", to))
		c := f.start("leased")
		f.wrong(f.act(store.ActMove, "leased", to), store.ErrState)
		f.settle(c, store.OutcomeDone)
		f.wrong(f.act(store.ActMove, "leased", to), store.ErrState)
		f.Pass(time.Second)
		f.check(len(f.claim("w1", store.Intake, 5))+len(f.claim("w1", store.Repoll, 5)) == 0, "the old queue still has it")
		for lane, id := range []string{"line", "parked"} {
			r := f.claimFor("w1", store.Lane(lane), 5)
			r.Wants[0].Queue = "q2"
			got := ids(items(f.claimAll(r)))
			f.check(slices.Equal(got, []string{id}), "the new queue has %v", got)
		}
		f.wrong(f.trySubmit(sub("x", key("u")))[0].Err, store.ErrUniqueHeld)
		f.check(!f.trySubmit(sub("line", key("u")))[0].Created, "after a move its id is not known")
		_, err := f.s.Act(f.ctx(), store.ActRequest{Kind: store.ActMove, IDs: []string{"later"}, Queue: "bad queue"})
		f.wrong(err, store.ErrInvalid)
	}},
	{"reprioritise", "a new priority holds from the next claim on, also for what is scheduled or leased", func(f *fixture) {
		f.submit(many("a", 3, func(s *store.Submission) { s.Priority = 5 })...)
		prio := func(p uint8) func(*store.ActRequest) { return func(r *store.ActRequest) { r.Priority = p } }
		f.ok(f.act(store.ActReprioritise, "a-0002", prio(1)))
		f.ok(f.act(store.ActReprioritise, "a-0000", prio(9)))
		c := f.claim1("w1", store.Intake, "a-0002")
		f.ok(f.act(store.ActReprioritise, "a-0002", prio(7)))
		f.settle(c, store.OutcomeGiveBack)
		f.check(slices.Equal(ids(f.claim("w1", store.Intake, 5)), []string{"a-0001", "a-0002", "a-0000"}), "not in the new order")
		f.check(f.get("a-0000").Priority == 9, "%d", f.get("a-0000").Priority)
		f.cancel("a-0000")
		f.tryCancel(store.CancelRequest{IDs: []string{"a-0000"}, Force: true})
		f.wrong(f.act(store.ActReprioritise, "a-0000", prio(1)), store.ErrState)
	}},
	{"run_now", "run now ends a backoff or a delay, and makes a poll due", func(f *fixture) {
		f.settle(f.start("backoff"), store.OutcomeRetry, delay(time.Hour))
		f.submit(sub("later", func(s *store.Submission) { s.Delay = time.Hour }))
		f.park("parked", delay(time.Hour))
		for _, id := range []string{"backoff", "later", "parked"} {
			f.ok(f.act(store.ActRunNow, id))
			f.ok(f.act(store.ActRunNow, id)) // twice is no error
		}
		f.check(len(f.claim("w1", store.Intake, 5)) == 2 && len(f.claim("w1", store.Repoll, 5)) == 1, "not all run")
		f.wrong(f.act(store.ActRunNow, "later"), store.ErrState)
		f.wrong(f.act(store.ActRunNow, "unknown"), store.ErrNotFound)
	}},
	{"ids", "results are for the ids in their order; one that fails does not spoil the others", func(f *fixture) {
		f.submit(many("a", 3)...)
		r, err := f.s.Act(f.ctx(), store.ActRequest{Kind: store.ActDelete, IDs: []string{"a-0000", "nobody", "a-0002"}})
		f.ok(err)
		f.check(r.Done == 2 && r.Results[0] == nil && r.Results[2] == nil && isErr(r.Results[1], store.ErrNotFound), "%+v", r)
	}},
	{"F163_filter", "a filtered action meets all that match, each once, in bounded steps, and nothing else", func(f *fixture) {
		f.submit(many("a", 150)...)
		f.submit(many("b", 150, func(s *store.Submission) { s.Type = "t2" })...)
		f.submit(many("c", 30, func(s *store.Submission) { s.Group = "g" })...)
		f.submit(many("d", 30, func(s *store.Submission) { s.Queue = "q2" })...)
		r := f.claimFor("w1", store.Intake, 500)
		r.Wants[0].Types = []store.TypeWant{{Type: "t"}, {Type: "t2"}}
		for _, c := range items(f.claimAll(r)) {
			f.settle(c, store.OutcomeFail, func(s *store.Settlement) {
				if strings.HasPrefix(c.ID, "a") {
					s.Reason = store.ReasonUndecodable
				}
			})
		}
		flt := func(change ...func(*store.Filter)) *store.Filter {
			x := &store.Filter{Queue: "q", Status: store.Failed}
			for _, c := range change {
				c(x)
			}
			return x
		}
		first, err := f.s.Act(f.ctx(), store.ActRequest{Kind: store.ActRetry, Filter: flt(func(x *store.Filter) { x.Type = "t2" }), Limit: 20})
		f.ok(err)
		f.check(first.Done <= 20 && first.Cursor != "" && first.UpTo > 0, "a step of 20: %+v", first)
		n := f.actAll(store.ActRequest{Kind: store.ActRetry, Filter: flt(func(x *store.Filter) { x.Type = "t2" }), Limit: 20, Cursor: first.Cursor, UpTo: first.UpTo})
		f.check(first.Done+n == 150, "by type: %d", first.Done+n)
		n = f.actAll(store.ActRequest{Kind: store.ActDelete, Filter: flt(func(x *store.Filter) { x.Reason = store.ReasonUndecodable }), Limit: 40})
		f.check(n == 150, "by reason: %d", n)
		n = f.actAll(store.ActRequest{Kind: store.ActRetry, Filter: flt(func(x *store.Filter) { x.Group = "g" })})
		f.check(n == 30, "by group: %d", n)
		s := f.stats().Queues[0]
		f.check(s.Failed == 0 && s.Lanes[0].InLine == 180, "%+v", s)
		n = f.actAll(store.ActRequest{Kind: store.ActMove, Filter: &store.Filter{Queue: "q", Status: store.Pending, Group: "g"}, Queue: "q3"})
		f.check(n == 30 && f.get("c-0007").Queue == "q3" && f.get("d-0001").Queue == "q2", "moved %d", n)
	}},
	{"F026_purge", "a purge up to where it began leaves what arrives while it goes on, and skips what is leased unless forced", func(f *fixture) {
		f.submit(many("a", 30)...)
		leased := f.claim("w1", store.Intake, 5)
		r := store.ActRequest{Kind: store.ActDelete, Filter: &store.Filter{Queue: "q", Status: store.Pending}, Limit: 10}
		reply, err := f.s.Act(f.ctx(), r)
		f.ok(err)
		f.submit(many("new", 10)...)
		r.Cursor, r.UpTo = reply.Cursor, reply.UpTo
		n := reply.Done
		if r.Cursor != "" {
			n += f.actAll(r)
		}
		f.check(n == 25, "%d deleted", n)
		f.check(f.lane(store.Intake).InLine == 10 && f.lane(store.Intake).Leased == 5, "%+v", f.lane(store.Intake))
		n = f.actAll(store.ActRequest{Kind: store.ActDelete, Filter: r.Filter, Force: true})
		f.check(n == 15 && f.lane(store.Intake).Leased == 0, "%d deleted by force, %+v", n, f.lane(store.Intake))
		f.check(f.trySettle(leased[0], store.OutcomeDone).State == store.SettleLost, "the owner still holds it")
	}},
	{"filter_age", "before and after match the creation of live commands and the end of finished ones", func(f *fixture) {
		for i := range 6 {
			f.submit(sub(fmt.Sprint("a", i)))
			f.Advance(time.Second)
		}
		n := f.actAll(store.ActRequest{Kind: store.ActReprioritise, Priority: 3, Filter: &store.Filter{Queue: "q", Status: store.Pending, Before: epoch.Add(4 * time.Second), After: epoch.Add(2 * time.Second)}})
		f.check(n == 2 && f.get("a2").Priority == 3 && f.get("a3").Priority == 3, "%d live ones", n)
		for _, c := range f.claim("w1", store.Intake, 6) {
			f.settle(c, store.OutcomeFail)
			f.Advance(time.Second)
		}
		n = f.actAll(store.ActRequest{Kind: store.ActDelete, Filter: &store.Filter{Queue: "q", Status: store.Failed, Before: epoch.Add(8 * time.Second)}})
		f.check(n == 2, "%d finished ones", n)
	}},
	{"invalid", "an action without ids or filter, with both, with half a filter or of an unknown kind is refused", func(f *fixture) {
		for name, r := range map[string]store.ActRequest{
			"neither": {Kind: store.ActDelete}, "both": {Kind: store.ActDelete, IDs: []string{"a"}, Filter: &store.Filter{Queue: "q", Status: store.Failed}},
			"no status": {Kind: store.ActDelete, Filter: &store.Filter{Queue: "q"}}, "no queue": {Kind: store.ActDelete, Filter: &store.Filter{Status: store.Failed}},
			"kind": {Kind: 99, IDs: []string{"a"}}, "limit": {Kind: store.ActDelete, Filter: &store.Filter{Queue: "q", Status: store.Failed}, Limit: store.MaxItems + 1},
			"cursor": {Kind: store.ActDelete, Filter: &store.Filter{Queue: "q", Status: store.Failed}, Cursor: "\x00not a cursor"},
		} {
			_, err := f.s.Act(f.ctx(), r)
			f.check(isErr(err, store.ErrInvalid), "%s: %v", name, err)
		}
	}},
}
