package twolane_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/faultstore"
)

// After an outage the worker has its full concurrency again: permits are not lost with the calls that were in flight.
func TestF018_FullConcurrencyAfterAnOutage(t *testing.T) {
	for _, fault := range []faultstore.Fault{faultstore.FailBefore, faultstore.DropReply, faultstore.Hang, faultstore.HangReply} {
		t.Run(fault.String(), func(t *testing.T) {
			rigged(t, 2*sec, func(r *rig) {
				var running crowd
				w := r.work(twolane.WorkerConfig{Concurrency: twolane.Lanes{Intake: 8, Repoll: 8}}, func(w *twolane.Worker) {
					f := r.sleeps(sec)
					twolane.HandleFunc(w, "a", func(ctx context.Context, j *job) (any, error) {
						defer running.enter()()
						return f(ctx, j)
					})
				})
				r.many(4, twolane.Submission{Type: "a"})
				time.Sleep(sec / 2)
				w.faults.Inject(faultstore.Rule{Fault: fault})
				time.Sleep(20 * sec)
				w.faults.Heal()
				running.with(func(v *[2]int) { v[1] = 0 })
				ids := r.many(100, twolane.Submission{Type: "a"})
				time.Sleep(10 * sec)
				if n := running.most(); n != 8 {
					r.Errorf("at most %d at once after the outage, want 8", n)
				}
				r.wait(ids...)
				r.idle(w)
				if h := w.Health(); !h.OK {
					r.Errorf("%+v", h)
				}
			})
		})
	}
}

// No error, of whatever kind and from whatever call, ends a loop.
func TestF025_NoErrorEndsALoop(t *testing.T) {
	for _, op := range []faultstore.Op{faultstore.Claim, faultstore.Renew, faultstore.Settle, faultstore.Watch, faultstore.Maintain, faultstore.Stats} {
		for _, err := range []error{store.ErrInvalid, store.ErrClosed, store.ErrSchema, store.ErrNotFound, context.Canceled, context.DeadlineExceeded, io.EOF} {
			t.Run(fmt.Sprint(op, err), func(t *testing.T) {
				rigged(t, 2*sec, func(r *rig) {
					w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) { twolane.HandleFunc(w, "a", r.sleeps(0)) })
					time.Sleep(sec)
					w.faults.Inject(faultstore.Rule{Ops: []faultstore.Op{op}, Fault: faultstore.FailBefore, Err: err})
					ids := r.many(3, twolane.Submission{Type: "a"})
					time.Sleep(10 * sec)
					w.faults.Heal()
					start := time.Now()
					r.wait(ids...)
					if d := time.Since(start); d > 6*sec {
						r.Errorf("it went on %v after the error was gone", d)
					}
					time.Sleep(6 * sec)
					if h := w.Health(); !h.OK {
						r.Errorf("%+v", h)
					}
					r.idle(w)
				})
			})
		}
	}
}

// With the store down each loop makes less than two calls a second, and says so less than once a second.
func TestF130_NoHotLoopWhileTheStoreIsDown(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) { twolane.HandleFunc(w, "a", r.sleeps(sec)) })
		r.many(100, twolane.Submission{Type: "a"})
		time.Sleep(sec / 2)
		before := map[faultstore.Op]int{}
		for _, op := range faultstore.Ops {
			before[op] = w.faults.Calls(op)
		}
		w.faults.Inject(faultstore.Rule{Fault: faultstore.FailBefore})
		time.Sleep(time.Minute)
		for _, op := range faultstore.Ops {
			if n := w.faults.Calls(op) - before[op]; n >= 120 {
				r.Errorf("%s: %d calls in a minute", op, n)
			}
		}
		if n := len(w.log.with("WARN")); n >= 60 || n == 0 {
			r.Errorf("%d warnings in a minute", n)
		}
	})
}

// "Committed, but the reply was lost", of each call: nothing runs twice, nothing is lost, nothing counts.
func TestLostReplies(t *testing.T) {
	for _, op := range []faultstore.Op{faultstore.Claim, faultstore.Settle, faultstore.Renew} {
		t.Run(string(op), func(t *testing.T) {
			rigged(t, 20*sec, func(r *rig) {
				w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) { twolane.HandleFunc(w, "a", r.sleeps(time.Millisecond)) })
				time.Sleep(sec)
				w.faults.Inject(faultstore.Rule{Ops: []faultstore.Op{op}, Fault: faultstore.DropReply, P: .5})
				start := time.Now()
				cs := r.wait(r.many(300, twolane.Submission{Type: "a"})...)
				for _, c := range cs {
					if c.Starts != 1 || c.Failures != 0 || c.Losses != 0 || c.Status != twolane.StatusSucceeded {
						r.Fatalf("%+v", c)
					}
				}
				if d := time.Since(start); d > 15*sec {
					r.Errorf("it took %v: what a claim got came back only with the end of its leases", d)
				}
				if n := r.runs.total(); n != 300 {
					r.Errorf("%d starts of 300", n)
				}
				if n := w.metrics.get("twolane_stale_settles_total{default,a}"); n != 0 {
					r.Errorf("%v stale settles", n)
				}
				w.faults.Heal()
				time.Sleep(6 * sec)
				r.idle(w)
			})
		})
	}
}

// Outcomes wait for the store, and their leases are renewed meanwhile.
func TestSettleOutlastsAnOutage(t *testing.T) {
	rigged(t, 2*sec, func(r *rig) {
		w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) { twolane.HandleFunc(w, "a", r.sleeps(sec)) })
		ids := r.many(10, twolane.Submission{Type: "a"})
		time.Sleep(sec / 2)
		w.faults.Inject(faultstore.Rule{Ops: []faultstore.Op{faultstore.Settle}, Fault: faultstore.FailBefore})
		r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) { twolane.HandleFunc(w, "a", r.sleeps(sec)) })
		time.Sleep(30 * sec)
		if h := w.Health(); h.Unsettled != 10 || h.Held.Intake != 0 {
			r.Errorf("%+v", h)
		}
		r.status(twolane.StatusPending, ids...)
		w.faults.Heal()
		for _, c := range r.wait(ids...) {
			if c.Starts != 1 {
				r.Errorf("%d starts", c.Starts)
			}
		}
	})
}

// A poison command that kills its process ends as worker_lost; those that ran beside it do not.
func TestF149_PoisonEndsAndNeighboursLive(t *testing.T) {
	rigged(t, 2*sec, func(r *rig) {
		hour := func(ctx context.Context, j *job) (any, error) {
			select {
			case <-time.After(10 * time.Minute):
				return nil, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		var w *rigWorker
		killed := make(chan *rigWorker, 100)
		spawn := func() {
			w = r.work(twolane.WorkerConfig{DrainBudget: sec}, func(tw *twolane.Worker) {
				twolane.HandleFunc(tw, "innocent", hour)
				twolane.HandleFunc(tw, "poison", func(ctx context.Context, j *job) (any, error) {
					time.Sleep(sec / 10)
					killed <- w
					<-ctx.Done()
					return nil, ctx.Err()
				})
			})
		}
		spawn()
		innocents := r.many(40, twolane.Submission{Type: "innocent"})
		poison := r.submit(twolane.Submission{Type: "poison"})[0]
		deaths := 0
		for r.get(poison).Status == twolane.StatusPending {
			select {
			case dead := <-killed:
				deaths++
				r.kill(dead)
				spawn()
			case <-time.After(sec):
			}
			if deaths > 20 {
				r.Fatal("it goes round for ever")
			}
		}
		c := r.get(poison)
		if c.Status != twolane.StatusFailed || c.Reason != twolane.ReasonWorkerLost || deaths != store.DefaultLosses {
			r.Errorf("%v %s after %d deaths", c.Status, c.Reason, deaths)
		}
		for _, c := range r.wait(innocents...) {
			if c.Status != twolane.StatusSucceeded {
				r.Errorf("an innocent is %v (%s)", c.Status, c.Reason)
			}
		}
	})
}

// A peer that takes every call and answers none: each loop goes on trying, and Run ends in time.
func TestWatchComesBack(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		var took time.Duration
		w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
			twolane.HandleFunc(w, "a", func(ctx context.Context, j *job) (any, error) { took = time.Since(j.Created()); return nil, nil })
		})
		w.stop()
		<-w.ended
		faulty := r.workWith(func(f *faultstore.Faults) {
			f.Inject(faultstore.Rule{Ops: []faultstore.Op{faultstore.Watch}, Fault: faultstore.FailBefore, Err: errors.New("no")})
		}, func(w *twolane.Worker) {
			twolane.HandleFunc(w, "a", func(ctx context.Context, j *job) (any, error) { took = time.Since(j.Created()); return nil, nil })
		})
		time.Sleep(time.Minute)
		if n := faulty.faults.Calls(faultstore.Watch); n > 60 || n < 10 {
			r.Errorf("%d tries to watch in a minute", n)
		}
		if n := len(faulty.log.with("WARN", "call=watch")); n == 0 || n > 6 {
			r.Errorf("%d warnings that watching fails", n)
		}
		r.wait(r.submit(twolane.Submission{Type: "a"})...)
		faulty.faults.Heal()
		time.Sleep(10 * sec)
		r.wait(r.submit(twolane.Submission{Type: "a"})...)
		if took > time.Millisecond {
			r.Errorf("started after %v: wake-ups did not come back", took)
		}
	})
}
