package storetest

import (
	"time"

	"github.com/twolane/twolane/store"
)

var configCases = []kase{
	{"compare_and_set", "the configuration is replaced whole and only by who has seen the last one", func(f *fixture) {
		c, err := f.s.Config(f.ctx())
		f.ok(err)
		f.check(c.Version == 0 && c.V() == store.DefaultV && len(c.Queues) == 0, "a new namespace has %+v", c)
		one := store.Config{Visibility: 5 * time.Second, Queues: map[string]store.QueueConfig{
			"q": {Pause: store.PauseIntake, PauseUntil: epoch + 5, Rates: [2]store.Rate{{Limit: 1.5, Burst: 2}, {Limit: 1e6, Burst: 7}}, Order: store.ByDeadline,
				MaxReady: 9, Retention: -1, Keep: 11, MaxLosses: 12, CancelFor: 13 * time.Second},
			"q2": {Retention: time.Hour}, "q3": {},
		}}
		c, err = f.s.Configure(f.ctx(), 0, one)
		f.ok(err)
		one.Version = 1
		f.same(one, c)
		c, err = f.s.Config(f.ctx())
		f.ok(err)
		f.same(one, c)
		_, err = f.s.Configure(f.ctx(), 0, store.Config{})
		f.wrong(err, store.ErrConfigConflict)
		_, err = f.s.Configure(f.ctx(), 2, store.Config{})
		f.wrong(err, store.ErrConfigConflict)
		two, err := f.s.Configure(f.ctx(), 1, store.Config{})
		f.ok(err)
		f.check(two.Version == 2 && len(two.Queues) == 0 && two.V() == store.DefaultV, "%+v", two)
	}},
	{"one_wins", "of many that change the same version exactly one wins", func(f *fixture) {
		won := f.parallel(8, func(int) int {
			if _, err := f.s.Configure(f.ctx(), 0, store.Config{}); err == nil {
				return 1
			} else if !isErr(err, store.ErrConfigConflict) {
				f.Error(err)
			}
			return 0
		})
		f.check(won == 1, "%d won", won)
	}},
	{"F115_validated", "a configuration that contradicts itself is refused with the name of the field, and changes nothing", func(f *fixture) {
		for field, c := range map[string]store.Config{
			"visibility":                  {Visibility: 100 * time.Millisecond},
			"queues":                      {Queues: map[string]store.QueueConfig{"bad queue": {}}},
			"queues.q.max_losses":         {Queues: map[string]store.QueueConfig{"q": {MaxLosses: 1}}},
			"queues.q.max_ready":          {Queues: map[string]store.QueueConfig{"q": {MaxReady: -1}}},
			"queues.q.keep":               {Queues: map[string]store.QueueConfig{"q": {Keep: -1}}},
			"queues.q.pause_until":        {Queues: map[string]store.QueueConfig{"q": {PauseUntil: 5}}},
			"queues.q.cancel_for":         {Queues: map[string]store.QueueConfig{"q": {CancelFor: -1}}},
			"queues.q.order":              {Queues: map[string]store.QueueConfig{"q": {Order: 9}}},
			"queues.q.pause":              {Queues: map[string]store.QueueConfig{"q": {Pause: 9}}},
			"queues.q.rates.intake.limit": {Queues: map[string]store.QueueConfig{"q": {Rates: [2]store.Rate{{Limit: -1}, {}}}}},
			"queues.q.rates.repoll.burst": {Queues: map[string]store.QueueConfig{"q": {Rates: [2]store.Rate{{}, {Burst: 1}}}}},
		} {
			_, err := f.s.Configure(f.ctx(), 0, c)
			var inv *store.InvalidError
			f.check(isInvalid(err, &inv) && inv.Field == field, "%s: %v", field, err)
		}
		c, err := f.s.Config(f.ctx())
		f.check(err == nil && c.Version == 0, "%+v %v", c, err)
	}},
	{"visibility", "a new visibility timeout holds for leases from then on and evicts nobody", func(f *fixture) {
		c := f.start("a")
		f.configure(func(c *store.Config) { c.Visibility = time.Second })
		f.is("a", store.Pending, store.Leased)
		f.submit(sub("b"))
		b := f.claim1("w1", store.Intake, "b")
		f.check(b.LeaseUntil == f.stats().LeaseAt.Add(time.Second) && f.get("a").LeaseUntil == c.LeaseUntil, "a until %d, b until %d", f.get("a").LeaseUntil, b.LeaseUntil)
		f.Pass(time.Second)
		f.is("a", store.Pending, store.Leased)
		f.is("b", store.Pending, store.InLine)
		f.settle(c, store.OutcomeDone)
	}},
	{"visibility_lowered", "a renewal never shortens a lease: its owner, who counts with the old timeout, may never see the answer", func(f *fixture) {
		c := f.start("a")
		f.configure(func(c *store.Config) { c.Visibility = time.Second })
		f.check(f.renew("w1", c)[0].State == store.RenewOK && f.get("a").LeaseUntil == c.LeaseUntil, "until %d, was %d", f.get("a").LeaseUntil, c.LeaseUntil)
		f.Pass(c.LeaseUntil.Sub(f.stats().LeaseAt) - 100*time.Millisecond)
		f.is("a", store.Pending, store.Leased)
		f.settle(c, store.OutcomeDone)
	}},
	{"lowering", "what a change lowers evicts nobody: commands over a new cap stay", func(f *fixture) {
		f.submit(many("a", 10)...)
		f.queue("q", func(q *store.QueueConfig) { q.MaxReady = 3 })
		f.check(f.lane(store.Intake).InLine == 10, "%+v", f.lane(store.Intake))
		f.wrong(f.trySubmit(sub("b"))[0].Err, store.ErrQueueFull)
		f.check(len(f.claim("w1", store.Intake, 20)) == 10, "not all run")
	}},
	{"shared", "every handle of the namespace sees the same configuration, at once", func(f *fixture) {
		g := f.second()
		f.queue("q", func(q *store.QueueConfig) { q.Pause = store.PauseAll })
		f.submit(sub("a"))
		f.check(len(g.claim("w2", store.Intake, 1)) == 0, "the other handle does not know of the pause")
		c, err := g.s.Config(f.ctx())
		f.check(err == nil && c.Version == 1 && c.Queues["q"].Pause == store.PauseAll, "%+v %v", c, err)
	}},
	{"order_kept", "commands that wait keep the order they came in under when a queue's order changes", func(f *fixture) {
		f.submit(sub("a", deadlineIn(2*time.Hour)), sub("b", deadlineIn(time.Hour)))
		f.queue("q", func(q *store.QueueConfig) { q.Order = store.ByDeadline })
		got := ids(f.claim("w1", store.Intake, 2))
		f.check(len(got) == 2, "%v", got)
	}},
}
