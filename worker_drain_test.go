package twolane_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/faultstore"
)

// drain ends a worker within a budget and says what was left.
func (r *rig) drain(w *rigWorker, budget time.Duration) twolane.DrainReport {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), budget)
	defer cancel()
	start := time.Now()
	rep, err := w.Drain(ctx)
	if err != nil {
		r.Fatal(err)
	}
	if d := time.Since(start); d > budget || rep.Took > budget {
		r.Errorf("the drain took %v of %v", d, budget)
	}
	if rep.Held != rep.Settled+rep.GivenBack+rep.Lost+len(rep.Running)+len(rep.Unsettled) {
		r.Errorf("the report does not add up: %+v", rep)
	}
	<-w.ended
	var left *twolane.DrainError
	if clean := len(rep.Running)+len(rep.Unsettled)+len(rep.Abandoned) == 0 && !rep.Claim; clean != (w.err == nil) || !clean && !errors.As(w.err, &left) {
		r.Errorf("Run returned %v after %+v", w.err, rep)
	}
	w.dead = w.err != nil
	return rep
}

// Renewals go on to the end of a drain: one run, and its outcome is accepted.
func TestF117_DrainKeepsRenewing(t *testing.T) {
	rigged(t, 2*sec, func(r *rig) {
		w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) { twolane.HandleFunc(w, "a", r.sleeps(10*sec)) })
		id := r.submit(twolane.Submission{Type: "a"})[0]
		time.Sleep(sec)
		r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) { twolane.HandleFunc(w, "a", r.sleeps(10*sec)) })
		rep := r.drain(w, 30*sec)
		if rep.Settled != 1 || rep.Held != 1 || rep.Took < 8*sec || rep.Took > 10*sec {
			r.Errorf("%+v", rep)
		}
		if c := r.get(id); c.Status != twolane.StatusSucceeded || c.Starts != 1 {
			r.Errorf("%+v", c)
		}
	})
}

// At whatever step of claim, run and settle the drain comes, it ends in time and everything is settled or given back; another worker does the
// rest at once.
func TestF072_F119_F121_DrainAtAnyMoment(t *testing.T) {
	for round := range 50 {
		rng := rand.New(rand.NewPCG(uint64(round), 7))
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			rigged(t, 20*sec, func(r *rig) {
				delay := time.Duration(rng.IntN(30)) * time.Millisecond
				handlers := func(w *twolane.Worker) {
					twolane.HandleFunc(w, "quick", r.sleeps(20*time.Millisecond))
					twolane.HandleFunc(w, "slow", r.sleeps(time.Hour))
				}
				w := r.work(twolane.WorkerConfig{Concurrency: twolane.Lanes{Intake: 10, Repoll: 1}}, handlers)
				w.faults.Inject(faultstore.Rule{Ops: []faultstore.Op{faultstore.Claim, faultstore.Settle}, Fault: faultstore.Delay, Delay: delay})
				ids := slices.Concat(r.many(40, twolane.Submission{Type: "quick"}), r.many(2, twolane.Submission{Type: "slow"}))
				time.Sleep(time.Duration(rng.IntN(150)) * time.Millisecond)
				rep := r.drain(w, 4*sec)
				if w.err != nil {
					r.Errorf("%v", w.err)
				}
				if st, err := r.st.Stats(r.Context(), store.StatsRequest{}); err != nil || st.Queues[0].Lanes[0].Leased != 0 {
					r.Errorf("%+v leased after a clean drain %v", st.Queues[0].Lanes[0], err)
				}
				other := r.work(twolane.WorkerConfig{}, handlers)
				time.Sleep(2 * sec)
				for _, id := range ids[:40] {
					if c := r.get(id); c.Status != twolane.StatusSucceeded || c.Failures != 0 || c.Losses != 0 {
						r.Errorf("%v starts %d failures %d losses %d two seconds later", c.Status, c.Starts, c.Failures, c.Losses)
					}
				}
				if n := r.runs.of(ids[40]); n < 1 {
					r.Errorf("given back, and not started elsewhere within 2 s: %+v", rep)
				}
				if rep := r.drain(other, 4*sec); rep.GivenBack != 2 {
					r.Errorf("%+v", rep)
				}
			})
		})
	}
}

// Errors because of the shutdown are give-backs: a handler whose own resources are closed does not fail its command.
func TestF084_F100_ErrorsOfAShutdownAreGiveBacks(t *testing.T) {
	rigged(t, 20*sec, func(r *rig) {
		w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
			twolane.Handle(w, "a", handler{
				Execute: func(ctx context.Context, j *job) (twolane.Outcome, error) {
					if j.Params.N > 0 {
						return twolane.Processing(j.Params, 100*time.Millisecond), nil
					}
					<-ctx.Done()
					return twolane.Outcome{}, errors.New("sql: database is closed")
				},
				Check: func(ctx context.Context, j *job) (twolane.Outcome, error) {
					<-ctx.Done()
					panic("use of closed pool")
				},
			})
		})
		ids := r.submit(twolane.Submission{Type: "a", MaxFailures: 1}, twolane.Submission{Type: "a", Params: number{1}, MaxFailures: 1})
		time.Sleep(sec)
		rep := r.drain(w, 4*sec)
		if rep.GivenBack != 2 {
			r.Errorf("%+v", rep)
		}
		for i, want := range []twolane.Status{twolane.StatusPending, twolane.StatusProcessing} {
			if c := r.get(ids[i]); c.Status != want || c.Failures != 0 || c.Losses != 0 {
				r.Errorf("%v failures %d losses %d, want %v", c.Status, c.Failures, c.Losses, want)
			}
		}
		w.dead = false
	})
}

// A handler that ignores everything: the drain ends in time, names it, and leaves it its lease.
func TestF120_DrainEndsInTime(t *testing.T) {
	rigged(t, 2*sec, func(r *rig) {
		var cause box[error]
		w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) { twolane.HandleFunc(w, "a", r.stubborn(time.Minute, &cause)) })
		id := r.submit(twolane.Submission{Type: "a"})[0]
		time.Sleep(sec)
		start := time.Now()
		rep := r.drain(w, 5*sec)
		if !slices.Equal(rep.Running, []string{id}) || rep.Took != 5*sec-5*sec/64 {
			r.Errorf("%+v", rep)
		}
		if !errors.Is(cause.get(), twolane.ErrDraining) {
			r.Errorf("cause %v", cause.get())
		}
		if len(w.log.with("ERROR", id)) != 1 {
			r.Errorf("%q", w.log.with("ERROR"))
		}
		if c := r.get(id); c.Place != twolane.PlaceLeased || c.Starts != 1 {
			r.Errorf("%+v", c)
		}
		// Nobody starts it before its lease is over.
		r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) { twolane.HandleFunc(w, "a", r.sleeps(0)) })
		c := r.wait(id)[0]
		if d := time.Since(start); d < 5*sec || d > 9*sec || c.Starts != 2 {
			r.Errorf("run again after %v, %d starts", d, c.Starts)
		}
		time.Sleep(time.Minute)
	})
}

// A handler that was abandoned has neither permit nor lease, but its goroutine is there: the drain names it too. One that has returned is forgotten.
func TestDrainNamesAbandonedHandlers(t *testing.T) {
	for _, returns := range []bool{false, true} {
		t.Run(fmt.Sprint(returns), func(t *testing.T) {
			rigged(t, 2*sec, func(r *rig) {
				var cause box[error]
				goesOn := time.Minute
				if returns {
					goesOn = 10 * sec
				}
				w := r.work(twolane.WorkerConfig{Overdue: twolane.AbandonOverdue, OverdueGrace: sec}, func(w *twolane.Worker) {
					twolane.Handle(w, "a", handler{MaxRun: sec, Execute: func(ctx context.Context, j *job) (twolane.Outcome, error) {
						_, err := r.stubborn(goesOn, &cause)(ctx, j)
						return twolane.Done(nil), err
					}})
				})
				id := r.submit(twolane.Submission{Type: "a"})[0]
				time.Sleep(4 * sec)
				if h := w.Health(); h.Abandoned != 1 || h.Leases != 0 {
					r.Fatalf("%+v", h)
				}
				if _, err := r.client.Cancel(r.Context(), []string{id}, nil); err != nil {
					r.Fatal(err)
				}
				rep := r.drain(w, 8*sec)
				if returns {
					if w.err != nil || len(rep.Abandoned) != 0 || rep.Took > 7*sec {
						r.Errorf("%v %+v", w.err, rep)
					}
					return
				}
				if !slices.Equal(rep.Abandoned, []string{id}) || rep.Held != 0 || len(rep.Running) != 0 {
					r.Errorf("%+v", rep)
				}
				if got := w.log.with("ERROR", "left something", "1 abandoned handler has not returned", id); len(got) != 1 {
					r.Errorf("%q", w.log.with("ERROR"))
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// The store is away while the worker drains: it ends in time, with an error that names what is left.
func TestF122_F125_DrainWithTheStoreAway(t *testing.T) {
	for _, fault := range []faultstore.Fault{faultstore.FailBefore, faultstore.Hang, faultstore.DropReply} {
		t.Run(fault.String(), func(t *testing.T) {
			rigged(t, 2*sec, func(r *rig) {
				handlers := func(w *twolane.Worker) {
					twolane.HandleFunc(w, "quick", r.sleeps(sec))
					twolane.HandleFunc(w, "slow", r.sleeps(time.Hour))
				}
				w := r.work(twolane.WorkerConfig{}, handlers)
				ids := r.submit(twolane.Submission{Type: "quick"}, twolane.Submission{Type: "slow"})
				time.Sleep(sec / 2)
				w.faults.Inject(faultstore.Rule{Fault: fault})
				rep := r.drain(w, 4*sec)
				if rep.Held != 2 || len(rep.Running) != 0 {
					r.Errorf("%+v", rep)
				}
				if w.err == nil || len(w.log.with("ERROR", ids[0])) != 1 {
					r.Errorf("Run returned %v; log %q", w.err, w.log.with("ERROR"))
				}
				// The end of the lease covers what could not be given back: exactly one more run.
				b := r.work(twolane.WorkerConfig{}, handlers)
				r.wait(ids[0])
				time.Sleep(5 * sec)
				if n := r.runs.of(ids[1]); n != 2 {
					r.Errorf("%d starts of what was running, want 2", n)
				}
				if n := r.runs.of(ids[0]); fault == faultstore.DropReply && n != 1 || n > 2 {
					r.Errorf("%d starts of what had ended", n)
				}
				r.drain(b, 4*sec)
			})
		})
	}
}

// One budget for everything: queues do not add up, and the report does.
func TestF123_OneBudget(t *testing.T) {
	rigged(t, 20*sec, func(r *rig) {
		qs := []twolane.QueueShare{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}}
		var cause box[error]
		w := r.work(twolane.WorkerConfig{Queues: qs}, func(w *twolane.Worker) {
			twolane.HandleFunc(w, "quick", r.sleeps(3*sec))
			twolane.HandleFunc(w, "slow", r.sleeps(time.Hour))
			twolane.HandleFunc(w, "stuck", r.stubborn(time.Minute, &cause))
		})
		for _, q := range qs {
			for _, typ := range []string{"quick", "slow", "stuck"} {
				r.many(5, twolane.Submission{Type: typ, Queue: q.Name})
			}
		}
		time.Sleep(sec)
		rep := r.drain(w, 20*sec)
		if rep.Held != 60 || rep.Settled != 20 || rep.GivenBack != 20 || len(rep.Running) != 20 {
			r.Errorf("%+v", rep)
		}
		time.Sleep(time.Minute)
	})
}

func TestDrainOfAnIdleWorker(t *testing.T) {
	rigged(t, 20*sec, func(r *rig) {
		w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) { twolane.HandleFunc(w, "a", r.sleeps(0)) })
		time.Sleep(10 * sec)
		if rep := r.drain(w, 30*sec); rep.Took > 10*time.Millisecond {
			r.Errorf("%+v", rep)
		}
		st, err := r.st.Stats(r.Context(), store.StatsRequest{})
		if err != nil || len(st.Workers) != 0 {
			r.Errorf("%d workers registered after the drain (%v)", len(st.Workers), err)
		}
		if h := w.Health(); h.OK || h.Running {
			r.Errorf("%+v", h)
		}
	})
}

func TestRunTwiceAndDrainBefore(t *testing.T) {
	rigged(t, 20*sec, func(r *rig) {
		w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) { twolane.HandleFunc(w, "a", r.sleeps(0)) })
		synctest.Wait()
		if err := w.Run(r.Context()); err == nil {
			r.Error("a second Run works")
		}
		fresh, err := twolane.NewWorker(r.client, twolane.WorkerConfig{})
		if err != nil {
			r.Fatal(err)
		}
		if _, err := fresh.Drain(r.Context()); err == nil {
			r.Error("Drain before Run works")
		}
		if err := fresh.Run(r.Context()); !errors.Is(err, twolane.ErrInvalid) {
			r.Errorf("Run without a handler: %v", err)
		}
	})
}
