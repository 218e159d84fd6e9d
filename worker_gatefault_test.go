package twolane_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/gate"
)

// plant is a backend that handlers load, and whose load is read late.
type plant struct {
	mu   sync.Mutex
	at   []time.Time // of changes
	load []int
	most int
}

func (p *plant) add(d int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := d
	if len(p.load) > 0 {
		n += p.load[len(p.load)-1]
	}
	p.at, p.load, p.most = append(p.at, time.Now()), append(p.load, n), max(p.most, n)
}

// peak is the highest load so far.
func (p *plant) peak() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most
}

// before is the load a while ago.
func (p *plant) before(d time.Duration) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for i, at := range p.at {
		if !at.After(time.Now().Add(-d)) {
			n = p.load[i]
		}
	}
	return n
}

// A gate opens over a hundred that wait, on a signal that is five seconds old: they are admitted in steps, and no more than one step too many.
func TestF105_OvershootIsOneStep(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		const permits, threshold, step = 100, 40, 0.1
		var p plant
		var open box[bool]
		m, err := gate.NewMeter(gate.MeterConfig{
			Ask: func(context.Context) (gate.Sample, error) {
				if !open.get() {
					return gate.Sample{Value: 1}, nil
				}
				return gate.Sample{Value: float64(p.before(5*sec)) / permits}, nil
			},
			Budget: func(v float64) float64 { return threshold/float64(permits) - v }, Threshold: threshold / float64(permits),
			Every: sec / 2, Lag: 6 * sec, Step: step,
		})
		if err != nil {
			r.Fatal(err)
		}
		cfg := gates(gate.Binding{Name: "g", Gate: m})
		cfg.Concurrency.Intake = permits
		w := r.work(cfg, func(w *twolane.Worker) {
			twolane.HandleFunc(w, "a", func(ctx context.Context, j *job) (any, error) {
				p.add(1)
				defer p.add(-1)
				time.Sleep(5 * time.Minute)
				return nil, nil
			})
		})
		ids := r.many(100, twolane.Submission{Type: "a"})
		time.Sleep(10 * sec)
		if p.peak() != 0 {
			r.Fatal("a closed gate let something start")
		}
		open.set(true)
		time.Sleep(2 * time.Minute)
		if most := p.peak(); most-threshold > step*permits || most < threshold*9/10 {
			r.Errorf("%d ran at most, the signal asks for %d, a step is %v", most, threshold, step*permits)
		}
		r.wait(ids...)
		r.idle(w)
	})
}

// What a gate measures is one thing, however many types, queues or classes its binding tells apart: they have one step together, not one each.
func TestF105_ScopesShareAStep(t *testing.T) {
	const permits, threshold, step = 100, 40, 0.1
	types := []string{"a", "b", "c", "d", "e"}
	for name, b := range map[string]gate.Binding{
		"types": {Per: gate.PerType}, "types and queues": {Per: gate.PerType | gate.PerQueue},
		"classes": {Per: gate.PerClass, ClassOf: func(j *gate.Job) string { return j.Type }}, "counted": {Per: gate.PerType},
	} {
		first, counted := int(step*permits), name == "counted"
		if counted {
			first = threshold
		}
		rigged(t, 0, func(r *rig) {
			var p plant
			var open box[bool]
			m, err := gate.NewMeter(gate.MeterConfig{
				Ask: func(context.Context) (gate.Sample, error) {
					if !open.get() {
						return gate.Sample{Value: 1, Capacity: permits}, nil
					}
					return gate.Sample{Value: float64(p.before(5*sec)) / permits, Capacity: permits}, nil
				},
				Budget: func(v float64) float64 { return threshold/float64(permits) - v }, Threshold: threshold / float64(permits),
				Every: sec / 2, Lag: 6 * sec, Step: map[bool]float64{false: step}[counted], Counted: counted,
			})
			if err != nil {
				r.Fatal(err)
			}
			b.Name, b.Gate = "g", gate.Composite{gate.Constant(1), m}
			cfg := gates(b)
			cfg.Concurrency.Intake = permits
			w := r.work(cfg, func(w *twolane.Worker) {
				for _, typ := range types {
					twolane.HandleFunc(w, typ, func(ctx context.Context, j *job) (any, error) {
						p.add(1)
						defer p.add(-1)
						time.Sleep(3 * time.Minute)
						return nil, nil
					})
				}
			})
			var ids []string
			for _, typ := range types {
				ids = append(ids, r.many(20, twolane.Submission{Type: typ})...)
			}
			time.Sleep(10 * sec)
			open.set(true)
			time.Sleep(3 * sec)
			if n := p.before(0); n > first {
				r.Errorf("%s: %d run 3 s after the gate opened, a step is %v", name, n, first)
			}
			time.Sleep(2 * time.Minute)
			if most := p.peak(); most-threshold > first%threshold || most < threshold*9/10 {
				r.Errorf("%s: %d ran at most, the signal asks for %d, a step is %v", name, most, threshold, first)
			}
			r.wait(ids...)
			r.idle(w)
		})
	}
}

// A source that was away comes back: what its fallback let run meanwhile is where the gate goes on from, not what ran before. The same of an override that ends.
func TestF105_SourceComesBackInSteps(t *testing.T) {
	for _, how := range []string{"fallback", "override"} {
		rigged(t, 0, func(r *rig) {
			const permits, threshold, step = 100, 60, 0.1
			var p plant
			var away box[bool]
			m, err := gate.NewMeter(gate.MeterConfig{
				Ask: func(context.Context) (gate.Sample, error) {
					if away.get() {
						return gate.Sample{}, errors.New("away")
					}
					return gate.Sample{Value: float64(p.before(5*sec)) / permits}, nil
				},
				Budget: func(v float64) float64 { return threshold/float64(permits) - v }, Threshold: threshold / float64(permits),
				Every: sec / 2, Stale: 5 * sec, Lag: 6 * sec, Step: step, Fallback: new(0.05),
			})
			if err != nil {
				r.Fatal(err)
			}
			cfg := gates(gate.Binding{Name: "g", Gate: m})
			cfg.Concurrency.Intake = permits
			w := r.work(cfg, func(w *twolane.Worker) {
				twolane.HandleFunc(w, "a", func(ctx context.Context, j *job) (any, error) {
					p.add(1)
					defer p.add(-1)
					time.Sleep(20 * sec)
					return nil, nil
				})
			})
			r.many(2000, twolane.Submission{Type: "a"})
			time.Sleep(3 * time.Minute)
			if n := p.peak(); n < threshold*9/10 {
				r.Fatalf("%d ran under a threshold of %d", n, threshold)
			}
			if how == "fallback" {
				away.set(true)
			} else if err := w.OverrideGate("g", 0.05, 2*time.Minute, "the pool is being drained"); err != nil {
				r.Fatal(err)
			}
			time.Sleep(2*time.Minute - sec)
			if n := p.before(0); n != 5 {
				r.Errorf("%s: %d run under a share of 0.05", how, n)
			}
			away.set(false)
			time.Sleep(6 * sec) // less than a lag after it is open again
			if n := p.before(0); n > 5+step*permits {
				r.Errorf("%s: %d run at once when it is over, 5 ran before, a step is %v", how, n, step*permits)
			}
			again := 0
			for range 30 {
				time.Sleep(2 * sec)
				again = max(again, p.before(0))
			}
			if most := p.peak(); most-threshold > step*permits || again < threshold*9/10 {
				r.Errorf("%s: %d ran at most, %d after it was over, the signal asks for %d", how, most, again, threshold)
			}
		})
	}
}

// A worker that has just started, with a source that is slow to answer, starts nothing until it knows.
func TestF112_NothingStartsBeforeTheFirstReading(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		m, err := gate.NewMeter(gate.MeterConfig{
			Ask: func(ctx context.Context) (gate.Sample, error) {
				time.Sleep(3 * sec)
				return gate.Sample{Value: 1}, nil
			},
			Every: 5 * sec, Threshold: gate.None,
		})
		if err != nil {
			r.Fatal(err)
		}
		ids := r.many(5, twolane.Submission{Type: "a"})
		begin := time.Now()
		var at crowd
		w := r.work(gates(gate.Binding{Name: "g", Gate: m}), func(w *twolane.Worker) { twolane.Handle(w, "a", r.sleeper(&at, sec/10)) })
		time.Sleep(2 * sec)
		if at.most() != 0 {
			r.Error("something started before the first reading")
		}
		if g := w.Gates(); len(g) != 1 || g[0].Up || g[0].Reason != "no_reading" || g[0].Value != nil {
			r.Errorf("%+v", g)
		}
		r.wait(ids...)
		if d := time.Since(begin); d > 3*sec+sec/2 {
			r.Errorf("they ended %v after the start, the reading came after 3 s", d)
		}
		if l := w.log.with("WARN the source of a gate does not answer", "was not asked yet"); len(l) != 1 {
			r.Errorf("%q", w.log.with("gate"))
		}
	})
}

// Whatever refuses, the counter says why; and how near the deadline a start was is measured.
func TestF144_DecisionsByReason(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		away, err := gate.NewMeter(gate.MeterConfig{Ask: func(context.Context) (gate.Sample, error) { return gate.Sample{}, errors.New("away") }, Threshold: gate.None})
		if err != nil {
			r.Fatal(err)
		}
		low, err := gate.NewMeter(gate.MeterConfig{Ask: func(context.Context) (gate.Sample, error) { return gate.Sample{Value: -1}, nil }, Threshold: gate.None})
		if err != nil {
			r.Fatal(err)
		}
		night, err := gate.NewSchedule(gate.ScheduleConfig{Windows: []gate.TimeWindow{{From: gate.TimeOfDay(3 * time.Hour), To: gate.TimeOfDay(4 * time.Hour), Budget: 1}}})
		if err != nil {
			r.Fatal(err)
		}
		closed, err := gate.NewAIMD(gate.AIMDConfig{})
		if err != nil {
			r.Fatal(err)
		}
		now := time.Now()
		closed.Feedback(gate.Feedback{Response: gate.Response{Signal: gate.Pushed, After: 50 * sec}, Scope: gate.Scope{Type: "aimd"}, Sent: now, At: now})
		on := func(typ string, g gate.Gate) gate.Binding {
			return gate.Binding{Name: typ, Gate: g, Types: []string{typ}, Per: gate.PerType}
		}
		verdict := func(d gate.Decision) gate.Gate {
			return judge(func(*gate.Job) gate.Verdict { return gate.Verdict{Decision: d} })
		}
		cfg := gates(on("away", away), on("low", low), on("night", night), on("manual", gate.Constant(1)), on("aimd", closed), on("full", gate.Constant(0.01)),
			on("wait", verdict(gate.Wait)), on("refuse", verdict(gate.Refuse)), on("drop", verdict(gate.Drop)), on("open", gate.Constant(1)))
		cfg.Concurrency.Intake = 100
		w := r.work(cfg, func(w *twolane.Worker) {
			for _, b := range cfg.Gates {
				twolane.Handle(w, b.Name, r.sleeper(&crowd{}, 30*sec))
			}
		})
		if err := w.OverrideGate("manual", 0, time.Minute, ""); err != nil {
			r.Fatal(err)
		}
		for _, b := range cfg.Gates {
			r.many(2, twolane.Submission{Type: b.Name, Deadline: time.Now().Add(10 * time.Minute)})
		}
		time.Sleep(10 * sec)
		for name, reason := range map[string]string{
			"away": "no_reading", "low": "closed", "night": "schedule", "manual": "override", "aimd": "throttled", "full": "budget",
			"wait": "wait", "refuse": "refuse", "drop": "drop", "open": "open",
		} {
			if n := w.metrics.get(fmt.Sprintf("twolane_gate_decisions_total{%s,intake,%s}", name, reason)); n < 1 {
				r.Errorf("%s: %v decisions for the reason %s", name, n, reason)
			}
		}
		if n := w.metrics.count["twolane_deadline_remaining_seconds{default}"]; n != 3 { // two of open, one of full
			r.Errorf("%d times left were measured, want 3", n)
		}
		if v := w.metrics.low("twolane_deadline_remaining_seconds{default}"); v < 590 || v > 600 {
			r.Errorf("%v s were left", v)
		}
		e, err := r.client.Explain(r.Context(), r.submit(twolane.Submission{Type: "night"})[0])
		if err != nil || e.Wait != twolane.WaitGate || e.Until.UTC().Format("15:04:05") != "03:00:00" {
			r.Errorf("%v %+v", err, e)
		}
	})
}

// A limit that classifies lets everybody in and says who is over it: a gate for that class holds them back alone, and handlers know.
func TestGateActsOnTheClass(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		if err := r.client.SetLimit(r.Context(), twolane.Limit{Name: "quota", By: twolane.ByKey, Key: "tenant", Max: 2, Classify: true}); err != nil {
			r.Fatal(err)
		}
		var classes box[map[bool]int]
		classes.set(map[bool]int{})
		w := r.work(gates(gate.Binding{Name: "spare", Gate: gate.Constant(1), Class: gate.Overflow}), func(w *twolane.Worker) {
			twolane.HandleFunc(w, "a", func(ctx context.Context, j *job) (any, error) {
				classes.with(func(m *map[bool]int) { (*m)[j.Overflow()]++ })
				time.Sleep(20 * sec)
				return nil, nil
			})
		})
		as := twolane.Submission{Type: "a", Keys: map[string]string{"tenant": "x"}}
		first := r.many(5, as)
		time.Sleep(sec)
		if m := classes.get(); m[false] != 2 || m[true] != 3 {
			r.Errorf("two reserved, three overflow: %v", m)
		}
		if err := w.OverrideGate("spare", 0, time.Minute, "the backend is busy"); err != nil {
			r.Fatal(err)
		}
		r.wait(first...)
		second := r.many(5, as)
		time.Sleep(10 * sec)
		if m := classes.get(); m[false] != 4 || m[true] != 3 {
			r.Errorf("two more reserved, no overflow: %v", m)
		}
		waits := 0
		for _, id := range second {
			e, err := r.client.Explain(r.Context(), id)
			if err != nil {
				r.Fatal(err)
			}
			if e.Wait == twolane.WaitGate && e.Gate.Gate == "spare" {
				waits++
			}
		}
		if waits != 3 {
			r.Errorf("%d wait for the gate, want 3", waits)
		}
		if err := w.ClearGate("spare"); err != nil {
			r.Fatal(err)
		}
		for _, c := range r.wait(second...) {
			if c.Starts != 1 {
				r.Errorf("%d starts", c.Starts)
			}
		}
		r.idle(w)
	})
}

// rated is a gate with a rate, as one with a lease has.
type rated struct{ box[float64] }

func (*rated) Read(time.Time, gate.Scope) gate.Reading {
	return gate.Reading{Budget: 1, Value: gate.None, Threshold: gate.None, Up: true}
}

func (g *rated) Pace(now time.Time) (gate.Pace, bool) {
	if f := g.get(); f > 0 {
		return gate.Pace{Rate: f, Burst: 1, Until: now.Add(30 * sec)}, true
	}
	return gate.Pace{}, false
}

// The rate of a gate is kept in the store: two workers together start no more than it says, from the first on.
func TestGateRateIsKeptInTheStore(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		g := &rated{}
		g.set(5)
		var at crowd
		var starts box[int]
		for range 2 {
			r.work(gates(gate.Binding{Name: "lease", Gate: g}), func(w *twolane.Worker) {
				h := r.sleeper(&at, sec/100)
				inner := h.Execute
				h.Execute = func(ctx context.Context, j *job) (twolane.Outcome, error) {
					starts.with(func(n *int) { *n++ })
					return inner(ctx, j)
				}
				twolane.Handle(w, "a", h)
			})
		}
		r.many(500, twolane.Submission{Type: "a"})
		time.Sleep(21 * sec)
		if n := starts.get(); n < 90 || n > 106 {
			r.Errorf("%d starts in 21 s at 5 a second", n)
		}
		g.set(50)
		time.Sleep(2 * sec)
		before := starts.get()
		time.Sleep(4 * sec)
		if n := starts.get() - before; n < 180 || n > 206 {
			r.Errorf("%d starts in 4 s at 50 a second", n)
		}
		cfg, err := r.client.Config(r.Context())
		if err != nil || len(cfg.Limits) != 1 || cfg.Limits[0].Name != "gate.lease.rate" || cfg.Version > 8 {
			r.Errorf("%v: version %d, %+v", err, cfg.Version, cfg.Limits)
		}
		for _, w := range r.workers {
			if l := w.log.with("WARN"); len(l) > 0 && !strings.Contains(l[0], "eligible") {
				r.Errorf("%q", l)
			}
		}
	})
}
