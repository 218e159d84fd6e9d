package gate

import (
	"math"
	"sync"
	"time"
)

// AIMDConfig are the settings of [AIMD]; zero values are the defaults.
type AIMDConfig struct {
	Min, Max float64 // of the window, in invocations; 1 and 256
	// Start is the first window; 0 means Min. Below the window at which somebody was last pushed back it grows by one for each success.
	Start float64
	// Increase is what the window grows by for each window of successes; 0 means 1.
	Increase float64
	// Decrease is what the window is multiplied by when the backend pushes back; 0 means a half. ExpiredDecrease is the same for a
	// request that waited in the backend until its time was over; 0 means 0.9.
	Decrease, ExpiredDecrease float64
	// Hold is for how long nothing else happens after a decrease; 0 means a second.
	Hold time.Duration
	// QueueTarget is how long requests may wait in the backend, as it says, before the window stops growing; 0 does not look.
	QueueTarget time.Duration
}

// AIMD learns from handlers how much a backend takes: a window of invocations that grows by a little while all goes well, is
// multiplied by less than one when the backend pushes back, and then stands still for a while. It has a window for each scope that its
// binding tells apart. Pushes that answer what was sent before the last decrease count with it: a hundred of them are one decrease.
type AIMD struct {
	cfg AIMDConfig
	Changes

	mu      sync.Mutex
	windows map[windowKey]*window
}

type windowKey struct {
	lane              uint8
	queue, typ, class string
}

type window struct {
	size, calm float64   // calm: below it growth is fast
	decreased  time.Time // when it last was
	until      time.Time // nothing changes before
	held       int       // most that ran since the last change
	used       time.Time
}

const maxWindows = 1000

// NewAIMD checks the settings; the error names the field.
func NewAIMD(cfg AIMDConfig) (*AIMD, error) {
	def := func(p *float64, d float64) {
		if *p == 0 {
			*p = d
		}
	}
	def(&cfg.Min, 1)
	def(&cfg.Max, max(256, cfg.Min))
	def(&cfg.Start, cfg.Min)
	def(&cfg.Increase, 1)
	def(&cfg.Decrease, 0.5)
	def(&cfg.ExpiredDecrease, 0.9)
	if cfg.Hold == 0 {
		cfg.Hold = time.Second
	}
	switch {
	case !(cfg.Min >= 1 && cfg.Min <= 1e6):
		return nil, invalid("min_window", "%v is not between 1 and 1000000", cfg.Min)
	case !(cfg.Max >= cfg.Min && cfg.Max <= 1e6):
		return nil, invalid("max_window", "%v is not between min_window (%v) and 1000000", cfg.Max, cfg.Min)
	case !(cfg.Start >= cfg.Min && cfg.Start <= cfg.Max):
		return nil, invalid("start_window", "%v is not between min_window (%v) and max_window (%v)", cfg.Start, cfg.Min, cfg.Max)
	case !(cfg.Increase > 0 && cfg.Increase <= cfg.Max):
		return nil, invalid("increase", "%v is not above 0 and at most max_window (%v)", cfg.Increase, cfg.Max)
	case !(cfg.Decrease > 0 && cfg.Decrease < 1):
		return nil, invalid("decrease_factor", "%v is not between 0 and 1", cfg.Decrease)
	case !(cfg.ExpiredDecrease > 0 && cfg.ExpiredDecrease <= 1):
		return nil, invalid("expired_factor", "%v is not above 0 and at most 1", cfg.ExpiredDecrease)
	case cfg.Hold < 0 || cfg.Hold > time.Hour:
		return nil, invalid("hold_duration", "%v is not between 0 and 1h", cfg.Hold)
	case cfg.QueueTarget < 0:
		return nil, invalid("queue_duration_target", "is negative")
	}
	return &AIMD{cfg: cfg, windows: map[windowKey]*window{}}, nil
}

// window returns that of a scope. What was not used for longest gives way when there are too many.
func (a *AIMD) window(now time.Time, s *Scope) *window {
	k := windowKey{uint8(s.Lane), s.Queue, s.Type, s.Class}
	w := a.windows[k]
	if w == nil {
		if len(a.windows) >= maxWindows {
			var oldest windowKey
			var at time.Time
			for k, w := range a.windows {
				if at.IsZero() || w.used.Before(at) {
					oldest, at = k, w.used
				}
			}
			delete(a.windows, oldest)
		}
		w = &window{size: a.cfg.Start, calm: a.cfg.Max}
		a.windows[k] = w
	}
	w.used = now
	return w
}

// Read implements [Gate].
func (a *AIMD) Read(now time.Time, s Scope) Reading {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.window(now, &s)
	w.held = max(w.held, s.Held)
	size := math.Floor(w.size)
	r := Reading{Budget: 1, Value: size, Threshold: None, Up: true, At: now}
	if s.Permits > 0 {
		r.Budget = min(1, size/float64(s.Permits))
	}
	if now.Before(w.until) {
		r.Reason = Throttled
	}
	return r
}

// Feedback implements [Listener].
func (a *AIMD) Feedback(f Feedback) {
	if a.learn(f) {
		a.Changed()
	}
}

func (a *AIMD) learn(f Feedback) (grown bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.window(f.At, &f.Scope)
	w.held = max(w.held, f.Scope.Held)
	before := math.Floor(w.size)
	switch f.Signal {
	case Pushed, Expired:
		if !w.decreased.IsZero() && !f.Sent.After(w.decreased) || f.At.Before(w.until) {
			if f.Signal == Pushed && f.After > 0 { // it may ask for more patience
				w.until = later(w.until, f.At.Add(min(f.After, maxHold)))
			}
			return false
		}
		factor := a.cfg.Decrease
		if f.Signal == Expired {
			factor = a.cfg.ExpiredDecrease
		}
		// What ran at most is what was too much: a window that was never filled says nothing.
		w.size = max(a.cfg.Min, factor*min(w.size, max(1, float64(w.held))))
		w.calm, w.decreased, w.held = w.size, f.At, 0
		w.until = f.At.Add(max(a.cfg.Hold, min(f.After, maxHold)))
	case Succeeded:
		switch {
		case f.At.Before(w.until), a.cfg.QueueTarget > 0 && f.Queued > a.cfg.QueueTarget, float64(w.held) < before:
			return false // in the pause, the backend keeps a queue, or the window is not in use
		case w.size < w.calm:
			w.size = min(w.size+a.cfg.Increase, max(w.calm, w.size))
		default:
			w.size += a.cfg.Increase / max(1, w.size)
		}
		w.size = min(w.size, a.cfg.Max)
		if math.Floor(w.size) > before {
			w.held = 0
			return true
		}
	}
	return false
}

// maxHold bounds how long a backend may ask for patience.
const maxHold = time.Minute

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
