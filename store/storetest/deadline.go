package storetest

import (
	"time"

	"github.com/twolane/twolane/store"
)

func deadlineIn(d time.Duration) func(*store.Submission) {
	return func(s *store.Submission) { s.Deadline = epoch.Add(d) }
}

var deadlineCases = []kase{
	{"at_rest", "a deadline ends a command at rest, wherever it rests, FAILED deadline_exceeded, as soon as anybody does maintenance", func(f *fixture) {
		const d = 10 * time.Second
		f.settle(f.start("parked", deadlineIn(d)), store.OutcomeProcessing, delay(time.Hour))
		f.settle(f.start("backoff", deadlineIn(d)), store.OutcomeRetry, delay(5*time.Second))
		f.submit(sub("line", deadlineIn(d)), sub("later", deadlineIn(d), func(s *store.Submission) { s.Delay = time.Hour }), sub("free"))
		f.Advance(d - time.Millisecond)
		f.maintain()
		for _, id := range []string{"line", "later", "parked", "backoff"} {
			f.check(!f.get(id).Status.Terminal(), "%s ended 1 ms early", id)
		}
		f.Advance(time.Millisecond)
		r := f.maintain()
		f.check(r.Expired == 4, "maintenance says that %d ended", r.Expired)
		for _, id := range []string{"line", "later", "parked", "backoff"} {
			g := f.failed(id, store.ReasonDeadline)
			f.check(g.Ended == f.now, "%s ended at %d", id, g.Ended)
		}
		f.is("free", store.Pending, store.InLine)
	}},
	{"reads", "reads answer as if it had already happened: before anybody has done maintenance, for every call that looks at the command", func(f *fixture) {
		unique := func(s *store.Submission) { s.UniqueKey = "u-" + s.ID; s.Deadline = epoch.Add(time.Second) }
		f.submit(sub("a", unique), sub("b", func(s *store.Submission) { s.StartBy = epoch.Add(time.Second) }), sub("c", unique), sub("d", unique), sub("e", unique))
		f.Advance(time.Second)
		f.failed("a", store.ReasonDeadline)
		f.failed("b", store.ReasonExpired)
		f.check(f.cancel("a").State == store.CancelTooLate && f.get("a").Status == store.Failed, "a cancel found it alive: %s", show(f.get("a")))
		r := f.trySubmit(sub("b"))[0]
		f.check(r.Err == nil && r.Status == store.Failed, "a re-submit found it alive: %+v", r)
		r = f.trySubmit(sub("c2", func(s *store.Submission) { s.UniqueKey = "u-c" }))[0]
		f.check(r.Created, "its unique key is still held: %+v", r)
		f.check(f.act(store.ActMove, "d", func(r *store.ActRequest) { r.Queue = "q2" }) != nil, "an ended command was moved")
		f.ok(f.act(store.ActRetry, "e", func(r *store.ActRequest) { r.Deadline = f.now.Add(time.Hour) }))
		g := f.is("e", store.Pending, store.InLine)
		f.check(len(g.Events) == 2 && g.Events[0].Kind == store.EventEnded && g.Events[1].Kind == store.EventRetried, "it ended and was retried: %+v", g.Events)
		for _, status := range []store.Status{store.Pending, store.Failed} {
			p, err := f.s.List(f.ctx(), store.ListRequest{Filter: store.Filter{Queue: "q", Status: status}})
			f.ok(err)
			for _, c := range p.Commands {
				f.check(c.Status == status, "a list of %s shows %s", status, show(c))
			}
		}
	}},
	{"never_claimed", "a command whose deadline or start_by has passed is never granted", func(f *fixture) {
		f.settle(f.start("c", deadlineIn(time.Second)), store.OutcomeProcessing)
		f.submit(sub("a", deadlineIn(time.Second)), sub("b", func(s *store.Submission) { s.StartBy = epoch.Add(time.Second) }))
		f.submit(many("x", 120, deadlineIn(time.Second))...) // more than one step of maintenance ends
		f.submit(sub("live"))
		f.Advance(time.Second)
		for range 5 {
			for _, g := range f.tryClaim(f.claimFor("w1", store.Intake, 200)).Grants {
				f.check(g.Items[0].ID == "live", "granted: %s", show(g.Items[0]))
			}
			f.check(len(f.tryClaim(f.claimFor("w1", store.Repoll, 200)).Grants) == 0, "an expired poll was granted")
		}
		f.is("live", store.Pending, store.Leased)
	}},
	{"F161_start_by", "start_by ends what was never claimed, FAILED expired, its handler never called, its outbox entry written once", func(f *fixture) {
		by := func(s *store.Submission) { s.StartBy, s.Notify = epoch.Add(5*time.Second), "topic" }
		f.submit(sub("started", by))
		f.settle(f.claim1("w1", store.Intake, "started"), store.OutcomeRetry, delay(time.Second))
		f.submit(sub("back", by))
		f.settle(f.claim1("w1", store.Intake, "back"), store.OutcomeGiveBack, func(s *store.Settlement) { s.Unstarted = true })
		f.submit(sub("never", by), sub("later", by, func(s *store.Submission) { s.Delay = time.Hour }))
		f.Pass(10 * time.Second)
		for _, id := range []string{"never", "later", "back"} {
			f.check(f.failed(id, store.ReasonExpired).Starts == 0, "%s was started", id)
		}
		f.check(len(f.outbox("topic")) == 3, "outbox: %d entries", len(f.outbox("topic")))
		f.is("started", store.Pending, store.InLine)
	}},
	{"leased", "a leased command runs past its deadline; a result that holds its lease is accepted at whatever hour", func(f *fixture) {
		c := f.start("a", deadlineIn(time.Second))
		f.Advance(2 * time.Second)
		f.maintain()
		f.is("a", store.Pending, store.Leased)
		f.check(f.renew("w1", c)[0].State == store.RenewOK, "a renewal within the grace is refused")
		f.Advance(time.Hour)
		f.settle(c, store.OutcomeDone)
		f.is("a", store.Succeeded, store.Nowhere)
	}},
	{"renewals_refused", "from deadline + 30 s on renewals are refused; the lease runs out, a settle is accepted until then", func(f *fixture) {
		f.submit(sub("a", deadlineIn(time.Second)), sub("b", deadlineIn(time.Second)))
		cs := f.claim("w1", store.Intake, 2)
		for range 7 { // 28 s at a quarter of 20 s are 5 s: until 30.999 s after the deadline
			f.Advance(f.v / 5)
			for _, r := range f.renew("w1", cs...) {
				f.check(r.State == store.RenewOK, "refused before deadline + 30 s")
			}
		}
		f.Advance(3*time.Second - time.Millisecond)
		f.check(f.renew("w1", cs...)[0].State == store.RenewOK, "refused 1 ms early")
		until := f.get("a").LeaseUntil
		f.Advance(time.Millisecond)
		f.check(f.renew("w1", cs...)[0].State == store.RenewRefused, "not refused at deadline + 30 s")
		f.check(f.get("a").LeaseUntil == until, "a refused renewal extended the lease")
		f.settle(cs[1], store.OutcomeDone)
		f.Pass(f.v)
		f.failed("a", store.ReasonDeadline)
	}},
	{"F089_no_retry_beyond", "a retry that would come at or after the deadline is not scheduled: the command ends now", func(f *fixture) {
		f.submit(many("a", 3, deadlineIn(10*time.Second))...)
		cs := f.claim("w1", store.Intake, 3)
		f.settle(cs[0], store.OutcomeRetry, delay(10*time.Second-time.Millisecond))
		f.is(cs[0].ID, store.Pending, store.Scheduled)
		f.settle(cs[1], store.OutcomeRetry, delay(10*time.Second), errText("why"))
		g := f.failed(cs[1].ID, store.ReasonDeadline)
		f.check(g.Error == "why" && g.Failures == 1 && g.Ended == f.now, "%s", show(g))
		f.settle(cs[2], store.OutcomeProcessing)
		f.Pass(time.Second)
		f.settle(f.claim1("w1", store.Repoll, cs[2].ID), store.OutcomeRetry, delay(9*time.Second))
		f.failed(cs[2].ID, store.ReasonDeadline)
	}},
	{"hook", "a PROCESSING command with a hook is cancelled first when its deadline passes, and then FAILED deadline_exceeded", func(f *fixture) {
		f.settle(f.start("a", deadlineIn(10*time.Second)), store.OutcomeProcessing, hook, delay(time.Hour))
		f.settle(f.start("b", deadlineIn(10*time.Second)), store.OutcomeProcessing, hook, delay(time.Hour))
		f.Pass(10 * time.Second)
		cs := f.claim("w1", store.Repoll, 5)
		f.check(len(cs) == 2 && cs[0].CancelAsked != 0, "visits: %v", ids(cs))
		f.settle(cs[0], store.OutcomeCancelled)
		f.failed(cs[0].ID, store.ReasonDeadline)
		// A user's cancel goes over the deadline's.
		f.check(f.cancel(cs[1].ID).State == store.CancelRequested, "%+v", f.cancel(cs[1].ID))
		f.settle(cs[1], store.OutcomeCancelled)
		f.is(cs[1].ID, store.Cancelled, store.Nowhere)
	}},
	{"hook_ends", "the visits of a deadline end like those of a cancel, also without workers", func(f *fixture) {
		f.settle(f.start("a", deadlineIn(10*time.Second)), store.OutcomeProcessing, hook, delay(time.Hour))
		f.Pass(11 * time.Second)
		f.is("a", store.Processing, store.InLine)
		f.Later(store.DefaultCancelFor)
		f.failed("a", store.ReasonDeadline)
	}},
	{"after_loss", "a command whose lease ran out after its deadline ends, it is not run again", func(f *fixture) {
		f.start("a", deadlineIn(time.Second))
		f.Pass(f.v)
		f.check(len(f.claim("w2", store.Intake, 1)) == 0, "it was claimed again")
		f.failed("a", store.ReasonDeadline)
	}},
	{"bounded", "many that pass their deadline together end in bounded steps, each once", func(f *fixture) {
		f.submit(many("a", 250, deadlineIn(time.Second))...)
		f.Advance(time.Second)
		sum, steps := f.stepwise(func(r store.MaintainReply) int { return r.Expired })
		f.check(sum == 250 && steps > 1, "%d ended in %d steps", sum, steps)
		f.check(f.stats().Queues[0].Reasons[store.ReasonDeadline] == 250, "%+v", f.stats().Queues[0])
	}},
}
