package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twolane/twolane/internal/dispatch"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/faultstore"
)

// proc is one process with one worker: the shell of a core without goroutines.
type proc struct {
	w     *world
	slot  int
	id    string
	plan  workerPlan
	core  *dispatch.Core
	born  time.Duration
	lost  time.Duration // time that passed while its clock stood
	inbox struct {
		ended []*run
		early []*dispatch.Item
		calls []func(now time.Duration)
		wakes []store.Wake
	}
	stepping bool // a step is on the heap
	timer    int  // number of the current wake-up by time
	watcher  store.Watcher

	runs []*run // whose handlers have not returned

	dead      bool
	stopped   bool
	stoppedAt time.Duration
	resumed   time.Duration // when it last went on
	backlog   []func()
	cut       time.Duration // from the store until then
	late      bool          // a call of it may arrive after it has given up
	draining  bool
	drainBy   time.Duration
	drainAsk  time.Duration

	faulted   time.Duration // when the last fault was over
	calm      time.Duration // the store can be reached since, pauses after failures included
	idle      [2]bool       // lane has a permit that all queues may take
	idleSince [2]time.Duration
	starving  [2]bool
	tight     [2]time.Duration // when a gate of the lane had no room last
	nonce     string           // of the last claim
	second    int64            // of the counts below
	asked     int              // calls in it
	steps     int
	asks      int // calls in all
}

// launch starts a new process in a slot.
func (w *world) launch(slot int) {
	if w.over || w.slots[slot] != nil {
		return
	}
	w.nextProc++
	p := &proc{w: w, slot: slot, id: fmt.Sprintf("w%02d", w.nextProc), plan: w.plan.workers[slot], born: w.now}
	w.slots[slot] = p
	p.disturb(w.now + time.Second)
	cfg := dispatch.Config{
		Worker: store.Worker{ID: p.id, Name: p.id, Started: w.wall()}, Policy: w.plan.policy, Permits: p.plan.permits,
		Poll: w.plan.poll, Visibility: 0, Grace: w.plan.grace, Overdue: w.plan.overdue,
		Rand: w.rng.Float64, Nonce: func() string { return fmt.Sprintf("n%015x", w.rng.Uint64()>>4) },
	}
	for i, q := range p.plan.queues {
		reserve := 0
		if i == 0 && len(p.plan.queues) > 1 {
			reserve = w.plan.reserve
		}
		cfg.Queues = append(cfg.Queues, dispatch.Queue{Name: q, Weight: 1 + i, Reserve: reserve})
	}
	for _, t := range p.plan.types {
		cfg.Types = append(cfg.Types, w.plan.dispatchType(t))
	}
	if w.plan.tides {
		cfg.Gates = w.gates()
		cfg.Wall = func(time.Duration) time.Time { return time.UnixMilli(int64(epoch)).Add(w.now) }
	}
	p.core = dispatch.New(cfg)
	var err error
	if p.watcher, err = w.mem.Watch(context.Background()); err != nil {
		w.fail("audit", "watch: %v", err)
		return
	}
	w.log("%s starts in slot %d", p.id, slot)
	p.kick()
}

// dispatchType is what a worker says of a type.
func (p *plan) dispatchType(name string) *dispatch.Type {
	t := &dispatch.Type{Name: name, Lanes: [2]bool{true, true}}
	switch name {
	case "batch":
		t.Batch = [2]int{p.batch, p.batch}
	case "slow":
		t.MaxRun = 8 * time.Second
	}
	return t
}

func (p *proc) name() string {
	if p == nil {
		return "client"
	}
	return p.id
}

// time is what its clock shows.
func (p *proc) time() time.Duration {
	if p.stopped {
		return p.stoppedAt - p.born - p.lost
	}
	return p.w.now - p.born - p.lost
}

// disturb says that the store cannot be relied on before a moment.
func (p *proc) disturb(until time.Duration) {
	if p != nil {
		p.faulted = max(p.faulted, until)
		p.calm = max(p.calm, until+5500*time.Millisecond)
	}
}

// deliver lets the process do something, once it runs.
func (p *proc) deliver(do func()) {
	switch {
	case p == nil:
		do()
	case p.dead:
	case p.stopped:
		p.backlog = append(p.backlog, do)
	default:
		do()
	}
}

// kick lets the loop come round soon.
func (p *proc) kick() {
	if p.stepping {
		return
	}
	p.stepping = true
	p.w.after(p.w.between(0, p.w.plan.lag), func() { p.deliver(p.step) })
}

// step is one round of the loop, as dispatch.Loop makes it.
func (p *proc) step() {
	w := p.w
	p.stepping = false
	now := p.time()
	box := p.inbox
	p.inbox.ended, p.inbox.early, p.inbox.calls, p.inbox.wakes = nil, nil, nil, nil
	for _, it := range box.early {
		p.core.Answered(now, it)
	}
	for _, r := range box.ended {
		p.core.Ended(now, r.inv)
	}
	for _, f := range box.calls {
		f(now)
	}
	for _, k := range box.wakes {
		p.core.Woken(now, k)
	}
	p.countStep()
	act := p.core.Step(now)
	p.perform(act)
	p.countGates()
	if act.Done {
		p.drained()
		return
	}
	p.timer++
	n := p.timer
	w.after(act.Wake-now, func() {
		p.deliver(func() {
			if n == p.timer {
				p.kick()
			}
		})
	})
}

func (p *proc) countStep() {
	if s := int64(p.w.now / time.Second); s != p.second {
		p.second, p.asked, p.steps = s, 0, 0
	}
	if p.steps++; p.steps > 3000 {
		p.w.fail("idle", "%s has stepped %d times in a second", p.id, p.steps)
	}
}

func (p *proc) countCall(op faultstore.Op) {
	p.asks++
	if p.asked++; p.asked > 150 {
		p.w.fail("idle", "%s has made %d calls in a second, the last one %s", p.id, p.asked, op)
	}
}

func (p *proc) perform(act *dispatch.Actions) {
	w := p.w
	for _, c := range act.Cancel {
		if p.find(c.Inv) == nil && slices.Contains(act.Start, c.Inv) {
			p.start(c.Inv)
		}
		p.cancel(c)
	}
	for _, call := range act.Renew {
		req := call.Req
		ask(p, faultstore.Renew, call.Timeout, func(ctx context.Context) (store.RenewReply, error) { return w.mem.Renew(ctx, req) },
			func(r store.RenewReply, err error) { w.oracle.renewed(p, &req, &r, err) },
			func(now time.Duration, r store.RenewReply, err error) { p.core.Renewed(now, call, r, err) })
	}
	if call := act.Settle; call != nil {
		req := call.Req
		req.Items = append([]store.Settlement(nil), req.Items...) // the core uses the call again while a late one may be on its way
		ask(p, faultstore.Settle, call.Timeout, func(ctx context.Context) ([]store.SettleResult, error) { return w.mem.Settle(ctx, req) },
			func(r []store.SettleResult, err error) { w.oracle.settled(p, &req, r, err) },
			func(now time.Duration, r []store.SettleResult, err error) { p.core.Settled(now, call, r, err) })
	}
	if call := act.Claim; call != nil {
		req := call.Req
		p.underGates(&req)
		ask(p, faultstore.Claim, call.Timeout, func(ctx context.Context) (store.ClaimReply, error) { return w.mem.Claim(ctx, req) },
			func(r store.ClaimReply, err error) { w.oracle.claimed(p, &req, &r, err) },
			func(now time.Duration, r store.ClaimReply, err error) { p.core.Claimed(now, call, r, err) })
	}
	for _, inv := range act.Start {
		if p.find(inv) == nil {
			p.start(inv)
		}
	}
	if call := act.Stats; call != nil {
		req := call.Req
		ask(p, faultstore.Stats, call.Timeout, func(ctx context.Context) (store.Stats, error) { return w.mem.Stats(ctx, req) },
			func(store.Stats, error) {},
			func(now time.Duration, r store.Stats, err error) { p.core.Counted(now, r, err) })
	}
	if call := act.Maintain; call != nil {
		ask(p, faultstore.Maintain, call.Timeout, w.mem.Maintain, func(r store.MaintainReply, err error) { w.oracle.maintained(p.id, &r, err) },
			func(now time.Duration, r store.MaintainReply, err error) { p.core.Maintained(now, r, err) })
	}
	for i := range act.Events {
		p.event(&act.Events[i])
	}
	p.lanes()
}

// ask makes a call and hands its answer to the core in the next round.
func ask[R any](p *proc, op faultstore.Op, timeout time.Duration, step func(context.Context) (R, error), saw func(R, error), answer func(time.Duration, R, error)) {
	p.countCall(op)
	send(p.w, p, op, timeout, step, saw, func(r R, err error) {
		p.inbox.calls = append(p.inbox.calls, func(now time.Duration) { answer(now, r, err) })
		p.kick()
	})
}

// event takes what the core tells.
func (p *proc) event(e *dispatch.Event) {
	w := p.w
	switch e.Kind {
	case dispatch.Started, dispatch.Ended, dispatch.ClaimDone, dispatch.RenewDone, dispatch.Margin:
		return
	case dispatch.Starving:
		p.starving[e.Lane] = true
	case dispatch.StarvationOver:
		p.starving[e.Lane] = false
	case dispatch.Abandoned:
		p.abandoned(e.Inv)
	case dispatch.LeaseLost:
		w.oracle.leaseLost(p, e)
	}
	id := ""
	if e.Item != nil {
		id = e.Item.Cmd.ID
	}
	w.log("%s event %d %s %s %s%s %s n=%d", p.id, e.Kind, e.Lane, id, e.Text, e.Detail, e.State, e.N)
}

// lanes notes since when each lane has a permit for all queues.
func (p *proc) lanes() {
	reserved := 0
	if len(p.plan.queues) > 1 {
		reserved = p.w.plan.reserve
	}
	for l := range store.Lanes {
		free := p.plan.permits[l] - p.busy(store.Lane(l)) - reserved
		if ok := free > 0 && !p.draining && !p.stopped; ok != p.idle[l] {
			p.idle[l], p.idleSince[l] = ok, p.w.now
		}
	}
}
