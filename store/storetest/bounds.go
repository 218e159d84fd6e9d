package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/twolane/twolane/store"
)

var boundsCases = []kase{
	{"reap", "many leases that expire together are reaped in bounded steps, with more until all are", func(f *fixture) {
		f.submit(many("a", 250)...)
		f.check(len(f.claim("w1", store.Intake, 250)) == 250, "not all claimed")
		f.Pass(f.v - f.v/4)
		f.Advance(f.v / 4)
		n, steps := f.stepwise(func(r store.MaintainReply) int { return r.Reaped })
		f.check(n == 250 && steps > 1, "%d reaped in %d steps", n, steps)
	}},
	{"promote", "many that fall due together are promoted in bounded steps, in the order of their due times", func(f *fixture) {
		for part := range slices.Chunk(many("a", 250), 50) {
			for i := range part {
				part[i].Delay = time.Duration(2000-i-int(part[0].ID[3]-'0')*50) * time.Millisecond
			}
			f.submit(part...)
		}
		f.Advance(3 * time.Second)
		n, steps := f.stepwise(func(r store.MaintainReply) int { return r.Promoted })
		f.check(n == 250 && steps > 1, "%d promoted in %d steps", n, steps)
		var last store.Millis
		for _, c := range f.claim("w1", store.Intake, 250) {
			f.check(c.NotBefore >= last, "%s with %d after %d", c.ID, c.NotBefore, last)
			last = c.NotBefore
		}
	}},
	{"claim_does_maintenance", "claims alone keep the namespace going: they reap, expire and promote for every queue", func(f *fixture) {
		f.start("lost")
		f.submit(sub("due", func(s *store.Submission) { s.Delay, s.Queue = time.Second, "q2" }), sub("late", deadlineIn(time.Second), func(s *store.Submission) { s.Queue = "q3" }))
		r := f.claimFor("w2", store.Intake, 0)
		for range 4 {
			f.Advance(f.v / 4)
			r.Nonce = f.drawNonce()
			f.tryClaim(r)
		}
		f.is("lost", store.Pending, store.InLine)
		f.is("due", store.Pending, store.InLine)
		f.failed("late", store.ReasonDeadline)
	}},
	{"renew_does_maintenance", "so do heartbeats alone", func(f *fixture) {
		f.start("lost")
		f.submit(sub("due", func(s *store.Submission) { s.Delay, s.Queue = time.Second, "q2" }), sub("late", deadlineIn(time.Second), func(s *store.Submission) { s.Queue = "q3" }))
		for range 4 {
			f.Advance(f.v / 4)
			f.renew("w2")
		}
		f.is("lost", store.Pending, store.InLine)
		f.is("due", store.Pending, store.InLine)
		f.failed("late", store.ReasonDeadline)
	}},
	{"many_lines", "thousands of lines of one command each are claimed to the last, in bounded steps", func(f *fixture) {
		const n = 600
		for part := range slices.Chunk(many("a", n), 300) {
			for i := range part {
				part[i].Group = "g-" + part[i].ID
			}
			f.submit(part...)
		}
		seen := map[string]bool{}
		for range n {
			cs := f.claim("w1", store.Intake, 100)
			for _, c := range cs {
				f.check(!seen[c.ID], "%s twice", c.ID)
				seen[c.ID] = true
			}
			if len(cs) == 0 {
				break
			}
		}
		f.check(len(seen) == n, "%d of %d", len(seen), n)
	}},
	{"next_is_true", "Next of maintenance is never later than what time alone will change first", func(f *fixture) {
		check := func(what string, most time.Duration) {
			f.Helper()
			m := f.maintain()
			f.check(m.Next > 0 && m.Next <= most, "%s in %v, but next is %v", what, most, m.Next)
		}
		f.submit(sub("deadline", deadlineIn(4*time.Hour)))
		check("a deadline", 4*time.Hour)
		f.submit(sub("later", func(s *store.Submission) { s.Delay = 3 * time.Hour }))
		check("a delay", 3*time.Hour)
		f.settle(f.claim("w1", store.Intake, 1)[0], store.OutcomeProcessing, delay(2*time.Hour))
		check("a poll", 2*time.Hour)
		f.submit(sub("start", func(s *store.Submission) { s.StartBy = f.now.Add(time.Hour) }))
		check("a start_by", time.Hour)
		f.settle(f.claim("w1", store.Intake, 1)[0], store.OutcomeRetry, delay(30*time.Minute))
		check("a backoff", 30*time.Minute)
		f.start("leased")
		check("the end of a lease", f.v)
	}},
	{"wants", "a claim takes many wants of many queues, and answers each", func(f *fixture) {
		r := store.ClaimRequest{Worker: "w1", Nonce: f.drawNonce(), Free: [2]int{100, 100}}
		for i := range 20 {
			q := fmt.Sprintf("q%02d", i)
			f.submit(sub("in-"+q, func(s *store.Submission) { s.Queue = q }))
			for _, l := range store.Lanes {
				r.Wants = append(r.Wants, store.Want{Queue: q, Lane: l, Max: 3, Types: []store.TypeWant{{Type: "t"}, {Type: "t2"}}})
			}
		}
		reply := f.tryClaim(r)
		f.check(len(reply.Grants) == 20, "%d grants", len(reply.Grants))
		for i, w := range reply.Wants {
			f.check(w.Granted == 1-i%2 && w.Why == store.WhyEmpty, "want %d: %+v", i, w)
		}
	}},
}
