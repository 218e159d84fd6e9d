package twolane_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/gate"
	"github.com/twolane/twolane/store/memstore"
)

// sleeper is a handler that runs for d and counts how many do at once.
func (r *rig) sleeper(c *crowd, d time.Duration) handler {
	return handler{Execute: func(ctx context.Context, j *job) (twolane.Outcome, error) {
		defer r.runs.enter(ctx, j.ID())()
		defer c.enter()()
		time.Sleep(d)
		return twolane.Done(nil), nil
	}}
}

func gates(bs ...gate.Binding) twolane.WorkerConfig {
	return twolane.WorkerConfig{Concurrency: twolane.Lanes{Intake: 10, Repoll: 10}, Gates: bs}
}

// A budget is a share of the permits, rounded up: never more run, and all of it is used.
func TestGateBudgetSizesClaims(t *testing.T) {
	for _, c := range []struct {
		budget float64
		want   int
	}{{1, 10}, {0.3, 3}, {0.01, 1}, {0.0000001, 1}} {
		rigged(t, 0, func(r *rig) {
			var at crowd
			w := r.work(gates(gate.Binding{Name: "g", Gate: gate.Constant(c.budget)}), func(w *twolane.Worker) {
				twolane.Handle(w, "a", r.sleeper(&at, sec/10))
			})
			ids := r.many(100, twolane.Submission{Type: "a"})
			begin := time.Now()
			r.wait(ids...)
			if took, ideal := time.Since(begin), sec/10*time.Duration(100/c.want); at.most() != c.want || took > ideal*3/2 {
				r.Errorf("budget %v: %d ran at once, want %d; all took %v, ideally %v", c.budget, at.most(), c.want, took, ideal)
			}
			r.idle(w)
		})
	}
}

// A closed gate lets nothing start and says so everywhere; what waits goes on when it opens, at once.
func TestGateClosedIsSaidAndOpens(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		var at crowd
		w := r.work(gates(gate.Binding{Name: "g", Gate: gate.Constant(1)}), func(w *twolane.Worker) {
			twolane.Handle(w, "a", r.sleeper(&at, sec/10))
		})
		if err := w.OverrideGate("g", 0, time.Minute, "maintenance of the backend"); err != nil {
			r.Fatal(err)
		}
		begin := time.Now()
		ids := r.many(20, twolane.Submission{Type: "a"})
		time.Sleep(20 * sec)
		if at.most() != 0 {
			r.Fatal("a closed gate let something start")
		}
		gs := w.Gates()
		if len(gs) != 1 || gs[0].Budget != 0 || gs[0].Reason != "override" || !gs[0].Opens.Time().Equal(begin.Add(time.Minute).Truncate(time.Millisecond)) {
			r.Errorf("gates: %+v", gs)
		}
		if l := w.log.with("WARN a gate is closed", "gate=g", "reason=override", "maintenance of the backend", "opens="); len(l) != 1 {
			r.Errorf("%d warnings of the gate: %q", len(l), w.log.with("gate"))
		}
		if l := w.log.with("WARN a lane has eligible work and starts nothing", "reason=gate", "gate g is closed"); len(l) != 1 {
			r.Errorf("%d warnings of the lane: %q", len(l), w.log.with("WARN"))
		}
		for k, want := range map[string]float64{"twolane_gate_open{g,intake,}": 0, "twolane_lane_starved{intake,gate}": 1, "twolane_gate_source_up{g,intake,}": 1} {
			if got := w.metrics.get(k); got != want {
				r.Errorf("%s is %v, want %v", k, got, want)
			}
		}
		if n := w.metrics.get("twolane_gate_decisions_total{g,intake,override}"); n < 15 || n > 25 {
			r.Errorf("%v decisions in 20 s", n)
		}
		e, err := r.client.Explain(r.Context(), ids[3])
		if err != nil || e.Wait != twolane.WaitGate || e.Gate == nil || e.Gate.Gate != "g" || e.Gate.Reason != "override" || *e.Gate.Value != 0 ||
			!e.Until.Equal(gs[0].Opens.Time()) || !strings.Contains(e.Text, "gate g is closed (override, value 0, maintenance of the backend)") {
			r.Errorf("explain: %v %+v", err, e)
		}
		st, err := r.client.Stats(r.Context(), "default")
		if err != nil || st.Queues[0].Lanes[twolane.Intake].Waits != twolane.WaitGate || len(st.Workers[0].Gates) != 1 {
			r.Errorf("stats: %v %+v", err, st)
		}
		r.wait(ids...)
		if took := time.Since(begin); took < time.Minute || took > time.Minute+sec/4+sec/10 {
			r.Errorf("all ended after %v, the override after a minute", took)
		}
		if l := w.log.with("INFO a gate is open again"); len(l) != 1 {
			r.Errorf("%q", w.log.with("gate"))
		}
		// By hand, before its time: at once.
		if err := w.OverrideGate("g", 0, time.Hour, ""); err != nil {
			r.Fatal(err)
		}
		id := r.submit(twolane.Submission{Type: "a"})[0]
		time.Sleep(2 * sec)
		begin = time.Now()
		if err := w.ClearGate("g"); err != nil {
			r.Fatal(err)
		}
		r.wait(id)
		if took := time.Since(begin); took > sec/10+20*time.Millisecond {
			r.Errorf("it ended %v after the gate opened", took)
		}
		r.idle(w)
	})
}

// Gates are about intake unless they say otherwise; polls go on, and cancel visits pass every gate.
func TestGateLanesAndVisits(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		var polls, visits box[int]
		h := handler{
			Execute: func(context.Context, *job) (twolane.Outcome, error) { return twolane.Processing("x", sec), nil },
			Check: func(context.Context, *job) (twolane.Outcome, error) {
				polls.with(func(n *int) { *n++ })
				return twolane.Processing("x", sec), nil
			},
			Cancel: func(context.Context, *job) error { visits.with(func(n *int) { *n++ }); return nil },
		}
		w := r.work(gates(gate.Binding{Name: "new", Gate: gate.Constant(1)}, gate.Binding{Name: "polls", Gate: gate.Constant(1), Lanes: []twolane.Lane{twolane.Repoll}}),
			func(w *twolane.Worker) { twolane.Handle(w, "a", h) })
		ids := r.many(3, twolane.Submission{Type: "a"})
		time.Sleep(sec / 2)
		shut := func(name string) {
			if err := w.OverrideGate(name, 0, time.Hour, ""); err != nil {
				r.Fatal(err)
			}
		}
		shut("new")
		more := r.submit(twolane.Submission{Type: "a"})
		time.Sleep(5 * sec)
		r.status(twolane.StatusPending, more...)
		if n := polls.get(); n < 12 || n > 15 {
			r.Errorf("%d polls in 5 s of 3", n)
		}
		shut("polls")
		synctest.Wait()
		before := polls.get()
		time.Sleep(5 * sec)
		if n := polls.get(); n != before {
			r.Errorf("%d polls behind a closed gate", n-before)
		}
		if _, err := r.client.Cancel(r.Context(), ids[:1], nil); err != nil {
			r.Fatal(err)
		}
		time.Sleep(2 * sec)
		r.status(twolane.StatusCancelled, ids[0])
		if visits.get() != 1 {
			r.Errorf("%d visits", visits.get())
		}
		for _, id := range append(ids[1:], more...) {
			if _, err := r.client.Cancel(r.Context(), []string{id}, nil); err != nil {
				r.Fatal(err)
			}
		}
		time.Sleep(2 * sec)
	})
}

// judge is a gate whose verdict is a function.
type judge func(job *gate.Job) gate.Verdict

func (judge) Read(time.Time, gate.Scope) gate.Reading {
	return gate.Reading{Budget: 1, Value: gate.None, Threshold: gate.None, Up: true}
}
func (j judge) Judge(_ time.Time, _ gate.Scope, job *gate.Job) gate.Verdict { return j(job) }

// A verdict costs neither a run nor a failure; what is dropped ends with its result; nothing is held after any of them.
func TestGateVerdicts(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		var open box[bool]
		var at crowd
		w := r.work(gates(gate.Binding{Name: "g", Gate: judge(func(job *gate.Job) gate.Verdict {
			switch {
			case job.Metadata["do"] == "drop":
				return gate.Verdict{Decision: gate.Drop, Result: []byte(`{"code":429}`), Detail: "too many"}
			case job.Metadata["do"] == "later" && job.Created.Add(3*sec).After(time.Now()):
				return gate.Verdict{Decision: gate.Refuse, After: 3 * sec}
			case job.Metadata["do"] == "wait" && !open.get():
				return gate.Verdict{Decision: gate.Wait}
			}
			return gate.Verdict{}
		})}), func(w *twolane.Worker) { twolane.Handle(w, "a", r.sleeper(&at, sec/10)) })
		as := func(do string) twolane.Submission {
			return twolane.Submission{Type: "a", Metadata: map[string]string{"do": do}, MaxFailures: 1}
		}
		ids := r.submit(as("drop"), as("later"), as("wait"), as("run"))
		c := r.wait(ids[0])[0]
		if c.Status != twolane.StatusFailed || c.Reason != twolane.ReasonDropped || string(c.Result) != `{"code":429}` || !strings.Contains(c.Error, "gate g") || !strings.Contains(c.Error, "too many") {
			r.Errorf("dropped: %v %v %q %q", c.Status, c.Reason, c.Result, c.Error)
		}
		r.wait(ids[3])
		begin := time.Now()
		later := r.wait(ids[1])[0]
		if d := time.Since(begin); later.Status != twolane.StatusSucceeded || d < 2*sec || d > 5*sec || later.Starts != 1 || later.Failures != 0 {
			r.Errorf("refused: %v after %v, %d starts, %d failures", later.Status, d, later.Starts, later.Failures)
		}
		time.Sleep(30 * sec)
		if c := r.get(ids[2]); c.Status != twolane.StatusPending || c.Starts != 0 || c.Failures != 0 {
			r.Errorf("waiting: %+v", c)
		}
		e, err := r.client.Explain(r.Context(), ids[2])
		if err != nil || e.Wait != twolane.WaitGate || e.Gate == nil || e.Gate.Decision != "wait" || !strings.Contains(e.Text, "gate g lets it wait") || e.Until.IsZero() {
			r.Errorf("explain: %v %+v", err, e)
		}
		if n := w.metrics.get("twolane_gate_decisions_total{g,intake,wait}"); n < 4 || n > 12 { // after about 1, 2, 4, 8, 16 s, of which chance takes up to a half
			r.Errorf("%v waits in half a minute", n)
		}
		r.idle(w)
		open.set(true)
		if c := r.wait(ids[2])[0]; c.Starts != 1 {
			r.Errorf("%d starts", c.Starts)
		}
		if n := w.metrics.get("twolane_invocations_started_total{default,intake,a}"); n != 3 {
			r.Errorf("%v handlers were called, want 3", n)
		}
		r.idle(w)
	})
}

// A gate and a limit that stand before a command are both named, and a gate that sends back what has failed before.
func TestExplainNamesGateAndLimit(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		w := r.work(gates(
			gate.Binding{Name: "again", Types: []string{"a"}, Gate: judge(func(job *gate.Job) gate.Verdict {
				if job.Failures > 0 {
					return gate.Verdict{Decision: gate.Wait}
				}
				return gate.Verdict{}
			})}, gate.Binding{Name: "shut", Types: []string{"b"}, Gate: gate.Constant(1)}), func(w *twolane.Worker) {
			twolane.Handle(w, "a", handler{Execute: func(context.Context, *job) (twolane.Outcome, error) { return twolane.Outcome{}, errors.New("no") }})
			twolane.Handle(w, "b", handler{Execute: func(context.Context, *job) (twolane.Outcome, error) { return twolane.Processing("", time.Hour), nil },
				Check: func(context.Context, *job) (twolane.Outcome, error) { return twolane.Processing("", time.Hour), nil }})
		})
		if err := r.client.SetLimit(r.Context(), twolane.Limit{Name: "vms", By: twolane.ByType, Max: 1, Scope: twolane.ScopeCommand}); err != nil {
			r.Fatal(err)
		}
		failed := r.submit(twolane.Submission{Type: "a"})[0]
		r.submit(twolane.Submission{ID: "vm", Type: "b"})
		time.Sleep(10 * sec)
		second := r.submit(twolane.Submission{Type: "b"})[0]
		time.Sleep(2 * sec)
		if err := w.OverrideGate("shut", 0, time.Minute, ""); err != nil {
			r.Fatal(err)
		}
		time.Sleep(20 * sec)
		x, err := r.client.Explain(r.Context(), second)
		if err != nil || x.Wait != twolane.WaitGate || !slices.Equal(x.Also, []twolane.Wait{twolane.WaitLimit}) || x.Gate.Gate != "shut" || x.Limit.Limit != "vms" ||
			!strings.Contains(x.Text, "gate shut is closed") || !strings.Contains(x.Text, "Besides, limit vms=b is full (1 of 1, held by vm)") {
			r.Errorf("%v %+v", err, x)
		}
		for range 40 { // now and then it is looked at again
			if x, err = r.client.Explain(r.Context(), failed); x.Wait == twolane.WaitBackoff {
				break
			}
			time.Sleep(sec)
		}
		if err != nil || x.Wait != twolane.WaitBackoff || !slices.Equal(x.Also, []twolane.Wait{twolane.WaitGate}) || x.Gate == nil || x.Gate.Gate != "again" ||
			!strings.Contains(x.Text, "And gate again lets it wait") {
			r.Errorf("%v %+v", err, x)
		}
	})
}

// A key that is closed lets nobody else wait: other values go on, and its own commands wait in the store, not in the worker.
func TestGateClosesAKey(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		var open box[bool]
		var at crowd
		var verdicts atomic.Int64
		w := r.work(gates(gate.Binding{Name: "g", Gate: judge(func(job *gate.Job) gate.Verdict {
			if v, _ := job.Key("tenant"); v == "bad" && !open.get() {
				verdicts.Add(1)
				return gate.Verdict{Decision: gate.Wait, Close: &gate.Key{By: twolane.ByKey, Name: "tenant", Value: v}}
			}
			return gate.Verdict{}
		})}), func(w *twolane.Worker) { twolane.Handle(w, "a", r.sleeper(&at, sec/10)) })
		as := func(tenant string) twolane.Submission {
			return twolane.Submission{Type: "a", Keys: map[string]string{"tenant": tenant}}
		}
		bad := r.many(200, as("bad"))
		begin := time.Now()
		r.wait(r.many(20, as("good"))...)
		if took := time.Since(begin); took > 3*sec {
			r.Errorf("others waited %v", took)
		}
		before := verdicts.Load()
		time.Sleep(30 * sec)
		if n := verdicts.Load() - before; n > 60 {
			r.Errorf("%d commands were claimed and given back in half a minute", n)
		}
		e, err := r.client.Explain(r.Context(), bad[150])
		if err != nil || e.Wait != twolane.WaitLimit || !strings.HasPrefix(e.Limit.Limit, "gate.g.tenant.bad") {
			r.Errorf("explain: %v %+v", err, e)
		}
		if n := w.metrics.get("twolane_limit_decisions_total{gate.g,intake,refused}"); n < 5 {
			r.Errorf("%v claims were refused by keys that the gate has closed", n)
		}
		open.set(true)
		r.wait(bad...)
		r.idle(w)
		cfg, err := r.client.Config(r.Context())
		if err != nil || len(cfg.Limits) > 1 {
			r.Errorf("%v limits are left: %v", len(cfg.Limits), err)
		}
	})
}

// The window of AIMD finds what a backend takes, and one wave of pushes is one decrease.
func TestGateAIMD(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		aimd, err := gate.NewAIMD(gate.AIMDConfig{Max: 50, Start: 50})
		if err != nil {
			r.Fatal(err)
		}
		const takes = 20
		var at crowd
		var pushed box[int]
		cfg := gates(gate.Binding{Name: "g", Gate: aimd})
		cfg.Concurrency.Intake = 50
		w := r.work(cfg, func(w *twolane.Worker) {
			twolane.Handle(w, "a", handler{Execute: func(ctx context.Context, j *job) (twolane.Outcome, error) {
				leave := at.enter()
				n := at.get()[0]
				time.Sleep(sec / 10)
				leave()
				if n > takes {
					pushed.with(func(n *int) { *n++ })
					j.Backend(gate.Response{Signal: gate.Pushed})
					return twolane.Snooze(sec), nil
				}
				return twolane.Done(nil), nil
			}})
		})
		ids := r.many(1000, twolane.Submission{Type: "a"})
		begin := time.Now()
		r.wait(ids...)
		if got := at.most(); got != 50 {
			r.Errorf("%d at most, the first window was 50", got)
		}
		r.Logf("1000 in %v, %d pushed back", time.Since(begin), pushed.get())
		if n := pushed.get(); n > 200 {
			r.Errorf("%d of 1000 were pushed back", n)
		}
		r.idle(w)
	})
}

func TestGateConfigIsChecked(t *testing.T) {
	c := twolane.NewClient(memstore.New(), nil)
	defer c.Close()
	for field, bs := range map[string][]gate.Binding{
		"gates[0].name":    {{Gate: gate.Constant(1)}},
		"gates.g.name":     {{Name: "g", Gate: gate.Constant(1)}, {Name: "g", Gate: gate.Constant(1)}},
		"gates.g.gate":     {{Name: "g"}},
		"gates.g.queues":   {{Name: "g", Gate: gate.Constant(1), Queues: []string{"defualt"}}},
		"gates.g.class":    {{Name: "g", Gate: gate.Constant(1), Class: "overfull"}},
		"gates.g.lanes":    {{Name: "g", Gate: gate.Constant(1), Lanes: []twolane.Lane{7}}},
		"gates.g.types":    {{Name: "g", Gate: gate.Constant(1), Types: []string{"b"}}},
		"gates.g.per":      {{Name: "g", Gate: gate.Constant(1), Per: 64}},
		"gates.g.class_of": {{Name: "g", Gate: gate.Constant(1), ClassOf: func(*gate.Job) string { return "" }}},
	} {
		w, err := twolane.NewWorker(c, twolane.WorkerConfig{Gates: bs})
		if err == nil { // types are known later
			twolane.Handle(w, "a", handler{Execute: func(context.Context, *job) (twolane.Outcome, error) { return twolane.Done(nil), nil }})
			err = w.Run(t.Context())
		}
		if e, ok := errors.AsType[*twolane.InvalidError](err); !ok || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// A gate without a reading has no value and no threshold to tell: JSON, in which logs go to others, has no form for what is none.
func TestGateWithoutReadingLogsNoNumbers(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		g, err := gate.NewMeter(gate.MeterConfig{Threshold: gate.None, Ask: func(context.Context) (gate.Sample, error) {
			return gate.Sample{}, errors.New("nobody is there")
		}})
		if err != nil {
			r.Fatal(err)
		}
		w := r.work(gates(gate.Binding{Name: "g", Gate: g}), func(w *twolane.Worker) {
			twolane.Handle(w, "a", r.sleeper(new(crowd), sec/10))
		})
		r.many(1, twolane.Submission{Type: "a"})
		time.Sleep(20 * sec)
		said := w.log.with("the source of a gate does not answer", "gate=g")
		if len(said) == 0 || len(w.log.with("NaN")) > 0 || len(w.log.with("value=")) > 0 {
			r.Errorf("%q", w.log.with("gate=g"))
		}
	})
}
