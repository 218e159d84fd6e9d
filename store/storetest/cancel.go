package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/twolane/twolane/store"
)

var cancelCases = []kase{
	{"at_rest", "a command at rest ends CANCELLED in the step of the cancel: in line, scheduled, in backoff, or parked without a hook", func(f *fixture) {
		f.submit(sub("later", func(s *store.Submission) { s.Delay = time.Hour }))
		f.settle(f.start("backoff"), store.OutcomeRetry, delay(time.Hour))
		f.park("parked", delay(time.Hour))
		f.submit(sub("line"))
		for _, id := range []string{"later", "backoff", "parked", "line"} {
			r := f.cancel(id)
			f.check(r.State == store.CancelEnded && r.Status == store.Cancelled, "%s: %+v", id, r)
			g := f.is(id, store.Cancelled, store.Nowhere)
			f.check(g.CancelAsked == f.now && g.CancelReason == "test" && g.Ended == f.now && g.Reason == "", "%s", show(g))
		}
		f.Later(2 * time.Hour)
		f.check(len(f.claim("w1", store.Intake, 10))+len(f.claim("w1", store.Repoll, 10)) == 0, "a cancelled command was claimed")
	}},
	{"same_answer", "the same cancel again gets the same answer; what had ended is too late, what is unknown is not found", func(f *fixture) {
		c := f.start("leased")
		f.settle(f.start("done"), store.OutcomeDone)
		f.submit(sub("line"))
		for range 3 {
			for id, want := range map[string]store.CancelState{"leased": store.CancelRequested, "done": store.CancelTooLate, "line": store.CancelEnded, "unknown": store.CancelNotFound} {
				f.check(f.cancel(id).State == want, "%s: %s", id, f.cancel(id).State)
			}
		}
		asked := f.get("leased").CancelAsked
		f.Advance(time.Second)
		f.cancel("leased")
		f.check(f.get("leased").CancelAsked == asked, "the first request is overwritten")
		f.settle(c, store.OutcomeDone)
		f.check(f.cancel("leased").State == store.CancelTooLate, "%+v", f.cancel("leased"))
	}},
	{"leased", "a leased command is marked, its owner is told with the next renewal, and its own Done or Fail stands", func(f *fixture) {
		for kind, want := range map[store.OutcomeKind]store.Status{store.OutcomeDone: store.Succeeded, store.OutcomeFail: store.Failed} {
			id := kind.String()
			c := f.start(id)
			f.check(!f.renew("w1", c)[0].Cancel, "told before anybody asked")
			f.check(f.cancel(id).State == store.CancelRequested, "%+v", f.cancel(id))
			f.check(f.is(id, store.Pending, store.Leased).CancelAsked == f.now, "not marked")
			r := f.renew("w1", c)[0]
			f.check(r.State == store.RenewOK && r.Cancel, "%+v", r)
			f.settle(c, kind)
			g := f.is(id, want, store.Nowhere)
			f.check(g.CancelAsked != 0, "the request is forgotten")
		}
	}},
	{"F100_leased_else", "any other outcome of a PENDING command that was asked to cancel ends it CANCELLED, with no retry", func(f *fixture) {
		for _, kind := range []store.OutcomeKind{store.OutcomeRetry, store.OutcomeSnooze, store.OutcomeGiveBack, store.OutcomeAbandon, store.OutcomeProcessing, store.OutcomeThrottled} {
			c := f.start(kind.String())
			f.cancel(c.ID)
			r := f.settle(c, kind, delay(time.Hour))
			f.check(r.Status == store.Cancelled, "%s: %+v", kind, r)
			f.is(c.ID, store.Cancelled, store.Nowhere)
		}
	}},
	{"expires", "a lease that runs out with a cancel asked ends a PENDING command CANCELLED, and makes the visit of a PROCESSING one due", func(f *fixture) {
		a := f.start("a")
		f.park("b", hook)
		f.Pass(time.Second)
		f.claim1("w1", store.Repoll, "b")
		f.cancel(a.ID)
		f.cancel("b")
		f.Pass(f.v)
		f.is("a", store.Cancelled, store.Nowhere)
		r := f.tryClaim(f.claimFor("w2", store.Repoll, 1))
		f.check(len(r.Grants) == 1 && r.Grants[0].Class == store.ClassCancel && r.Grants[0].Items[0].ID == "b", "no visit: %+v, %s", r.Grants, show(f.get("b")))
	}},
	{"visit", "a parked command with a hook gets one visit at once, in the repoll lane and alone of its class; its success ends the command CANCELLED", func(f *fixture) {
		f.park("a", hook, delay(time.Hour))
		r := f.cancel("a")
		f.check(r.State == store.CancelRequested && r.Status == store.Processing, "%+v", r)
		f.check(f.cancel("a").State == store.CancelRequested, "another answer the second time")
		g := f.tryClaim(f.claimFor("w1", store.Repoll, 1)).Grants
		f.check(len(g) == 1 && g[0].Class == store.ClassCancel && len(g[0].Items) == 1, "%+v", g)
		c := g[0].Items[0]
		f.check(c.CancelAsked != 0 && string(c.State) == "s0" && c.CancelReason == "test", "%s", show(c))
		f.check(len(f.claim("w2", store.Repoll, 1)) == 0, "visited twice at once")
		f.settle(c, store.OutcomeCancelled)
		d := f.is("a", store.Cancelled, store.Nowhere)
		f.check(d.Polls == 0, "a visit was counted as a poll")
	}},
	{"visit_passes", "a cancel visit passes a pause of the queue and does not wait for a token", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.Rates[store.Repoll] = store.Rate{Limit: 0.01, Burst: 1} })
		f.submit(many("a", 3)...)
		for _, c := range f.claim("w1", store.Intake, 3) {
			f.settle(c, store.OutcomeProcessing, hook)
		}
		f.Pass(time.Second)
		f.check(len(f.claim("w1", store.Repoll, 3)) == 1, "the rate lets more than one poll through")
		f.queue("q", func(q *store.QueueConfig) { q.Pause = store.PauseAll })
		f.tryCancel(store.CancelRequest{IDs: []string{"a-0001", "a-0002"}})
		got := ids(f.claim("w1", store.Repoll, 3))
		f.check(len(got) == 2, "visits granted: %v", got)
	}},
	{"visits_alone", "a want of visits alone gets cancel visits and nothing else, whatever is due", func(f *fixture) {
		f.park("due", hook)
		f.park("asked", hook)
		f.submit(sub("new"))
		f.Pass(time.Minute)
		f.cancel("asked")
		want := func(lane store.Lane) store.ClaimReply {
			r := f.claimFor("w1", lane, 5)
			r.Wants[0].Visits = true
			return f.tryClaim(r)
		}
		r := want(store.Intake)
		f.check(len(r.Grants) == 0 && r.Wants[0].Why == store.WhyEmpty, "%+v", r)
		r = want(store.Repoll)
		f.check(len(r.Grants) == 1 && r.Grants[0].Class == store.ClassCancel && r.Grants[0].Items[0].ID == "asked" && r.Wants[0].Why == store.WhyEmpty, "%+v", r)
		f.check(len(f.claim("w1", store.Repoll, 5)) == 1 && len(f.claim("w1", store.Intake, 5)) == 1, "the others are gone")
	}},
	{"visit_retried", "a failing visit is retried after its delay for cancel_timeout, then the command is CANCELLED with a note", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.CancelFor = time.Minute })
		f.park("a", hook)
		f.cancel("a")
		n := 0
		for range 20 {
			for _, c := range f.claim("w1", store.Repoll, 1) {
				f.settle(c, store.OutcomeCancelRetry, delay(10*time.Second), errText("still there"))
				n++
				if f.get("a").Status == store.Processing {
					f.check(len(f.claim("w1", store.Repoll, 1)) == 0, "visited again without a pause")
				}
			}
			f.Pass(5 * time.Second)
		}
		f.check(n >= 5 && n <= 7, "%d visits in a minute, 10 s apart", n)
		g := f.is("a", store.Cancelled, store.Nowhere)
		f.check(g.Error == "cancel_hook_failed: still there" && g.Ended <= epoch.Add(66*time.Second), "error %q, ended %d", g.Error, g.Ended)
	}},
	{"long_lease", "the time for visits is counted from the first rest after the request: a lease that was held for longer does not cost the command its visit", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.CancelFor = time.Minute })
		f.park("a", hook)
		f.Pass(time.Second)
		poll, exec := f.claim1("w1", store.Repoll, "a"), f.start("b")
		f.tryCancel(store.CancelRequest{IDs: []string{"a", "b"}})
		f.check(f.get("a").CancelUntil == 0, "visits end at %d, before the first", f.get("a").CancelUntil)
		for end := f.now.Add(5 * time.Minute); f.now < end; f.Pass(f.v / 4) {
			f.renew("w1", poll, exec)
		}
		f.settle(poll, store.OutcomeProcessing, hook, delay(time.Hour))
		f.settle(exec, store.OutcomeProcessing, hook, delay(time.Hour))
		f.check(f.get("a").CancelUntil == f.now.Add(time.Minute), "visits end at %d, now is %d", f.get("a").CancelUntil, f.now)
		rested := f.now
		for n := 0; f.now < rested.Add(50*time.Second); f.Pass(10 * time.Second) {
			cs := f.claim("w1", store.Repoll, 2)
			f.check(len(cs) == 2, "%v on visit %d", ids(cs), n)
			for _, c := range cs {
				f.settle(c, store.OutcomeCancelRetry, delay(time.Second), errText("still there"))
			}
			n++
		}
		f.Pass(20 * time.Second)
		for _, id := range []string{"a", "b"} {
			g := f.is(id, store.Cancelled, store.Nowhere)
			f.check(strings.HasPrefix(g.Error, "cancel_hook_failed: "), "%s", show(g))
		}
	}},
	{"without_workers", "a cancel comes to an end without any worker", func(f *fixture) {
		f.park("a", hook, delay(time.Hour))
		f.cancel("a")
		f.Later(store.DefaultCancelFor)
		f.is("a", store.Cancelled, store.Nowhere)
	}},
	{"processing_after", "Processing after a request is recorded with its state, and the visit is due at once", func(f *fixture) {
		c := f.start("a")
		f.cancel("a")
		r := f.settle(c, store.OutcomeProcessing, state("vm-1"), hook, delay(time.Hour))
		f.check(r.Status == store.Processing, "%+v", r)
		c = f.claim1("w1", store.Repoll, "a")
		f.check(string(c.State) == "vm-1" && c.CancelAsked != 0, "%s", show(c))
	}},
	{"force", "force ends any command in any place in this step and breaks its lease", func(f *fixture) {
		f.submit(sub("later", func(s *store.Submission) { s.Delay = time.Hour }))
		f.park("parked", hook, delay(time.Hour))
		c := f.start("leased")
		f.park("visited", hook, delay(time.Hour))
		f.cancel("visited")
		v := f.claim1("w1", store.Repoll, "visited")
		all := []string{"later", "parked", "leased", "visited"}
		for range 2 {
			for i, r := range f.tryCancel(store.CancelRequest{IDs: all, Force: true}) {
				f.check(r.State == store.CancelEnded && r.Status == store.Cancelled, "%s: %+v", all[i], r)
				f.is(all[i], store.Cancelled, store.Nowhere)
			}
		}
		for _, c := range []*store.Command{c, v} {
			f.check(f.trySettle(c, store.OutcomeDone).State == store.SettleLost && f.renew("w1", c)[0].State == store.RenewLost, "%s: the broken lease still works", c.ID)
		}
	}},
	{"many", "a call cancels up to MaxItems commands; an unknown id does not spoil it", func(f *fixture) {
		f.submit(many("a", 500)...)
		all := []string{"nobody"}
		for i := range 500 {
			all = append(all, fmt.Sprintf("a-%04d", i))
		}
		for i, r := range f.tryCancel(store.CancelRequest{IDs: all}) {
			f.check(r.State == store.CancelEnded || i == 0 && r.State == store.CancelNotFound, "%s: %+v", all[i], r)
		}
		f.check(f.lane(store.Intake).InLine == 0 && f.stats().Queues[0].Cancelled == 500, "%+v", f.stats().Queues[0])
		_, err := f.s.Cancel(f.ctx(), store.CancelRequest{IDs: make([]string, store.MaxItems+1)})
		f.wrong(err, store.ErrTooLarge)
	}},
	{"poison_visit", "visits that kill their workers come to an end too: the command is CANCELLED with a note once it was lost too often", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.CancelFor = time.Hour })
		f.park("a", hook)
		f.cancel("a")
		for i := 1; i <= store.DefaultLosses; i++ {
			f.is("a", store.Processing, store.InLine)
			f.lose(fmt.Sprint("w", i), store.Repoll, "a")
		}
		g := f.is("a", store.Cancelled, store.Nowhere)
		f.check(strings.HasPrefix(g.Error, "cancel_hook_failed: "), "error %q", g.Error)
	}},
	{"note_cut", "the note of a failed hook fits into the largest error", func(f *fixture) {
		f.park("a", hook)
		f.cancel("a")
		f.settle(f.claim1("w1", store.Repoll, "a"), store.OutcomeCancelRetry, errText(strings.Repeat("x", store.MaxError)))
		f.Later(store.DefaultCancelFor)
		g := f.is("a", store.Cancelled, store.Nowhere)
		f.check(len(g.Error) == store.MaxError && strings.HasPrefix(g.Error, "cancel_hook_failed: xx"), "%d bytes", len(g.Error))
	}},
	{"suspended_visit_loss", "a worker that dies in a visit is a loss like any other, and the visit comes again", func(f *fixture) {
		f.park("a", hook)
		f.cancel("a")
		f.claim1("w1", store.Repoll, "a")
		f.Pass(f.v)
		c := f.claim1("w2", store.Repoll, "a")
		f.check(c.Losses == 1 && c.CancelAsked != 0, "%s", show(c))
		f.settle(c, store.OutcomeCancelled)
	}},
}
