package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/twolane/twolane/store"
)

func key(k string) func(*store.Submission) { return func(s *store.Submission) { s.UniqueKey = k } }

var uniqueCases = []kase{
	{"F170_held", "a unique key is held by a live command, wherever it is; the refusal names the holder and its status", func(f *fixture) {
		held := func(when string, status store.Status) {
			f.Helper()
			r := f.trySubmit(sub("b", key("u")))[0]
			var u *store.UniqueHeldError
			f.check(!r.Created && errors.As(r.Err, &u) && errors.Is(r.Err, store.ErrUniqueHeld), "%s: %+v", when, r)
			f.check(u.Key == "u" && u.Holder == "a" && u.Status == status, "%s: %+v", when, u)
			f.check(f.get("b") == nil, "%s: the refused command was stored", when)
		}
		f.submit(sub("a", key("u"), func(s *store.Submission) { s.Delay = time.Second }))
		held("scheduled", store.Pending)
		f.Pass(time.Second)
		held("waiting", store.Pending)
		c := f.claim1("w1", store.Intake, "a")
		held("running", store.Pending)
		f.settle(c, store.OutcomeRetry, delay(time.Hour))
		held("in backoff", store.Pending)
		f.ok(f.act(store.ActRunNow, "a"))
		f.settle(f.claim1("w1", store.Intake, "a"), store.OutcomeProcessing, delay(time.Hour))
		held("parked", store.Processing)
		f.check(f.trySubmit(sub("a", key("u")))[0].Err == nil, "the holder itself, re-submitted, is refused")
		f.submit(sub("c", key("u2")), sub("d"))
	}},
	{"F097_freed", "the key is free at once after every end: done, failed, cancelled, forced, deleted, expired, lost, exhausted", func(f *fixture) {
		i := 0
		for name, end := range map[string]func(id string){
			"done":      func(id string) { f.settle(f.claim1("w1", store.Intake, id), store.OutcomeDone) },
			"failed":    func(id string) { f.settle(f.claim1("w1", store.Intake, id), store.OutcomeFail) },
			"cancelled": func(id string) { f.cancel(id) },
			"forced": func(id string) {
				f.claim1("w1", store.Intake, id)
				f.tryCancel(store.CancelRequest{IDs: []string{id}, Force: true})
			},
			"deleted": func(id string) { f.ok(f.act(store.ActDelete, id)) },
			"deleted by force": func(id string) {
				f.claim1("w1", store.Intake, id)
				f.ok(f.act(store.ActDelete, id, func(r *store.ActRequest) { r.Force = true }))
			},
			"expired": func(id string) { f.Advance(time.Hour); f.maintain() },
			"retries": func(id string) { f.settle(f.claim1("w1", store.Intake, id), store.OutcomeRetry) },
			"undecodable": func(id string) {
				f.settle(f.claim1("w1", store.Intake, id), store.OutcomeFail, func(s *store.Settlement) { s.Reason = store.ReasonUndecodable })
			},
		} {
			id := fmt.Sprint("a", i)
			i++
			f.submit(sub(id, key("u"), func(s *store.Submission) { s.Deadline, s.MaxFailures = f.now.Add(time.Hour), 1 }))
			end(id)
			r := f.trySubmit(sub(id+"-next", key("u")))[0]
			f.check(r.Created, "after %s: %+v", name, r)
			f.cancel(id + "-next")
		}
	}},
	{"F098_no_expiry", "a key lives as long as its command, not for a time", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.Rates[store.Intake] = store.Rate{Limit: 0.0001, Burst: 1} })
		f.submit(sub("first"), sub("a", key("u"), func(s *store.Submission) { s.Delay = 2 * time.Hour }))
		f.claim1("w1", store.Intake, "first")
		for range 6 {
			f.Advance(time.Hour)
			f.maintain()
			f.wrong(f.trySubmit(sub("b", key("u")))[0].Err, store.ErrUniqueHeld)
		}
	}},
	{"F170_one_wins", "of many that submit one key at once exactly one wins", func(f *fixture) {
		won := f.parallel(20, func(i int) int {
			n := 0
			for j := range 5 {
				rs, err := f.s.Submit(f.ctx(), store.SubmitRequest{Items: []store.Submission{sub(fmt.Sprintf("a-%d-%d", i, j), key("u"))}})
				if err != nil {
					f.Error(err)
				} else if rs[0].Created {
					n++
				}
			}
			return n
		})
		f.check(won == 1, "%d won", won)
	}},
	{"in_one_call", "two items with one key in one call: the first holds it, an atomic call is refused as a whole", func(f *fixture) {
		rs := f.trySubmit(sub("a", key("u")), sub("b", key("u")))
		f.check(rs[0].Created && errors.Is(rs[1].Err, store.ErrUniqueHeld), "%+v", rs)
		rs, err := f.s.Submit(f.ctx(), store.SubmitRequest{Items: []store.Submission{sub("c", key("v")), sub("d", key("v"))}, Atomic: true})
		f.ok(err)
		f.check(errors.Is(rs[0].Err, store.ErrAborted) && errors.Is(rs[1].Err, store.ErrUniqueHeld) && f.get("c") == nil, "%+v", rs)
		f.submit(sub("e", key("v")))
	}},
	{"operator_retry", "an operator's retry takes the key again, and is refused while another holds it", func(f *fixture) {
		f.settle(f.start("a", key("u")), store.OutcomeFail)
		f.submit(sub("b", key("u")))
		err := f.act(store.ActRetry, "a")
		var u *store.UniqueHeldError
		f.check(errors.As(err, &u) && u.Holder == "b", "%v", err)
		f.failed("a", store.ReasonError)
		f.cancel("b")
		f.ok(f.act(store.ActRetry, "a"))
		f.wrong(f.trySubmit(sub("c", key("u")))[0].Err, store.ErrUniqueHeld)
	}},
}
