package storetest

import (
	"time"

	"github.com/twolane/twolane/store"
)

// watch opens a watcher that ends with the case.
func (f *fixture) watch() store.Watcher {
	f.Helper()
	w, err := f.s.Watch(f.ctx())
	f.ok(err)
	f.Cleanup(func() {
		if err := w.Close(); err != nil {
			f.Errorf("close of a watcher: %v", err)
		}
	})
	return w
}

// woken waits for a wake-up that is kind and about id, or about everything.
func (f *fixture) woken(w store.Watcher, kind store.WakeKind, match func(store.Wake) bool) {
	f.Helper()
	limit := time.NewTimer(10 * time.Second)
	defer limit.Stop()
	for {
		select {
		case k, ok := <-w.C():
			f.check(ok, "the channel was closed")
			if k.Kind == store.WakeAll || k.Kind == kind && match(k) {
				return
			}
		case <-limit.C:
			f.Fatalf("no wake-up of kind %d within 10 s", kind)
		}
	}
}

func about(id string) func(store.Wake) bool { return func(k store.Wake) bool { return k.ID == id } }

func inLane(queue string, l store.Lane) func(store.Wake) bool {
	return func(k store.Wake) bool { return k.Queue == queue && k.Lane == l }
}

// drainWakes forgets what has come so far.
func drainWakes(w store.Watcher) {
	for {
		select {
		case _, ok := <-w.C():
			if !ok {
				return
			}
		case <-time.After(30 * time.Millisecond):
			return
		}
	}
}

var watchCases = []kase{
	{"work", "a wake-up tells that work became claimable: by a submit, a give-back, a loss, the end of a backoff, an operator", func(f *fixture) {
		w := f.watch()
		f.submit(sub("a"))
		f.woken(w, store.WakeWork, inLane("q", store.Intake))
		c := f.claim1("w1", store.Intake, "a")
		drainWakes(w)
		f.settle(c, store.OutcomeGiveBack)
		f.woken(w, store.WakeWork, inLane("q", store.Intake))
		c = f.claim1("w1", store.Intake, "a")
		f.settle(c, store.OutcomeRetry, delay(time.Second))
		drainWakes(w)
		f.Pass(time.Second)
		f.woken(w, store.WakeWork, inLane("q", store.Intake))
		f.claim1("w1", store.Intake, "a")
		drainWakes(w)
		f.Pass(f.v)
		f.woken(w, store.WakeWork, inLane("q", store.Intake))
		f.settle(f.claim1("w1", store.Intake, "a"), store.OutcomeProcessing, delay(time.Hour), hook)
		drainWakes(w)
		f.ok(f.act(store.ActRunNow, "a"))
		f.woken(w, store.WakeWork, inLane("q", store.Repoll))
		f.settle(f.claim1("w1", store.Repoll, "a"), store.OutcomeProcessing, delay(time.Hour), hook)
		drainWakes(w)
		f.cancel("a")
		f.woken(w, store.WakeWork, inLane("q", store.Repoll))
	}},
	{"cancel", "a wake-up tells that a leased command was asked to cancel", func(f *fixture) {
		w := f.watch()
		f.start("a")
		drainWakes(w)
		f.cancel("a")
		f.woken(w, store.WakeCancel, about("a"))
	}},
	{"end", "whoever awaits a command is woken at its end, whatever that is; others are not troubled", func(f *fixture) {
		w, other := f.watch(), f.watch()
		f.submit(many("a", 4)...)
		f.ok(w.Await([]string{"a-0000", "a-0001", "a-0002"}, nil))
		cs := f.claim("w1", store.Intake, 3)
		f.settle(cs[0], store.OutcomeDone)
		f.woken(w, store.WakeEnd, about("a-0000"))
		f.settle(cs[1], store.OutcomeFail)
		f.woken(w, store.WakeEnd, about("a-0001"))
		w.Forget([]string{"a-0001"}, nil)
		f.tryCancel(store.CancelRequest{IDs: []string{"a-0002"}, Force: true})
		f.woken(w, store.WakeEnd, about("a-0002"))
		f.cancel("a-0003")
		for _, x := range []store.Watcher{w, other} {
			for {
				select {
				case k, ok := <-x.C():
					f.check(ok && k.Kind != store.WakeEnd || x == w && k.ID != "a-0003", "woken unasked: %+v", k)
					continue
				case <-time.After(50 * time.Millisecond):
				}
				break
			}
		}
	}},
	{"outbox", "a wake-up tells that a topic has a new entry", func(f *fixture) {
		w := f.watch()
		f.settle(f.start("a", notify("top")), store.OutcomeDone)
		f.woken(w, store.WakeOutbox, about("top"))
		f.submit(sub("b", notify("top2"), deadlineIn(time.Second)))
		drainWakes(w)
		f.Advance(time.Second)
		f.maintain()
		f.woken(w, store.WakeOutbox, about("top2"))
	}},
	{"group", "whoever awaits a group is woken when none of its commands is live any more", func(f *fixture) {
		w := f.watch()
		g := func(s *store.Submission) { s.Group = "g" }
		f.submit(many("a", 3, g)...)
		f.ok(w.Await(nil, []string{"g"}))
		cs := f.claim("w1", store.Intake, 3)
		f.settle(cs[0], store.OutcomeDone)
		f.settle(cs[1], store.OutcomeDone, func(s *store.Settlement) { s.FollowUps = []store.Submission{sub("child", g)} })
		f.cancel(cs[2].ID)
		f.settle(cs[2], store.OutcomeRetry)
		drainWakes(w)
		f.cancel("child")
		f.woken(w, store.WakeGroup, about("g"))
	}},
	{"config", "a change of the configuration wakes", func(f *fixture) {
		w := f.watch()
		f.queue("q", func(q *store.QueueConfig) { q.Pause = store.PauseAll })
		f.woken(w, store.WakeConfig, func(store.Wake) bool { return true })
	}},
	{"never_blocks", "a watcher that nobody reads never blocks the store; it finds one wake-up that stands for all that were lost", func(f *fixture) {
		w := f.watch()
		for i := range 5 {
			f.submit(many(string(rune('a'+i)), 60)...)
			for _, c := range f.claim("w1", store.Intake, 60) {
				f.settle(c, store.OutcomeGiveBack)
			}
			for _, c := range f.claim("w1", store.Intake, 60)[:3] {
				f.settle(c, store.OutcomeDone)
			}
		}
		f.woken(w, store.WakeWork, inLane("q", store.Intake))
	}},
	{"closed", "closing a watcher closes its channel, twice is no error, and the store goes on", func(f *fixture) {
		w, err := f.s.Watch(f.ctx())
		f.ok(err)
		f.ok(w.Close())
		_ = w.Close() // twice is no panic
		for range 1000 {
			if _, ok := <-w.C(); !ok {
				break
			}
		}
		_, open := <-w.C()
		f.check(!open, "the channel is open after Close")
		f.check(w.Await([]string{"a"}, nil) != nil, "a closed watcher takes requests")
		f.submit(sub("a"))
	}},
	{"store_closed", "closing the store closes the channels of its watchers", func(f *fixture) {
		g := *f
		g.s = f.h.Open(f.T)
		w, err := g.s.Watch(f.ctx())
		f.ok(err)
		f.ok(g.s.Close())
		limit := time.NewTimer(10 * time.Second)
		defer limit.Stop()
		for {
			select {
			case _, ok := <-w.C():
				if !ok {
					return
				}
			case <-limit.C:
				f.Fatal("the channel is still open")
			}
		}
	}},
	{"other_handle", "a wake-up arrives on other handles of the namespace too", func(f *fixture) {
		g := f.second()
		w := g.watch()
		f.ok(w.Await([]string{"a"}, nil))
		f.submit(sub("a"))
		f.woken(w, store.WakeWork, inLane("q", store.Intake))
		f.settle(f.claim1("w1", store.Intake, "a"), store.OutcomeDone)
		f.woken(w, store.WakeEnd, about("a"))
	}},
}
