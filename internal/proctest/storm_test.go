package proctest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/faultstore"
)

const stormQueue = "storm"

// spoiled is a store that goes wrong at times.
func spoiled(st store.Store, p float64, v time.Duration) store.Store {
	if p == 0 {
		return st
	}
	f := faultstore.New(rand.Uint64())
	f.Inject(
		faultstore.Rule{Fault: faultstore.DropReply, P: p / 4}, faultstore.Rule{Fault: faultstore.FailBefore, P: p / 4},
		faultstore.Rule{Fault: faultstore.Delay, Delay: v / 5, P: p / 4}, faultstore.Rule{Fault: faultstore.HangReply, P: p / 8},
		faultstore.Rule{Fault: faultstore.Hang, P: p / 8}, faultstore.Rule{Ops: []faultstore.Op{faultstore.Wake}, Fault: faultstore.FailBefore, P: 0.5},
	)
	return f.Wrap(st)
}

// bindStorm lets w run commands that end in every way there is, one by one and in batches.
func (h handlers) bindStorm(w *twolane.Worker) {
	back := twolane.Backoff{Base: 50 * time.Millisecond, Max: 400 * time.Millisecond}
	cancel := func(_ context.Context, job *job) error {
		if !exists(job.Params.Until) && rand.IntN(2) == 0 {
			return errors.New("the hook fails")
		}
		return nil
	}
	one := h.watched(storm)
	twolane.Handle(w, "storm", twolane.Handler[params, int]{Execute: one, Check: one, Cancel: cancel, Backoff: back, Poll: 100 * time.Millisecond})
	many := func(ctx context.Context, jobs []*job) error {
		for _, i := range rand.Perm(len(jobs)) {
			out, err := one(jobs[i].Context(), jobs[i])
			if rand.IntN(4) > 0 || ctx.Err() != nil || exists(jobs[i].Params.Until) {
				jobs[i].Answer(out, err)
			}
		}
		return errors.New("not all were answered for")
	}
	twolane.Handle(w, "storm-batch", twolane.Handler[params, int]{
		ExecuteBatch: many, CheckBatch: many, Cancel: cancel, BatchSize: 5, Backoff: back, Poll: 100 * time.Millisecond,
	})
}

// storm takes a little time and ends somehow; once the storm is over it is done.
func storm(ctx context.Context, job *job) (outcome, error) {
	calm := exists(job.Params.Until)
	if !calm {
		d := rand.N(60 * time.Millisecond)
		if rand.IntN(20) == 0 {
			d *= 20
		}
		if err := pass(ctx, d); err != nil && rand.IntN(4) > 0 {
			return outcome{}, err
		}
		if rand.IntN(3) == 0 {
			_ = job.Progress(job.Lease()) // a lease that is lost is refused again when it ends
		}
		switch x := rand.IntN(100); {
		case x < 12:
			return outcome{}, errors.New("it failed")
		case x < 15:
			panic("it broke")
		case x < 25:
			return twolane.Snooze(rand.N(400 * time.Millisecond)), nil
		case x < 27:
			return twolane.Throttled(rand.N(400 * time.Millisecond)), nil
		case x < 30:
			return twolane.Fail(errors.New("it gave up")), nil
		case x < 55 && job.State < 6:
			return twolane.Processing(job.State+1, rand.N(400*time.Millisecond)), nil
		}
	}
	var next []twolane.Submission
	for i := range 2 {
		if job.Params.Depth > 0 && rand.IntN(2) == 0 {
			p := job.Params
			p.Depth--
			s := twolane.Submission{ID: fmt.Sprintf("%s.%d", job.ID(), i), Queue: p.Queue, Type: job.Type(), Params: p, Group: job.Group()}
			if rand.IntN(3) == 0 {
				s.UniqueKey = job.UniqueKey()
			}
			next = append(next, s)
		}
	}
	return twolane.Done([]byte(job.Lease()), next...), nil
}

// gale is one storm: workers that die, freeze and drain, users who do everything they can, and a configuration that changes meanwhile.
type gale struct {
	*env
	c      *twolane.Client
	calm   string
	freeze bool // workers may be stopped
	n      int
	ids    []string // that users know
	live   []*process
	asleep map[*process]time.Time // until when
}

// TestStorm: whatever comes together, every command that was acknowledged and not deleted comes to its end once it is calm, no command is run by
// two owners who may both believe in their leases, every result that counts is that of the current owner, and the books agree.
func TestStorm(t *testing.T) {
	stores(t, func(t *testing.T, open func(*testing.T) *env) {
		e := open(t)
		g := &gale{env: e, calm: e.file("calm"), freeze: !strings.HasPrefix(e.url, "sqlite:"), asleep: map[*process]time.Time{}}
		e.gone, e.spoiled = map[string]bool{}, true
		g.c = twolane.NewClient(&recorder{Store: spoiled(e.st, 0.05, e.v), j: e.j}, &twolane.Options{Logger: quiet, NoTick: true})
		defer g.c.Close()
		for range 3 {
			g.launch()
		}
		long := 8 * time.Second
		if os.Getenv("TWOLANE_CHAOS") == "full" {
			long = time.Minute
		}
		for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(rand.N(60 * time.Millisecond)) {
			g.blow()
		}
		g.settleDown()
	})
}

func (g *gale) launch() {
	g.n++
	g.live = append(g.live, g.start(spec{Proc: fmt.Sprintf("w%d", g.n), Permits: 6, Faults: 0.05, Drain: g.v}))
}

// victim takes one of the workers out of the list.
func (g *gale) victim() *process {
	i := rand.IntN(len(g.live))
	p := g.live[i]
	g.live = slices.Delete(g.live, i, i+1)
	delete(g.asleep, p)
	return p
}

// blow lets one thing happen.
func (g *gale) blow() {
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Second) // some calls are never answered
	defer cancel()
	for p, until := range g.asleep {
		if time.Now().After(until) {
			p.cont()
			delete(g.asleep, p)
		}
	}
	switch x := rand.IntN(100); {
	case x < 40 || len(g.ids) == 0:
		g.submitSome(ctx)
	case x < 55:
		g.operate(ctx)
	case x < 65:
		g.configure(ctx)
	case x < 69:
		g.kill(g.victim())
		g.launch()
	case x < 72:
		p := g.victim()
		p.cont()
		if g.count(evReady, p.name) == 0 { // it does not know the signal yet
			g.live = append(g.live, p)
			return
		}
		p.term()
		g.launch()
	case x < 76 && g.freeze:
		p := g.live[rand.IntN(len(g.live))]
		if _, is := g.asleep[p]; !is {
			p.stop()
			g.asleep[p] = time.Now().Add(rand.N(2 * g.v))
		}
	case x < 85:
		g.look(ctx)
	}
	g.read()
}

// submitSome submits a few commands with all kinds of wishes.
func (g *gale) submitSome(ctx context.Context) {
	var subs []twolane.Submission
	for range 1 + rand.IntN(6) {
		pick := func(vs ...string) string { return vs[rand.IntN(len(vs))] }
		s := twolane.Submission{
			ID: fmt.Sprintf("s%d", len(g.ids)+len(subs)), Type: pick("storm", "storm-batch"), Queue: pick(twolane.DefaultQueue, stormQueue),
			Group: pick("", "ga", "gb"), UniqueKey: pick("", "", "", "ua", "ub"), Priority: uint8(rand.IntN(3)), Cost: 1 + rand.IntN(2),
			Params: params{Until: g.calm, Queue: pick(twolane.DefaultQueue, stormQueue), Depth: rand.IntN(3)},
		}
		switch rand.IntN(12) {
		case 0:
			s.Delay = rand.N(2 * time.Second)
		case 1:
			s.Retention = -1
		case 2:
			s.MaxFailures = 2
			g.j.add(event{Kind: evUser, Sent: now(), Text: "max failures", Items: []item{{ID: s.ID}}})
		case 3:
			s.BatchKey = "b"
		case 4:
			s.Notify = "ends"
		case 5:
			s.Keys = map[string]string{"k": pick("1", "2")}
		}
		subs = append(subs, s)
	}
	res, _ := g.c.SubmitMany(ctx, subs, &twolane.SubmitOptions{Atomic: rand.IntN(4) == 0}) // each result has its error
	for i := range res {
		g.ids = append(g.ids, subs[i].ID)
		if res[i].Err == nil {
			g.env.ids = append(g.env.ids, subs[i].ID)
		}
	}
}

// operate lets a user do something to a few commands. What it answers is not looked at: it may have been too late, or its answer was lost.
func (g *gale) operate(ctx context.Context) {
	var ids []string
	for range 1 + rand.IntN(3) {
		ids = append(ids, g.ids[max(0, len(g.ids)-1-rand.IntN(60))])
	}
	e := event{Kind: evUser, Sent: now()}
	for _, id := range ids {
		e.Items = append(e.Items, item{ID: id})
	}
	what, opt := twolane.IDs(ids...), &twolane.ActOptions{Force: rand.IntN(2) == 0}
	switch rand.IntN(9) {
	case 0, 1:
		e.Text = "cancel"
		_, _ = g.c.Cancel(ctx, ids, nil)
	case 2:
		e.Text = "cancel force"
		_, _ = g.c.Cancel(ctx, ids, &twolane.CancelOptions{Force: true})
	case 3:
		e.Text = "delete"
		for _, id := range ids {
			g.gone[id] = true
		}
		_, _ = g.c.Delete(ctx, what, opt)
	case 4, 5:
		e.Text = "retry"
		_, _ = g.c.Retry(ctx, what, opt)
	case 6:
		e.Text = "move"
		_, _ = g.c.Move(ctx, what, stormQueue, nil)
	case 7:
		e.Text = "run now"
		_, _ = g.c.RunNow(ctx, what, nil)
	case 8:
		e.Text = "reprioritise"
		_, _ = g.c.Reprioritise(ctx, what, uint8(rand.IntN(3)), nil)
	}
	g.j.add(e)
}

func (g *gale) configure(ctx context.Context) {
	_, _ = g.c.Configure(ctx, func(c *twolane.Config) error {
		q := c.Queues[stormQueue]
		switch rand.IntN(6) {
		case 0:
			c.Visibility = g.v << rand.IntN(3)
		case 1:
			q.Pause = store.PauseMode(rand.IntN(3))
			q.PauseUntil = store.At(time.Now().Add(rand.N(2 * time.Second)))
		case 2:
			q.Rates[rand.IntN(2)] = store.Rate{Limit: float64(5 + rand.IntN(50)), Burst: 1 + rand.IntN(5)}
		case 3:
			q.MaxReady = rand.IntN(2) * 50
		case 4:
			q.Fair = !q.Fair
		case 5:
			c.Limits = nil
			if rand.IntN(3) > 0 {
				c.Limits = []store.Limit{
					{Name: "group", By: store.ByGroup, Max: 2 + rand.IntN(4), Scope: store.Scope(rand.IntN(2))}, {Name: "k", By: store.ByKey, Key: "k", Max: 2},
				}
			}
		}
		c.Queues[stormQueue] = q
		return nil
	})
}

// look asks what a user may ask; it must not fail but for faults.
func (g *gale) look(ctx context.Context) {
	id := g.ids[rand.IntN(len(g.ids))]
	_, err := g.c.Explain(ctx, id)
	if err == nil {
		_, err = g.c.Stats(ctx)
	}
	if err == nil {
		_, err = g.c.List(ctx, twolane.ListOptions{Filter: twolane.Filter{Queue: stormQueue, Status: twolane.Status(1 + rand.IntN(5))}})
	}
	if err == nil {
		_, err = g.c.Outbox(ctx, "ends", twolane.OutboxOptions{Max: 5, HideFor: time.Second})
	}
	if err != nil && !errors.Is(err, faultstore.ErrInjected) && !errors.Is(err, twolane.ErrNotFound) && !errors.Is(err, context.DeadlineExceeded) {
		g.t.Errorf("a look at %s: %v", id, err)
	}
}

// settleDown ends the storm and looks at what is left.
func (g *gale) settleDown() {
	for p := range g.asleep {
		p.cont()
	}
	g.touch("calm")
	_, err := g.env.c.Configure(g.t.Context(), func(c *twolane.Config) error {
		*c = twolane.Config{Version: c.Version, Visibility: g.v}
		return nil
	})
	g.must(err)
	g.read()
	known := map[string]bool{}
	for _, id := range g.env.ids {
		known[id] = true
	}
	for i := range g.events { // follow-ups
		if ev := &g.events[i]; ev.Kind == evSubmit && ev.Text == "" {
			for _, it := range ev.Items {
				if !known[it.ID] {
					known[it.ID] = true
					g.env.ids = append(g.env.ids, it.ID)
				}
			}
		}
	}
	g.finish(90 * time.Second)
	g.t.Logf("%d commands, %d workers, %d invocations", len(g.env.ids), g.n, g.count(evStart, ""))
}
