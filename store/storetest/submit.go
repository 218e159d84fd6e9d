package storetest

import (
	"errors"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/twolane/twolane/store"
)

var submitCases = []kase{
	{"known_id", "an id that is known with the same contents answers Created false and no error, in whatever status it is", func(f *fixture) {
		a := sub("a")
		again := func(status store.Status) {
			f.Helper()
			r := f.trySubmit(a)[0]
			f.check(!r.Created && r.Err == nil && r.Status == status, "re-submit while %s: %+v", status, r)
		}
		r := f.trySubmit(a)[0]
		f.check(r.Created && r.Err == nil && r.Status == store.Pending, "first submit: %+v", r)
		again(store.Pending)
		c := f.claim1("w1", store.Intake, "a")
		again(store.Pending)
		f.settle(c, store.OutcomeProcessing)
		again(store.Processing)
		f.Pass(time.Second)
		f.settle(f.claim1("w1", store.Repoll, "a"), store.OutcomeDone)
		again(store.Succeeded)
		f.check(len(f.claim("w1", store.Intake, 10))+len(f.claim("w1", store.Repoll, 10)) == 0, "the command is there twice")
	}},
	{"id_conflict", "the same id with another queue, type, params, group or keys is ErrIDConflict; other fields may differ", func(f *fixture) {
		base := sub("a", func(s *store.Submission) { s.Group, s.Keys = "g", []store.Key{{Name: "k", Value: "v"}} })
		f.submit(base)
		for name, change := range map[string]func(*store.Submission){
			"queue": func(s *store.Submission) { s.Queue = "q2" }, "type": func(s *store.Submission) { s.Type = "t2" },
			"params": func(s *store.Submission) { s.Params = []byte("other") }, "no params": func(s *store.Submission) { s.Params = nil },
			"group": func(s *store.Submission) { s.Group = "" }, "keys": func(s *store.Submission) { s.Keys = []store.Key{{Name: "k", Value: "v2"}} },
		} {
			s := base
			change(&s)
			r := f.trySubmit(s)[0]
			f.check(!r.Created && errors.Is(r.Err, store.ErrIDConflict), "%s: %+v", name, r)
		}
		s := base
		s.Priority, s.Deadline, s.MaxFailures, s.Delay, s.Metadata = 9, epoch+1000, 3, time.Second, map[string]string{"a": "b"}
		r := f.trySubmit(s)[0]
		f.check(!r.Created && r.Err == nil, "other fields: %+v", r)
		f.check(f.get("a").Priority == 0 && f.get("a").Deadline == 0, "a re-submit changed the record: %s", show(f.get("a")))
	}},
	{"record", "a record carries what was submitted, field by field", func(f *fixture) {
		s := store.Submission{
			ID: "a", Queue: "q", Type: "t", Group: "g", BatchKey: "b", Keys: []store.Key{{Name: "k1", Value: "v1"}, {Name: "k2", Value: "v2"}},
			Cost: 3, Params: []byte("p"), UniqueKey: "u", Notify: "topic", Priority: 7, Metadata: map[string]string{"m": "1", "n": ""},
			NotBefore: epoch + 1000, StartBy: epoch + 100_000, Deadline: epoch + 200_000, MaxFailures: 4, Retention: time.Hour,
		}
		f.submit(s)
		c := f.get("a")
		want := &store.Command{
			ID: "a", Queue: "q", Type: "t", Group: "g", BatchKey: "b", Keys: s.Keys, Cost: 3, Params: s.Params, UniqueKey: "u", Notify: "topic", Priority: 7,
			Metadata: s.Metadata, NotBefore: s.NotBefore, StartBy: s.StartBy, Deadline: s.Deadline, MaxFailures: 4, Retention: time.Hour,
			Fingerprint: c.Fingerprint, Seq: c.Seq, Status: store.Pending, Place: store.Scheduled, Created: epoch,
		}
		if d := cmp.Diff(want, c); d != "" {
			f.Fatalf("record differs (-want +got):\n%s", d)
		}
		f.check(c.Fingerprint != 0 && c.Seq > 0, "fingerprint %d, seq %d", c.Fingerprint, c.Seq)
		f.submit(store.Submission{ID: "b", Queue: "q", Type: "t"})
		c = f.get("b")
		want = &store.Command{ID: "b", Queue: "q", Type: "t", Cost: 1, Fingerprint: c.Fingerprint, Seq: c.Seq, Status: store.Pending, Place: store.InLine, Created: epoch, Eligible: epoch}
		if d := cmp.Diff(want, c, emptyIsNil); d != "" {
			f.Fatalf("the smallest record differs (-want +got):\n%s", d)
		}
	}},
	{"F043_not_before", "a command with not_before or a delay stays in the store, unleased, until it is due; the later of both holds", func(f *fixture) {
		f.submit(
			sub("a", func(s *store.Submission) { s.Delay = 60 * time.Second }),
			sub("b", func(s *store.Submission) { s.NotBefore = epoch.Add(60 * time.Second) }),
			sub("c", func(s *store.Submission) { s.NotBefore, s.Delay = epoch.Add(10*time.Second), 60*time.Second }),
			sub("past", func(s *store.Submission) { s.NotBefore = 1 }))
		f.settle(f.claim1("w1", store.Intake, "past"), store.OutcomeDone)
		for range 3 {
			f.Pass(19 * time.Second)
			f.check(len(f.claim("w1", store.Intake, 10)) == 0, "claimed before it is due")
			f.check(f.is("a", store.Pending, store.Scheduled).Starts == 0, "it has started")
		}
		f.Pass(3 * time.Second)
		f.check(len(f.claim("w1", store.Intake, 10)) == 3, "not all were claimed when due")
		f.check(f.get("a").Starts == 1 && f.get("a").Eligible == epoch.Add(60*time.Second), "%s", show(f.get("a")))
		f.check(len(f.claim("w2", store.Intake, 10)) == 0, "a delayed command ran twice")
	}},
	{"F126_F086_far_future", "commands far in the future and those beyond the free permits stay claimable by others", func(f *fixture) {
		f.submit(many("later", 150, func(s *store.Submission) { s.Delay = 24 * time.Hour })...)
		f.submit(many("now", 3)...)
		one, two := f.claim("w1", store.Intake, 1), f.claim("w2", store.Intake, 5)
		f.check(len(one) == 1 && len(two) == 2, "granted %v and %v", ids(one), ids(two))
		for _, c := range append(one, two...) {
			f.settle(c, store.OutcomeDone)
		}
		f.check(f.stats().Queues[0].Scheduled == 150, "scheduled: %d", f.stats().Queues[0].Scheduled)
		f.Pass(24 * time.Hour / 1000)
		f.check(len(f.claim("w3", store.Intake, 5)) == 0, "claimed a command of tomorrow")
	}},
	{"per_item", "items are independent: a refused one has its error, the others are added", func(f *fixture) {
		rs := f.trySubmit(sub("a"), sub("bad id"), sub("b"), sub("c", func(s *store.Submission) { s.Type = "" }), sub("d"))
		for i, bad := range []bool{false, true, false, true, false} {
			f.check(errors.Is(rs[i].Err, store.ErrInvalid) == bad && rs[i].Created != bad, "item %d: %+v", i, rs[i])
		}
		f.check(len(f.claim("w1", store.Intake, 10)) == 3, "not the three good ones")
	}},
	{"F159_atomic", "an atomic batch is added as a whole or not at all; a known item does not spoil it; the same again adds nothing", func(f *fixture) {
		batch := many("a", 20)
		bad := append(many("a", 20), sub("bad id"))
		rs, err := f.s.Submit(f.ctx(), store.SubmitRequest{Items: bad, Atomic: true})
		f.ok(err)
		f.check(errors.Is(rs[20].Err, store.ErrInvalid), "the bad item: %v", rs[20].Err)
		for i, r := range rs[:20] {
			f.check(errors.Is(r.Err, store.ErrAborted) && !r.Created, "item %d: %+v", i, r)
		}
		f.check(f.get("a-0000") == nil && len(f.claim("w1", store.Intake, 10)) == 0, "part of an atomic batch was added")
		f.submit(batch[7])
		for round, created := range []int{19, 0} {
			rs, err = f.s.Submit(f.ctx(), store.SubmitRequest{Items: batch, Atomic: true})
			f.ok(err)
			n := 0
			for i, r := range rs {
				f.check(r.Err == nil, "round %d item %d: %v", round, i, r.Err)
				if r.Created {
					n++
				}
			}
			f.check(n == created, "round %d created %d, not %d", round, n, created)
		}
		conflict := append(many("b", 3), sub("a-0001", func(s *store.Submission) { s.Type = "t2" }))
		rs, err = f.s.Submit(f.ctx(), store.SubmitRequest{Items: conflict, Atomic: true})
		f.ok(err)
		f.check(errors.Is(rs[3].Err, store.ErrIDConflict) && errors.Is(rs[0].Err, store.ErrAborted), "with a conflict: %+v", rs)
		f.check(len(f.claim("w1", store.Intake, 100)) == 20, "not 20 commands in the end")
	}},
	{"same_twice", "the same id twice in one call is one command", func(f *fixture) {
		rs := f.trySubmit(sub("a"), sub("a"), sub("b"), sub("b", func(s *store.Submission) { s.Type = "t2" }))
		f.check(rs[0].Created && !rs[1].Created && rs[1].Err == nil && rs[2].Created, "%+v", rs)
		f.wrong(rs[3].Err, store.ErrIDConflict)
		f.check(len(f.claim("w1", store.Intake, 5)) == 2, "not two commands")
	}},
	{"too_many", "no call takes more than MaxItems items, an atomic one no more than MaxAtomic", func(f *fixture) {
		_, err := f.s.Submit(f.ctx(), store.SubmitRequest{Items: many("a", store.MaxItems+1)})
		f.wrong(err, store.ErrInvalid)
		f.wrong(err, store.ErrTooLarge)
		_, err = f.s.Submit(f.ctx(), store.SubmitRequest{Items: many("a", store.MaxAtomic+1), Atomic: true})
		f.wrong(err, store.ErrTooLarge)
		f.check(f.get("a-0000") == nil, "a refused call added a command")
		f.submit(many("a", store.MaxItems)...)
		f.check(f.lane(store.Intake).InLine == store.MaxItems, "%+v", f.lane(store.Intake))
	}},
	{"empty", "an empty call is no error", func(f *fixture) {
		f.check(len(f.trySubmit()) == 0, "results for nothing")
		rs, err := f.s.Settle(f.ctx(), store.SettleRequest{Worker: "w1"})
		f.check(err == nil && len(rs) == 0, "settle: %v %v", rs, err)
		cs, err := f.s.Get(f.ctx(), nil, store.GetOptions{})
		f.check(err == nil && len(cs) == 0, "get: %v %v", cs, err)
		_, err = f.s.Claim(f.ctx(), store.ClaimRequest{Worker: "w1", Nonce: f.drawNonce()})
		f.ok(err)
	}},
	{"queue_full", "a queue with a cap of ready commands refuses with ErrQueueFull exactly beyond it; a known id is no new command", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.MaxReady = 3 })
		rs := f.trySubmit(many("a", 5)...)
		for i, r := range rs {
			f.check(r.Created == (i < 3) && errors.Is(r.Err, store.ErrQueueFull) == (i >= 3), "item %d: %+v", i, r)
		}
		f.check(f.trySubmit(sub("a-0001"))[0].Err == nil, "a known id was refused")
		f.submit(sub("b", func(s *store.Submission) { s.Queue = "q2" }))
		c := f.claim("w1", store.Intake, 1)[0]
		f.submit(sub("c"))
		f.settle(c, store.OutcomeProcessing)
		f.wrong(f.trySubmit(sub("d"))[0].Err, store.ErrQueueFull)
		f.check(f.trySubmit(sub("e", func(s *store.Submission) { s.Delay = time.Hour }))[0].Err != nil, "a scheduled one was let in")
		f.cancel("c")
		f.submit(sub("e", func(s *store.Submission) { s.Delay = time.Hour }))
		f.wrong(f.trySubmit(sub("d"))[0].Err, store.ErrQueueFull)
	}},
	{"closed", "a call after Close fails with ErrClosed", func(f *fixture) {
		g := *f
		g.s = f.h.Open(f.T)
		f.ok(g.s.Close())
		_, err := g.s.Submit(f.ctx(), store.SubmitRequest{Items: many("a", 1)})
		f.wrong(err, store.ErrClosed)
		_, err = g.s.Maintain(f.ctx())
		f.wrong(err, store.ErrClosed)
		_ = g.s.Close() // twice is no panic
	}},
	{"not_kept", "slices and maps passed in are not kept, and those returned belong to the caller", func(f *fixture) {
		s := sub("a", func(s *store.Submission) {
			s.Metadata, s.Keys = map[string]string{"k": "v"}, []store.Key{{Name: "n", Value: "v"}}
		})
		f.submit(s)
		s.Metadata["k"], s.Keys[0].Value = "changed", "changed"
		c := f.get("a")
		f.check(c.Metadata["k"] == "v" && c.Keys[0].Value == "v", "the caller's changes arrived: %v %v", c.Metadata, c.Keys)
		c.Metadata["k"], c.Keys[0].Value, c.Status = "changed", "changed", store.Failed
		d := f.get("a")
		f.check(d.Metadata["k"] == "v" && d.Keys[0].Value == "v" && d.Status == store.Pending, "changes of a read command arrived: %s", show(d))
	}},
}
