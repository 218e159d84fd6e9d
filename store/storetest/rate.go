package storetest

import (
	"fmt"
	"math"
	"time"

	"github.com/twolane/twolane/store"
)

// pace claims as much as it can get, one by one, every step for d, settles it done, and returns when each was granted.
func (f *fixture) pace(lane store.Lane, d, step time.Duration) []store.Millis {
	f.Helper()
	var at []store.Millis
	for end := f.now.Add(d); f.now < end; f.Pass(step) {
		for _, c := range f.claim("w1", lane, 50) {
			f.settle(c, store.OutcomeDone)
			at = append(at, f.now)
		}
	}
	return at
}

// bounded checks that in no window [i, j] of the times there are more than rate x length + burst.
func (f *fixture) bounded(at []store.Millis, rate float64, burst int) {
	f.Helper()
	for i := range at {
		for j := i; j < len(at); j++ {
			if n, most := j-i+1, rate*at[j].Sub(at[i]).Seconds()+float64(burst); float64(n) > most+1e-3 {
				f.Fatalf("%d claims in %v at %v/s with burst %d", n, at[j].Sub(at[i]), rate, burst)
			}
		}
	}
}

var rateCases = []kase{
	{"bound", "a rate bounds claims to rate x t + burst in any window, and lets that many through", func(f *fixture) {
		for i, r := range []store.Rate{{Limit: 10, Burst: 1}, {Limit: 3, Burst: 5}, {Limit: 0.7, Burst: 2}, {Limit: 28}} {
			f.queue("q", func(q *store.QueueConfig) { q.Rates[store.Intake] = r })
			f.submit(many(fmt.Sprint("a", i), 200)...)
			f.Pass(10 * time.Second)
			at := f.pace(store.Intake, 5*time.Second, 100*time.Millisecond)
			burst := r.Burst
			if burst == 0 {
				burst = max(1, int(r.Limit/10))
			}
			f.bounded(at, r.Limit, burst)
			least := int(math.Min(r.Limit, 10*float64(burst))*4.5) + burst - 1
			f.check(len(at) >= least, "%d claims in 5 s at %+v, at least %d are due", len(at), r, least)
			f.queue("q", func(q *store.QueueConfig) { q.Rates[store.Intake] = store.Rate{} })
			for _, c := range f.claim("w1", store.Intake, 200) {
				f.settle(c, store.OutcomeDone)
			}
		}
	}},
	{"lanes_apart", "the lanes have rates of their own and never borrow", func(f *fixture) {
		f.submit(many("p", 10)...)
		for _, c := range f.claim("w1", store.Intake, 10) {
			f.settle(c, store.OutcomeProcessing)
		}
		f.submit(many("n", 10)...)
		f.queue("q", func(q *store.QueueConfig) {
			q.Rates = [2]store.Rate{{Limit: 1, Burst: 2}, {Limit: 1, Burst: 3}}
		})
		f.Pass(time.Second)
		f.check(len(f.claim("w1", store.Intake, 10)) == 2 && len(f.claim("w1", store.Repoll, 10)) == 3, "not 2 and 3")
	}},
	{"all_workers", "the rate is kept in the store: it holds across all workers together", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.Rates[store.Intake] = store.Rate{Limit: 5, Burst: 1} })
		f.submit(many("a", 100)...)
		var at []store.Millis
		for range 50 {
			for w := range 4 {
				for range f.claim(fmt.Sprint("w", w), store.Intake, 5) {
					at = append(at, f.now)
				}
			}
			f.Advance(100 * time.Millisecond)
		}
		f.bounded(at, 5, 1)
		f.check(len(at) >= 24, "%d claims in 5 s at 5/s", len(at))
	}},
	{"says_why", "a want stopped by the rate says so and when the next token comes; whoever comes back then gets one", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.Rates[store.Intake] = store.Rate{Limit: 0.3, Burst: 1} })
		f.submit(many("a", 10)...)
		f.check(len(f.claim("w1", store.Intake, 1)) == 1, "a full bucket has no token")
		for range 5 {
			r := f.tryClaim(f.claimFor("w1", store.Intake, 1))
			w := r.Wants[0]
			f.check(len(r.Grants) == 0 && w.Why == store.WhyRate && w.Next > 0 && r.Next > 0 && r.Next <= w.Next, "%+v", r)
			f.Advance(w.Next - time.Millisecond)
			f.check(len(f.claim("w1", store.Intake, 1)) == 0, "a token before its time")
			f.Advance(time.Millisecond)
			f.check(len(f.claim("w1", store.Intake, 1)) == 1, "no token after the %v that it was told", w.Next)
		}
	}},
	{"not_spent_on_nothing", "a token is taken last: a claim that finds nothing to grant spends none", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.Rates[store.Intake] = store.Rate{Limit: 0.01, Burst: 1} })
		f.submit(sub("other", func(s *store.Submission) { s.Type = "t2" }))
		for range 5 {
			f.check(len(f.claim("w1", store.Intake, 1)) == 0, "granted a foreign type")
		}
		f.submit(sub("a"))
		f.claim1("w1", store.Intake, "a")
	}},
	{"not_given_back", "a token is never given back, whatever becomes of what was claimed with it", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.Rates[store.Intake] = store.Rate{Limit: 0.01, Burst: 3} })
		f.submit(many("a", 10)...)
		cs := f.claim("w1", store.Intake, 10)
		f.check(len(cs) == 3, "%d with a burst of 3", len(cs))
		f.settle(cs[0], store.OutcomeGiveBack, func(s *store.Settlement) { s.Unstarted = true })
		f.settle(cs[1], store.OutcomeRetry)
		f.ok(f.act(store.ActDelete, cs[2].ID, func(r *store.ActRequest) { r.Force = true }))
		f.check(len(f.claim("w1", store.Intake, 10)) == 0, "a token came back")
	}},
	{"clock_back", "a step of the clock back does not put the next token out of reach, one forward makes no more than a burst", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.Rates[store.Intake] = store.Rate{Limit: 1, Burst: 2} })
		f.submit(many("a", 50)...)
		f.check(len(f.claim("w1", store.Intake, 10)) == 2, "no burst")
		f.Advance(-time.Hour)
		f.check(len(f.claim("w1", store.Intake, 10)) == 0, "a step back made a token")
		f.Advance(time.Second)
		f.check(len(f.claim("w1", store.Intake, 10)) == 1, "no token a second after a step back")
		f.Advance(24 * time.Hour)
		f.check(len(f.claim("w1", store.Intake, 10)) == 2, "a step forward gave more or less than the burst")
	}},
	{"reconfigured", "a rate that is changed holds from the next claim on, and what was taken under the old one does not block the new one", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.Rates[store.Intake] = store.Rate{Limit: 0.001, Burst: 1} })
		f.submit(many("a", 20)...)
		f.check(len(f.claim("w1", store.Intake, 10)) == 1, "no token")
		f.queue("q", func(q *store.QueueConfig) { q.Rates[store.Intake] = store.Rate{Limit: 10, Burst: 1} })
		n := len(f.claim("w1", store.Intake, 10))
		f.Advance(100 * time.Millisecond)
		n += len(f.claim("w1", store.Intake, 10))
		f.check(n >= 1 && n <= 2, "%d claims within 100 ms of the change to 10/s", n)
		f.queue("q", func(q *store.QueueConfig) { q.Rates[store.Intake] = store.Rate{} })
		f.check(len(f.claim("w1", store.Intake, 30)) == 19-n, "a removed rate still bounds")
	}},
	{"batch_is_one", "a batch is one invocation and costs one token", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.Rates[store.Intake] = store.Rate{Limit: 0.01, Burst: 2} })
		f.submit(many("a", 30)...)
		r := f.claimFor("w1", store.Intake, 10)
		r.Wants[0].Types[0].Batch = 10
		got := f.claimAll(r)
		f.check(len(got) == 2 && len(items(got)) == 20, "%d grants with %d commands", len(got), len(items(got)))
	}},
}

// throttle lets one command of type typ answer Throttled, with what the worker saw as the rate of all.
func (f *fixture) throttle(id, typ string, observed float64) {
	f.Helper()
	f.submit(sub(id, func(s *store.Submission) { s.Type = typ }))
	f.throttleGranted(f.claimType(typ, 1), observed)
}

func (f *fixture) throttleGranted(cs []*store.Command, observed float64) {
	f.Helper()
	f.check(len(cs) == 1, "claimed %d to throttle", len(cs))
	f.settle(cs[0], store.OutcomeThrottled, delay(time.Hour), func(s *store.Settlement) { s.Observed = observed })
}

func (f *fixture) claimType(typ string, n int) []*store.Command {
	f.Helper()
	r := f.claimFor("w1", store.Intake, n)
	r.Wants[0].Types[0].Type = typ
	return items(f.claimAll(r))
}

// paceType counts what type typ is granted in d.
func (f *fixture) paceType(typ string, d time.Duration) int {
	f.Helper()
	n := 0
	for end := f.now.Add(d); f.now < end; f.Pass(50 * time.Millisecond) {
		for _, c := range f.claimType(typ, 50) {
			f.settle(c, store.OutcomeDone)
			n++
		}
	}
	return n
}

var throttleCases = []kase{
	{"lowers", "Throttled lowers the starts of its type to half of what was observed, in the store, for all workers; it costs no failure", func(f *fixture) {
		f.throttle("a", "t", 20)
		g := f.is("a", store.Pending, store.Scheduled)
		f.check(g.Failures == 0 && g.Losses == 0 && g.Events[0].Kind == store.EventThrottled, "%s %+v", show(g), g.Events)
		f.submit(many("b", 60)...)
		n := f.paceType("t", time.Second)
		f.check(n >= 9 && n <= 12, "%d starts in the first second after a throttle at 20/s", n)
	}},
	{"others_free", "nothing else waits: other types, the other lane and other queues run on", func(f *fixture) {
		f.park("p")
		f.throttle("a", "t", 2)
		f.submit(many("b", 20, func(s *store.Submission) { s.Type = "t2" })...)
		f.submit(many("c", 20, func(s *store.Submission) { s.Queue = "q2" })...)
		f.check(len(f.claimType("t2", 20)) == 20, "another type waits")
		r := f.claimFor("w1", store.Intake, 20)
		r.Wants[0].Queue = "q2"
		f.check(len(f.claimAll(r)) == 20, "another queue waits")
		f.Pass(time.Second)
		f.claim1("w1", store.Repoll, "p")
		// In one want the throttled type does not stop the other.
		f.submit(many("d", 5)...)
		f.submit(many("e", 5, func(s *store.Submission) { s.Type = "t2" })...)
		r = f.claimFor("w1", store.Intake, 10)
		r.Wants[0].Types = []store.TypeWant{{Type: "t"}, {Type: "t2"}}
		got := map[string]int{}
		for _, c := range items(f.claimAll(r)) {
			got[c.Type]++
		}
		f.check(got["t2"] == 5 && got["t"] <= 1, "granted %v", got)
	}},
	{"says_why", "a want that only throttled types stop says so and when to come again", func(f *fixture) {
		f.throttle("a", "t", 1)
		f.submit(many("b", 5)...)
		f.claim("w1", store.Intake, 5)
		r := f.tryClaim(f.claimFor("w1", store.Intake, 5))
		f.check(len(r.Grants) == 0 && r.Wants[0].Why == store.WhyThrottled && r.Wants[0].Next > 0, "%+v", r)
		f.Advance(r.Wants[0].Next)
		f.check(len(f.claim("w1", store.Intake, 5)) == 1, "nothing after the %v that it was told", r.Wants[0].Next)
	}},
	{"once_in_ten_seconds", "a storm of throttles halves once; ten seconds later it may halve again", func(f *fixture) {
		f.submit(many("a", 20)...)
		for _, c := range f.claim("w1", store.Intake, 20) {
			f.throttleGranted([]*store.Command{c}, 40)
		}
		f.submit(many("b", 200)...)
		n := f.paceType("t", time.Second)
		f.check(n >= 19 && n <= 23, "%d starts in a second: halved more than once", n)
		f.Pass(9 * time.Second)
		f.throttleGranted(f.claimType("t", 1), 40)
		n = f.paceType("t", time.Second)
		f.check(n >= 15 && n <= 30, "%d starts in a second after the second halving of about 45/s", n)
	}},
	{"comes_back", "without a throttle the rate grows by a tenth per second until it is forgotten", func(f *fixture) {
		f.throttle("a", "t", 4)
		f.submit(many("b", 150)...)
		n := f.paceType("t", time.Second)
		f.check(n >= 2 && n <= 3, "%d starts in the first second at 2/s", n)
		f.Pass(9 * time.Second)
		n = f.paceType("t", time.Second)
		f.check(n >= 4 && n <= 7, "%d starts in the eleventh second", n)
		f.Pass(30 * time.Second)
		f.check(len(f.claimType("t", 100)) == 100, "the rate still bounds after 40 s")
	}},
	{"least", "a throttled type is still probed at least every ten seconds", func(f *fixture) {
		f.throttle("a", "t", 0)
		for range 12 {
			f.Pass(10 * time.Second)
			f.submit(sub(fmt.Sprint("x", f.now)))
			f.throttleGranted(f.claimType("t", 1), 0)
		}
	}},
	{"lane_rate", "the smaller of the observed and the configured rate is halved, and both bounds hold", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.Rates[store.Intake] = store.Rate{Limit: 10, Burst: 1} })
		f.throttle("a", "t", 1000)
		f.submit(many("b", 60)...)
		n := f.paceType("t", time.Second)
		f.check(n >= 4 && n <= 6, "%d starts in a second", n)
	}},
	{"nonsense", "a rate that cannot be is refused, and the lease stands", func(f *fixture) {
		c := f.start("a")
		for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1e300} {
			r := f.trySettle(c, store.OutcomeThrottled, func(s *store.Settlement) { s.Observed = x })
			f.check(isErr(r.Err, store.ErrInvalid), "%v: %+v", x, r)
		}
		f.settle(c, store.OutcomeDone)
	}},
}

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
