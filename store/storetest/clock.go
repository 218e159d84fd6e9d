package storetest

import (
	"time"

	"github.com/twolane/twolane/store"
)

var clockCases = []kase{
	{"outage", "an outage of any length costs a live owner at most a quarter of its lease", func(f *fixture) {
		for _, d := range []time.Duration{time.Second, f.v / 2, f.v, 10 * f.v, 24 * time.Hour, 365 * 24 * time.Hour} {
			c := f.start("a")
			f.Advance(d)
			f.maintain()
			g := f.is("a", store.Pending, store.Leased)
			left := g.LeaseUntil.Sub(f.stats().LeaseAt)
			f.check(left >= f.v*3/4 && left == f.v-min(d, f.v/4), "after %v without a call %v of the lease are left", d, left)
			f.check(f.renew("w1", c)[0].State == store.RenewOK, "the owner was not let in after %v", d)
			f.settle(c, store.OutcomeDone)
			f.ok(f.act(store.ActDelete, "a"))
		}
	}},
	{"all_gone", "after every worker was gone the leases last a visibility timeout from the first new call, then they are reaped", func(f *fixture) {
		f.start("a")
		f.Advance(24 * time.Hour)
		f.maintain()
		f.Pass(f.v*3/4 - time.Millisecond)
		f.is("a", store.Pending, store.Leased)
		f.Pass(time.Millisecond)
		f.is("a", store.Pending, store.InLine)
	}},
	{"F056_F155_steps_back", "a step of the clock back costs no lease, lets due work run, and time goes on at normal speed", func(f *fixture) {
		c := f.start("running")
		f.settle(f.start("poll"), store.OutcomeProcessing, delay(10*time.Second))
		f.settle(f.start("backoff"), store.OutcomeRetry, delay(10*time.Second))
		f.Pass(5 * time.Second)
		f.renew("w1", c)
		run := f.stats().Run
		f.Advance(-time.Hour)
		f.maintain()
		f.check(f.stats().Run == run, "the run clock moved from %d to %d", run, f.stats().Run)
		f.check(f.renew("w1", c)[0].State == store.RenewOK, "the lease is lost")
		f.Pass(5*time.Second - time.Millisecond)
		f.check(len(f.claim("w1", store.Repoll, 1))+len(f.claim("w1", store.Intake, 1)) == 0, "due 1 ms early")
		f.Pass(time.Millisecond)
		f.claim1("w1", store.Repoll, "poll")
		f.claim1("w1", store.Intake, "backoff")
		f.renew("w1", c)
		f.check(f.get("running").Losses == 0, "%s", show(f.get("running")))
	}},
	{"F055_steps_forward", "a step of the clock forward looks like an outage: no live owner loses its lease, whatever the size of the step", func(f *fixture) {
		f.submit(many("a", 20)...)
		cs := f.claim("w1", store.Intake, 20)
		for _, d := range []time.Duration{time.Hour, -time.Hour, 10 * time.Minute, -10 * time.Minute, 30 * 24 * time.Hour} {
			f.Advance(d)
			f.check(len(f.claim("w2", store.Intake, 20)) == 0, "a live lease was taken over after a step of %v", d)
			for _, r := range f.renew("w1", cs...) {
				f.check(r.State == store.RenewOK, "a live owner was refused after a step of %v", d)
			}
		}
	}},
	{"many_steps", "steps back and forth add up to no lost lease while the owner renews in time", func(f *fixture) {
		c := f.start("a")
		for i := range 40 {
			f.Advance([]time.Duration{f.v / 4, -time.Hour, time.Hour, f.v / 5, -f.v}[i%5])
			if i%2 == 0 {
				f.maintain()
				continue
			}
			f.check(f.renew("w1", c)[0].State == store.RenewOK, "lost at step %d", i)
		}
	}},
	{"user_times", "times that users give are compared with the server time itself, forward and back", func(f *fixture) {
		f.submit(sub("a", func(s *store.Submission) { s.NotBefore = epoch.Add(time.Hour) }), sub("b", deadlineIn(2*time.Hour)))
		f.Advance(time.Hour)
		f.maintain()
		f.is("a", store.Pending, store.InLine)
		f.is("b", store.Pending, store.InLine)
		f.Advance(time.Hour)
		f.failed("b", store.ReasonDeadline)
		f.maintain()
		f.failed("b", store.ReasonDeadline)
		f.Advance(-2 * time.Hour)
		f.maintain()
		f.failed("b", store.ReasonDeadline)
		f.is("a", store.Pending, store.InLine)
	}},
	{"looks_through", "calls that do not move the clocks see them moved all the same: a delay counts from now, not from the last claim", func(f *fixture) {
		c := f.start("a")
		f.Advance(3 * time.Second)
		f.settle(c, store.OutcomeProcessing, delay(time.Second))
		f.Advance(time.Second - time.Millisecond)
		f.check(len(f.claim("w1", store.Repoll, 1)) == 0, "due 1 ms early")
		f.Advance(time.Millisecond)
		f.claim1("w1", store.Repoll, "a")
		before := f.stats()
		f.Advance(2 * time.Second)
		after := f.stats()
		f.check(after.AsOf == f.now && after.Run == before.Run+2000 && after.LeaseAt == before.LeaseAt+2000, "before %+v, after %+v", before, after)
		f.check(f.stats().Run == after.Run, "looking moved the clock")
	}},
	{"step_taken_back", "a step of the clock forward that is taken back before anybody claims or renews makes nothing stand", func(f *fixture) {
		parked, failed, asked := f.start("parked"), f.start("failed"), f.start("asked")
		f.settle(asked, store.OutcomeProcessing, delay(time.Hour), hook)
		f.Advance(time.Hour)
		f.settle(parked, store.OutcomeProcessing, delay(time.Second))
		f.settle(failed, store.OutcomeRetry, delay(time.Second))
		f.cancel("asked")
		f.Advance(-time.Hour)
		f.Pass(f.v + time.Second)
		f.claim1("w1", store.Repoll, "asked")
		f.claim1("w1", store.Repoll, "parked")
		f.claim1("w1", store.Intake, "failed")
	}},
	{"reopened", "the clocks stand beside the data: they go on where they were when the store is opened again", func(f *fixture) {
		c := f.start("a")
		f.Pass(time.Second)
		before := f.stats()
		f.reopen()
		f.Advance(24 * time.Hour)
		f.maintain()
		after := f.stats()
		f.check(after.Run.Sub(before.Run) == 24*time.Hour && after.LeaseAt.Sub(before.LeaseAt) == f.v/4, "before %+v, after %+v", before, after)
		f.settle(c, store.OutcomeDone)
	}},
}
