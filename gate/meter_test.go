package gate

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// source is what a meter asks in tests.
type source struct {
	mu    sync.Mutex
	v     float64
	err   error
	hang  bool
	asked atomic.Int32
	now   atomic.Int32 // questions under way
	most  atomic.Int32
}

func (s *source) ask(ctx context.Context) (Sample, error) {
	s.most.Store(max(s.most.Load(), s.now.Add(1)))
	defer s.now.Add(-1)
	s.mu.Lock()
	s.asked.Add(1)
	v, err, hang := s.v, s.err, s.hang
	s.mu.Unlock()
	if hang {
		<-ctx.Done()
		return Sample{}, context.Cause(ctx)
	}
	return Sample{Value: v}, err
}

func (s *source) set(v float64, err error, hang bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.v, s.err, s.hang = v, err, hang
}

// metered runs f with a meter that is asked for, in a bubble.
func metered(t *testing.T, cfg MeterConfig, f func(t *testing.T, m *Meter, s *source)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &source{v: 0.5}
		cfg.Ask = s.ask
		m, err := NewMeter(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 3 { // several bindings of one gate
			wg.Go(func() { m.Run(ctx) })
		}
		synctest.Wait()
		f(t, m, s)
		stop()
		wg.Wait()
		if n := s.most.Load(); n > 1 {
			t.Errorf("%d questions at once", n)
		}
	})
}

func TestMeterLosesItsSource(t *testing.T) {
	away := errors.New("connection refused")
	metered(t, MeterConfig{Every: time.Second, Stale: 10 * time.Second, Lag: 5 * time.Second, Threshold: 0.8}, func(t *testing.T, m *Meter, s *source) {
		changes := 0
		defer m.Notify(func() { changes++ })()
		if r := m.Read(time.Now(), Scope{}); r.Budget != 0.5 || !r.Up || r.Value != 0.5 || r.Threshold != 0.8 || r.Lag != 5*time.Second || r.At.IsZero() {
			t.Errorf("%+v", r)
		}
		s.set(0, away, false)
		time.Sleep(5 * time.Second)
		if r := m.Read(time.Now(), Scope{}); r.Budget != 0.5 || r.Up || !strings.Contains(r.Detail, "refused") {
			t.Errorf("just lost: %+v", r)
		}
		time.Sleep(10 * time.Second)
		if r := m.Read(time.Now(), Scope{}); r.Budget != 0 || r.Up || r.Reason != NoReading || !math.IsNaN(r.Value) || !strings.Contains(r.Detail, "refused") {
			t.Errorf("lost: %+v", r)
		}
		s.set(0.7, nil, false)
		time.Sleep(2 * time.Second)
		if r := m.Read(time.Now(), Scope{}); r.Budget != 0.7 || !r.Up {
			t.Errorf("back: %+v", r)
		}
		if changes != 2 {
			t.Errorf("%d changes were told, want 2", changes)
		}
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			s.set(v, nil, false)
			time.Sleep(15 * time.Second)
			if r := m.Read(time.Now(), Scope{}); r.Budget != 0 || r.Reason != NoReading {
				t.Errorf("%v: %+v", v, r)
			}
		}
		for v, want := range map[float64]float64{-3: 0, 17: 1, 0: 0, 1e-300: 1e-300} {
			s.set(v, nil, false)
			time.Sleep(2 * time.Second)
			if r := m.Read(time.Now(), Scope{}); r.Budget != want || !r.Up {
				t.Errorf("%v: %+v", v, r)
			}
		}
	})
}

// A source that hangs costs no caller anything: Read never waits, and the question ends by its timeout.
func TestMeterHangs(t *testing.T) {
	metered(t, MeterConfig{Every: time.Second, Timeout: 3 * time.Second, Stale: 10 * time.Second, Threshold: None}, func(t *testing.T, m *Meter, s *source) {
		s.set(0, nil, true)
		before := s.asked.Load()
		time.Sleep(time.Minute)
		if n := s.asked.Load() - before; n < 13 || n > 17 {
			t.Errorf("%d questions in a minute, each 3 s and a pause of 1", n)
		}
		begin := time.Now()
		r := m.Read(begin, Scope{})
		if r.Budget != 0 || r.Reason != NoReading || r.Up || time.Since(begin) > 0 {
			t.Errorf("%+v after %v", r, time.Since(begin))
		}
	})
}

// A fallback is a share of the permits, and is visible as what it is.
func TestMeterFallback(t *testing.T) {
	m, err := NewMeter(MeterConfig{Ask: (&source{}).ask, Fallback: new(0.25), Lag: time.Second, Threshold: None})
	if err != nil {
		t.Fatal(err)
	}
	if r := m.Read(t0, Scope{}); r.Budget != 0.25 || r.Lag != 0 || r.Up || r.Reason != NoReading || r.Detail == "" {
		t.Errorf("%+v", r)
	}
	m, _ = NewMeter(MeterConfig{Ask: (&source{}).ask, Threshold: None})
	if r := m.Read(t0, Scope{}); r.Budget != 0 || r.Up || r.Reason != NoReading {
		t.Errorf("without a fallback: %+v", r)
	}
}

// A counted budget is a number of invocations, rounded down.
func TestMeterCounts(t *testing.T) {
	sample := Sample{Value: 0.5, Capacity: 11}
	m, err := NewMeter(MeterConfig{
		Ask: func(context.Context) (Sample, error) { return sample, nil }, Counted: true, Lag: time.Second, Threshold: None,
		Budget: func(v float64) float64 { return 1 - v },
	})
	if err != nil {
		t.Fatal(err)
	}
	m.ask(t.Context())
	if r := m.Read(time.Now(), Scope{Permits: 100}); Share(r.Budget, 100) != 5 || r.Step != 1 {
		t.Errorf("%+v", r)
	}
	if r := m.Read(time.Now(), Scope{Permits: 3}); Share(r.Budget, 3) != 3 {
		t.Errorf("%+v", r)
	}
	sample.Value = 0.95 // half a place
	m.ask(t.Context())
	if r := m.Read(time.Now(), Scope{Permits: 100}); r.Budget != 0 {
		t.Errorf("%+v", r)
	}
	sample.Capacity = 0
	m.ask(t.Context())
	if r := m.Read(time.Now(), Scope{Permits: 100}); r.Up {
		t.Errorf("%+v", r)
	}
}
