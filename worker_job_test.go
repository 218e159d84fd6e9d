package twolane_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/gate"
	"github.com/twolane/twolane/store"
)

// A panic, or the end of the goroutine, is an error with its stack: valid UTF-8, bounded, and nobody else notices.
func TestPanicsAreContained(t *testing.T) {
	for name, end := range map[string]func(){
		"panic":     func() { panic("bad \xff\x00 byte") },
		"error":     func() { panic(errors.New("an error")) },
		"nil":       func() { panic(nil) }, //nolint:govet // the point of the case
		"huge":      func() { panic(strings.Repeat("x", 1<<20)) },
		"goexit":    runtime.Goexit,
		"nil deref": func() { var p *number; p.N++ },
	} {
		t.Run(name, func(t *testing.T) {
			rigged(t, 0, func(r *rig) {
				w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
					twolane.HandleFunc(w, "a", func(ctx context.Context, j *job) (any, error) { end(); return nil, nil })
					twolane.HandleFunc(w, "b", r.sleeps(time.Second))
				})
				ids := r.submit(twolane.Submission{Type: "a", MaxFailures: 2}, twolane.Submission{Type: "b"})
				cs := r.wait(ids...)
				if cs[1].Status != twolane.StatusSucceeded {
					r.Errorf("its neighbour is %v", cs[1].Status)
				}
				c := cs[0]
				if c.Reason != twolane.ReasonRetriesExhausted || c.Failures != 2 || !utf8.ValidString(c.Error) || strings.ContainsRune(c.Error, 0) || len(c.Error) > store.MaxError {
					r.Errorf("%s %d %d bytes", c.Reason, c.Failures, len(c.Error))
				}
				if name != "huge" && !strings.Contains(c.Error, "worker_job_test.go") {
					r.Errorf("no stack in %q", c.Error)
				}
				if n := w.metrics.get("twolane_handler_panics_total{a}"); n != 2 {
					r.Errorf("%v panics counted", n)
				}
				r.idle(w)
			})
		})
	}
}

// Params and states are opaque: byte for byte, and never through the codec for raw types.
func TestBytesPassUntouched(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		odd := []byte("\x00\xff{\"a\":9007199254740993,\"a\":[]}")
		r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
			twolane.Handle(w, "raw", twolane.Handler[json.RawMessage, json.RawMessage]{
				Execute: func(ctx context.Context, j *twolane.Job[json.RawMessage, json.RawMessage]) (twolane.Outcome, error) {
					return twolane.Processing(j.Params, time.Second), nil
				},
				Check: func(ctx context.Context, j *twolane.Job[json.RawMessage, json.RawMessage]) (twolane.Outcome, error) {
					return twolane.Done(j.State), nil
				},
			})
		})
		c := r.wait(r.submit(twolane.Submission{Type: "raw", Params: odd})...)[0]
		if !bytes.Equal(c.Result, odd) {
			r.Errorf("%q came back as %q", odd, c.Result)
		}
	})
}

// Bytes that were handed over are the caller's own again when the call has returned: a buffer that is used once more changes nothing.
func TestBytesAreCopied(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		buf := make([]byte, 8)
		use := func(text string) []byte { return buf[:copy(buf, text)] }
		ids := r.submit(twolane.Submission{Type: "a", Params: use("params")}, twolane.Submission{Type: "a", Params: json.RawMessage(buf[:6])})
		use("other")
		step := func(_ context.Context, jobs []*twolane.Job[[]byte, []byte]) error {
			for _, j := range jobs {
				if err := j.Progress(use("progress")); err != nil {
					r.Error(err)
				}
				switch string(j.State) {
				case "":
					j.Answer(twolane.Processing(use("state"), sec), nil)
				case "state":
					j.Answer(twolane.Done(use("result"), twolane.Submission{ID: j.ID() + "-child", Type: "b", Params: buf[:6]}), nil)
				default:
					r.Errorf("the state of %s is %q", j.ID(), j.State)
					j.Answer(twolane.Fail(nil), nil)
				}
				use("other")
			}
			return nil
		}
		r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
			twolane.Handle(w, "a", twolane.Handler[[]byte, []byte]{ExecuteBatch: step, CheckBatch: step})
		})
		time.Sleep(sec / 2)
		for _, id := range ids {
			if c, err := r.client.Get(r.Context(), id); err != nil || string(c.Progress) != "progress" || string(c.State) != "state" {
				r.Errorf("%v, progress %q, state %q", err, c.Progress, c.State)
			}
		}
		for _, c := range r.wait(ids...) {
			child, err := r.client.Get(r.Context(), c.ID+"-child")
			if err != nil {
				r.Fatal(err)
			}
			if string(c.Params) != "params" || string(c.Result) != "result" || string(child.Params) != "result" {
				r.Errorf("params %q, result %q, params of the child %q", c.Params, c.Result, child.Params)
			}
		}
	})
}

func TestTooLargeEndsTheCommand(t *testing.T) {
	for _, what := range []string{"result", "state"} {
		rigged(t, 0, func(r *rig) {
			big := bytes.Repeat([]byte("ab"), store.MaxResult)
			r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
				twolane.Handle(w, "a", handler{
					Execute: func(context.Context, *job) (twolane.Outcome, error) {
						if what == "state" {
							return twolane.Processing(big, sec), nil
						}
						return twolane.Done(big), nil
					},
					Check: func(context.Context, *job) (twolane.Outcome, error) { return twolane.Done(nil), nil },
				})
			})
			c := r.wait(r.submit(twolane.Submission{Type: "a"})...)[0]
			if c.Status != twolane.StatusFailed || c.Reason != twolane.ReasonTooLarge || !bytes.Equal(c.Result, big[:4<<10]) || c.Starts != 1 {
				r.Errorf("%s: %v %s, %d bytes kept, %d starts", what, c.Status, c.Reason, len(c.Result), c.Starts)
			}
		})
	}
}

func TestOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		out    twolane.Outcome
		err    error
		status twolane.Status
		reason twolane.Reason
		text   string
		result string
	}{
		"done":               {out: twolane.Done(1), status: twolane.StatusSucceeded, result: "1"},
		"fail":               {out: twolane.Fail(errors.New("disk is full")), status: twolane.StatusFailed, reason: twolane.ReasonError, text: "disk is full"},
		"fail with result":   {out: twolane.Fail(errors.New("402")).WithResult("bill"), status: twolane.StatusFailed, reason: twolane.ReasonError, text: "402", result: `"bill"`},
		"fail nil":           {out: twolane.Fail(nil), status: twolane.StatusFailed, reason: twolane.ReasonError},
		"drop":               {out: twolane.Drop("cached"), status: twolane.StatusFailed, reason: twolane.ReasonDropped, result: `"cached"`},
		"nothing":            {status: twolane.StatusFailed, reason: twolane.ReasonRetriesExhausted, text: "neither an outcome nor an error"},
		"error":              {err: errors.New("no"), status: twolane.StatusFailed, reason: twolane.ReasonRetriesExhausted, text: "no"},
		"no check":           {out: twolane.Processing(nil, 0), status: twolane.StatusFailed, reason: twolane.ReasonRetriesExhausted, text: "has no Check"},
		"unencodable":        {out: twolane.Done(make(chan int)), status: twolane.StatusFailed, reason: twolane.ReasonRetriesExhausted, text: "result"},
		"a bad follow-up":    {out: twolane.Done(nil, twolane.Submission{}), status: twolane.StatusFailed, reason: twolane.ReasonRetriesExhausted, text: "follow_ups[0]"},
		"too many followups": {out: twolane.Done(nil, make([]twolane.Submission, 201)...), status: twolane.StatusFailed, reason: twolane.ReasonRetriesExhausted, text: "follow_ups"},
	} {
		t.Run(name, func(t *testing.T) {
			rigged(t, 0, func(r *rig) {
				r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
					twolane.Handle(w, "a", handler{Execute: func(context.Context, *job) (twolane.Outcome, error) { return c.out, c.err }})
				})
				got := r.wait(r.submit(twolane.Submission{Type: "a", MaxFailures: 1})...)[0]
				if got.Status != c.status || got.Reason != c.reason || !strings.Contains(got.Error, c.text) || string(got.Result) != c.result {
					r.Errorf("%v %s %q %q, want %v %s %q %q", got.Status, got.Reason, got.Error, got.Result, c.status, c.reason, c.text, c.result)
				}
			})
		})
	}
}

// Follow-ups enter with the end of their parent, and start at once.
func TestFollowUps(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
			twolane.Handle(w, "chain", handler{Execute: func(ctx context.Context, j *job) (twolane.Outcome, error) {
				if j.Params.N == 0 {
					return twolane.Done(nil), nil
				}
				return twolane.Done(nil, twolane.Submission{Type: "chain", ID: fmt.Sprint("c", j.Params.N-1), Params: number{j.Params.N - 1}}), nil
			}})
		}).deafen()
		start := time.Now()
		r.wait(r.submit(twolane.Submission{Type: "chain", ID: "c100", Params: number{100}})...)
		for n := 99; n >= 0; n-- { // each is there when its parent has ended
			r.wait(fmt.Sprint("c", n))
		}
		if d := time.Since(start); d > 5*sec {
			r.Errorf("100 links took %v", d)
		}
	})
}

func TestProgressIsCoalesced(t *testing.T) {
	rigged(t, 20*sec, func(r *rig) {
		w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
			twolane.Handle(w, "a", handler{
				Execute: func(ctx context.Context, j *job) (twolane.Outcome, error) {
					for i := range 12000 {
						time.Sleep(time.Millisecond)
						if err := j.Progress(number{i}); err != nil {
							return twolane.Outcome{}, err
						}
					}
					if err := j.Progress(strings.Repeat("x", 5000)); !errors.Is(err, twolane.ErrTooLarge) {
						r.Errorf("%v", err)
					}
					return twolane.Processing(nil, 10*sec), nil
				},
				Check: func(ctx context.Context, j *job) (twolane.Outcome, error) {
					if err := j.Progress("checked"); err != nil {
						return twolane.Outcome{}, err
					}
					return twolane.Processing(nil, 10*sec), nil
				},
			})
		})
		id := r.submit(twolane.Submission{Type: "a"})[0]
		time.Sleep(6 * sec)
		before := w.calls()
		var n number
		if err := json.Unmarshal(r.get(id).Progress, &n); err != nil || n.N < 3000 || n.N > 6000 {
			r.Errorf("after 6 s: %+v %v", n, err)
		}
		time.Sleep(7 * sec)
		if got := r.get(id); string(got.Progress) != `{"N":11999}` || got.Status != twolane.StatusProcessing {
			r.Errorf("at the end of Execute: %s %v", got.Progress, got.Status)
		}
		if c := w.calls() - before; c > 25 {
			r.Errorf("%d calls in 7 s for a thousand progress reports a second", c)
		}
		time.Sleep(10 * sec)
		if got := r.get(id); string(got.Progress) != `"checked"` {
			r.Errorf("after a short Check: %s", got.Progress)
		}
		r.cancel(id)
	})
}

func TestJobTellsAboutItself(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		var lease string
		r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
			twolane.HandleFunc(w, "a", func(ctx context.Context, j *job) (any, error) {
				d, ok := j.Deadline()
				lease = j.Lease()
				return []any{j.ID(), j.IdempotencyKey(), j.Type(), j.Queue(), j.Group(), j.UniqueKey(), j.Key("k"), j.Key("x"), j.Metadata()["m"], j.Starts(), j.Failures(),
					j.Losses(), j.Polls(), ok && d.Equal(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)), string(j.RawParams()), j.Context() == ctx, j.Answered()}, j.Alive()
			})
		})
		c := r.wait(r.submit(twolane.Submission{Type: "a", ID: "id-1", Group: "g", UniqueKey: "u", Keys: map[string]string{"k": "v"}, Metadata: map[string]string{"m": "n"},
			Params: number{5}, Deadline: time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)})...)[0]
		want := `["id-1","id-1","a","default","g","u","v","","n",1,0,0,0,true,"{\"N\":5}",true,""]`
		if string(c.Result) != want {
			r.Errorf("\n got %s\nwant %s", c.Result, want)
		}
		if name, err := store.ParseLeaseName(lease); err != nil || name.Token != 1 {
			r.Errorf("lease %q", lease)
		}
	})
}

func TestMiddleware(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		var trace []string
		type key struct{}
		layer := func(name string) twolane.Middleware {
			return func(ctx context.Context, call *twolane.Call, next func(context.Context) error) error {
				trace = append(trace, fmt.Sprintf("%s>%s %d %v %v %v", name, call.Type, len(call.Jobs), call.Batch, call.Visit, call.Lane))
				err := next(context.WithValue(ctx, key{}, name))
				trace = append(trace, fmt.Sprint(name, "<", err, call.Jobs[0].Answered()))
				if call.Type == "hidden" && name == "outer" {
					return errors.New("by the middleware")
				}
				return err
			}
		}
		lazy := func(ctx context.Context, call *twolane.Call, next func(context.Context) error) error {
			if call.Type == "skipped" {
				return nil
			}
			return next(ctx)
		}
		r.work(twolane.WorkerConfig{Middleware: []twolane.Middleware{layer("outer"), layer("inner"), lazy}}, func(w *twolane.Worker) {
			f := func(ctx context.Context, j *job) (any, error) { return ctx.Value(key{}), nil }
			twolane.HandleFunc(w, "a", f)
			twolane.HandleFunc(w, "hidden", f)
			twolane.HandleFunc(w, "skipped", f)
			twolane.Handle(w, "batch", handler{ExecuteBatch: func(ctx context.Context, jobs []*job) error {
				for _, j := range jobs {
					j.Answer(twolane.Done(nil), nil)
				}
				return nil
			}})
		})
		c := r.wait(r.submit(twolane.Submission{Type: "a"})...)[0]
		if want := []string{"outer>a 1 false false intake", "inner>a 1 false false intake", "inner<<nil>", "outer<<nil>"}; fmt.Sprint(trace) != fmt.Sprint(want) || string(c.Result) != `"inner"` {
			r.Errorf("%q %s", trace, c.Result)
		}
		trace = nil
		r.wait(r.many(3, twolane.Submission{Type: "batch"})...)
		if trace[0] != "outer>batch 3 true false intake" || trace[3] != "outer<<nil>done" {
			r.Errorf("%q", trace)
		}
		for typ, text := range map[string]string{"hidden": "by the middleware", "skipped": "without calling the handler"} {
			c := r.wait(r.submit(twolane.Submission{Type: typ, MaxFailures: 1})...)[0]
			if c.Status != twolane.StatusFailed || !strings.Contains(c.Error, text) {
				r.Errorf("%s: %v %q", typ, c.Status, c.Error)
			}
		}
	})
}

// Configurations that contradict themselves are refused at the start, with the name of the field.
func TestF006_F115_ContradictoryConfigs(t *testing.T) {
	type Q = twolane.QueueShare
	rigged(t, 20*sec, func(r *rig) {
		for field, cfg := range map[string]twolane.WorkerConfig{
			"queues[0].name":     {Queues: []Q{{Name: "a b"}}},
			"queues[1].name":     {Queues: []Q{{Name: "a"}, {Name: "a"}}},
			"queues[0].weight":   {Queues: []Q{{Name: "a", Weight: -1}}, Policy: twolane.Weighted},
			"queues[1].weight":   {Queues: []Q{{Name: "a"}, {Name: "b", Weight: 2}}},
			"queues[0].reserve":  {Queues: []Q{{Name: "a", Reserve: -1}}},
			"queues.reserve":     {Queues: []Q{{Name: "a", Reserve: 100}, {Name: "b"}}},
			"policy":             {Policy: 9},
			"concurrency.intake": {Concurrency: twolane.Lanes{Intake: -1, Repoll: 1}},
			"concurrency.repoll": {Concurrency: twolane.Lanes{Intake: 1, Repoll: -1}},
			"poll_interval":      {PollInterval: time.Millisecond},
			"drain_budget":       {DrainBudget: -1},
			"max_run":            {MaxRun: -1},
			"overdue_grace":      {OverdueGrace: -1},
			"overdue":            {Overdue: 7},
			"starved_after":      {StarvedAfter: -1},
			"visibility":         {Visibility: -1},
			"name":               {Name: strings.Repeat("x", 129)},
		} {
			_, err := twolane.NewWorker(r.client, cfg)
			if bad, ok := errors.AsType[*twolane.InvalidError](err); !ok || bad.Field != field {
				r.Errorf("%s: %v", field, err)
			}
		}
		exec := func(context.Context, *job) (twolane.Outcome, error) { return twolane.Done(nil), nil }
		batch := func(context.Context, []*job) error { return nil }
		for field, add := range map[string]func(w *twolane.Worker){
			"handler.type":            func(w *twolane.Worker) { twolane.Handle(w, "a b", handler{Execute: exec}) },
			"handler.a.execute":       func(w *twolane.Worker) { twolane.Handle(w, "a", handler{}) },
			"handler.a.execute_batch": func(w *twolane.Worker) { twolane.Handle(w, "a", handler{Execute: exec, ExecuteBatch: batch}) },
			"handler.a.check_batch":   func(w *twolane.Worker) { twolane.Handle(w, "a", handler{Check: exec, CheckBatch: batch}) },
			"handler.a.cancel": func(w *twolane.Worker) {
				twolane.Handle(w, "a", handler{Execute: exec, Cancel: func(context.Context, *job) error { return nil }})
			},
			"handler.a.batch_size": func(w *twolane.Worker) { twolane.Handle(w, "a", handler{ExecuteBatch: batch, BatchSize: 1001}) },
			"handler.a.max_wait":   func(w *twolane.Worker) { twolane.Handle(w, "a", handler{CheckBatch: batch, MaxWait: time.Hour}) },
			"handler.a.poll":       func(w *twolane.Worker) { twolane.Handle(w, "a", handler{Check: exec, Poll: time.Millisecond}) },
			"handler.a.backoff": func(w *twolane.Worker) {
				twolane.Handle(w, "a", handler{Execute: exec, Backoff: twolane.Backoff{Base: sec, Max: 1}})
			},
			"handler.a": func(w *twolane.Worker) {
				twolane.Handle(w, "a", handler{Execute: exec})
				twolane.Handle(w, "a", handler{Execute: exec})
			},
			"concurrency.repoll": func(w *twolane.Worker) { twolane.Handle(w, "a", handler{Check: exec}) },
			"handlers":           func(w *twolane.Worker) {},
		} {
			w, err := twolane.NewWorker(r.client, twolane.WorkerConfig{Concurrency: twolane.Lanes{Intake: 5}})
			if err != nil {
				r.Fatal(err)
			}
			add(w)
			err = w.Run(r.Context())
			if bad, ok := errors.AsType[*twolane.InvalidError](err); !ok || bad.Field != field {
				r.Errorf("%s: %v", field, err)
			}
		}
		w, err := twolane.NewWorker(r.client, twolane.WorkerConfig{Visibility: 5 * sec})
		if err != nil {
			r.Fatal(err)
		}
		twolane.HandleFunc(w, "a", r.sleeps(0))
		if bad, ok := errors.AsType[*twolane.InvalidError](w.Run(r.Context())); !ok || bad.Field != "visibility" {
			r.Errorf("an asserted visibility of 5 s in a namespace of 20 s: %v", bad)
		}
	})
}

// Every metric is there at zero before anything has happened.
func TestMetricsAreInitialised(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		gates := []gate.Binding{{Name: "g", Gate: gate.Constant(1)}}
		w := r.work(twolane.WorkerConfig{Gates: gates}, func(w *twolane.Worker) {
			twolane.Handle(w, "a", handler{Execute: func(context.Context, *job) (twolane.Outcome, error) { return twolane.Done(nil), nil }})
		})
		time.Sleep(sec)
		w.metrics.mu.Lock()
		defer w.metrics.mu.Unlock()
		seen := map[string]bool{}
		for k := range w.metrics.value {
			seen[k[:strings.Index(k, "{")]] = true
		}
		names := map[string]bool{}
		for _, m := range twolane.WorkerMetrics() {
			if names[m.Name] {
				r.Errorf("%s is there twice", m.Name)
			}
			names[m.Name] = true
			if !seen[m.Name] && m.Name != "twolane_unclaimable" { // its types are not known
				r.Errorf("%s has no series", m.Name)
			}
			if m.Help == "" || m.Kind == twolane.Histogram != (len(m.Buckets) > 0) || strings.HasSuffix(m.Name, "_total") != (m.Kind == twolane.Counter) {
				r.Errorf("%+v", m)
			}
		}
	})
}
