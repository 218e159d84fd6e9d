package storetest

import (
	"time"

	"github.com/twolane/twolane/store"
)

var retentionCases = []kase{
	{"kept", "a finished record is kept for the queue's retention, or its own, and then goes", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.Retention = time.Hour })
		f.settle(f.start("a"), store.OutcomeDone)
		f.settle(f.start("b", func(s *store.Submission) { s.Retention = 2 * time.Hour }), store.OutcomeFail)
		f.Advance(time.Hour - time.Millisecond)
		f.maintain()
		f.check(f.get("a") != nil, "gone 1 ms early")
		f.Advance(time.Millisecond)
		f.check(f.maintain().Purged == 1 && f.get("a") == nil && f.get("b") != nil, "a %s, b %s", show(f.get("a")), show(f.get("b")))
		f.Advance(time.Hour)
		f.maintain()
		f.check(f.get("b") == nil && f.stats().Queues[0].Failed == 0, "b %s", show(f.get("b")))
		f.submit(sub("a", func(s *store.Submission) { s.Params = []byte("other") }))
	}},
	{"tombstone", "whatever the retention, the id answers for at least ten minutes beyond the end; what it carried is gone", func(f *fixture) {
		s := sub("a", func(s *store.Submission) { s.Retention = -1 })
		f.submit(s)
		f.settle(f.claim1("w1", store.Intake, "a"), store.OutcomeDone, func(s *store.Settlement) { s.Result = []byte("r") })
		g := f.is("a", store.Succeeded, store.Nowhere)
		f.check(g.Tombstone && len(g.Params)+len(g.Result)+len(g.Events) == 0 && g.Ended == epoch, "%s", show(g))
		f.check(f.stats().Queues[0].Succeeded == 0, "a tombstone is counted as a kept record")
		p, err := f.s.List(f.ctx(), store.ListRequest{Filter: store.Filter{Queue: "q", Status: store.Succeeded}})
		f.ok(err)
		f.check(len(p.Commands) == 0, "a tombstone is listed")
		f.Advance(store.TombstoneFor - time.Millisecond)
		f.maintain()
		r := f.trySubmit(s)[0]
		f.check(!r.Created && r.Err == nil && r.Status == store.Succeeded, "%+v", r)
		s.Params = []byte("other")
		f.wrong(f.trySubmit(s)[0].Err, store.ErrIDConflict)
		f.check(f.act(store.ActRetry, "a") != nil, "a tombstone was retried")
		f.Advance(time.Millisecond)
		f.maintain()
		f.check(f.get("a") == nil, "the tombstone stays for ever: %s", show(f.get("a")))
		f.submit(s)
	}},
	{"short", "a retention of less than ten minutes, and a queue that keeps nothing, keep the tombstone all the same", func(f *fixture) {
		f.settle(f.start("a", func(s *store.Submission) { s.Retention = time.Second }), store.OutcomeDone)
		f.queue("q", func(q *store.QueueConfig) { q.Retention = -1 })
		f.settle(f.start("b"), store.OutcomeDone)
		f.check(f.get("b").Tombstone, "the queue's retention is not heeded")
		f.Advance(store.TombstoneFor - time.Millisecond)
		f.maintain()
		for _, id := range []string{"a", "b"} {
			f.check(f.get(id) != nil && !f.trySubmit(sub(id))[0].Created, "%s was forgotten", id)
		}
		f.Advance(time.Millisecond)
		f.maintain()
		f.check(f.get("a") == nil && f.get("b") == nil, "not forgotten after ten minutes")
	}},
	{"purged_unread", "a record past its retention is not read, listed or found, also before maintenance has removed it", func(f *fixture) {
		f.settle(f.start("a"), store.OutcomeDone)
		f.Advance(store.DefaultRetention)
		f.check(f.get("a") == nil, "still read")
		p, err := f.s.List(f.ctx(), store.ListRequest{Filter: store.Filter{Queue: "q", Status: store.Succeeded}})
		f.ok(err)
		f.check(len(p.Commands) == 0, "still listed")
		f.check(f.cancel("a").State == store.CancelNotFound, "still cancelled")
		f.check(f.trySubmit(sub("a"))[0].Created, "its id is still known")
	}},
	{"F128_keep", "a queue keeps at most so many finished records, the oldest go first, in bounded steps; ids stay known", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.Keep = 50 })
		f.submit(many("a", 250)...)
		for _, c := range f.claim("w1", store.Intake, 250) {
			f.Advance(time.Millisecond)
			f.settle(c, store.OutcomeDone)
		}
		f.maintain()
		f.check(f.stats().Queues[0].Succeeded == 50, "%d kept", f.stats().Queues[0].Succeeded)
		g := f.get("a-0100")
		f.check(g != nil && g.Tombstone && g.Status == store.Succeeded, "%s", show(g))
		g = f.get("a-0249")
		f.check(g != nil && !g.Tombstone, "the newest went: %s", show(g))
		f.check(!f.trySubmit(sub("a-0000"))[0].Created, "an id was forgotten")
		f.Advance(store.TombstoneFor)
		f.maintain()
		f.check(f.get("a-0000") == nil && f.get("a-0249") != nil, "tombstone %s, record %s", show(f.get("a-0000")), show(f.get("a-0249")))
	}},
	{"F128_bounded", "many that pass their retention together go in bounded steps", func(f *fixture) {
		f.submit(many("a", 250)...)
		cs := f.claim("w1", store.Intake, 250)
		req := store.SettleRequest{Worker: "w1"}
		for _, c := range cs {
			req.Items = append(req.Items, store.Settlement{ID: c.ID, Lease: c.Lease, Kind: store.OutcomeDone})
		}
		_, err := f.s.Settle(f.ctx(), req)
		f.ok(err)
		f.Advance(store.DefaultRetention)
		n, steps := f.stepwise(func(r store.MaintainReply) int { return r.Purged })
		f.check(n == 250 && steps > 1, "%d purged in %d steps", n, steps)
		r, err := f.s.Audit(f.ctx())
		f.ok(err)
		f.check(r.Commands == 0, "%d records left", r.Commands)
	}},
}
