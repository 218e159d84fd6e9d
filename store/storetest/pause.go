package storetest

import (
	"time"

	"github.com/twolane/twolane/store"
)

var pauseCases = []kase{
	{"F171_modes", "a pause of intake stops Execute, a pause of all stops Check too; what runs finishes; nothing is lost when it ends", func(f *fixture) {
		f.park("p")
		running := f.start("r")
		f.submit(sub("n"))
		f.Pass(time.Second)
		f.queue("q", func(q *store.QueueConfig) { q.Pause = store.PauseIntake })
		r := f.tryClaim(f.claimFor("w1", store.Intake, 5))
		f.check(len(r.Grants) == 0 && r.Wants[0].Why == store.WhyPaused, "%+v", r)
		f.settle(f.claim1("w1", store.Repoll, "p"), store.OutcomeProcessing)
		f.Pass(time.Second)
		f.queue("q", func(q *store.QueueConfig) { q.Pause = store.PauseAll })
		r = f.tryClaim(f.claimFor("w1", store.Repoll, 5))
		f.check(len(r.Grants) == 0 && r.Wants[0].Why == store.WhyPaused, "%+v", r)
		f.check(f.renew("w1", running)[0].State == store.RenewOK, "a pause took a lease")
		f.settle(running, store.OutcomeDone)
		f.submit(sub("m"))
		f.check(f.stats().Queues[0].Pause == store.PauseAll && f.lane(store.Intake).Eligible == 2, "%+v", f.stats().Queues[0])
		f.queue("q", func(q *store.QueueConfig) { q.Pause = store.PauseNone })
		f.check(len(f.claim("w1", store.Intake, 5)) == 2 && len(f.claim("w1", store.Repoll, 5)) == 1, "not all run after the pause")
	}},
	{"until", "a pause until a time ends by itself at that server time, and a stopped want is told when", func(f *fixture) {
		f.submit(sub("a"))
		f.queue("q", func(q *store.QueueConfig) { q.Pause, q.PauseUntil = store.PauseAll, f.now.Add(10*time.Second) })
		r := f.tryClaim(f.claimFor("w1", store.Intake, 1))
		f.check(r.Wants[0].Why == store.WhyPaused && r.Wants[0].Next == 10*time.Second && r.Next > 0 && r.Next <= 10*time.Second, "%+v", r)
		f.Advance(10*time.Second - time.Millisecond)
		f.check(len(f.claim("w1", store.Intake, 1)) == 0, "claimed 1 ms early")
		f.Advance(time.Millisecond)
		f.claim1("w1", store.Intake, "a")
		f.check(f.stats().Queues[0].Pause == store.PauseNone, "still shown as paused")
	}},
	{"other_queues", "a pause is about its queue alone", func(f *fixture) {
		f.submit(many("a", 100)...)
		f.submit(sub("b", func(s *store.Submission) { s.Queue = "q2" }))
		f.queue("q", func(q *store.QueueConfig) { q.Pause = store.PauseAll })
		r := f.claimFor("w1", store.Intake, 5)
		r.Wants = append(r.Wants, store.Want{Queue: "q2", Lane: store.Intake, Max: 5, Types: []store.TypeWant{{Type: "t"}}})
		got := ids(items(f.claimAll(r)))
		f.check(len(got) == 1 && got[0] == "b", "granted %v", got)
	}},
	{"deadlines_run_on", "deadlines, losses and cancels go on in a paused queue", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.Pause = store.PauseNone })
		f.start("lost")
		f.submit(sub("a", deadlineIn(time.Second)), sub("b"))
		f.queue("q", func(q *store.QueueConfig) { q.Pause = store.PauseAll })
		f.Pass(f.v)
		f.failed("a", store.ReasonDeadline)
		f.is("lost", store.Pending, store.InLine)
		f.check(f.cancel("b").State == store.CancelEnded, "a cancel waits for the pause")
	}},
	{"survives", "a pause survives a restart", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.Pause = store.PauseAll })
		f.submit(sub("a"))
		f.reopen()
		f.check(len(f.claim("w1", store.Intake, 1)) == 0, "claimed from a paused queue")
	}},
}
