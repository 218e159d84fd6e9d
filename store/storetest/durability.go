package storetest

import (
	"fmt"
	"time"

	"github.com/twolane/twolane/store"
)

var durabilityCases = []kase{
	{"reopened", "what was acknowledged is there after the store was closed and opened: every place, lease, key, configuration and number", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.MaxReady = 100 })
		leased := f.start("leased", notify("top"))
		f.settle(f.start("done", notify("top")), store.OutcomeDone)
		f.park("parked", delay(time.Hour))
		f.settle(f.start("backoff"), store.OutcomeRetry, delay(time.Hour))
		f.submit(sub("line", key("u")), sub("later", func(s *store.Submission) { s.Delay = time.Hour }))
		all := []string{"leased", "done", "parked", "backoff", "line", "later"}
		read := func() []*store.Command {
			cs, err := f.s.Get(f.ctx(), all, store.GetOptions{})
			f.ok(err)
			return cs
		}
		before, numbers := read(), f.stats()
		f.reopen()
		f.same(before, read())
		f.same(numbers.Queues, f.stats().Queues)
		c, err := f.s.Config(f.ctx())
		f.check(err == nil && c.Version == 1 && c.Queues["q"].MaxReady == 100, "%+v %v", c, err)
		f.wrong(f.trySubmit(sub("x", key("u")))[0].Err, store.ErrUniqueHeld)
		f.check(len(f.outbox("top")) == 1, "the outbox is lost")
		f.check(f.renew("w1", leased)[0].State == store.RenewOK, "the lease is lost")
		f.settle(leased, store.OutcomeDone)
		n := f.claim1("w2", store.Intake, "line")
		f.check(n.Lease.Token > leased.Lease.Token, "token %d after %d", n.Lease.Token, leased.Lease.Token)
	}},
	{"F102_counters", "the losses of a command survive a restart of its store", func(f *fixture) {
		f.submit(sub("a"))
		for i := 1; i <= 5; i++ {
			f.lose(fmt.Sprint("w", i), store.Intake, "a")
			f.reopen()
			f.check(f.get("a").Losses == i, "after %d losses and a restart: %s", i, show(f.get("a")))
		}
		f.failed("a", store.ReasonWorkerLost)
	}},
	{"clock_given_back", "a store whose clock is given back to real time goes on from there", func(f *fixture) {
		f.submit(sub("a"))
		f.ok(f.s.(store.Clocker).SetClock(f.ctx(), 0))
		r, err := f.s.Maintain(f.ctx())
		f.ok(err)
		d := time.Since(r.Now.Time())
		f.check(d > -time.Minute && d < time.Minute, "the store's time is %v off", d)
		f.claim1("w1", store.Intake, "a")
		f.setClock(f.now)
	}},
}
