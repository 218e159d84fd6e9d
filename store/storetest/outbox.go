package storetest

import (
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
