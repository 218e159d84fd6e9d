package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/faultstore"
)

// client is everybody who is not a worker: who submits, operates, and keeps the house.
type client struct {
	w    *world
	next int
	subs []store.Submission // sent so far
	cfg  store.Config
}

func newClient(w *world) *client { return &client{w: w} }

const callTimeout = 5 * time.Second

// start spreads the submits over the chaos and lets operations come at their rate.
func (c *client) start() {
	w := c.w
	for range w.plan.commands {
		w.after(w.between(0, w.plan.length*3/4), func() {
			kind := kinds[w.rng.IntN(5)]
			if w.plan.poison > 0 {
				w.plan.poison--
				kind = "poison"
			}
			items := []store.Submission{c.draw(kind)}
			for w.chance(0.4) {
				items = append(items, c.draw(kind))
			}
			if w.chance(0.5) {
				c.submit(items, 0)
				return
			}
			for i := range items { // in a burst of calls: wake-ups come while a claim is in flight
				w.after(w.between(0, 8*time.Millisecond), func() { c.submit(items[i:i+1], 0) })
			}
		})
	}
	rate := w.plan.act
	if w.plan.calm {
		rate = 0.3
	}
	w.again(rate+0.01, c.operate)
}

// tick is the upkeep of a process without a worker.
func (c *client) tick() {
	send(c.w, nil, faultstore.Maintain, callTimeout, c.w.mem.Maintain, func(r store.MaintainReply, err error) { c.w.oracle.maintained("client", &r, err) },
		func(store.MaintainReply, error) { c.w.after(time.Second, c.tick) })
}

// draw makes a submission.
func (c *client) draw(kind string) store.Submission {
	w := c.w
	c.next++
	s := store.Submission{
		ID: fmt.Sprintf("c%03d", c.next), Queue: w.plan.queues[w.rng.IntN(len(w.plan.queues))], Type: kind,
		Params: []byte(fmt.Sprintf(`{"n":%d}`, w.rng.IntN(1000))), Priority: uint8(w.rng.IntN(3)),
	}
	if w.chance(0.2) {
		s.Group = "g"
	}
	if w.chance(0.1) {
		s.Delay = w.between(0, 10*time.Second)
	}
	if w.chance(0.1) {
		s.NotBefore = w.wall().Add(w.between(0, 10*time.Second))
	}
	if w.chance(0.12) {
		s.Deadline = w.wall().Add(w.between(0, 20*time.Second))
	}
	if w.chance(0.06) {
		s.StartBy = w.wall().Add(w.between(0, 5*time.Second))
	}
	if w.chance(0.1) {
		s.MaxFailures = 1 + w.rng.IntN(3)
	}
	if w.chance(0.1) {
		s.UniqueKey = fmt.Sprintf("u%d", w.rng.IntN(3))
	}
	if w.chance(0.1) {
		s.Notify = "ends"
	}
	if w.chance(0.05) {
		s.Retention = -1
	}
	return s
}

// submit submits until it is answered, as a client of the root does with the same ids.
func (c *client) submit(items []store.Submission, try int) {
	w := c.w
	if try == 0 {
		c.subs = append(c.subs, items...)
	}
	req := store.SubmitRequest{Items: items}
	send(w, nil, faultstore.Submit, callTimeout, func(ctx context.Context) ([]store.SubmitResult, error) { return w.mem.Submit(ctx, req) },
		func(r []store.SubmitResult, err error) { w.oracle.submitted(items, r, err) },
		func(r []store.SubmitResult, err error) {
			if err != nil {
				w.after(w.between(50*time.Millisecond, time.Second), func() { c.submit(items, try+1) })
				return
			}
			w.oracle.acknowledged(items, r)
		})
}

// operate is one thing that a user does.
func (c *client) operate() {
	w := c.w
	if len(c.subs) == 0 {
		return
	}
	sub := c.subs[w.rng.IntN(len(c.subs))]
	ids := []string{sub.ID}
	switch x := w.rng.IntN(20); {
	case x < 6:
		c.cancel(ids, false)
	case x < 8:
		c.cancel(ids, true)
	case x < 9:
		c.act(store.ActRequest{Kind: store.ActDelete, IDs: ids, Force: w.chance(0.5)})
	case x < 11:
		c.act(store.ActRequest{Kind: store.ActRetry, IDs: ids, Deadline: w.wall().Add(w.between(time.Second, time.Minute)), As: store.RetryAs(w.rng.IntN(3))})
	case x < 12:
		c.act(store.ActRequest{Kind: store.ActMove, IDs: ids, Queue: w.plan.queues[w.rng.IntN(len(w.plan.queues))]})
	case x < 13:
		c.act(store.ActRequest{Kind: store.ActRunNow, IDs: ids})
	case x < 14:
		c.act(store.ActRequest{Kind: store.ActReprioritise, IDs: ids, Priority: uint8(w.rng.IntN(4))})
	case x < 16:
		c.submit([]store.Submission{sub}, 1)
	case x < 17:
		other := sub
		other.Params = []byte("other")
		c.submit([]store.Submission{other}, 1)
	default:
		c.reconfigure()
	}
}

func (c *client) cancel(ids []string, force bool) {
	w := c.w
	req := store.CancelRequest{IDs: ids, Reason: "user", Force: force}
	w.log("client cancels %q force %v", ids, force)
	send(w, nil, faultstore.Cancel, callTimeout, func(ctx context.Context) ([]store.CancelResult, error) { return w.mem.Cancel(ctx, req) },
		func(r []store.CancelResult, err error) { w.oracle.cancelled(&req, r, err) }, func([]store.CancelResult, error) {})
}

func (c *client) act(req store.ActRequest) {
	w := c.w
	w.log("client acts %+v", req)
	send(w, nil, faultstore.Act, callTimeout, func(ctx context.Context) (store.ActReply, error) { return w.mem.Act(ctx, req) },
		func(r store.ActReply, err error) { w.oracle.acted(&req, &r, err) }, func(store.ActReply, error) {})
}

// reconfigure pauses and resumes queues and changes rates.
func (c *client) reconfigure() {
	w := c.w
	if w.plan.calm {
		return
	}
	cfg := w.plan.config()
	if w.chance(0.2) {
		cfg.Visibility = []time.Duration{2 * time.Second, 5 * time.Second, 20 * time.Second}[w.rng.IntN(3)]
	}
	i := w.rng.IntN(len(w.plan.queues))
	q := cfg.Queues[w.plan.queues[i]]
	switch {
	case w.plan.pauses && w.chance(0.7):
		q.Pause = store.PauseMode(w.rng.IntN(3))
		if q.Pause != store.PauseNone && w.chance(0.5) {
			q.PauseUntil = w.wall().Add(w.between(0, 10*time.Second))
		}
	default:
		q.Rates[w.rng.IntN(2)] = store.Rate{Limit: 1 + w.rng.Float64()*5, Burst: 1 + w.rng.IntN(4)}
	}
	cfg.Queues[w.plan.queues[i]] = q
	c.configure(cfg)
}

// configure replaces the configuration at once: it has a way of its own to the store.
func (c *client) configure(cfg store.Config) {
	w := c.w
	w.setClock()
	got, err := w.mem.Configure(context.Background(), c.cfg.Version, cfg)
	if err != nil {
		w.fail("audit", "configure: %v", err)
		return
	}
	c.cfg = got
	w.oracle.configured(&got)
	w.log("configured as version %d, V %v", got.Version, got.V())
	w.wakes()
}
