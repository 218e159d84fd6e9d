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
			f.submit(many(fmt.Sprint("a", i), 100)...)
			f.Pass(10 * time.Second)
			at := f.pace(store.Intake, 3*time.Second, 100*time.Millisecond)
			burst := r.Burst
			if burst == 0 {
				burst = max(1, int(r.Limit/10))
			}
			f.bounded(at, r.Limit, burst)
			least := int(math.Min(r.Limit, 10*float64(burst))*2.7) + burst - 1
			f.check(len(at) >= least, "%d claims in 3 s at %+v, at least %d are due", len(at), r, least)
			f.queue("q", func(q *store.QueueConfig) { q.Rates[store.Intake] = store.Rate{} })
			for _, c := range f.claim("w1", store.Intake, 100) {
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
