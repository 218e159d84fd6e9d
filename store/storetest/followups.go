package storetest

import (
	"bytes"
	"slices"
	"time"

	"github.com/twolane/twolane/store"
)

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
