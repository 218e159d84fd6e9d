package twolane

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/twolane/twolane/gate"
	"github.com/twolane/twolane/internal/dispatch"
	"github.com/twolane/twolane/store"
)

// Overflow reports whether the command was admitted over a limit that only classifies ([Limit].Classify).
func (j *JobInfo) Overflow() bool { return j.item.Cmd.Overflow }

// Backend tells the gates of the worker what the backend said about its load, in place of what the outcome says ([Throttled]: pushed back; Done,
// Processing and Fail: succeeded; the rest: nothing). The last call before the answer counts.
func (j *JobInfo) Backend(r gate.Response) { j.item.SetResponse(r) }

// bindGates puts every gate behind an override.
func (cfg *WorkerConfig) bindGates() error {
	if err := gate.Validate(cfg.Gates); err != nil {
		return err
	}
	cfg.Gates = slices.Clone(cfg.Gates)
	for i := range cfg.Gates {
		b := &cfg.Gates[i]
		for _, q := range b.Queues {
			if !slices.ContainsFunc(cfg.Queues, func(s QueueShare) bool { return s.Name == q }) {
				return invalid("gates."+b.Name+".queues", "%q is no queue of this worker", q)
			}
		}
		if len(b.Types) > 0 && gate.Has[gate.Pacer](b.Gate) {
			return invalid("gates."+b.Name+".types", "are set, but the gate has a rate, which is about all types")
		}
		if _, ok := b.Gate.(*gate.Override); !ok {
			b.Gate = gate.NewOverride(b.Gate)
		}
	}
	return nil
}

// gateTypes checks that every type that a gate names has a handler in its lanes.
func (w *Worker) gateTypes() (problems []error) {
	for i := range w.cfg.Gates {
		g := &w.cfg.Gates[i]
		for _, t := range g.Types {
			if !slices.ContainsFunc(w.bindings, func(b *binding) bool { return b.typ == t }) {
				problems = append(problems, invalid("gates."+g.Name+".types", "%q has no handler in this worker", t))
			}
		}
	}
	return problems
}

func (w *Worker) override(name string) (*gate.Override, error) {
	i := slices.IndexFunc(w.cfg.Gates, func(b gate.Binding) bool { return b.Name == name })
	if i < 0 {
		return nil, invalid("gate", "this worker has no gate %q", name)
	}
	return w.cfg.Gates[i].Gate.(*gate.Override), nil
}

// OverrideGate makes the budget of a gate of this worker a number in [0,1] for a while, whatever its signal says.
func (w *Worker) OverrideGate(name string, budget float64, d time.Duration, why string) error {
	o, err := w.override(name)
	if err != nil {
		return err
	}
	now := time.Now()
	return o.Set(now, budget, now.Add(d), why)
}

// ClearGate ends an override before its time.
func (w *Worker) ClearGate(name string) error {
	o, err := w.override(name)
	if err == nil {
		o.Clear()
	}
	return err
}

// Gates lists the gates that hold something back, as of the worker's last look.
func (w *Worker) Gates() []store.GateState {
	w.mu.Lock()
	loop := w.loop
	w.mu.Unlock()
	if loop == nil {
		return nil
	}
	p, _ := loop.Pulse()
	return p.Gates
}

// runGates starts what gates do by themselves; the function that it returns ends that and waits for it.
func (w *Worker) runGates(ctx context.Context, loop *dispatch.Loop) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	var gates []gate.Gate
	started := map[gate.Gate]bool{}
	for _, b := range w.cfg.Gates {
		if gates = append(gates, b.Gate); started[b.Gate] {
			continue
		}
		started[b.Gate] = true
		if r, ok := b.Gate.(gate.Runner); ok {
			wg.Go(func() { r.Run(ctx) })
		}
	}
	quiet := gate.NotifyAll(loop.GatesChanged, gates...)
	return func() {
		quiet()
		cancel()
		wg.Wait()
	}
}

// gateEvent turns what the loop tells of gates into metrics and log lines.
func (o *observer) gateEvent(e *dispatch.Event) {
	x := e.Gate
	name, lane, r := x.Binding().Name, x.Lane().String(), x.Reading()
	about := func(more ...any) []any {
		args := []any{"gate", name, "lane", lane, "scope", x.Scope(), "reason", string(r.Reason), "detail", r.Detail}
		for _, n := range [...]struct {
			key string
			v   float64
		}{{"value", r.Value}, {"threshold", r.Threshold}} {
			if !math.IsNaN(n.v) && !math.IsInf(n.v, 0) { // JSON has neither
				args = append(args, n.key, n.v)
			}
		}
		return append(args, more...)
	}
	switch e.Kind {
	case dispatch.GateDecided:
		o.get(metricGateDecisions, name, lane, o.gateReason(e.Text)).Add(float64(e.N))
	case dispatch.GateClosed:
		args := about("closed_for", e.D)
		if !r.Opens.IsZero() {
			args = append(args, "opens", r.Opens)
		}
		o.log(slog.LevelWarn, "a gate is closed", args...)
	case dispatch.GateOpen:
		o.log(slog.LevelInfo, "a gate is open again", about("after", e.D)...)
	case dispatch.GateSource:
		if e.N == 0 {
			o.log(slog.LevelWarn, "the source of a gate does not answer", about("budget", r.Budget)...)
		} else {
			o.log(slog.LevelInfo, "the source of a gate answers again", about()...)
		}
	case dispatch.GateKey:
		o.closer.add(x.Binding(), e.Key, e.D)
	}
}

var gateReasons = func() (all []string) {
	for _, r := range gate.Reasons {
		all = append(all, string(r))
	}
	for _, d := range gate.Decisions[1:] {
		all = append(all, d.String())
	}
	return all
}()

// gateReason keeps the label bounded, whatever a gate of somebody else says.
func (o *observer) gateReason(s string) string {
	if slices.Contains(gateReasons, s) {
		return s
	}
	return "other"
}

// gateGauges sets the gauges of all gates that were looked at.
func (o *observer) gateGauges() {
	o.loop.EachGate(func(x *dispatch.GateCell) {
		name, lane, scope, r := x.Binding().Name, x.Lane().String(), x.Scope(), x.Reading()
		flag := func(m *Metric, on bool) {
			v := 0.0
			if on {
				v = 1
			}
			o.get(m, name, lane, scope).Set(v)
		}
		flag(metricGateOpen, !x.Closed())
		flag(metricGateUp, r.Up)
		o.get(metricGateBudget, name, lane, scope).Set(r.Budget)
		o.get(metricGateValue, name, lane, scope).Set(r.Value)
		o.get(metricGateThreshold, name, lane, scope).Set(r.Threshold)
		o.get(metricGateRunning, name, lane, scope).Set(float64(x.Held()))
	})
}
