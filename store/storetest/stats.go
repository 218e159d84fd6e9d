package storetest

import (
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/twolane/twolane/store"
)

var statsCases = []kase{
	{"counts", "stats count what is in line, scheduled, leased and finished, by lane and status", func(f *fixture) {
		f.submit(many("a", 5)...)
		f.submit(many("b", 3, func(s *store.Submission) { s.Delay = time.Hour })...)
		cs := f.claim("w1", store.Intake, 4)
		f.settle(cs[0], store.OutcomeProcessing, delay(time.Minute))
		f.settle(cs[1], store.OutcomeDone)
		f.settle(cs[2], store.OutcomeFail, func(s *store.Settlement) { s.Reason = store.ReasonTooLarge })
		f.cancel("b-0001")
		q := f.stats().Queues[0]
		want := store.QueueStats{
			Queue: "q", Scheduled: 2, NextDue: epoch.Add(time.Hour), Succeeded: 1, Failed: 1, Cancelled: 1, Reasons: map[store.Reason]int{store.ReasonTooLarge: 1},
			Lanes: [2]store.LaneStats{
				{InLine: 1, Eligible: 1, Leased: 1, OldestEligible: epoch}, {InLine: 1, NextDue: epoch.Add(time.Minute)},
			},
			Types: []store.TypeStats{{Type: "t", Lane: store.Intake, InLine: 1, Leased: 1}, {Type: "t", Lane: store.Repoll, InLine: 1}},
		}
		if d := cmp.Diff(want, q, emptyIsNil); d != "" {
			f.Fatalf("stats differ (-want +got):\n%s", d)
		}
	}},
	{"rates", "stats say which rate of a lane and which throttled rate of a type are in force, and when each has its next token", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.Rates[store.Intake] = store.Rate{Limit: 0.5} })
		f.submit(many("a", 5)...)
		in := f.lane(store.Intake)
		f.check(in.Rate == store.Rate{Limit: 0.5, Burst: 1} && in.Token == 0 && f.lane(store.Repoll).Rate == store.Rate{}, "before a start: %+v", in)
		c := f.claim("w1", store.Intake, 1)[0]
		in = f.lane(store.Intake)
		f.check(in.Token == f.tryClaim(f.claimFor("w1", store.Intake, 1)).Wants[0].Next && in.Token > 0, "after a start: %+v", in)
		f.Advance(in.Token)
		f.check(f.lane(store.Intake).Token == 0, "when it has come: %+v", f.lane(store.Intake))
		f.settle(c, store.OutcomeThrottled, func(s *store.Settlement) { s.Observed = 0.4 })
		ty := f.stats().Queues[0].Types[0]
		f.check(ty.Throttled == 0.2 && ty.Token == 0, "after a throttle: %+v", ty)
		f.claim("w1", store.Intake, 1)
		ty = f.stats().Queues[0].Types[0]
		f.check(ty.Token > 4*time.Second && ty.Token <= 5*time.Second, "after a throttled start: %+v", ty)
	}},
	{"throttled_and_leased", "the throttled rate of a type is shown also while all of it is leased", func(f *fixture) {
		f.submit(many("a", 2)...)
		cs := f.claim("w1", store.Intake, 2)
		f.settle(cs[0], store.OutcomeThrottled, delay(time.Hour), observed(4))
		f.cancel(cs[0].ID)
		ty := f.stats().Queues[0].Types[0]
		f.check(ty.Leased == 1 && ty.InLine == 0 && ty.Throttled == 2, "%+v", ty)
	}},
	{"eligible_unclaimed", "expired leases and due commands count as eligible whether or not anybody polls", func(f *fixture) {
		f.submit(many("a", 3)...)
		f.claim("w1", store.Intake, 2)
		f.submit(sub("later", func(s *store.Submission) { s.Delay = f.v }))
		f.Pass(f.v - f.v/4)
		c := f.claim("w1", store.Intake, 1)[0]
		f.settle(c, store.OutcomeProcessing, delay(f.v/4))
		f.settle(f.start("back"), store.OutcomeRetry, delay(f.v/4))
		f.Advance(f.v / 4) // nobody has made a step since
		in, re := f.lane(store.Intake), f.lane(store.Repoll)
		f.check(in.Eligible == 4 && in.Expired == 2 && in.Leased == 2, "intake: %+v", in)
		f.check(in.OldestEligible > 0 && in.OldestEligible <= f.now, "intake: %+v", in)
		f.check(re.Eligible == 1 && re.OldestEligible == f.now, "repoll: %+v", re)
		f.maintain()
		in = f.lane(store.Intake)
		f.check(in.Eligible == 4 && in.Expired == 0 && in.InLine == 4, "after maintenance: %+v", in)
	}},
	{"F137_F019_oldest", "the age of the oldest eligible command grows while nobody works, and tells a busy queue from a dead one", func(f *fixture) {
		f.submit(sub("old"))
		f.Advance(10 * time.Second)
		f.submit(many("new", 50)...)
		f.check(f.lane(store.Intake).OldestEligible == epoch, "%+v", f.lane(store.Intake))
		f.Advance(time.Hour)
		f.check(f.stats().AsOf.Sub(f.lane(store.Intake).OldestEligible) == time.Hour+10*time.Second, "%+v", f.lane(store.Intake))
		f.settle(f.claim1("w1", store.Intake, "old"), store.OutcomeDone)
		f.check(f.lane(store.Intake).OldestEligible == epoch.Add(10*time.Second), "%+v", f.lane(store.Intake))
		for _, c := range f.claim("w1", store.Intake, 50) {
			f.settle(c, store.OutcomeDone)
		}
		f.check(f.lane(store.Intake).OldestEligible == 0, "an empty lane has an age: %+v", f.lane(store.Intake))
	}},
	{"oldest_of_priorities", "the oldest eligible command is the oldest, not the first in order", func(f *fixture) {
		f.submit(sub("low", func(s *store.Submission) { s.Priority = 200 }))
		f.Advance(time.Minute)
		f.submit(sub("high"))
		f.check(f.lane(store.Intake).OldestEligible == epoch, "%+v", f.lane(store.Intake))
		f.claim1("w1", store.Intake, "high")
		f.check(f.lane(store.Intake).OldestEligible == epoch, "%+v", f.lane(store.Intake))
	}},
	{"oldest_poll", "a poll waits from its due time on", func(f *fixture) {
		f.park("a", delay(5*time.Second))
		f.Pass(5 * time.Second)
		due := f.now
		f.Pass(7 * time.Second)
		f.check(f.lane(store.Repoll).Eligible == 1 && f.lane(store.Repoll).OldestEligible == due, "%+v, due was %d", f.lane(store.Repoll), due)
	}},
	{"F039_F158_no_worker", "types show how many live workers can run them, by lane and queue: 0 is the answer when nobody can", func(f *fixture) {
		f.submit(sub("a"), sub("b", func(s *store.Submission) { s.Type = "alone" }))
		beat := func(w store.Worker) {
			_, err := f.s.Renew(f.ctx(), store.RenewRequest{Worker: w})
			f.ok(err)
		}
		beat(store.Worker{ID: "w1", Queues: []string{"q"}, Types: [2][]string{{"t"}, nil}})
		beat(store.Worker{ID: "w2", Queues: []string{"q2"}, Types: [2][]string{{"t", "alone"}, nil}})
		beat(store.Worker{ID: "w3", Queues: []string{"q"}, Types: [2][]string{{"t", "alone"}, {"t"}}, Draining: true})
		workers := func() map[string]int {
			m := map[string]int{}
			for _, t := range f.stats().Queues[0].Types {
				m[fmt.Sprint(t.Type, "/", t.Lane)] = t.Workers
			}
			return m
		}
		got := workers()
		f.check(got["t/intake"] == 1 && got["alone/intake"] == 0, "%v", got)
		f.Pass(2 * f.v)
		f.check(workers()["t/intake"] == 0, "a dead worker is counted: %v", workers())
	}},
	{"asked_queues", "stats are about the queues asked for, in that order; asked for none, about all that are known", func(f *fixture) {
		f.submit(sub("a"), sub("b", func(s *store.Submission) { s.Queue = "q2" }))
		f.queue("configured", func(q *store.QueueConfig) { q.MaxReady = 5 })
		s, err := f.s.Stats(f.ctx(), store.StatsRequest{Queues: []string{"q2", "nobody", "q"}})
		f.ok(err)
		f.check(len(s.Queues) == 3 && s.Queues[0].Queue == "q2" && s.Queues[1].Queue == "nobody" && s.Queues[2].Queue == "q" && s.Queues[0].Lanes[0].InLine == 1, "%+v", s.Queues)
		s, err = f.s.Stats(f.ctx(), store.StatsRequest{})
		f.ok(err)
		known := map[string]bool{}
		for _, q := range s.Queues {
			known[q.Queue] = true
		}
		f.check(known["q"] && known["q2"] && known["configured"], "%v", known)
		f.check(s.AsOf == f.now && s.Config == 1, "as of %d, config %d", s.AsOf, s.Config)
	}},
	{"overview", "an overview leaves types and workers out", func(f *fixture) {
		f.submit(sub("a"))
		f.renew("w1")
		s, err := f.s.Stats(f.ctx(), store.StatsRequest{Queues: []string{"q"}, Overview: true})
		f.ok(err)
		f.check(len(s.Workers) == 0 && len(s.Queues[0].Types) == 0 && s.Queues[0].Lanes[0].InLine == 1, "%+v", s)
	}},
	{"F050_never_negative", "counts change once per command, also when it was settled by two owners and deleted", func(f *fixture) {
		for range 3 {
			old := f.start("a", func(s *store.Submission) { s.Group = "g" })
			f.Pass(f.v)
			cur := f.claim1("w2", store.Intake, "a")
			f.settle(cur, store.OutcomeDone)
			f.trySettle(old, store.OutcomeDone)
			f.trySettle(cur, store.OutcomeDone)
			s, err := f.s.Stats(f.ctx(), store.StatsRequest{Queues: []string{"q"}, Groups: []string{"g"}})
			f.ok(err)
			f.check(s.Groups["g"] == 0 && s.Queues[0].Succeeded == 1 && s.Queues[0].Lanes[0].Leased == 0, "%+v", s)
			f.ok(f.act(store.ActDelete, "a"))
			f.check(f.stats().Queues[0].Succeeded == 0, "%+v", f.stats().Queues[0])
		}
	}},
}
