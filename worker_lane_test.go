package twolane_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
)

type (
	job     = twolane.Job[number, []byte]
	handler = twolane.Handler[number, []byte]
)

// sleeps is a handler that runs for d, or until its context ends.
func (r *rig) sleeps(d time.Duration) func(context.Context, *job) (any, error) {
	return func(ctx context.Context, j *job) (any, error) {
		defer r.runs.enter(ctx, j.ID())()
		select {
		case <-time.After(d):
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func TestF012_LongCommandsLeaveTheIntakeItsWay(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		var mu sync.Mutex
		var late []time.Duration
		w := r.work(twolane.WorkerConfig{Concurrency: twolane.Lanes{Intake: 4, Repoll: 4}}, func(w *twolane.Worker) {
			twolane.Handle(w, "long", handler{
				Execute: func(ctx context.Context, j *job) (twolane.Outcome, error) {
					return twolane.Processing(nil, 5*time.Second), nil
				},
				Check: func(ctx context.Context, j *job) (twolane.Outcome, error) {
					return twolane.Processing(nil, 5*time.Second), nil
				},
			})
			twolane.HandleFunc(w, "short", func(ctx context.Context, j *job) (any, error) {
				mu.Lock()
				defer mu.Unlock()
				late = append(late, time.Since(j.Created()))
				return nil, nil
			})
		})
		long := r.many(1000, twolane.Submission{Type: "long"})
		time.Sleep(20 * time.Second)
		r.status(twolane.StatusProcessing, long...)
		r.wait(r.many(10, twolane.Submission{Type: "short"})...)
		if m := slices.Max(late); m > 2*time.Second {
			r.Errorf("a new command started after %v", m)
		}
		polls := 0
		for _, id := range long[:100] {
			polls += r.get(id).Polls
		}
		if polls < 300 {
			r.Errorf("%d polls of 100 commands in 20 s, want 300: the repoll lane starves", polls)
		}
		if got := w.metrics.get("twolane_poll_lateness_seconds{default}"); got > .25 {
			r.Errorf("a poll was %v s late", got)
		}
	})
}

func TestIntakeAlternatesFirstRunsAndRetries(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		var counted box[[2]int] // first runs, retries
		r.work(twolane.WorkerConfig{Concurrency: twolane.Lanes{Intake: 4, Repoll: 1}}, func(w *twolane.Worker) {
			twolane.Handle(w, "a", handler{Backoff: twolane.Backoff{Base: time.Millisecond, Max: time.Millisecond}, Execute: func(ctx context.Context, j *job) (twolane.Outcome, error) {
				time.Sleep(20 * time.Millisecond)
				counted.with(func(v *[2]int) {
					v[min(j.Failures(), 1)]++
					if v[1] == 250 && j.Failures() > 0 && (v[0] < 675 || v[0] > 825) {
						r.Errorf("%d first runs beside 250 retries, want 750 within 10 %%", v[0])
					}
				})
				return twolane.Outcome{}, fmt.Errorf("no")
			}})
		})
		r.many(1500, twolane.Submission{Type: "a", MaxFailures: 3})
		time.Sleep(6 * time.Second)
		if again := counted.get()[1]; again < 250 {
			r.Errorf("%d retries", again)
		}
	})
}

func TestF013_SlowHandlerBlocksNobody(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		r.work(twolane.WorkerConfig{Concurrency: twolane.Lanes{Intake: 8, Repoll: 1}}, func(w *twolane.Worker) {
			twolane.HandleFunc(w, "slow", r.sleeps(60*time.Second))
			twolane.HandleFunc(w, "quick", r.sleeps(10*time.Millisecond))
		})
		r.submit(twolane.Submission{Type: "slow"})
		start := time.Now()
		r.wait(r.many(100, twolane.Submission{Type: "quick"})...)
		if d := time.Since(start); d > time.Second {
			r.Errorf("100 handlers of 10 ms took %v beside a slow one", d)
		}
	})
}

// A command is claimed only with a permit in hand, so none waits in the worker with its lease running.
func TestF021_F051_NothingWaitsInTheWorker(t *testing.T) {
	rigged(t, time.Second, func(r *rig) {
		w := r.work(twolane.WorkerConfig{Concurrency: twolane.Lanes{Intake: 1, Repoll: 1}}, func(w *twolane.Worker) {
			twolane.HandleFunc(w, "a", r.sleeps(500*time.Millisecond))
		})
		ids := r.many(10, twolane.Submission{Type: "a"})
		for range 60 {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			st, err := r.st.Stats(r.Context(), store.StatsRequest{})
			if err != nil {
				r.Fatal(err)
			}
			if n := st.Queues[0].Lanes[0].Leased; n > 1 {
				r.Fatalf("%d leased with one permit", n)
			}
		}
		r.wait(ids...)
		if n := r.runs.total(); n != 10 {
			r.Errorf("%d starts of 10 commands", n)
		}
		r.idle(w)
	})
}

func TestF099_RetryBlocksNobody(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		r.work(twolane.WorkerConfig{Concurrency: twolane.Lanes{Intake: 1, Repoll: 1}}, func(w *twolane.Worker) {
			twolane.Handle(w, "fails", handler{Backoff: twolane.Backoff{Base: time.Hour, Max: time.Hour}, Execute: func(context.Context, *job) (twolane.Outcome, error) {
				return twolane.Outcome{}, fmt.Errorf("no")
			}})
			twolane.HandleFunc(w, "a", r.sleeps(time.Millisecond))
		})
		id := r.submit(twolane.Submission{Type: "fails"})
		start := time.Now()
		r.wait(r.many(10, twolane.Submission{Type: "a"})...)
		if d := time.Since(start); d > time.Second {
			r.Errorf("ten commands behind a failing one took %v", d)
		}
		r.status(twolane.StatusPending, id...)
	})
}

func TestF158_UnknownTypeIsNotClaimed(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) { twolane.HandleFunc(w, "known", r.sleeps(0)) })
		id := r.submit(twolane.Submission{Type: "unknown"})[0]
		time.Sleep(2 * time.Minute)
		if c := r.get(id); c.Starts != 0 || c.Failures != 0 || c.Status != twolane.StatusPending {
			r.Errorf("%+v", c)
		}
		if n := w.metrics.get("twolane_unclaimable{default,intake,unknown}"); n != 1 {
			r.Errorf("unclaimable: %v, want 1", n)
		}
		if got := w.log.with("WARN", "starts nothing", "reason=no_worker", "for type unknown"); len(got) != 1 {
			r.Errorf("%d warnings: %q", len(got), w.log.with("WARN"))
		}
		r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) { twolane.HandleFunc(w, "unknown", r.sleeps(0)) })
		r.wait(id)
		time.Sleep(2 * time.Minute)
		if n := w.metrics.get("twolane_unclaimable{default,intake,unknown}"); n != 0 {
			r.Errorf("unclaimable: %v after a worker came, want 0", n)
		}
		if got := w.log.with("INFO", "goes on"); len(got) != 1 {
			r.Errorf("the end of the episode was told %d times", len(got))
		}
	})
}

// All handlers blocked: said once, with who holds the permits, and once more when it is over.
func TestStarvationIsSaid(t *testing.T) {
	for _, c := range []struct {
		reason, detail string
		stop, again    func(r *rig)
	}{
		{"permits", "all 4 permits are held", nil, nil},
		{"queue_paused", "", func(r *rig) { r.pause(twolane.PauseAll) }, func(r *rig) { r.pause(twolane.PauseNone) }},
		{"rate", "default/intake", func(r *rig) { r.rate(1e-5) }, func(r *rig) { r.rate(0) }},
		{"limit", "vms", func(r *rig) { r.vms(0) }, func(r *rig) { r.vms(9) }},
	} {
		t.Run(c.reason, func(t *testing.T) {
			rigged(t, 0, func(r *rig) {
				release := make(chan struct{})
				var hooked box[[]twolane.Starvation]
				w := r.work(twolane.WorkerConfig{Concurrency: twolane.Lanes{Intake: 4, Repoll: 4}, Hooks: twolane.Hooks{Starving: func(s twolane.Starvation) {
					hooked.with(func(v *[]twolane.Starvation) { *v = append(*v, s) })
				}}}, func(w *twolane.Worker) {
					twolane.HandleFunc(w, "a", func(ctx context.Context, j *job) (any, error) {
						if c.stop == nil {
							<-release
						}
						return nil, nil
					})
				})
				if c.stop != nil {
					c.stop(r)
				}
				r.many(10, twolane.Submission{Type: "a"})
				time.Sleep(time.Minute)
				warned := w.log.with("WARN", "starts nothing", "lane=intake", c.reason, c.detail)
				began := hooked.get()
				if len(warned) != 1 || len(began) != 1 || began[0].Reason != c.reason || began[0].Oldest < 4*time.Second || began[0].Oldest > 12*time.Second {
					r.Fatalf("warned %q, hooks %+v", warned, began)
				}
				if !strings.Contains(began[0].Detail, c.detail) {
					r.Errorf("detail %q", began[0].Detail)
				}
				if n := w.metrics.get("twolane_lane_starved{intake," + c.reason + "}"); n != 1 {
					r.Errorf("gauge %v", n)
				}
				if h := w.Health(); h.Starving["intake"] != c.reason {
					r.Errorf("health %+v", h)
				}
				close(release)
				if c.again != nil {
					c.again(r)
				}
				time.Sleep(time.Minute)
				if got := w.log.with("INFO", "goes on", c.reason); len(got) != 1 {
					r.Errorf("its end was told %d times", len(got))
				}
				if n := w.metrics.get("twolane_lane_starved{intake," + c.reason + "}"); n != 0 {
					r.Errorf("gauge %v at the end", n)
				}
			})
		})
	}
}

// A warning about a limit has its numbers: how many it admits, who holds it, how many lines wait, when it opens. And what limits decide is counted.
func TestStarvationNamesTheLimit(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		for _, l := range []twolane.Limit{
			{Name: "vms", By: twolane.ByKey, Key: "zone", Max: 2, Scope: twolane.ScopeCommand}, {Name: "api", By: twolane.ByType, Rate: 1.0 / 60, Burst: 2},
		} {
			if err := r.client.SetLimit(r.Context(), l); err != nil {
				r.Fatal(err)
			}
		}
		var hooked box[[]twolane.Starvation]
		h := handler{
			Execute: func(context.Context, *job) (twolane.Outcome, error) { return twolane.Processing("", time.Hour), nil },
			Check:   func(context.Context, *job) (twolane.Outcome, error) { return twolane.Processing("", time.Hour), nil },
		}
		cfg := twolane.WorkerConfig{Hooks: twolane.Hooks{Starving: func(s twolane.Starvation) {
			hooked.with(func(v *[]twolane.Starvation) { *v = append(*v, s) })
		}}}
		w := r.work(cfg, func(w *twolane.Worker) {
			twolane.Handle(w, "vm", h)
			twolane.Handle(w, "call", h)
		})
		in := func(id string) twolane.Submission {
			return twolane.Submission{ID: id, Type: "vm", Keys: map[string]string{"zone": "eu"}}
		}
		r.submit(in("one"), in("two"))
		time.Sleep(sec)
		more := r.submit(in("three"), in("four"))
		time.Sleep(20 * sec)
		if got := w.log.with("WARN", "starts nothing", "reason=limit", "limit=vms", "value=eu", "members=2", "max=2", "holders=[one two]", "lines=1"); len(got) != 1 {
			r.Errorf("warned %q", w.log.with("WARN"))
		}
		if s := hooked.get(); len(s) != 1 || s[0].Limit == nil || s[0].Limit.Max != 2 || !strings.Contains(s[0].Detail, "limit vms=eu is full (2 of 2, held by one and 1 others); 1 lines wait") {
			r.Errorf("hooks %+v", s)
		}
		if n := w.metrics.get("twolane_limit_decisions_total{vms,intake,admitted}"); n != 2 {
			r.Errorf("%v were admitted, want 2", n)
		}
		if n := w.metrics.get("twolane_limit_decisions_total{vms,intake,refused}"); n < 10 {
			r.Errorf("%v claims were refused in 20 s", n)
		}
		if _, err := r.client.Cancel(r.Context(), append(more, "one", "two"), nil); err != nil {
			r.Fatal(err)
		}
		hooked.set(nil)
		calls := r.many(5, twolane.Submission{Type: "call"})
		time.Sleep(20 * sec)
		if got := w.log.with("WARN", "starts nothing", "reason=limit", "limit=api", "value=call", "lines=1", "opens_in="); len(got) != 1 || strings.Contains(got[0], "members") {
			r.Errorf("warned %q", w.log.with("WARN"))
		}
		if s := hooked.get(); len(s) != 1 || s[0].Limit == nil || !s[0].Limit.Rate || s[0].Limit.Next <= 0 || s[0].Limit.Next > time.Minute {
			r.Errorf("hooks %+v", s)
		}
		if n := w.metrics.get("twolane_limit_decisions_total{api,intake,refused}"); n < 10 {
			r.Errorf("%v claims were refused in 20 s", n)
		}
		if _, err := r.client.Cancel(r.Context(), calls, nil); err != nil {
			r.Fatal(err)
		}
		time.Sleep(20 * sec) // the episode is over
		// One that can never run, since the limit was lowered, is told of as what it is.
		r.submit(twolane.Submission{Type: "vm", Cost: 2, Keys: map[string]string{"zone": "us"}, Delay: sec})
		if err := r.client.SetLimit(r.Context(), twolane.Limit{Name: "vms", By: twolane.ByKey, Key: "zone", Max: 1}); err != nil {
			r.Fatal(err)
		}
		time.Sleep(20 * sec)
		if got := w.log.with("WARN", "limit=vms", "value=us", "limit vms=us admits 1 and the command costs more"); len(got) != 1 {
			r.Errorf("warned %q", w.log.with("WARN"))
		}
	})
}

func (r *rig) pause(m twolane.PauseMode) {
	r.Helper()
	var err error
	if m == twolane.PauseNone {
		err = r.client.Resume(r.Context(), "default")
	} else {
		err = r.client.Pause(r.Context(), "default", m, time.Time{})
	}
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) vms(most int) {
	r.Helper()
	if err := r.client.SetLimit(r.Context(), twolane.Limit{Name: "vms", Max: most}); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) rate(perSecond float64) {
	r.Helper()
	cfg, err := r.st.Config(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	q := store.QueueConfig{Rates: [2]store.Rate{{Limit: perSecond}}}
	cfg.Queues = map[string]store.QueueConfig{"default": q}
	if perSecond > 0 { // take the first token, so that none is left
		cfg.Queues["default"] = store.QueueConfig{Rates: [2]store.Rate{{Limit: perSecond, Burst: 1}}}
		if _, err = r.st.Configure(r.Context(), cfg.Version, cfg); err == nil {
			r.wait(r.submit(twolane.Submission{Type: "a"})...)
		}
	} else {
		_, err = r.st.Configure(r.Context(), cfg.Version, cfg)
	}
	if err != nil {
		r.Fatal(err)
	}
}

// A worker that has nothing to do makes less than two calls a second, also for many queues.
func TestIdleWorkerIsQuiet(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		var qs []twolane.QueueShare
		for i := range 20 {
			qs = append(qs, twolane.QueueShare{Name: fmt.Sprint("q", i)})
		}
		w := r.work(twolane.WorkerConfig{Queues: qs}, func(w *twolane.Worker) {
			twolane.Handle(w, "a", handler{Execute: func(context.Context, *job) (twolane.Outcome, error) { return twolane.Done(nil), nil },
				Check: func(context.Context, *job) (twolane.Outcome, error) { return twolane.Done(nil), nil }})
		})
		time.Sleep(time.Second)
		before := w.calls()
		time.Sleep(time.Minute)
		if n := w.calls() - before; n >= 120 {
			r.Errorf("%d calls in a minute", n)
		} else {
			r.Logf("%d calls in a minute", n)
		}
		if age := w.metrics.get("twolane_claim_age_seconds{}"); age > 1.2 {
			r.Errorf("claim age %v: gauges stand still when idle", age)
		}
	})
}

// A new command on an idle queue starts at once, and within a poll interval without any wake-up.
func TestStartLatency(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprint("deaf=", deaf), func(t *testing.T) {
			rigged(t, 0, func(r *rig) {
				var took time.Duration
				w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
					twolane.HandleFunc(w, "a", func(ctx context.Context, j *job) (any, error) { took = time.Since(j.Created()); return nil, nil })
				})
				if deaf {
					w.deafen()
				}
				time.Sleep(10 * time.Second)
				most := time.Duration(0)
				for range 50 {
					r.wait(r.submit(twolane.Submission{Type: "a"})...)
					most = max(most, took)
					time.Sleep(137 * time.Millisecond)
				}
				if want := map[bool]time.Duration{false: time.Millisecond, true: 1110 * time.Millisecond}[deaf]; most > want {
					r.Errorf("started after %v, want %v", most, want)
				}
				synctest.Wait()
			})
		})
	}
}
