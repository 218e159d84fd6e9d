package gate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"
)

// Sample is what a source has said.
type Sample struct {
	Value    float64
	Capacity float64   // how much work the whole takes, in invocations; 0 is unknown
	At       time.Time // when the value was true; zero means when the source was asked
	Detail   string    // for people: which of several queries answered
}

// MeterConfig are the settings of a [Meter].
type MeterConfig struct {
	// Ask asks the source. It is called by one goroutine, with a context that ends after Timeout. A value that is no number is no answer.
	Ask func(ctx context.Context) (Sample, error)
	// Budget turns a value into a budget; nil takes it as it is.
	Budget func(value float64) float64
	// Counted makes the budget a number of invocations, Budget of the sample's Capacity rounded down, and one step of it all of them. The
	// number is the same for every worker, so it is for one that is alone.
	Counted bool
	// Threshold is shown beside the value; NaN is none.
	Threshold float64
	// Fallback is the budget while there is no reading; nil means 0, closed.
	Fallback *float64

	Every   time.Duration // between two questions, +/- 10 %; 0 means 5 s
	Timeout time.Duration // of one; 0 means Every, at most 10 s
	// Stale is the age from which a value is no reading any more; 0 means three times Every, at least 15 s.
	Stale time.Duration
	// Lag and Step are those of the readings: how long it takes until the value shows what was started, and how much one step admits. A Lag
	// of 0 says that the value is no measurement of what runs.
	Lag  time.Duration
	Step float64
}

// Meter is a gate on a number from outside. It asks by itself, in the background: Read looks at the last answer, and never waits.
type Meter struct {
	cfg MeterConfig
	Changes
	last   atomic.Pointer[answer]
	worker chan struct{} // taken by the one who asks
}

// answer is what is known of a source. It is not changed.
type answer struct {
	sample Sample
	ok     bool      // there is a sample
	err    error     // of the last question
	failed time.Time // since when questions fail
}

// NewMeter checks the settings; the error names the field.
func NewMeter(cfg MeterConfig) (*Meter, error) {
	if cfg.Every == 0 {
		cfg.Every = 5 * time.Second
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = min(cfg.Every, 10*time.Second)
	}
	if cfg.Stale == 0 {
		cfg.Stale = max(3*cfg.Every, 15*time.Second)
	}
	switch {
	case cfg.Ask == nil:
		return nil, invalid("ask", "is missing")
	case cfg.Every < 10*time.Millisecond || cfg.Every > 24*time.Hour:
		return nil, invalid("every", "%v is not between 10ms and 24h", cfg.Every)
	case cfg.Timeout < 0 || cfg.Timeout > 10*time.Minute:
		return nil, invalid("timeout", "%v is not between 0 and 10m", cfg.Timeout)
	case cfg.Stale < cfg.Every:
		return nil, invalid("stale", "%v is less than every (%v): no answer would count for long enough", cfg.Stale, cfg.Every)
	case cfg.Lag < 0 || cfg.Lag > time.Hour:
		return nil, invalid("lag", "%v is not between 0 and 1h", cfg.Lag)
	case !(cfg.Step >= 0 && cfg.Step <= 1):
		return nil, invalid("step", "%v is not between 0 and 1", cfg.Step)
	case cfg.Counted && cfg.Lag == 0:
		return nil, invalid("lag", "is missing: a counted budget is room beside what runs")
	case cfg.Counted && cfg.Step > 0:
		return nil, invalid("step", "is set, but a counted budget is one step")
	case cfg.Step > 0 && cfg.Lag == 0:
		return nil, invalid("step", "is set without a lag: there are no steps then")
	case cfg.Fallback != nil && !(*cfg.Fallback >= 0 && *cfg.Fallback <= 1):
		return nil, invalid("fallback", "%v is not between 0 and 1", *cfg.Fallback)
	}
	return &Meter{cfg: cfg, worker: make(chan struct{}, 1)}, nil
}

// Whole implements [Whole].
func (m *Meter) Whole() {}

// Run implements [Runner]. If several call it, one asks.
func (m *Meter) Run(ctx context.Context) {
	select {
	case m.worker <- struct{}{}:
		defer func() { <-m.worker }()
	case <-ctx.Done():
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		m.ask(ctx)
		timer.Reset(time.Duration(float64(m.cfg.Every) * (0.9 + 0.2*rand.Float64())))
	}
}

func (m *Meter) ask(ctx context.Context) {
	begin := time.Now()
	call, cancel := context.WithTimeoutCause(ctx, m.cfg.Timeout, fmt.Errorf("no answer in %v", m.cfg.Timeout))
	s, err := m.cfg.Ask(call)
	if errors.Is(err, context.DeadlineExceeded) && call.Err() != nil {
		err = context.Cause(call)
	}
	cancel()
	if ctx.Err() != nil {
		return
	}
	if err == nil && (math.IsNaN(s.Value) || math.IsInf(s.Value, 0)) {
		err = fmt.Errorf("the value is %v", s.Value)
	}
	if err == nil && m.cfg.Counted && !(s.Capacity > 0) {
		err = fmt.Errorf("the capacity is %v", s.Capacity)
	}
	old, now := m.last.Load(), answer{sample: s, ok: true}
	if s.At.IsZero() || s.At.After(time.Now()) {
		now.sample.At = begin
	}
	if err != nil {
		now = answer{err: err, failed: time.Now()}
		if old != nil {
			now.sample, now.ok = old.sample, old.ok
			if old.err != nil {
				now.failed = old.failed
			}
		}
	}
	m.last.Store(&now)
	if old == nil || (old.err == nil) != (err == nil) || err == nil && m.budget(old) != m.budget(&now) {
		m.Changed()
	}
}

// budget is what the value of an answer means.
func (m *Meter) budget(a *answer) float64 {
	if m.cfg.Budget == nil {
		return unit(a.sample.Value)
	}
	return unit(m.cfg.Budget(a.sample.Value))
}

// Read implements [Gate].
func (m *Meter) Read(now time.Time, s Scope) Reading {
	a := m.last.Load()
	r := Reading{Value: None, Threshold: m.cfg.Threshold, Lag: m.cfg.Lag, Step: m.cfg.Step}
	if a != nil {
		r.Up, r.Detail = a.err == nil, a.sample.Detail
		if a.err != nil {
			r.Detail = a.err.Error()
		}
		if a.ok {
			r.Value, r.At = a.sample.Value, a.sample.At
		}
		if a.ok && now.Sub(r.At) < m.cfg.Stale {
			r.Budget = m.budget(a)
			if m.cfg.Counted {
				n := math.Floor(r.Budget*a.sample.Capacity + 1e-9)
				r.Budget, r.Step = min(1, n/float64(max(1, s.Permits))), 1
				r.Detail = strings.TrimPrefix(fmt.Sprintf("%s; room for %v", r.Detail, n), "; ")
			}
			return r
		}
		if a.ok {
			r.Up, r.Value, r.Detail = false, None, fmt.Sprintf("the last value is %v old; %s", now.Sub(r.At).Round(time.Second), r.Detail)
		}
	} else {
		r.Detail = "the source was not asked yet"
	}
	r.Reason = NoReading
	if m.cfg.Fallback != nil { // it is no measurement: it is a share of the permits, and no step follows from it
		r.Budget, r.Lag, r.Step, r.At = *m.cfg.Fallback, 0, 0, time.Time{}
	}
	return r
}
