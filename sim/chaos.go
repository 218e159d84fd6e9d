package sim

import (
	"context"
	"time"

	"github.com/twolane/twolane/store"
)

// startChaos lets what can go wrong go wrong at the plan's rates.
func (w *world) startChaos() {
	for _, c := range []struct {
		rate float64 // per second
		do   func()
	}{
		{w.plan.crash, func() { w.some((*proc).crash) }},
		{w.plan.stop, func() { w.some((*proc).stop) }},
		{w.plan.drain, func() { w.some(func(p *proc) { p.drain(w.between(100*time.Millisecond, 10*time.Second)) }) }},
		{w.plan.clock, w.stepClock},
		{w.plan.outage, w.goAway},
		{w.plan.cut, func() { w.some((*proc).cutOff) }},
	} {
		if c.rate > 0 {
			w.again(c.rate, c.do)
		}
	}
}

// again does something at random times until everything heals.
func (w *world) again(rate float64, do func()) {
	d := time.Duration(w.rng.ExpFloat64() / rate * float64(time.Second))
	w.after(d, func() {
		if !w.healed {
			do()
			w.again(rate, do)
		}
	})
}

// some does something to one of the processes.
func (w *world) some(do func(*proc)) {
	if p := w.slots[w.rng.IntN(len(w.slots))]; p != nil {
		do(p)
	}
}

// crash ends a process with everything in it.
func (p *proc) crash() {
	if p.dead {
		return
	}
	p.w.log("%s crashes", p.id)
	p.gone()
	p.w.restart(p.slot)
}

// gone takes a process away.
func (p *proc) gone() {
	p.dead = true
	for _, r := range p.runs {
		r.over = true
	}
	p.runs, p.backlog = nil, nil
	if err := p.watcher.Close(); err != nil {
		p.w.fail("audit", "close watcher: %v", err)
	}
	p.w.slots[p.slot] = nil
}

func (w *world) restart(slot int) {
	if w.over {
		return
	}
	w.after(w.between(100*time.Millisecond, 8*time.Second), func() { w.launch(slot) })
}

// stop lets a process stand still, as SIGSTOP does, and in half of the cases its clock with it, as a suspended machine does where the
// clock does not count that.
func (p *proc) stop() {
	if p.dead || p.stopped {
		return
	}
	w := p.w
	clock := w.chance(0.5)
	d := w.between(0, 3*w.plan.v)
	w.log("%s is stopped for %v, its clock too: %v", p.id, d, clock)
	p.stopped, p.stoppedAt = true, w.now
	p.lanes()
	w.after(d, func() { p.resume(clock) })
}

func (p *proc) resume(clock bool) {
	if p.dead || !p.stopped {
		return
	}
	w := p.w
	w.log("%s goes on", p.id)
	if clock {
		p.lost += w.now - p.stoppedAt
	}
	p.stopped, p.resumed = false, w.now
	p.disturb(w.now + w.plan.v)
	log := p.backlog
	p.backlog = nil
	for _, do := range log {
		p.deliver(do) // it may crash or stop meanwhile
	}
	if !p.dead && !p.stopped {
		p.lanes()
		p.kick()
	}
}

// drain ends a worker in good order.
func (p *proc) drain(budget time.Duration) {
	if p.dead || p.draining {
		return
	}
	w := p.w
	w.log("%s is to drain within %v", p.id, budget)
	p.draining, p.drainAsk = true, w.now
	p.drainBy = w.now + budget
	p.deliver(func() {
		p.inbox.calls = append(p.inbox.calls, func(now time.Duration) { p.core.Drain(now, budget) })
		p.lanes()
		p.kick()
	})
}

// drained is the end of a drain.
func (p *proc) drained() {
	w := p.w
	r := p.core.Report()
	w.log("%s has drained: %+v", p.id, r)
	if r.Held != r.Settled+r.GivenBack+r.Lost+len(r.Running)+len(r.Unsettled) {
		w.fail("drain", "the report of %s does not add up: %+v", p.id, r)
	}
	if late := w.now - p.drainBy; late > 50*time.Millisecond+w.plan.lag && p.resumed < p.drainAsk {
		w.fail("drain", "%s ended %v after its budget", p.id, late)
	}
	if n := p.busy(store.Intake) + p.busy(store.Repoll); len(r.Running) == 0 && n > 0 {
		w.fail("drain", "%s reports nothing that runs, but %d handlers do", p.id, n)
	}
	p.gone()
	w.restart(p.slot)
}

// cutOff takes the store away from one process.
func (p *proc) cutOff() {
	p.cut = p.w.now + p.w.between(0, 2*p.w.plan.v)
	p.disturb(p.cut)
	p.w.log("%s is cut off until %v", p.id, p.cut)
}

// goAway takes the store away from everybody.
func (w *world) goAway() {
	w.outage = w.now + w.between(0, 2*w.plan.v)
	for _, p := range w.slots {
		p.disturb(w.outage)
	}
	w.oracle.disturb(w.outage)
	w.log("the store is away until %v", w.outage)
}

// stepClock steps the server's clock.
func (w *world) stepClock() {
	most := []time.Duration{100 * time.Millisecond, 3 * time.Second, w.plan.v, time.Hour}[w.rng.IntN(4)]
	w.setOffset(w.between(-most, most))
}

func (w *world) setOffset(d time.Duration) {
	w.log("the server's clock steps from %v to %v", w.offset, d)
	if d > w.offset {
		w.stepped = w.now
	}
	back := d < w.offset
	w.offset = d
	if back {
		w.setClock()
		w.oracle.unread()
	}
	for _, p := range w.slots {
		p.disturb(w.now + 2*time.Second)
	}
	w.oracle.disturb(w.now + time.Second)
}

// heal ends everything that goes wrong and lets the handlers come to an end.
func (w *world) heal() {
	w.log("everything heals")
	w.phase, w.healed, w.outage, w.opened = "healed", true, 0, w.now
	if w.offset != 0 && w.chance(0.5) {
		w.setOffset(0)
	}
	w.client.configure(w.plan.config())
	for _, p := range w.slots {
		if p != nil {
			p.cut = 0
			p.resume(w.chance(0.5))
		}
	}
	w.after(5*time.Second, w.settleDown)
}

// settleDown waits until every command has ended.
func (w *world) settleDown() {
	left, held := w.oracle.left()
	if len(left) == 0 && w.quiet() {
		w.log("all have ended")
		w.rest()
		return
	}
	most := 4 * time.Minute // the longest waits are 45 s after a third loss, 20 s of cancel visits or backoff, and V
	if w.plan.poisonous {
		most = 20 * time.Minute
	}
	if w.now > w.plan.length+most {
		w.fail("nothing-lost", "long after everything healed these have not ended: %q; first: %+v; quiet %v", left, held, w.quiet())
		return
	}
	for _, c := range held { // what waits for a time that a step of the clock took far away is let go by its user
		if c.Place == store.Scheduled && c.NotBefore > w.wall().Add(time.Minute) {
			w.client.act(store.ActRequest{Kind: store.ActRunNow, IDs: []string{c.ID}})
		}
	}
	w.after(2*time.Second, w.settleDown)
}

// quiet reports whether no worker holds anything.
func (w *world) quiet() bool {
	for _, p := range w.slots {
		if p == nil || len(p.runs) > 0 || p.draining {
			return false
		}
		if u := p.core.Pulse(p.time()); u.Unsettled > 0 || u.Leases > 0 {
			return false
		}
	}
	return true
}

// rest looks at workers that have nothing to do, then drains them and ends the run.
func (w *world) rest() {
	const idle = 30 * time.Second
	w.phase = "rest"
	before := make([]int, len(w.slots))
	for i, p := range w.slots {
		before[i] = p.asks
		u := p.core.Pulse(p.time())
		if u.Held != [2]int{} || u.Free != p.plan.permits || u.Leases != 0 || u.Unsettled != 0 || u.Overdue != 0 || u.Abandoned != 0 {
			w.fail("permits", "%s has nothing to do and holds something: %+v", p.id, u)
		}
	}
	w.after(idle, func() {
		per := 1.2/w.plan.poll.Seconds() + 4.4/w.plan.v.Seconds() + 0.5
		for i, p := range w.slots {
			if n := p.asks - before[i]; float64(n) > per*idle.Seconds() {
				w.fail("idle", "%s made %d calls in %v with nothing to do", p.id, n, idle)
			}
			p.drain(10 * time.Second)
		}
		w.phase = "end"
		w.after(11*time.Second, w.end)
	})
}

// end looks at what is left.
func (w *world) end() {
	w.over = true
	w.oracle.final()
	st, err := w.mem.Stats(context.Background(), store.StatsRequest{})
	if err != nil {
		w.fail("audit", "stats: %v", err)
	}
	for _, q := range st.Queues {
		for l, s := range q.Lanes {
			if s.InLine+s.Leased > 0 {
				w.fail("nothing-lost", "%s lane %d: %+v at the end", q.Queue, l, s)
			}
		}
	}
}
