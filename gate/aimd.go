package gate

import (
	"math"
	"slices"
	"sync"
	"time"
)

// AIMDConfig are the settings of [AIMD]; zero values are the defaults.
type AIMDConfig struct {
	Min, Max float64 // of a window, in invocations; 1 and 256
	// Start is the first window; 0 means Min. It doubles with each window of successes until the backend pushes back for the first time.
	Start float64
	// Increase is what a window grows by for each window of successes after that; 0 means 1.
	Increase float64
	// Decrease is what the window is multiplied by when the backend pushes back; 0 means a half. ExpiredDecrease is the same for work
	// that waited in the backend until its time was over; 0 means 0.9.
	Decrease, ExpiredDecrease float64
	// Hold is for how long a window does not grow after a decrease; 0 means a second.
	Hold time.Duration
	// QueueTarget is how long work may wait in the backend, as it says, before the window stops growing; over twice that it shrinks as
	// with ExpiredDecrease. 0 does not look.
	QueueTarget time.Duration
	// Bands are classes from the one that the backend serves first to the one it sheds first. A push in one band shrinks those after it
	// too and holds those before it; a success in one ends the hold of those before it.
	Bands []string
}

// AIMD learns from handlers how much a backend takes. It keeps a window of invocations for each scope that its binding tells apart:
// additive increase while all goes well and the window is in use, multiplicative decrease when the backend pushes back. What was sent
// before the last decrease tells of the time before it: a hundred pushes that answer one flight are one decrease, and
// successes of that flight let nothing grow. A backend that says when to come again closes the window until then, at most for a minute.
type AIMD struct {
	cfg AIMDConfig
	Changes

	mu      sync.Mutex
	windows map[Scope]*window
}

// window is the state of one scope.
type window struct {
	size      float64
	calm      float64   // below it growth is fast
	decreased time.Time // when it last was
	hold      time.Time // it does not grow before
	held      time.Time // when hold was set
	closed    time.Time // the backend asked for it
	used      time.Time
}

const (
	maxWindows = 1000
	maxClosed  = time.Minute // that a backend may close a window for
)

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
	for i, b := range cfg.Bands {
		if b == "" || slices.Contains(cfg.Bands[:i], b) {
			return nil, invalid("bands", "%q is empty or there twice", b)
		}
	}
	cfg.Bands = slices.Clone(cfg.Bands)
	return &AIMD{cfg: cfg, windows: map[Scope]*window{}}, nil
}

// window returns that of a scope. The one that was not used for longest gives way when there are too many.
func (a *AIMD) window(now time.Time, s Scope) *window {
	s.Permits, s.Held = 0, 0
	w := a.windows[s]
	if w == nil {
		if len(a.windows) >= maxWindows {
			var oldest Scope
			var at time.Time
			for k, w := range a.windows {
				if at.IsZero() || w.used.Before(at) {
					oldest, at = k, w.used
				}
			}
			delete(a.windows, oldest)
		}
		w = &window{size: a.cfg.Start, calm: a.cfg.Max}
		a.windows[s] = w
	}
	w.used = now
	return w
}

// Read implements [Gate].
func (a *AIMD) Read(now time.Time, s Scope) Reading {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.window(now, s)
	size := math.Floor(w.size)
	r := Reading{Budget: 1, Value: size, Threshold: None, Up: true, At: now}
	if s.Permits > 0 {
		r.Budget = min(1, size/float64(s.Permits))
	}
	switch {
	case now.Before(w.closed):
		r.Budget, r.Opens, r.Reason = 0, w.closed, Throttled
	case now.Before(w.hold):
		r.Reason = Throttled
	}
	return r
}

// Feedback implements [Listener].
func (a *AIMD) Feedback(f Feedback) {
	a.mu.Lock()
	w := a.window(f.At, f.Scope)
	before := math.Floor(w.size)
	switch f.Signal {
	case Pushed:
		a.pushed(w, &f)
	case Expired:
		w.shrink(&a.cfg, a.cfg.ExpiredDecrease, &f)
		a.above(&f, func(o *window) { o.wait(f.At, a.cfg.Hold) })
	case Succeeded:
		a.above(&f, func(o *window) {
			if f.Sent.After(o.held) { // it was sent after what it contradicts
				o.hold = time.Time{}
			}
		})
		switch t := a.cfg.QueueTarget; {
		case t > 0 && f.Queued > 2*t:
			w.shrink(&a.cfg, a.cfg.ExpiredDecrease, &f)
		case t > 0 && f.Queued > t:
		default:
			w.grow(&a.cfg, &f)
		}
	}
	if f.Room != nil {
		w.size = min(w.size, max(a.cfg.Min, float64(f.Scope.Held+max(0, *f.Room))))
	}
	grown := math.Floor(w.size) > before
	a.mu.Unlock()
	if grown {
		a.Changed()
	}
}

// pushed lowers the window and those of the bands after it.
func (a *AIMD) pushed(w *window, f *Feedback) {
	below := func(do func(*window)) {
		do(w)
		if i := slices.Index(a.cfg.Bands, f.Scope.Class); i >= 0 {
			for _, b := range a.cfg.Bands[i+1:] {
				do(a.window(f.At, f.band(b)))
			}
		}
	}
	a.above(f, func(o *window) { o.wait(f.At, a.cfg.Hold) })
	below(func(o *window) { o.shrink(&a.cfg, a.cfg.Decrease, f) })
	if f.After > 0 { // an order, whenever it was sent
		until := f.At.Add(min(f.After, maxClosed))
		below(func(o *window) {
			if until.After(o.closed) {
				o.closed = until
			}
			o.size = a.cfg.Min
		})
	}
}

// above calls do for the windows of the bands before that of f.
func (a *AIMD) above(f *Feedback, do func(*window)) {
	if i := slices.Index(a.cfg.Bands, f.Scope.Class); i > 0 {
		for _, b := range a.cfg.Bands[:i] {
			do(a.window(f.At, f.band(b)))
		}
	}
}

func (f *Feedback) band(class string) Scope {
	s := f.Scope
	s.Class = class
	return s
}

func (w *window) wait(now time.Time, d time.Duration) {
	if until := now.Add(d); until.After(w.hold) {
		w.hold, w.held = until, now
	}
}

// shrink multiplies the window, unless what happened was sent before it last did.
func (w *window) shrink(cfg *AIMDConfig, factor float64, f *Feedback) {
	if !w.decreased.IsZero() && !f.Sent.After(w.decreased) {
		return
	}
	// What ran is what was too much: a window that was not filled says nothing.
	w.size = max(cfg.Min, factor*min(w.size, max(1, float64(f.Scope.Held))))
	w.calm, w.decreased = w.size, f.At
	w.wait(f.At, cfg.Hold)
}

// grow adds to a window of which at least half is in use.
func (w *window) grow(cfg *AIMDConfig, f *Feedback) {
	switch {
	case f.At.Before(w.hold), !w.decreased.IsZero() && !f.Sent.After(w.decreased), 2*float64(f.Scope.Held) < math.Floor(w.size):
		return
	case w.size < w.calm:
		w.size += cfg.Increase
	default:
		w.size += cfg.Increase / w.size
	}
	w.size = min(w.size, cfg.Max)
}
