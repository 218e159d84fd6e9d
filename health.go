package twolane

import (
	"fmt"
	"time"

	"github.com/twolane/twolane/store"
)

// Health is the condition of a [Worker].
type Health struct {
	OK      bool
	Reasons []string // why it is not OK, for people

	SinceClaim  time.Duration // since the last claim was answered
	SinceRenew  time.Duration // since the last renewal was acknowledged; leases end when it reaches Visibility
	Visibility  time.Duration
	Held, Free  Lanes // permits
	Leases      int
	Unsettled   int               // outcomes that the store has not confirmed
	Overdue     int               // handlers that go on after their context ended and the grace after it
	Abandoned   int               // of them, those whose permit was given to others
	Starving    map[string]string // by lane: why it starts nothing though it has eligible work
	Running     bool
	Draining    bool
	LiveWorkers int // of the namespace, as far as known
}

// Health reads the worker's condition. It never blocks. It is not OK when renewals are not acknowledged for two ticks (V/2), when claims are not
// answered for three poll intervals while permits are free (at least 10 seconds), when the dispatch loop has not moved for that long, when an
// abandoned handler runs, or when Run does not run.
func (w *Worker) Health() Health {
	w.mu.Lock()
	loop, started := w.loop, w.started
	w.mu.Unlock()
	h := Health{}
	if loop == nil {
		h.Reasons = append(h.Reasons, "it has not started")
		return h
	}
	p, now := loop.Pulse()
	select {
	case <-w.done:
		h.Reasons = append(h.Reasons, "it has ended")
	default:
		h.Running = true
	}
	h.SinceClaim, h.SinceRenew, h.Visibility = now-max(p.Claim, started), now-max(p.Renew, started), p.Visibility
	h.Held, h.Free = Lanes{p.Held[0], p.Held[1]}, Lanes{p.Free[0], p.Free[1]}
	h.Leases, h.Unsettled, h.Overdue, h.Abandoned, h.Draining, h.LiveWorkers = p.Leases, p.Unsettled, p.Overdue, p.Abandoned, p.Draining, p.Workers
	if v := p.Visibility; v > 0 && h.Running && h.SinceRenew > v/2 {
		h.Reasons = append(h.Reasons, fmt.Sprintf("no renewal was acknowledged for %v: leases end after %v", h.SinceRenew.Round(time.Millisecond), v))
	}
	patience := max(3*w.cfg.PollInterval, 10*time.Second)
	if h.Running && !h.Draining && h.Free != (Lanes{}) && h.SinceClaim > patience {
		h.Reasons = append(h.Reasons, fmt.Sprintf("no claim was answered for %v", h.SinceClaim.Round(time.Millisecond)))
	}
	if h.Running && now-max(p.At, started) > patience {
		h.Reasons = append(h.Reasons, fmt.Sprintf("the dispatch loop has not moved for %v", (now-p.At).Round(time.Millisecond)))
	}
	if h.Abandoned > 0 {
		h.Reasons = append(h.Reasons, fmt.Sprintf("%d abandoned handlers still run: restart the process", h.Abandoned))
	}
	for _, l := range store.Lanes {
		if why := p.Starving[l]; why != "" {
			if h.Starving == nil {
				h.Starving = map[string]string{}
			}
			h.Starving[l.String()] = why
		}
	}
	h.OK = len(h.Reasons) == 0
	return h
}
