package sim

import (
	"context"
	"errors"
	"time"

	"github.com/twolane/twolane/store/faultstore"
)

var errTimeout = errors.New("call timed out: " + context.DeadlineExceeded.Error())

// send makes one store call of p, or of a client if p is nil: there and back through a network that may do anything the fault store can do,
// and also let a call arrive after its caller has given up. saw gets what the store answered, also if nobody else ever does.
func send[R any](w *world, p *proc, op faultstore.Op, timeout time.Duration, step func(context.Context) (R, error), saw func(R, error), answer func(R, error)) {
	var none R
	sent := w.now
	fault, delay := w.fault(p, op)
	there, back := w.between(50*time.Microsecond, w.plan.latency), w.between(50*time.Microsecond, w.plan.latency)
	if fault == faultstore.Delay && w.chance(0.5) { // on the way back
		back, delay = w.between(0, timeout), 0
	}
	if fault != 0 {
		w.faults++
		w.log("%s %s gets %s", p.name(), op, fault)
		p.disturb(sent + timeout)
	}
	answered := false
	reply := func(r R, err error) {
		if answered {
			return
		}
		answered = true
		p.deliver(func() {
			// Whether the answer or the end of its time is seen first by a process that was stopped is open.
			if p != nil && w.now-sent > timeout && err == nil && w.chance(0.5) {
				r, err = none, errTimeout
			}
			if err != nil {
				w.log("%s %s fails: %v", p.name(), op, err)
			}
			answer(r, err)
		})
	}
	made := func(then func(R, error)) func() {
		return func() {
			if p != nil && p.dead && w.chance(0.5) {
				w.log("%s %s is lost with its process", p.name(), op)
				return
			}
			if w.outage > w.now {
				w.log("%s %s finds no store", p.name(), op)
				p.disturb(w.now + timeout)
				then(none, faultstore.ErrInjected)
				return
			}
			w.calls++
			w.setClock()
			r, err := step(context.Background())
			saw(r, err)
			w.wakes()
			then(r, err)
		}
	}
	nothing := func(R, error) {}
	switch fault {
	case faultstore.FailBefore:
		w.after(there, func() { reply(none, faultstore.ErrInjected) })
		return
	case faultstore.DropReply:
		w.after(there, made(func(R, error) { w.after(back, func() { reply(none, faultstore.ErrInjected) }) }))
	case faultstore.Hang:
	case faultstore.HangReply:
		w.after(there, made(nothing))
	default:
		if there += delay; there >= timeout && w.chance(0.5) {
			break // given up before it left
		}
		if there >= timeout && p != nil {
			p.late = true
		}
		w.after(there, made(func(r R, err error) { w.after(back, func() { reply(r, err) }) }))
	}
	w.after(timeout, func() { reply(none, errTimeout) })
}

// fault draws what becomes of a call.
func (w *world) fault(p *proc, op faultstore.Op) (faultstore.Fault, time.Duration) {
	switch {
	case w.healed:
		return 0, 0
	case w.outage > w.now || p != nil && p.cut > w.now:
		if w.chance(0.5) {
			return faultstore.FailBefore, 0
		}
		return faultstore.Hang, 0
	case !w.chance(w.plan.faults):
		return 0, 0
	}
	switch f := faultstore.Fault(1 + w.rng.IntN(5)); f {
	case faultstore.Delay:
		if w.chance(0.8) {
			return f, w.between(0, w.plan.v/2)
		}
		return f, w.between(0, 2*w.plan.v)
	default:
		return f, 0
	}
}

// wakes takes what the store has to tell to the workers, or loses it.
func (w *world) wakes() {
	for _, p := range w.slots {
		if p == nil || p.watcher == nil {
			continue
		}
		for more := true; more; {
			select {
			case k := <-p.watcher.C():
				if !w.healed && (w.chance(w.plan.deafness) || p.cut > w.now) {
					continue
				}
				w.after(w.between(50*time.Microsecond, w.plan.latency), func() {
					p.deliver(func() { p.inbox.wakes = append(p.inbox.wakes, k); p.kick() })
				})
			default:
				more = false
			}
		}
	}
}
