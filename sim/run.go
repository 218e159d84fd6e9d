package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/twolane/twolane/internal/dispatch"
	"github.com/twolane/twolane/store"
)

// run is a handler at work.
type run struct {
	p         *proc
	inv       *dispatch.Invocation
	started   time.Duration
	rude      bool  // it ignores its context
	cause     error // why the context of the call ended
	causes    []error
	abandoned bool
	over      bool
	leases    []store.LeaseName
	since     []time.Duration // when they were granted, or last renewed before the start
}

// start calls the handler of an invocation.
func (p *proc) start(inv *dispatch.Invocation) {
	w := p.w
	w.starts++
	r := &run{p: p, inv: inv, started: w.now, causes: make([]error, len(inv.Items))}
	for _, it := range inv.Items {
		r.leases = append(r.leases, it.Cmd.Lease)
		w.log("%s starts %s %s %s %s", p.id, inv.Lane, inv.Class, it.Cmd.ID, it.Cmd.Lease)
		w.oracle.started(p, r, it)
	}
	p.runs = append(p.runs, r)
	if n := p.busy(inv.Lane); n > p.plan.permits[inv.Lane] {
		w.fail("permits", "%s runs %d in lane %s with %d permits", p.id, n, inv.Lane, p.plan.permits[inv.Lane])
	}
	r.play()
}

// busy is how many permits of a lane its handlers hold.
func (p *proc) busy(l store.Lane) int {
	n := 0
	for _, r := range p.runs {
		if r.inv.Lane == l && !r.abandoned {
			n++
		}
	}
	return n
}

func (p *proc) find(inv *dispatch.Invocation) *run {
	for _, r := range p.runs {
		if r.inv == inv {
			return r
		}
	}
	return nil
}

func (p *proc) abandoned(inv *dispatch.Invocation) {
	if r := p.find(inv); r != nil {
		r.abandoned = true
	}
}

// cancel ends a context.
func (p *proc) cancel(c dispatch.Cancellation) {
	r := p.find(c.Inv)
	if r == nil {
		return // its handler has returned, and the core does not know yet
	}
	for i, it := range r.inv.Items {
		if c.Item == nil || c.Item == it {
			if r.causes[i] == nil {
				r.causes[i] = c.Cause
			}
			p.w.log("%s cancels %s: %v", p.id, it.Cmd.ID, c.Cause)
		}
	}
	if c.Item == nil {
		r.cause = c.Cause
	}
	if r.rude {
		return
	}
	p.w.after(p.w.between(0, 300*time.Millisecond), func() {
		p.deliver(func() {
			if r.over {
				return
			}
			if c.Item != nil {
				if c.Item.Answer(r.outcome(c.Item, c.Cause)) {
					p.inbox.early = append(p.inbox.early, c.Item)
					p.kick()
				}
				return
			}
			r.end(c.Cause)
		})
	})
}

// play lets the handler take its course.
func (r *run) play() {
	w := r.p.w
	d := w.between(time.Millisecond, 200*time.Millisecond)
	typ := r.inv.Type.Name
	switch {
	case w.healed:
	case typ == "slow":
		d = w.between(time.Second, 15*time.Second)
	case w.chance(0.2):
		d = w.between(0, 4*time.Second)
	}
	r.rude = !w.healed && w.chance(w.plan.rude)
	if typ == "poison" && r.inv.Lane == store.Intake {
		w.after(w.between(10*time.Millisecond, time.Second), func() {
			r.p.deliver(func() {
				if !r.over {
					w.log("%s is killed by %s", r.p.id, r.inv.Items[0].Cmd.ID)
					r.p.crash()
				}
			})
		})
		return
	}
	if len(r.inv.Items) > 1 && w.chance(0.5) { // some answers come before the end of the call
		it := r.inv.Items[w.rng.IntN(len(r.inv.Items))]
		w.after(d/2, func() {
			r.p.deliver(func() {
				if !r.over && it.Answer(r.outcome(it, nil)) {
					r.p.inbox.early = append(r.p.inbox.early, it)
					r.p.kick()
				}
			})
		})
	}
	w.after(d, func() { r.p.deliver(func() { r.end(nil) }) })
}

// end lets the handler return: with answers, or because of the end of its context.
func (r *run) end(cause error) {
	if r.over {
		return
	}
	w := r.p.w
	r.over = true
	r.p.runs = slices.DeleteFunc(r.p.runs, func(o *run) bool { return o == r })
	if !w.healed && w.chance(0.03) {
		r.inv.Panic = errors.New("panic") // what has no answer is answered for by the core
	} else {
		bad := w.chance(0.05) // a batch call that fails as a whole
		for i, it := range r.inv.Items {
			if !bad || w.healed {
				it.Answer(r.outcome(it, firstOf(cause, r.causes[i])))
			}
		}
	}
	w.log("%s ends %s", r.p.id, r.inv.Items[0].Cmd.ID)
	r.p.inbox.ended = append(r.p.inbox.ended, r)
	r.p.kick()
	r.p.lanes()
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// outcome draws how the handler ends for one command.
func (r *run) outcome(it *dispatch.Item, cause error) store.Settlement {
	w, cmd := r.p.w, it.Cmd
	backoff := min(time.Second<<min(cmd.Failures, 5), 20*time.Second)
	backoff = w.between(backoff/2, backoff)
	if w.chance(0.2) {
		it.SetProgress([]byte("at " + r.p.id))
	}
	if r.inv.Class.Visit() {
		if !w.healed && w.chance(0.5) {
			return store.Settlement{Kind: store.OutcomeCancelRetry, Error: "cancel hook failed", Delay: backoff}
		}
		return store.Settlement{Kind: store.OutcomeCancelled}
	}
	if cause != nil && w.chance(0.8) {
		return store.Settlement{Kind: store.OutcomeRetry, Error: cause.Error(), Delay: backoff}
	}
	if w.healed {
		return store.Settlement{Kind: store.OutcomeDone, Result: []byte("healed")}
	}
	polls := cmd.Type == "long" || cmd.Type == "hook" || cmd.Type == "batch"
	x := w.rng.Float64()
	if polls && (cmd.Status == store.Pending && x < 0.8 || cmd.Status == store.Processing && x < 0.6) {
		s := store.Settlement{Kind: store.OutcomeProcessing, HasHook: cmd.Type == "hook", Delay: w.between(100*time.Millisecond, 5*time.Second)}
		if s.SetState = w.chance(0.7); s.SetState {
			s.State = []byte{byte(w.rng.IntN(256)), byte(w.rng.IntN(256))}
		}
		if cmd.Type == "batch" {
			s.Grid = min(s.Delay/20, 250*time.Millisecond)
		}
		return s
	}
	switch x = w.rng.Float64(); {
	case x < 0.15:
		return store.Settlement{Kind: store.OutcomeRetry, Error: "handler failed", Delay: backoff, Decode: w.chance(0.1)}
	case x < 0.20:
		return store.Settlement{Kind: store.OutcomeFail, Error: "handler gave up", Reason: store.ReasonError}
	case x < 0.27:
		return store.Settlement{Kind: store.OutcomeSnooze, Delay: w.between(100*time.Millisecond, 3*time.Second)}
	case x < 0.30 && !w.plan.calm:
		return store.Settlement{Kind: store.OutcomeThrottled, Delay: w.between(100*time.Millisecond, 3*time.Second)}
	case x < 0.32:
		return store.Settlement{Kind: store.OutcomeDone, Result: make([]byte, store.MaxResult+1)} // the store refuses it
	case x < 0.37:
		return store.Settlement{Kind: store.OutcomeDone, FollowUps: []store.Submission{w.client.draw(kinds[w.rng.IntN(5)])}}
	}
	return store.Settlement{Kind: store.OutcomeDone, Result: []byte("done")}
}
