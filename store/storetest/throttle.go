package storetest

import (
	"fmt"
	"math"
	"time"

	"github.com/twolane/twolane/store"
)

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
	{"doubles_back", "throttles in a row halve again every ten seconds; the way back doubles each quiet second up to half of where the row began", func(f *fixture) {
		f.throttle("a", "t", 32)
		f.submit(many("b", 150)...)
		for end := f.now.Add(31 * time.Second); f.now < end; f.Pass(600 * time.Millisecond) {
			f.throttleGranted(f.claimType("t", 1), 32)
		}
		n := f.paceType("t", 900*time.Millisecond)
		f.check(n >= 1 && n <= 3, "%d starts in a second after four halvings of 32/s", n)
		f.Pass(3 * time.Second)
		n = f.paceType("t", time.Second)
		f.check(n >= 9 && n <= 20, "%d starts in a second after three quiet ones", n)
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
