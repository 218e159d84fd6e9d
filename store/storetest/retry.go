package storetest

import (
	"time"

	"github.com/twolane/twolane/store"
)

var retryCases = []kase{
	{"backoff", "a failed PENDING command waits in scheduled for its delay, then arrives anew; the error stays until the next outcome that is none", func(f *fixture) {
		f.submit(many("a", 2)...)
		c := f.claim("w1", store.Intake, 1)[0]
		r := f.settle(c, store.OutcomeRetry, delay(4*time.Second), errText("boom"))
		f.check(r.Status == store.Pending, "%+v", r)
		g := f.is(c.ID, store.Pending, store.Scheduled)
		f.check(g.Failures == 1 && g.Error == "boom" && g.Losses == 0 && g.Eligible == 0 && g.Owner == "", "%s", show(g))
		f.check(len(g.Events) == 1 && g.Events[0] == store.Event{At: epoch, Kind: store.EventError, Worker: "w1", Text: "boom"}, "%+v", g.Events)
		f.Pass(4*time.Second - time.Millisecond)
		f.check(f.get(c.ID).Place == store.Scheduled, "back 1 ms early")
		f.Pass(time.Millisecond)
		g = f.is(c.ID, store.Pending, store.InLine)
		f.check(g.Seq > f.get("a-0001").Seq && g.Eligible == f.now && g.Due == 0, "seq %d after %d, eligible %d", g.Seq, f.get("a-0001").Seq, g.Eligible)
		f.settle(f.claim("w1", store.Intake, 1)[0], store.OutcomeDone)
		c = f.claim1("w1", store.Intake, "a-0000")
		f.settle(c, store.OutcomeProcessing)
		g = f.get(c.ID)
		f.check(g.Error == "" && g.Failures == 0 && g.Starts == 2, "after an outcome that is no error: %s", show(g))
	}},
	{"F099_others_run", "a command in backoff stands in nobody's way", func(f *fixture) {
		c := f.start("a")
		f.settle(c, store.OutcomeRetry, delay(time.Hour))
		f.submit(many("b", 10)...)
		f.check(len(f.claim("w1", store.Intake, 20)) == 10, "the others do not run")
	}},
	{"F088_own_delay", "each failure waits for the delay that it was given, to the millisecond: the store adds and aligns nothing", func(f *fixture) {
		f.submit(many("a", 50)...)
		cs := f.claim("w1", store.Intake, 50)
		for i, c := range cs {
			f.settle(c, store.OutcomeRetry, delay(time.Second+time.Duration(i*37)*time.Millisecond))
		}
		for i, c := range cs {
			due := f.get(c.ID).Due
			f.check(due.Sub(f.stats().Run) == time.Second+time.Duration(i*37)*time.Millisecond, "%d: due %d, run clock %d", i, due, f.stats().Run)
		}
	}},
	{"floor", "a delay of less than 100 ms waits 100 ms: no outcome makes a hot loop", func(f *fixture) {
		for _, kind := range []store.OutcomeKind{store.OutcomeRetry, store.OutcomeSnooze, store.OutcomeProcessing} {
			c := f.start("a-" + kind.String())
			f.settle(c, kind)
			f.Advance(99 * time.Millisecond)
			f.maintain()
			n := len(f.claim("w1", store.Intake, 1)) + len(f.claim("w1", store.Repoll, 1))
			f.check(n == 0, "%s is back within 99 ms", kind)
			f.Advance(time.Millisecond)
			f.maintain()
			cs := append(f.claim("w1", store.Intake, 1), f.claim("w1", store.Repoll, 1)...)
			f.check(len(cs) == 1, "%s is not back after 100 ms: %s", kind, show(f.get(c.ID)))
			f.settle(cs[0], store.OutcomeDone)
		}
	}},
	{"no_end", "a handler's errors never end a command that has no max_failures", func(f *fixture) {
		f.submit(sub("a"))
		for range 60 {
			f.settle(f.claim1("w1", store.Intake, "a"), store.OutcomeRetry, delay(time.Second))
			f.Pass(time.Second)
		}
		f.check(f.is("a", store.Pending, store.InLine).Failures == 60, "%s", show(f.get("a")))
	}},
	{"F077_max_failures", "max_failures failures in a row end the command once, retries_exhausted, with its params, counts and last error", func(f *fixture) {
		f.submit(sub("a", func(s *store.Submission) { s.MaxFailures = 3 }))
		fail := func() {
			f.settle(f.claim1("w1", store.Intake, "a"), store.OutcomeRetry, delay(time.Second), errText("last"))
			f.Pass(time.Second)
		}
		fail()
		fail()
		f.settle(f.claim1("w1", store.Intake, "a"), store.OutcomeProcessing) // the row ends
		f.Pass(time.Second)
		for i := range 3 {
			f.is("a", store.Processing, store.InLine)
			f.settle(f.claim1("w1", store.Repoll, "a"), store.OutcomeRetry, delay(time.Second), errText("last"))
			if i < 2 {
				f.Pass(time.Second)
			}
		}
		g := f.failed("a", store.ReasonRetriesExhausted)
		f.check(g.Error == "last" && g.Failures == 3 && string(g.Params) != "" && g.Starts == 6, "%s", show(g))
		f.Pass(time.Minute)
		f.check(len(f.claim("w1", store.Intake, 1))+len(f.claim("w1", store.Repoll, 1)) == 0 && f.stats().Queues[0].Failed == 1, "it lives on")
	}},
	{"undecodable", "the fifth decode error in a row ends the command, undecodable; any other outcome ends the row", func(f *fixture) {
		f.submit(sub("a"))
		bad := func(s *store.Settlement) { s.Decode = true }
		try := func(kind store.OutcomeKind, change ...func(*store.Settlement)) {
			f.settle(f.claim1("w1", store.Intake, "a"), kind, append(change, delay(time.Second))...)
			f.Pass(time.Second)
		}
		for range 4 {
			try(store.OutcomeRetry, bad)
		}
		try(store.OutcomeRetry)
		for range 4 {
			try(store.OutcomeRetry, bad)
		}
		try(store.OutcomeSnooze)
		for range 4 {
			try(store.OutcomeRetry, bad)
		}
		f.is("a", store.Pending, store.InLine)
		try(store.OutcomeRetry, bad, errText("not JSON"))
		g := f.failed("a", store.ReasonUndecodable)
		f.check(string(g.Params) == `{"id":"a"}` && g.Error == "not JSON", "%s", show(g))
	}},
	{"huge_delay", "the longest delay that is accepted is kept as it is, a longer or negative one is refused", func(f *fixture) {
		c := f.start("a")
		for _, d := range []time.Duration{-1, -time.Hour, 1<<63 - 1} {
			r := f.trySettle(c, store.OutcomeRetry, delay(d))
			f.check(isErr(r.Err, store.ErrInvalid), "delay %v: %+v", d, r)
		}
		f.settle(c, store.OutcomeRetry, delay(50*365*24*time.Hour))
		f.check(f.get("a").Due.Sub(f.stats().Run) == 50*365*24*time.Hour, "due %d", f.get("a").Due)
	}},
	{"grid", "Grid rounds the due time of a poll up to a multiple of it, never down", func(f *fixture) {
		f.submit(many("a", 6)...)
		for i, c := range f.claim("w1", store.Intake, 6) {
			f.Advance(time.Duration(i*7) * time.Millisecond)
			f.settle(c, store.OutcomeProcessing, delay(time.Second), func(s *store.Settlement) { s.Grid = 250 * time.Millisecond })
			due, run := f.get(c.ID).Due, f.stats().Run
			f.check(due%250 == 0 && due >= run+1000 && due < run+1250, "due %d, run %d", due, run)
		}
	}},
}
