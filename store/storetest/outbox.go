package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/twolane/twolane/store"
)

func notify(topic string) func(*store.Submission) {
	return func(s *store.Submission) { s.Notify = topic }
}

var outboxCases = []kase{
	{"every_end", "every end of a command that asked for it writes one entry to its topic, in the step of the end, with the record and its blobs", func(f *fixture) {
		n := notify("top")
		f.settle(f.start("done", n), store.OutcomeDone, func(s *store.Settlement) { s.Result = []byte("r") })
		f.settle(f.start("failed", n), store.OutcomeFail, errText("e"))
		f.submit(sub("cancelled", n), sub("expired", n, deadlineIn(time.Second)), sub("other", notify("top2")), sub("none"))
		f.cancel("cancelled")
		f.cancel("other")
		f.cancel("none")
		f.Advance(time.Second)
		f.maintain()
		es := f.outbox("top")
		f.check(len(es) == 4, "%d entries", len(es))
		for i, id := range []string{"done", "failed", "cancelled", "expired"} {
			c := es[i].Command
			f.check(c.ID == id && c.Status.Terminal() && (i == 0 || es[i].Seq > es[i-1].Seq), "entry %d: %d %s", i, es[i].Seq, show(c))
			f.check(string(c.Params) == `{"id":"`+id+`"}`, "%s: params %q", id, c.Params)
		}
		f.check(string(es[0].Command.Result) == "r" && es[1].Command.Error == "e", "result %q, error %q", es[0].Command.Result, es[1].Command.Error)
		f.check(f.stats().Outbox["top"] == 4 && f.stats().Outbox["top2"] == 1, "stats: %v", f.stats().Outbox)
	}},
	{"acknowledged", "an entry shows until it is acknowledged, its record stands as long, whatever its retention", func(f *fixture) {
		f.settle(f.start("a", notify("top"), func(s *store.Submission) { s.Retention = -1 }), store.OutcomeDone, func(s *store.Settlement) { s.Result = []byte("r") })
		f.Advance(48 * time.Hour)
		f.maintain()
		es := f.outbox("top")
		f.check(len(es) == 1 && string(es[0].Command.Result) == "r", "%d entries", len(es))
		g := f.get("a")
		f.check(g != nil && !g.Tombstone && g.PurgeAt == 0, "%s", show(g))
		f.check(isErr(f.act(store.ActRetry, "a"), store.ErrState) && isErr(f.act(store.ActDelete, "a"), store.ErrState), "retried or deleted before its end was delivered")
		for range 2 { // a repeated acknowledgement is no error
			f.check(len(f.outbox("top", es[0].Seq)) == 0, "shown after the acknowledgement")
		}
		f.check(f.stats().Outbox["top"] == 0, "%v", f.stats().Outbox)
		f.maintain()
		f.check(f.get("a") == nil, "past its retention it is still there: %s", show(f.get("a")))
	}},
	{"kept_after", "after the acknowledgement the record is kept for its retention from the end on", func(f *fixture) {
		f.settle(f.start("a", notify("top")), store.OutcomeDone)
		f.settle(f.start("b", notify("top"), func(s *store.Submission) { s.Retention = -1 }), store.OutcomeDone)
		f.Advance(time.Minute)
		es := f.outbox("top")
		f.outbox("top", es[0].Seq, es[1].Seq)
		f.check(f.get("a").PurgeAt == epoch.Add(store.DefaultRetention) && !f.get("a").Tombstone && f.get("b").Tombstone, "a %s, b %s", show(f.get("a")), show(f.get("b")))
	}},
	{"foreign_ack", "an acknowledgement is about entries of its own topic", func(f *fixture) {
		f.settle(f.start("a", notify("top")), store.OutcomeDone)
		seq := f.outbox("top")[0].Seq
		f.outbox("top2", seq)
		f.check(len(f.outbox("top")) == 1, "another topic's reader took it away")
	}},
	{"hidden", "what was read is hidden from other readers for the time asked, and shows again if nobody acknowledges it", func(f *fixture) {
		for i := range 4 {
			f.settle(f.start(fmt.Sprint("a", i), notify("top")), store.OutcomeDone)
		}
		read := func(n int) []uint64 {
			es, err := f.s.Outbox(f.ctx(), store.OutboxRequest{Topic: "top", Max: n, HideFor: 10_000})
			f.ok(err)
			var seqs []uint64
			for _, e := range es {
				seqs = append(seqs, e.Seq)
			}
			return seqs
		}
		first, second := read(2), read(5)
		f.check(len(first) == 2 && len(second) == 2 && len(read(5)) == 0, "%v, %v", first, second)
		f.outbox("top", first[0])
		f.Advance(10*time.Second - time.Millisecond)
		f.check(len(read(5)) == 0, "shown 1 ms early")
		f.Advance(time.Millisecond)
		again := read(5)
		f.check(slices.Equal(again, []uint64{first[1], second[0], second[1]}), "%v, %v, then %v", first, second, again)
	}},
	{"only_ack", "Max 0 only acknowledges", func(f *fixture) {
		f.settle(f.start("a", notify("top")), store.OutcomeDone)
		es, err := f.s.Outbox(f.ctx(), store.OutboxRequest{Topic: "top"})
		f.check(err == nil && len(es) == 0 && len(f.outbox("top")) == 1, "%v %v", es, err)
	}},
	{"force_delete", "a forced delete takes the entry along", func(f *fixture) {
		f.settle(f.start("a", notify("top")), store.OutcomeDone)
		f.ok(f.act(store.ActDelete, "a", func(r *store.ActRequest) { r.Force = true }))
		f.check(len(f.outbox("top")) == 0 && f.get("a") == nil, "it is still there")
	}},
	{"retried", "a command that an operator retried writes an entry for each of its ends", func(f *fixture) {
		f.settle(f.start("a", notify("top")), store.OutcomeFail)
		f.outbox("top", f.outbox("top")[0].Seq)
		f.ok(f.act(store.ActRetry, "a"))
		f.settle(f.claim1("w1", store.Intake, "a"), store.OutcomeDone)
		es := f.outbox("top")
		f.check(len(es) == 1 && es[0].Command.Status == store.Succeeded, "%d entries", len(es))
	}},
}

var followUpCases = []kase{
	{"same_step", "the children of a Done enter in the step in which the parent ends, in order, as if they were submitted", func(f *fixture) {
		c := f.start("p")
		r := f.settle(c, store.OutcomeDone, func(s *store.Settlement) {
			s.FollowUps = append(many("c", 3), sub("later", func(s *store.Submission) { s.Delay = time.Hour }))
		})
		f.check(len(r.FollowUps) == 4 && r.Status == store.Succeeded, "%+v", r)
		for i, x := range r.FollowUps {
			f.check(x.Created && x.Err == nil, "child %d: %+v", i, x)
		}
		f.is("later", store.Pending, store.Scheduled)
		f.check(slices.Equal(ids(f.claim("w1", store.Intake, 10)), []string{"c-0000", "c-0001", "c-0002"}), "not the children in order")
		f.check(bytes.Equal(f.get("c-0001").Params, sub("c-0001").Params), "%q", f.get("c-0001").Params)
	}},
	{"once", "a repeated settle adds no child a second time", func(f *fixture) {
		c := f.start("p")
		kids := func(s *store.Settlement) { s.FollowUps = many("c", 3) }
		f.settle(c, store.OutcomeDone, kids)
		for _, k := range f.claim("w1", store.Intake, 3) {
			f.settle(k, store.OutcomeDone)
		}
		f.check(f.trySettle(c, store.OutcomeDone, kids).State == store.SettleAlready, "not already")
		f.check(len(f.claim("w1", store.Intake, 3)) == 0 && f.stats().Queues[0].Succeeded == 4, "%+v", f.stats().Queues[0])
	}},
	{"refused", "a refused child does not undo the end of its parent, and does not take the others along", func(f *fixture) {
		f.submit(sub("holder", key("u"), func(s *store.Submission) { s.Delay = time.Hour }), sub("known", func(s *store.Submission) { s.Delay = time.Hour }))
		c := f.start("p")
		r := f.settle(c, store.OutcomeDone, func(s *store.Settlement) {
			s.FollowUps = []store.Submission{sub("a", key("u")), sub("known"), sub("known", func(s *store.Submission) { s.Type = "t2" }), sub("b")}
		})
		f.wrong(r.FollowUps[0].Err, store.ErrUniqueHeld)
		f.check(r.FollowUps[1].Err == nil && !r.FollowUps[1].Created, "%+v", r.FollowUps[1])
		f.wrong(r.FollowUps[2].Err, store.ErrIDConflict)
		f.check(r.FollowUps[3].Created, "%+v", r.FollowUps[3])
		f.is("p", store.Succeeded, store.Nowhere)
		f.is("b", store.Pending, store.InLine)
	}},
	{"unique_chain", "a child may take the unique key that its parent's end frees", func(f *fixture) {
		r := f.settle(f.start("p", key("u")), store.OutcomeDone, func(s *store.Settlement) { s.FollowUps = []store.Submission{sub("c", key("u"))} })
		f.check(r.FollowUps[0].Created, "%+v", r.FollowUps[0])
	}},
	{"full_queue", "a full queue does not refuse children: work that has begun goes on", func(f *fixture) {
		c := f.start("p")
		f.queue("q", func(q *store.QueueConfig) { q.MaxReady = 1 })
		f.submit(sub("x"))
		r := f.settle(c, store.OutcomeDone, func(s *store.Settlement) { s.FollowUps = many("c", 2) })
		f.check(r.FollowUps[0].Created && r.FollowUps[1].Created, "%+v", r.FollowUps)
	}},
	{"stale", "a stale owner's children do not enter", func(f *fixture) {
		c := f.start("p")
		f.Pass(f.v)
		f.claim1("w2", store.Intake, "p")
		f.check(f.trySettle(c, store.OutcomeDone, func(s *store.Settlement) { s.FollowUps = many("c", 2) }).State == store.SettleLost, "not lost")
		f.check(f.get("c-0000") == nil, "a stale owner's child is there")
	}},
	{"invalid", "an invalid child, too many, or children of another outcome refuse the settle: nothing changed and the lease stands", func(f *fixture) {
		c := f.start("p")
		for name, change := range map[string]func(*store.Settlement){
			"bad id":      func(s *store.Settlement) { s.FollowUps = append(many("c", 2), sub("bad id")) },
			"too many":    func(s *store.Settlement) { s.FollowUps = many("c", store.MaxFollowUps+1) },
			"not of done": func(s *store.Settlement) { s.Kind, s.FollowUps = store.OutcomeFail, many("c", 1) },
		} {
			f.check(isErr(f.trySettle(c, store.OutcomeDone, change).Err, store.ErrInvalid), "%s was accepted", name)
			f.check(f.get("c-0000") == nil, "%s: a child is there", name)
			f.is("p", store.Pending, store.Leased)
		}
		r := f.settle(c, store.OutcomeDone, func(s *store.Settlement) { s.FollowUps = many("c", store.MaxFollowUps) })
		f.check(len(r.FollowUps) == store.MaxFollowUps, "%d children", len(r.FollowUps))
	}},
	{"group", "a group is over only when its last child is", func(f *fixture) {
		g := func(s *store.Submission) { s.Group = "g" }
		live := func() int {
			s, err := f.s.Stats(f.ctx(), store.StatsRequest{Queues: []string{"q"}, Groups: []string{"g", "none"}})
			f.ok(err)
			f.check(s.Groups["none"] == 0, "%v", s.Groups)
			return s.Groups["g"]
		}
		c := f.start("p", g)
		f.check(live() == 1, "%d live", live())
		f.settle(c, store.OutcomeDone, func(s *store.Settlement) { s.FollowUps = []store.Submission{sub("c", g)} })
		f.check(live() == 1, "%d live", live())
		f.settle(f.claim1("w1", store.Intake, "c"), store.OutcomeProcessing)
		f.check(live() == 1, "%d live", live())
		f.cancel("c")
		f.check(live() == 0, "%d live", live())
	}},
}
