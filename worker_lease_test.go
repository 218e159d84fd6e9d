package twolane_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/faultstore"
)

const sec = time.Second

// stubborn is a handler that runs for d whatever its context says; it notes the cause with which that ended.
func (r *rig) stubborn(d time.Duration, cause *box[error]) func(context.Context, *job) (any, error) {
	return func(ctx context.Context, j *job) (any, error) {
		defer r.runs.enter(ctx, j.ID())()
		stop := context.AfterFunc(ctx, func() { cause.set(context.Cause(ctx)) })
		defer stop()
		time.Sleep(d)
		return j.Lease(), nil
	}
}

// A worker whose renewals fail loses the lease of what it runs to its own claim: it does not start it again beside itself.
func TestF011_OwnReclaimDoesNotRunTwice(t *testing.T) {
	rigged(t, 2*sec, func(r *rig) {
		var cause box[error]
		var running crowd
		w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
			f := r.stubborn(20*sec, &cause)
			twolane.HandleFunc(w, "a", func(ctx context.Context, j *job) (any, error) {
				defer running.enter()()
				return f(ctx, j)
			})
		})
		id := r.submit(twolane.Submission{Type: "a"})
		time.Sleep(sec)
		w.faults.Inject(faultstore.Rule{Ops: []faultstore.Op{faultstore.Renew}, Fault: faultstore.FailBefore})
		time.Sleep(10 * sec)
		if !errors.Is(cause.get(), twolane.ErrLeaseLost) {
			r.Errorf("its context ended with %v, want ErrLeaseLost", cause.get())
		}
		if c := r.get(id[0]); c.Status == twolane.StatusPending && c.Failures != 0 {
			r.Errorf("a lost lease is no failure: %+v", c)
		}
		w.faults.Heal()
		r.wait(id...)
		if n := running.most(); n != 1 {
			r.Errorf("%d handlers of one command at once in one process", n)
		}
		if n := w.metrics.get("twolane_given_back_unstarted_total{default,intake}"); n == 0 {
			r.Error("it was not given back while it still ran here")
		}
		r.idle(w)
	})
}

// All calls hang: each try of the heartbeat is bounded, and health and metrics say so before the first lease runs out.
func TestF014_HungStoreIsSeenBeforeLeasesEnd(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		var fenced box[time.Time]
		var hung time.Time
		w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
			twolane.HandleFunc(w, "a", func(ctx context.Context, j *job) (any, error) {
				<-ctx.Done()
				fenced.with(func(t *time.Time) {
					if t.IsZero() {
						*t = time.Now()
					}
				})
				return nil, ctx.Err()
			})
		})
		r.many(10, twolane.Submission{Type: "a"})
		time.Sleep(21 * sec)
		if h := w.Health(); !h.OK || h.SinceRenew > 5*sec+sec/10 || h.Held.Intake != 10 {
			r.Fatalf("%+v", h)
		}
		hung = time.Now()
		w.faults.Inject(faultstore.Rule{Fault: faultstore.Hang})
		calls := w.faults.Calls(faultstore.Renew)
		time.Sleep(11 * sec)
		h := w.Health()
		if h.OK || !fenced.get().IsZero() || len(h.Reasons) == 0 {
			r.Errorf("%v after the store hung: %+v, fenced %v", time.Since(hung), h, !fenced.get().IsZero())
		}
		if age := w.metrics.get("twolane_renew_age_seconds{}"); age < 10 {
			r.Errorf("renew age %v", age)
		}
		if n := w.faults.Calls(faultstore.Renew) - calls; n < 3 {
			r.Errorf("%d tries in 11 s: one try holds the others up", n)
		}
		time.Sleep(10 * sec)
		if d := fenced.get().Sub(hung); d < 12500*time.Millisecond || d > 17500*time.Millisecond {
			r.Errorf("fenced %v after the store hung", d)
		}
		w.faults.Heal()
		time.Sleep(30 * sec)
		if h := w.Health(); !h.OK {
			r.Errorf("after it is back: %+v", h)
		}
	})
}

// Nothing fires before its time. With abandon the command runs again elsewhere and the permit is somebody else's; with keep both are held and named.
func TestF017_F004_HandlerThatIgnoresItsEnd(t *testing.T) {
	for _, policy := range []twolane.OverduePolicy{twolane.KeepOverdue, twolane.AbandonOverdue} {
		t.Run(fmt.Sprint(policy), func(t *testing.T) {
			rigged(t, 2*sec, func(r *rig) {
				var overdue box[[]string]
				cfg := twolane.WorkerConfig{Concurrency: twolane.Lanes{Intake: 2, Repoll: 1}, Overdue: policy, OverdueGrace: 2 * sec,
					Hooks: twolane.Hooks{Overdue: func(id string, by time.Duration) { overdue.with(func(v *[]string) { *v = append(*v, id) }) }}}
				var cause box[error]
				var first atomic.Bool
				first.Store(true)
				handlers := func(w *twolane.Worker) {
					twolane.Handle(w, "stuck", handler{MaxRun: 5 * sec, Execute: func(ctx context.Context, j *job) (twolane.Outcome, error) {
						if !first.Swap(false) {
							return twolane.Done(nil), nil
						}
						v, err := r.stubborn(time.Minute, &cause)(ctx, j)
						return twolane.Done(v), err
					}})
					twolane.HandleFunc(w, "a", r.sleeps(time.Second))
				}
				w := r.work(cfg, handlers)
				id := r.submit(twolane.Submission{Type: "stuck"})[0]
				time.Sleep(5*sec - 1)
				synctest.Wait()
				if cause.get() != nil || w.metrics.get("twolane_run_timeouts_total{default,stuck}") != 0 || len(w.log.with("WARN")) != 0 {
					r.Fatalf("something fired before its time: %v %q", cause.get(), w.log.with("WARN"))
				}
				time.Sleep(100 * time.Millisecond)
				if !errors.Is(cause.get(), twolane.ErrMaxRun) || w.metrics.get("twolane_run_timeouts_total{default,stuck}") != 1 {
					r.Fatalf("cause %v", cause.get())
				}
				if w.metrics.get("twolane_stuck_handlers{}") != 0 || len(overdue.get()) != 0 {
					r.Fatal("overdue without its grace")
				}
				time.Sleep(2500 * time.Millisecond)
				if w.metrics.get("twolane_stuck_handlers{}") != 1 || !slices.Equal(overdue.get(), []string{id}) || len(w.log.with("WARN", "ignores the end", id)) != 1 {
					r.Fatalf("stuck %v, hook %v", w.metrics.get("twolane_stuck_handlers{}"), overdue.get())
				}
				r.work(twolane.WorkerConfig{}, handlers)
				r.wait(r.many(6, twolane.Submission{Type: "a"})...)
				x, err := r.client.Explain(r.Context(), id)
				if err != nil {
					r.Fatal(err)
				}
				if policy == twolane.KeepOverdue {
					if c := r.get(id); c.Starts != 1 || c.Losses != 0 {
						r.Errorf("with keep: %+v", c)
					}
					if !strings.Contains(x.Text, "ignores the end of its time") {
						r.Errorf("explain: %s", x.Text)
					}
					if h := w.Health(); h.Overdue != 1 || h.Abandoned != 0 || !h.OK || h.Held.Intake != 1 {
						r.Errorf("%+v", h)
					}
					c := r.wait(id)[0]
					if c.Status != twolane.StatusSucceeded || c.Starts != 1 || c.Losses != 0 {
						r.Errorf("%+v", c)
					}
				} else {
					if h := w.Health(); h.OK || h.Abandoned != 1 || h.Held.Intake != 0 || h.Free.Intake != 2 {
						r.Errorf("%+v", h)
					}
					c := r.wait(id)[0]
					if c.Status != twolane.StatusSucceeded || c.Starts != 2 {
						r.Errorf("%+v", c)
					}
					time.Sleep(time.Minute)
					if h := w.Health(); !h.OK || h.Abandoned != 0 {
						r.Errorf("after it has returned: %+v", h)
					}
					if n := w.metrics.get("twolane_stuck_handlers{}"); n != 0 {
						r.Errorf("%v stuck handlers after it has returned", n)
					}
				}
			})
		})
	}
}

// A handler that keeps the heartbeat from running: the loss is detected, its result is refused and counted, one result is kept.
func TestF044_LateResultIsRefused(t *testing.T) {
	rigged(t, 2*sec, func(r *rig) {
		var cause, other box[error]
		a := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) { twolane.HandleFunc(w, "a", r.stubborn(10*sec, &cause)) })
		id := r.submit(twolane.Submission{Type: "a"})[0]
		time.Sleep(sec)
		a.faults.Inject(faultstore.Rule{Ops: []faultstore.Op{faultstore.Renew, faultstore.Claim}, Fault: faultstore.FailBefore})
		r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) { twolane.HandleFunc(w, "a", r.stubborn(20*sec, &other)) })
		c := r.wait(id)[0]
		if a.metrics.get("twolane_stale_settles_total{default,a}") != 1 || a.metrics.get("twolane_leases_lost_total{default,a}") != 1 {
			r.Errorf("stale settles %v, lost leases %v", a.metrics.get("twolane_stale_settles_total{default,a}"), a.metrics.get("twolane_leases_lost_total{default,a}"))
		}
		if c.Starts != 2 || c.Status != twolane.StatusSucceeded || !strings.HasPrefix(strings.Trim(string(c.Result), `"`), "2.") {
			r.Errorf("starts %d, result %s: want that of the second lease", c.Starts, c.Result)
		}
		r.idle(a)
	})
}

// A handler may run for as long as it likes: it is never taken for dead.
func TestF046_F164_LongRunsAreNotReclaimed(t *testing.T) {
	rigged(t, 30*sec, func(r *rig) {
		handlers := func(w *twolane.Worker) {
			twolane.Handle(w, "long", handler{MaxRun: 2 * time.Hour, Execute: func(ctx context.Context, j *job) (twolane.Outcome, error) {
				_, err := r.sleeps(time.Hour)(ctx, j)
				return twolane.Done(nil), err
			}})
			twolane.HandleFunc(w, "plain", r.sleeps(time.Hour))
		}
		cfg := twolane.WorkerConfig{MaxRun: 10 * time.Minute}
		a, b := r.work(cfg, handlers), r.work(cfg, handlers)
		ids := r.submit(twolane.Submission{Type: "long"}, twolane.Submission{Type: "plain", MaxFailures: 1})
		time.Sleep(10*time.Minute - sec)
		if n := len(a.log.with("maximum run time")) + len(b.log.with("maximum run time")); n != 0 {
			r.Errorf("%d warnings before its time", n)
		}
		cs := r.wait(ids...)
		if cs[0].Status != twolane.StatusSucceeded || cs[0].Starts != 1 || cs[0].Losses != 0 {
			r.Errorf("long: %+v", cs[0])
		}
		if n := len(slices.Concat(a.log.with("maximum run time", ids[1]), b.log.with("maximum run time", ids[1]))); n != 1 || cs[1].Starts != 1 {
			r.Errorf("a type without a time of its own was warned %d times, started %d times", n, cs[1].Starts)
		}
		if n := a.metrics.get("twolane_lease_expirations_total{}") + b.metrics.get("twolane_worker_losses_total{}"); n != 0 {
			r.Errorf("%v leases ended", n)
		}
	})
}

// With renewals there is one run; without them the context ends before anybody else may start.
func TestF054_FenceComesBeforeTheSecondStart(t *testing.T) {
	for _, renews := range []bool{true, false} {
		t.Run(fmt.Sprint("renews=", renews), func(t *testing.T) {
			rigged(t, 4*sec, func(r *rig) {
				var fenced, again box[time.Time]
				handlers := func(w *twolane.Worker) {
					twolane.HandleFunc(w, "a", func(ctx context.Context, j *job) (any, error) {
						defer r.runs.enter(ctx, j.ID())()
						if j.Starts() > 1 {
							again.set(time.Now())
							return nil, nil
						}
						select {
						case <-time.After(12 * sec):
						case <-ctx.Done():
							fenced.set(time.Now())
							time.Sleep(20 * sec)
						}
						return nil, ctx.Err()
					})
				}
				a := r.work(twolane.WorkerConfig{}, handlers)
				id := r.submit(twolane.Submission{Type: "a"})[0]
				time.Sleep(sec / 2)
				r.work(twolane.WorkerConfig{}, handlers)
				if !renews {
					a.faults.Inject(faultstore.Rule{Ops: []faultstore.Op{faultstore.Renew}, Fault: faultstore.FailBefore})
				}
				c := r.wait(id)[0]
				ended, second := fenced.get(), again.get()
				switch {
				case renews && (c.Starts != 1 || !ended.IsZero()):
					r.Errorf("starts %d, context ended %v", c.Starts, !ended.IsZero())
				case !renews && (c.Starts != 2 || ended.IsZero() || second.Sub(ended) < sec/2):
					r.Errorf("starts %d; the second %v after the context had ended, want half a second (V/8)", c.Starts, second.Sub(ended))
				}
			})
		})
	}
}

// The lease counts from the claim, the run time from the start of the handler.
func TestF064_TimersStartWhereTheyShould(t *testing.T) {
	rigged(t, 20*sec, func(r *rig) {
		var ran time.Duration
		w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
			twolane.Handle(w, "a", handler{MaxRun: 3 * sec, Execute: func(ctx context.Context, j *job) (twolane.Outcome, error) {
				start := time.Now()
				<-ctx.Done()
				ran = time.Since(start)
				return twolane.Done(nil), nil
			}})
		})
		time.Sleep(sec)
		w.faults.Inject(faultstore.Rule{Ops: []faultstore.Op{faultstore.Claim}, Fault: faultstore.HangReply, Count: 1})
		id := r.submit(twolane.Submission{Type: "a"})[0]
		time.Sleep(4 * sec) // the claim is made, its answer is on the way
		w.faults.Heal()
		c := r.wait(id)[0]
		if ran != 3*sec {
			r.Errorf("its context ended %v after its start, want 3s", ran)
		}
		if d := w.metrics.get("twolane_run_duration_seconds{default,intake,a}"); d != 3 {
			r.Errorf("run duration %v", d)
		}
		if c.Starts != 1 {
			r.Errorf("%d starts", c.Starts)
		}
	})
}

// Renewals that take long show as a small margin before a lease is lost.
func TestF145_MarginIsSeenBeforeALoss(t *testing.T) {
	rigged(t, 20*sec, func(r *rig) {
		w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) { twolane.HandleFunc(w, "a", r.sleeps(time.Minute)) })
		id := r.submit(twolane.Submission{Type: "a"})
		time.Sleep(15 * sec)
		if m := w.metrics.low("twolane_lease_margin_ratio{}"); m < .74 || m > .76 {
			r.Errorf("margin %v with a quick store, want 3/4", m)
		}
		// Of the tries of two ticks only the last gets through.
		w.faults.Inject(faultstore.Rule{Ops: []faultstore.Op{faultstore.Renew}, Fault: faultstore.FailBefore, Count: 4})
		r.wait(id...)
		if m := w.metrics.low("twolane_lease_margin_ratio{}"); m > .3 || m < .2 {
			r.Errorf("smallest margin %v, want a quarter", m)
		}
		if w.metrics.get("twolane_leases_lost_total{default,a}") != 0 {
			r.Error("a lease was lost")
		}
	})
}

// What a worker that was stopped for longer than V finds when it goes on: nothing of ours tells it that it still has the lease.
func TestF057_StoppedWorkerKnows(t *testing.T) {
	rigged(t, 2*sec, func(r *rig) {
		var alive, progress error
		a := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
			twolane.HandleFunc(w, "a", func(ctx context.Context, j *job) (any, error) {
				if j.Starts() > 1 {
					return "second", nil
				}
				if err := errors.Join(j.Alive(), j.Progress("begun")); err != nil {
					return nil, err
				}
				time.Sleep(5 * sec)
				alive, progress = j.Alive(), j.Progress("more")
				return "first", nil
			})
		})
		id := r.submit(twolane.Submission{Type: "a"})[0]
		time.Sleep(100 * time.Millisecond)
		a.faults.Inject(faultstore.Rule{Fault: faultstore.Hang}) // as good as stopped, seen from the store
		r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
			twolane.HandleFunc(w, "a", func(ctx context.Context, j *job) (any, error) { return "second", nil })
		})
		c := r.wait(id)[0]
		time.Sleep(6 * sec)
		a.faults.Heal()
		if !errors.Is(alive, twolane.ErrLeaseLost) || !errors.Is(progress, twolane.ErrLeaseLost) {
			r.Errorf("Alive %v, Progress %v: want ErrLeaseLost", alive, progress)
		}
		time.Sleep(10 * sec)
		if string(c.Result) != `"second"` || string(r.get(id).Result) != `"second"` {
			r.Errorf("result %s", c.Result)
		}
		st, err := r.st.Stats(r.Context(), store.StatsRequest{})
		if err != nil || len(st.Workers) != 2 {
			r.Errorf("%d workers are registered after it went on, want 2 (%v)", len(st.Workers), err)
		}
	})
}

// A store that is away for less than 10 s is not noticed by anybody's handler.
func TestShortOutageGoesUnnoticed(t *testing.T) {
	for phase := range 10 {
		t.Run(fmt.Sprint(phase), func(t *testing.T) {
			rigged(t, 20*sec, func(r *rig) {
				w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) { twolane.HandleFunc(w, "a", r.sleeps(time.Minute)) })
				id := r.submit(twolane.Submission{Type: "a"})[0]
				time.Sleep(20*sec + time.Duration(phase)*sec/2)
				w.faults.Inject(faultstore.Rule{Fault: faultstore.FailBefore})
				time.Sleep(10*sec - 1)
				w.faults.Heal()
				if c := r.wait(id)[0]; c.Starts != 1 || w.metrics.get("twolane_leases_lost_total{default,a}") != 0 {
					r.Errorf("%d starts, %v leases lost", c.Starts, w.metrics.get("twolane_leases_lost_total{default,a}"))
				}
			})
		})
	}
}
