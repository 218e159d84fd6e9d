package storetest

import (
	"fmt"
	"time"

	"github.com/twolane/twolane/store"
)

// lose claims id for worker w in a lane and lets the lease and the worker die. It waits until the command can be claimed again, and returns
// how long that took beyond the visibility timeout.
func (f *fixture) lose(w string, lane store.Lane, id string) {
	f.Helper()
	for range 400 {
		if cs := f.claim(w, lane, 1); len(cs) > 0 {
			f.check(cs[0].ID == id, "%s is claimed, not %s", cs[0].ID, id)
			f.Pass(f.v)
			return
		}
		f.Pass(5 * time.Second)
	}
	f.Fatalf("%s is never claimable: %s", id, show(f.get(id)))
}

var lossCases = []kase{
	{"F003_dead_worker", "what a dead worker had runs again one visibility timeout after its last sign, for workers of any name", func(f *fixture) {
		f.submit(many("a", 100)...)
		for w := range 20 {
			cs := f.claim(fmt.Sprint("old", w), store.Intake, 5)
			f.check(len(cs) == 5, "worker %d claimed %d", w, len(cs))
			f.renew(fmt.Sprint("old", w), cs...)
		}
		f.Pass(f.v - time.Millisecond)
		f.check(len(f.claim("new", store.Intake, 200)) == 0, "claimed 1 ms early")
		f.Pass(time.Millisecond)
		cs := f.claim("new", store.Intake, 200)
		f.check(len(cs) == 100, "%d of 100 run again", len(cs))
		for _, c := range cs {
			f.check(c.Losses == 1 && c.Starts == 2 && c.Failures == 0, "%s", show(c))
			es := f.get(c.ID).Events
			f.check(len(es) == 1 && es[0].Kind == store.EventLost, "%+v", es)
		}
	}},
	{"claim_lost", "an expired lease is a loss only if its owner's own heartbeat is dead too; otherwise it costs nothing", func(f *fixture) {
		f.submit(many("a", 2)...)
		cs := f.claim("w1", store.Intake, 2)
		var sum store.MaintainReply
		for range 5 {
			f.Advance(f.v / 4)
			r, err := f.s.Renew(f.ctx(), store.RenewRequest{Worker: store.Worker{ID: "w1"}, Leases: []store.RenewItem{{ID: cs[0].ID, Lease: cs[0].Lease}}})
			f.ok(err)
			sum.Reaped, sum.Lost, sum.ClaimLost = sum.Reaped+r.Reaped, sum.Lost+r.Lost, sum.ClaimLost+r.ClaimLost
		}
		f.check(sum.Reaped == 1 && sum.ClaimLost == 1 && sum.Lost == 0, "%+v", sum)
		g := f.is(cs[1].ID, store.Pending, store.InLine)
		f.check(g.Losses == 0 && g.Starts == 1 && g.Events[0].Kind == store.EventClaimLost, "%s, %+v", show(g), g.Events)
		f.is(cs[0].ID, store.Pending, store.Leased)
	}},
	{"F102_killed_after_a_sign", "an owner that dies right after a sign of life that did not name the lease is a dead one: the reaper waits for its heartbeat and counts a loss", func(f *fixture) {
		f.submit(sub("a"))
		f.claim1("w1", store.Intake, "a")
		f.Advance(f.v / 8)
		f.renew("w1") // it was sent before the answer to the claim came
		for range 7 {
			f.Advance(f.v / 8)
			f.maintain()
		}
		f.is("a", store.Pending, store.Leased)
		f.Advance(f.v / 8)
		f.check(f.maintain().Lost == 1, "it is no loss")
		f.check(f.is("a", store.Pending, store.InLine).Losses == 1, "%s", show(f.get("a")))
	}},
	{"F060_reaped_once", "three reapers at once move each expired lease once and count it once", func(f *fixture) {
		f.submit(many("a", 300)...)
		f.check(len(f.claim("w1", store.Intake, 300)) == 300, "not all claimed")
		f.Pass(f.v - time.Second)
		f.Advance(time.Second)
		lost := f.parallel(3, func(int) int {
			n := 0
			for {
				r, err := f.s.Maintain(f.ctx())
				if err != nil {
					f.Error(err)
					return n
				}
				n += r.Lost
				if !r.More {
					return n
				}
			}
		})
		f.maintain()
		f.check(lost == 300, "%d losses of 300", lost)
		for i := range 300 {
			g := f.get(fmt.Sprintf("a-%04d", i))
			f.check(g.Place == store.InLine && g.Losses == 1 && g.Starts == 1, "%s", show(g))
		}
	}},
	{"F102_F149_poison", "a command that kills its worker waits longer after each loss from the second on, and ends worker_lost after five in a row", func(f *fixture) {
		f.submit(sub("a"))
		var gaps []time.Duration
		for i := 1; i <= 5; i++ {
			f.lose(fmt.Sprint("w", i), store.Intake, "a")
			died := f.now
			g := f.get("a")
			f.check(g.Losses == i && g.Failures == 0, "after %d losses: %s", i, show(g))
			if i == 5 {
				break
			}
			for n := 0; f.get("a").Place != store.InLine; n++ {
				f.check(n < 1000, "it never comes back: %s", show(f.get("a")))
				f.Pass(100 * time.Millisecond)
			}
			gaps = append(gaps, f.now.Sub(died))
		}
		f.failed("a", store.ReasonWorkerLost)
		f.check(f.get("a").Error != "", "it does not say why")
		for i, d := range []time.Duration{0, 5 * time.Second, 15 * time.Second, 45 * time.Second} {
			f.check(gaps[i] >= d/2 && gaps[i] <= d+200*time.Millisecond, "pause %d is %v, not %v to %v", i+1, gaps[i], d/2, d)
		}
	}},
	{"poison_poll", "a poll that kills its worker ends worker_lost too, with its state kept", func(f *fixture) {
		f.park("a")
		f.Pass(time.Second)
		for i := 1; i <= 5; i++ {
			f.is("a", store.Processing, store.InLine)
			f.lose(fmt.Sprint("w", i), store.Repoll, "a")
		}
		g := f.failed("a", store.ReasonWorkerLost)
		f.check(string(g.State) == "s0", "%s", show(g))
	}},
	{"max_losses", "the queue says how many losses in a row end a command; one never does", func(f *fixture) {
		c, err := f.s.Config(f.ctx())
		f.ok(err)
		c.Queues = map[string]store.QueueConfig{"q": {MaxLosses: 1}}
		_, err = f.s.Configure(f.ctx(), c.Version, c)
		f.wrong(err, store.ErrInvalid)
		f.queue("q", func(q *store.QueueConfig) { q.MaxLosses = 2 })
		f.submit(sub("a"))
		f.lose("w1", store.Intake, "a")
		f.is("a", store.Pending, store.InLine)
		f.lose("w2", store.Intake, "a")
		f.failed("a", store.ReasonWorkerLost)
	}},
	{"settle_ends_row", "a settle ends the row of losses", func(f *fixture) {
		f.submit(sub("a"))
		f.lose("w1", store.Intake, "a")
		f.lose("w2", store.Intake, "a")
		f.check(f.get("a").Losses == 2, "%s", show(f.get("a")))
		f.Pass(time.Minute)
		f.settle(f.claim1("w3", store.Intake, "a"), store.OutcomeRetry, delay(time.Second))
		f.check(f.get("a").Losses == 0, "%s", show(f.get("a")))
		f.Pass(time.Second)
		f.lose("w4", store.Intake, "a")
		f.check(f.get("a").Losses == 1, "%s", show(f.get("a")))
	}},
	{"long_run_ends_row", "a lease that was reaped after it was held for more than two visibility timeouts is the first loss again", func(f *fixture) {
		f.submit(sub("a"))
		f.lose("w1", store.Intake, "a")
		f.lose("w2", store.Intake, "a")
		f.Pass(time.Minute)
		c := f.claim1("w3", store.Intake, "a")
		for range 6 {
			f.Advance(f.v / 4)
			f.renew("w3", c)
		}
		f.Pass(f.v)
		f.check(f.get("a").Losses == 1, "held for 2.5 timeouts: %s", show(f.get("a")))
		f.lose("w4", store.Intake, "a")
		c = f.claimWhen("w5", "a")
		for range 4 {
			f.Advance(f.v / 4)
			f.renew("w5", c)
		}
		f.Pass(f.v)
		f.check(f.get("a").Losses == 3, "held for exactly two timeouts: %s", show(f.get("a")))
	}},
	{"F149_reaped_late", "a lease is held until it runs out, not until somebody is there to reap it: losses are in a row however late the next worker comes", func(f *fixture) {
		f.submit(sub("a"))
		for i := 1; i <= 3; i++ {
			f.claimWhen(fmt.Sprint("w", i), "a")
			for range 12 { // the clock goes on with what others do
				f.Advance(f.v / 4)
				f.renew("other")
			}
			f.maintain()
			f.check(f.get("a").Losses == i, "after %d losses: %s", i, show(f.get("a")))
		}
	}},
	{"suspect_alone", "a command with two losses in a row is granted only to a want that takes a suspect, one in a call, alone, as class suspect", func(f *fixture) {
		f.submit(many("a", 3)...)
		for i := range 2 {
			f.check(len(f.claim(fmt.Sprint("w", i), store.Intake, 3)) == 3, "not all claimed in round %d", i)
			f.Pass(f.v)
		}
		f.Pass(time.Minute)
		f.submit(sub("new"))
		r := f.claimFor("w3", store.Intake, 10)
		r.Wants[0].Suspect, r.Wants[0].Types[0].Batch = false, 10
		got := f.claimAll(r)
		f.check(len(got) == 1 && got[0].Items[0].ID == "new", "without leave for suspects granted %v", ids(items(got)))
		r.Wants[0].Suspect, r.Nonce = true, f.drawNonce()
		for i := range 3 {
			r.Nonce = f.drawNonce()
			g := f.tryClaim(r).Grants
			f.check(len(g) == 1 && g[0].Class == store.ClassSuspect && len(g[0].Items) == 1 && g[0].Items[0].Losses == 2, "call %d granted %v", i, g)
		}
	}},
	{"suspect_visit_alone", "a cancel visit of a suspect runs alone as suspects do, passes a pause as visits do, and keeps no other visit waiting", func(f *fixture) {
		f.park("bad", hook)
		f.park("good", hook)
		for i := range 2 {
			f.Pass(2 * time.Minute)
			req := f.claimFor(fmt.Sprint("w", i), store.Repoll, 2)
			req.Wants[0].Types[0].Batch = 2
			cs := items(f.claimAll(req))
			for _, c := range cs {
				if c.ID == "good" {
					f.settle(c, store.OutcomeProcessing, hook)
				}
			}
			f.check(len(cs) == 2, "round %d claimed %v", i, ids(cs))
			f.Pass(f.v)
		}
		f.queue("q", func(q *store.QueueConfig) { q.Pause = store.PauseAll })
		f.Pass(2 * time.Minute)
		f.check(f.get("bad").Losses == 2, "%s", show(f.get("bad")))
		f.cancel("bad")
		f.cancel("good")
		r := f.claimFor("w5", store.Repoll, 5)
		r.Wants[0].Suspect, r.Wants[0].Types[0].Batch = false, 5
		g := f.claimAll(r)
		f.check(len(g) == 1 && g[0].Class == store.ClassCancel && g[0].Items[0].ID == "good", "without leave for suspects granted %v", g)
		r.Wants[0].Suspect, r.Nonce = true, f.drawNonce()
		g = f.tryClaim(r).Grants
		f.check(len(g) == 1 && g[0].Class == store.ClassSuspectVisit && len(g[0].Items) == 1, "granted %v", g)
		again := f.tryClaim(r).Grants
		f.check(len(again) == 1 && again[0].Class == store.ClassSuspectVisit, "the repeated claim got %v", again)
		f.settle(g[0].Items[0], store.OutcomeCancelled)
		f.is("bad", store.Cancelled, store.Nowhere)
	}},
	{"suspect_not_starved", "a suspect gets its turn beside any number of first runs", func(f *fixture) {
		f.submit(sub("bad"))
		f.lose("w1", store.Intake, "bad")
		f.lose("w2", store.Intake, "bad")
		f.Pass(time.Minute)
		f.submit(many("a", 50)...)
		seen := false
		for turn := range 8 {
			r := f.claimFor("w3", store.Intake, 1)
			r.Wants[0].Turn = turn
			for _, c := range items(f.tryClaim(r).Grants) {
				seen = seen || c.ID == "bad"
			}
		}
		f.check(seen, "not in eight turns")
	}},
	{"F048_unknown_kind", "the reaper knows no types: a foreign application's command is put back untouched", func(f *fixture) {
		f.submit(sub("a", func(s *store.Submission) { s.Type, s.Queue = "b-kind", "b-queue" }))
		r := f.claimFor("b1", store.Intake, 1)
		r.Wants[0].Queue, r.Wants[0].Types[0].Type = "b-queue", "b-kind"
		f.check(len(f.tryClaim(r).Grants) == 1, "not claimed")
		for range 5 {
			f.Advance(f.v / 4)
			f.tryClaim(f.claimFor("a1", store.Intake, 10))
		}
		g := f.is("a", store.Pending, store.InLine)
		f.check(g.Queue == "b-queue" && g.Type == "b-kind" && g.Losses == 1, "%s", show(g))
	}},
	{"F065_own_queue", "recovery puts a command back into its own queue, once", func(f *fixture) {
		for _, q := range []string{"q", "q2", "q3"} {
			f.submit(sub("in-"+q, func(s *store.Submission) { s.Queue = q }))
			r := f.claimFor("w1", store.Intake, 1)
			r.Wants[0].Queue = q
			f.check(len(f.tryClaim(r).Grants) == 1, "%s not claimed", q)
		}
		f.Pass(f.v)
		n := 0
		for _, q := range []string{"q", "q2", "q3"} {
			r := f.claimFor("w2", store.Intake, 5)
			r.Wants[0].Queue = q
			got := ids(items(f.claimAll(r)))
			f.check(len(got) == 1 && got[0] == "in-"+q, "%s has %v", q, got)
			n += len(got)
		}
		f.check(n == 3, "%d commands", n)
	}},
	{"F062_incarnation", "two workers that call themselves the same are told apart by their incarnation", func(f *fixture) {
		f.submit(many("a", 2)...)
		old := f.claim("inc1", store.Intake, 1)[0]
		beat := func(id string, cs ...*store.Command) []store.RenewResult {
			req := store.RenewRequest{Worker: store.Worker{ID: id, Name: "same", Host: "same", PID: 1}}
			for _, c := range cs {
				req.Leases = append(req.Leases, store.RenewItem{ID: c.ID, Lease: c.Lease})
			}
			r, err := f.s.Renew(f.ctx(), req)
			f.ok(err)
			return r.Results
		}
		beat("inc1", old)
		for range 5 { // the restarted process beats, its predecessor is dead
			f.Advance(f.v / 4)
			beat("inc2")
		}
		g := f.is(old.ID, store.Pending, store.InLine)
		f.check(g.Losses == 1, "the successor's heartbeat kept the orphan: %s", show(g))
		f.check(beat("inc1", old)[0].State == store.RenewLost, "the old incarnation renewed")
	}},
	{"F073_killed_between", "a worker killed after its result was saved never makes the command abandoned", func(f *fixture) {
		c := f.start("a")
		f.settle(c, store.OutcomeDone)
		f.Pass(3 * f.v)
		g := f.is("a", store.Succeeded, store.Nowhere)
		f.check(g.Losses == 0 && len(g.Events) == 1, "%s %+v", show(g), g.Events)
	}},
	{"give_back_of_poison", "a command given back before it was started keeps its losses: only what ran ends the row", func(f *fixture) {
		f.submit(sub("a"))
		f.lose("w1", store.Intake, "a")
		f.lose("w2", store.Intake, "a")
		c := f.claimWhen("w3", "a")
		f.settle(c, store.OutcomeGiveBack, func(s *store.Settlement) { s.Unstarted = true })
		f.check(f.get("a").Losses == 2, "%s", show(f.get("a")))
	}},
}

// claimWhen claims id for w in the intake lane as soon as that can be done.
func (f *fixture) claimWhen(w, id string) *store.Command {
	f.Helper()
	for range 400 {
		if cs := f.claim(w, store.Intake, 1); len(cs) > 0 {
			f.check(cs[0].ID == id, "%s is claimed, not %s", cs[0].ID, id)
			return cs[0]
		}
		f.Pass(time.Second)
	}
	f.Fatalf("%s is never claimable: %s", id, show(f.get(id)))
	return nil
}
