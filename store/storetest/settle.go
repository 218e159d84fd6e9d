package storetest

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/twolane/twolane/store"
)

// outcomes are all of them, each valid for a leased command. Throttled comes last: what follows it would have to wait.
var outcomes = []store.OutcomeKind{
	store.OutcomeDone, store.OutcomeFail, store.OutcomeProcessing, store.OutcomeRetry, store.OutcomeSnooze,
	store.OutcomeGiveBack, store.OutcomeCancelled, store.OutcomeCancelRetry, store.OutcomeAbandon, store.OutcomeThrottled,
}

var settleCases = []kase{
	{"done", "done ends a command SUCCEEDED with its result; the record tells when and how", func(f *fixture) {
		c := f.start("a", func(s *store.Submission) { s.Metadata = map[string]string{"m": "v"} })
		f.Advance(3 * time.Second)
		r := f.settle(c, store.OutcomeDone, func(s *store.Settlement) { s.Result = []byte("r") })
		f.check(r.Status == store.Succeeded, "%+v", r)
		g := f.is("a", store.Succeeded, store.Nowhere)
		f.check(string(g.Result) == "r" && g.Ended == f.now && g.Error == "" && g.Reason == "" && g.Starts == 1 && g.Metadata["m"] == "v", "%s", show(g))
		f.check(g.PurgeAt == g.Ended.Add(store.DefaultRetention) && g.Settled == c.Lease && g.Was == store.Pending, "purge at %d, settled %s", g.PurgeAt, g.Settled)
		f.check(len(g.Events) == 1 && g.Events[0] == store.Event{At: f.now, Kind: store.EventEnded, Worker: "w1"}, "events: %+v", g.Events)
	}},
	{"fail", "fail ends a command FAILED with the reason given, error if none, and may leave a result", func(f *fixture) {
		for i, reason := range append([]store.Reason{""}, store.Reasons...) {
			id := string(rune('a' + i))
			r := f.settle(f.start(id), store.OutcomeFail, errText("e"), func(s *store.Settlement) { s.Reason, s.Result = reason, []byte("r") })
			if reason == "" {
				reason = store.ReasonError
			}
			f.check(r.Status == store.Failed && r.Reason == reason, "%+v", r)
			g := f.failed(id, reason)
			f.check(g.Error == "e" && string(g.Result) == "r" && g.Failures == 0, "%s", show(g))
		}
	}},
	{"again", "the same settle again answers already and changes nothing, whatever the outcome was", func(f *fixture) {
		for i, kind := range outcomes {
			c := f.start(string(rune('a' + i)))
			f.settle(c, kind, delay(time.Hour))
			before := f.get(c.ID)
			for _, again := range []bool{true, false} {
				r := f.trySettle(c, kind, delay(time.Hour), func(s *store.Settlement) { s.Again = again })
				f.check(r.State == store.SettleAlready && r.Status == before.Status && r.Err == nil, "%s again: %+v", kind, r)
			}
			if d := cmp.Diff(before, f.get(c.ID)); d != "" {
				f.Fatalf("%s again changed the record:\n%s", kind, d)
			}
		}
	}},
	{"F047_F052_stale_owner", "a stale owner changes nothing: renew, progress and every outcome are refused after another has claimed", func(f *fixture) {
		old := f.start("a")
		f.Pass(f.v)
		cur := f.claim1("w2", store.Intake, "a")
		before := f.get("a")
		f.check(f.renew("w1", old)[0].State == store.RenewLost, "a stale owner renewed")
		for _, kind := range outcomes {
			r := f.trySettle(old, kind, delay(time.Second), errText("stale"))
			f.check(r.State == store.SettleLost, "%s by a stale owner: %+v", kind, r)
			r = f.trySettle(old, kind, delay(time.Second), func(s *store.Settlement) { s.Again = true })
			f.check(r.State == store.SettleUnknown, "%s by a stale owner, repeated: %+v", kind, r)
		}
		if d := cmp.Diff(before, f.get("a")); d != "" {
			f.Fatalf("a stale owner changed the record:\n%s", d)
		}
		f.settle(cur, store.OutcomeDone)
		f.check(f.trySettle(old, store.OutcomeFail).State == store.SettleLost, "a late failure was accepted")
		f.is("a", store.Succeeded, store.Nowhere)
	}},
	{"whole_name", "a settle is accepted only with the whole lease name", func(f *fixture) {
		c := f.start("a")
		for name, lease := range stale(c) {
			d := *c
			d.Lease = lease
			f.check(f.trySettle(&d, store.OutcomeDone).State == store.SettleLost, "settled with %s", name)
		}
		d := *c
		d.ID = "unknown"
		f.check(f.trySettle(&d, store.OutcomeDone).State == store.SettleLost, "settled an unknown command")
		f.check(f.trySettle(&d, store.OutcomeDone, func(s *store.Settlement) { s.Again = true }).State == store.SettleUnknown, "an unknown command, repeated")
		f.is("a", store.Pending, store.Leased)
	}},
	{"already_forgotten", "once another lease was settled, a repeated settle of the older one is unknown, not lost", func(f *fixture) {
		old := f.start("a")
		f.settle(old, store.OutcomeProcessing)
		f.Pass(time.Second)
		f.settle(f.claim1("w2", store.Repoll, "a"), store.OutcomeProcessing)
		f.check(f.trySettle(old, store.OutcomeProcessing, func(s *store.Settlement) { s.Again = true }).State == store.SettleUnknown, "not unknown")
		f.check(f.trySettle(old, store.OutcomeProcessing).State == store.SettleLost, "not lost")
	}},
	{"same_id_anew", "after delete and re-submit of the same id the old owner changes nothing", func(f *fixture) {
		old := f.start("a")
		f.ok(f.act(store.ActDelete, "a", func(r *store.ActRequest) { r.Force = true }))
		f.check(f.trySettle(old, store.OutcomeDone).State == store.SettleLost, "settled a deleted command")
		f.submit(sub("a"))
		f.check(f.trySettle(old, store.OutcomeDone).State == store.SettleLost, "settled before the new claim")
		cur := f.claim1("w2", store.Intake, "a")
		f.check(f.trySettle(old, store.OutcomeDone).State == store.SettleLost, "settled over the new claim")
		f.check(f.renew("w1", old)[0].State == store.RenewLost, "renewed over the new claim")
		f.settle(cur, store.OutcomeDone)
	}},
	{"batch", "items are independent and answered in order: one that is lost or invalid does not touch the others", func(f *fixture) {
		f.submit(many("a", 5)...)
		cs := f.claim("w1", store.Intake, 5)
		req := store.SettleRequest{Worker: "w1"}
		for i, c := range cs {
			st := store.Settlement{ID: c.ID, Lease: c.Lease, Kind: store.OutcomeDone}
			switch i {
			case 1:
				st.Lease.Nonce = "wrong0001"
			case 2:
				st.Kind = 99
			case 3:
				st.Delay = -1
			}
			req.Items = append(req.Items, st)
		}
		rs, err := f.s.Settle(f.ctx(), req)
		f.ok(err)
		f.check(rs[0].State == store.SettleDone && rs[1].State == store.SettleLost && rs[4].State == store.SettleDone, "%+v", rs)
		for _, i := range []int{2, 3} {
			var inv *store.InvalidError
			f.check(errors.As(rs[i].Err, &inv) && inv.Field != "", "item %d: %+v", i, rs[i])
		}
		for i, want := range []store.Status{store.Succeeded, store.Pending, store.Pending, store.Pending, store.Succeeded} {
			f.check(f.get(cs[i].ID).Status == want, "%s", show(f.get(cs[i].ID)))
		}
		f.check(f.trySettle(cs[2], store.OutcomeDone).State == store.SettleDone, "after an invalid settle the lease does not stand")
	}},
	{"snooze", "a snooze costs no failure: PENDING waits in scheduled, PROCESSING keeps its state and polls later", func(f *fixture) {
		c := f.start("a")
		f.settle(c, store.OutcomeSnooze, delay(5*time.Second))
		g := f.is("a", store.Pending, store.Scheduled)
		f.check(g.Failures == 0 && g.Starts == 1 && g.Eligible == 0, "%s", show(g))
		f.Pass(4 * time.Second)
		f.check(len(f.claim("w1", store.Intake, 1)) == 0, "snoozed for less than it said")
		f.Pass(time.Second)
		c = f.claim1("w1", store.Intake, "a")
		f.settle(c, store.OutcomeProcessing, state("s"))
		f.Pass(time.Second)
		f.settle(f.claim1("w1", store.Repoll, "a"), store.OutcomeSnooze, delay(5*time.Second))
		g = f.is("a", store.Processing, store.InLine)
		f.check(string(g.State) == "s" && g.Failures == 0, "%s", show(g))
		f.Pass(4 * time.Second)
		f.check(len(f.claim("w1", store.Repoll, 1)) == 0, "snoozed for less than it said")
		f.Pass(time.Second)
		f.claim1("w1", store.Repoll, "a")
	}},
	{"F094_snooze_is_no_attempt", "any number of snoozes, throttles and give-backs leave failures and losses alone: the next failure is the first", func(f *fixture) {
		f.submit(sub("a"))
		for i := range 60 {
			c := f.claim1("w1", store.Intake, "a")
			f.settle(c, []store.OutcomeKind{store.OutcomeSnooze, store.OutcomeThrottled, store.OutcomeGiveBack}[i%3], delay(100*time.Millisecond))
			f.Pass(11 * time.Second)
		}
		f.settle(f.claim1("w1", store.Intake, "a"), store.OutcomeRetry, delay(time.Second))
		g := f.get("a")
		f.check(g.Failures == 1 && g.Losses == 0 && g.Starts == 61, "%s", show(g))
	}},
	{"give_back", "a give-back costs nothing and puts the command back in its old place; one that never started was no start", func(f *fixture) {
		f.submit(many("a", 3)...)
		cs := f.claim("w1", store.Intake, 2)
		f.settle(cs[1], store.OutcomeGiveBack)
		f.settle(cs[0], store.OutcomeGiveBack, func(s *store.Settlement) { s.Unstarted = true })
		a, b := f.is("a-0000", store.Pending, store.InLine), f.is("a-0001", store.Pending, store.InLine)
		f.check(a.Starts == 0 && b.Starts == 1 && a.Failures+b.Failures+a.Losses+b.Losses == 0, "%s; %s", show(a), show(b))
		cs = f.claim("w2", store.Intake, 3)
		f.check(len(cs) == 3 && cs[0].ID == "a-0000" && cs[1].ID == "a-0001" && cs[2].ID == "a-0002", "order after the give-back: %v", ids(cs))
		f.settle(cs[0], store.OutcomeGiveBack, delay(5*time.Second))
		f.check(len(f.claim("w2", store.Intake, 3)) == 0, "given back for 5 s and claimed at once")
		f.Pass(5 * time.Second)
		f.claim1("w1", store.Intake, "a-0000")
	}},
	{"give_back_poll", "a poll that is given back is due at once", func(f *fixture) {
		f.park("a")
		f.Pass(time.Second)
		f.settle(f.claim1("w1", store.Repoll, "a"), store.OutcomeGiveBack)
		c := f.claim1("w2", store.Repoll, "a")
		f.check(c.Polls == 0 && string(c.State) == "s0", "%s", show(c))
	}},
	{"abandon", "an abandoned lease ends as a loss, whether or not the worker lives", func(f *fixture) {
		c := f.start("a")
		f.renew("w1", c)
		f.settle(c, store.OutcomeAbandon, errText("ignores its context"))
		g := f.is("a", store.Pending, store.InLine)
		f.check(g.Losses == 1 && g.Failures == 0, "%s", show(g))
	}},
	{"events", "the record keeps its last 16 events that are not uneventful polls, each text within 200 bytes", func(f *fixture) {
		f.park("a")
		for range 5 {
			f.Pass(time.Second)
			f.settle(f.claim1("w1", store.Repoll, "a"), store.OutcomeProcessing)
		}
		g := f.get("a")
		f.check(len(g.Events) == 1 && g.Events[0].Kind == store.EventProcessing, "after uneventful polls: %+v", g.Events)
		for i := range 20 {
			f.Pass(time.Second)
			f.settle(f.claim1("w1", store.Repoll, "a"), store.OutcomeRetry, errText(string(rune('a'+i))+string(make([]byte, 300))))
		}
		g = f.get("a")
		f.check(len(g.Events) == store.MaxEvents, "%d events", len(g.Events))
		for i, e := range g.Events {
			f.check(e.Kind == store.EventError && e.Text[0] == byte('a'+4+i) && len(e.Text) == store.MaxEventText && e.Worker == "w1" && e.At != 0, "event %d: %+v", i, e)
		}
		f.check(len(g.Error) == 301, "the error itself was cut to %d bytes", len(g.Error))
		f.Pass(time.Second)
		text := "a" + strings.Repeat("\u00e9", 150) // the 200th byte is the first half of a letter
		f.settle(f.claim1("w1", store.Repoll, "a"), store.OutcomeRetry, errText(text))
		cut := f.get("a").Events[store.MaxEvents-1].Text
		f.check(len(cut) == store.MaxEventText-1 && strings.HasPrefix(text, cut) && utf8.ValidString(cut), "cut inside a letter: %q", cut)
	}},
	{"same_twice", "one lease twice in a call is settled once: the second item answers already", func(f *fixture) {
		c := f.start("a")
		st := store.Settlement{ID: "a", Lease: c.Lease, Kind: store.OutcomeRetry, Delay: time.Second}
		rs, err := f.s.Settle(f.ctx(), store.SettleRequest{Worker: "w1", Items: []store.Settlement{st, st}})
		f.ok(err)
		f.check(rs[0].State == store.SettleDone && rs[1].State == store.SettleAlready && f.get("a").Failures == 1, "%+v, %s", rs, show(f.get("a")))
	}},
	{"F007_every_exit", "every way out of a lease ends it once and for all, also for two that try at the same time", func(f *fixture) {
		exits := map[string]func(f *fixture, c *store.Command){
			"force":  func(f *fixture, c *store.Command) { f.tryCancel(store.CancelRequest{IDs: []string{c.ID}, Force: true}) },
			"delete": func(f *fixture, c *store.Command) { f.ok(f.act(store.ActDelete, c.ID, force)) },
			"loss":   func(f *fixture, c *store.Command) { f.Pass(f.v) },
			"cancel": func(f *fixture, c *store.Command) {
				f.cancel(c.ID)
				f.settle(c, store.OutcomeRetry)
			},
			"undecodable": func(f *fixture, c *store.Command) {
				f.settle(c, store.OutcomeFail, func(s *store.Settlement) { s.Reason = store.ReasonUndecodable })
			},
			"dropped": func(f *fixture, c *store.Command) {
				f.settle(c, store.OutcomeFail, func(s *store.Settlement) { s.Reason = store.ReasonDropped })
			},
		}
		for _, kind := range outcomes {
			exits[kind.String()] = func(f *fixture, c *store.Command) {
				won := f.parallel(2, func(int) int {
					rs, err := f.s.Settle(f.ctx(), store.SettleRequest{Worker: "w1", Items: []store.Settlement{{ID: c.ID, Lease: c.Lease, Kind: kind, Delay: time.Hour}}})
					switch {
					case err != nil:
						f.Error(err)
					case rs[0].State == store.SettleDone:
						return 1
					case rs[0].State != store.SettleAlready:
						f.Errorf("%s: %+v", kind, rs[0])
					}
					return 0
				})
				f.check(won == 1, "%s was done %d times", kind, won)
			}
		}
		for name, exit := range exits {
			typ := "t-" + name // a throttled type would keep the next one waiting
			f.submit(sub("x-"+name, func(s *store.Submission) { s.Type = typ }))
			c := f.claimType(typ, 1)[0]
			exit(f, c)
			f.check(f.renew("w1", c)[0].State == store.RenewLost, "after %s the lease is renewed", name)
			state := f.trySettle(c, store.OutcomeDone).State
			f.check(state == store.SettleLost || state == store.SettleAlready, "after %s a settle is %s", name, state)
			f.check(f.lane(store.Intake).Leased == 0 && f.lane(store.Repoll).Leased == 0, "after %s something is leased", name)
			if g := f.get(c.ID); g != nil {
				f.ok(f.act(store.ActDelete, c.ID))
			}
		}
	}},
}
