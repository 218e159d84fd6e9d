package twolane_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store/faultstore"
)

func (r *rig) cancel(id string) {
	r.Helper()
	if _, err := r.client.Cancel(r.Context(), []string{id}, nil); err != nil {
		r.Fatal(err)
	}
}

// Cancel of a running command reaches its context at once with a wake-up, with the next heartbeat without; no retry follows.
func TestF162_F100_CancelOfARunningCommand(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		rigged(t, 20*sec, func(r *rig) {
			var cause error
			var ended time.Time
			w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
				twolane.HandleFunc(w, "a", func(ctx context.Context, j *job) (any, error) {
					<-ctx.Done()
					ended, cause = time.Now(), context.Cause(ctx)
					return nil, ctx.Err()
				})
			})
			if deaf {
				w.deafen()
			}
			id := r.submit(twolane.Submission{Type: "a"})[0]
			time.Sleep(7 * sec)
			asked := time.Now()
			r.cancel(id)
			c := r.wait(id)[0]
			most := 10 * time.Millisecond
			if deaf {
				most = 5 * sec
			}
			if d := ended.Sub(asked); d > most || !errors.Is(cause, twolane.ErrCancelRequested) {
				r.Errorf("deaf %v: its context ended after %v with %v", deaf, d, cause)
			}
			if c.Status != twolane.StatusCancelled || c.Starts != 1 {
				r.Errorf("%v after %d starts", c.Status, c.Starts)
			}
		})
	}
}

// What the handler says in spite of it is a fact.
func TestF162_OutcomeAfterACancelStands(t *testing.T) {
	rigged(t, 20*sec, func(r *rig) {
		r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
			twolane.HandleFunc(w, "a", func(ctx context.Context, j *job) (any, error) { <-ctx.Done(); return 7, nil })
		})
		id := r.submit(twolane.Submission{Type: "a"})[0]
		time.Sleep(sec)
		r.cancel(id)
		if c := r.wait(id)[0]; c.Status != twolane.StatusSucceeded || string(c.Result) != "7" {
			r.Errorf("%v %s", c.Status, c.Result)
		}
	})
}

// A cancel visit passes pause; its hook is retried with backoff; then the command is CANCELLED.
func TestCancelVisit(t *testing.T) {
	rigged(t, 20*sec, func(r *rig) {
		var at []time.Time
		r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
			twolane.Handle(w, "vm", handler{
				Execute: func(context.Context, *job) (twolane.Outcome, error) {
					return twolane.Processing([]byte("vm-1"), time.Hour), nil
				},
				Check: func(context.Context, *job) (twolane.Outcome, error) {
					return twolane.Processing([]byte("vm-1"), time.Hour), nil
				},
				Cancel: func(ctx context.Context, j *job) error {
					at = append(at, time.Now())
					if string(j.State) != "vm-1" || j.CancelReason() != "not needed" {
						r.Errorf("state %q reason %q", j.State, j.CancelReason())
					}
					if len(at) == 1 {
						panic("hook")
					}
					if len(at) < 4 {
						return errors.New("no")
					}
					return nil
				},
			})
		})
		id := r.submit(twolane.Submission{Type: "vm"})[0]
		time.Sleep(sec)
		r.pause(twolane.PauseAll)
		if _, err := r.client.Cancel(r.Context(), []string{id}, &twolane.CancelOptions{Reason: "not needed"}); err != nil {
			r.Fatal(err)
		}
		c := r.wait(id)[0]
		if c.Status != twolane.StatusCancelled || len(at) != 4 || c.Failures != 0 {
			r.Errorf("%v after %d visits", c.Status, len(at))
		}
		for i := 1; i < len(at); i++ {
			if d := at[i].Sub(at[i-1]); d < sec/2 || d > 20*sec {
				r.Errorf("visit %d after %v", i, d)
			}
		}
		r.pause(twolane.PauseNone)
	})
}

// The context of one command ends at its deadline, not before; a result that comes with its lease is taken at whatever hour.
func TestDeadlineEndsTheContext(t *testing.T) {
	rigged(t, 20*sec, func(r *rig) {
		var ended time.Time
		var cause, err error
		w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
			f := func(ctx context.Context, j *job) (any, error) {
				if end, ok := ctx.Deadline(); !ok || time.Until(end) > 30*sec {
					r.Errorf("deadline %v %v", end, ok)
				}
				<-ctx.Done()
				ended, cause, err = time.Now(), context.Cause(ctx), ctx.Err()
				if j.Type() == "stays" {
					time.Sleep(20 * sec)
					return "late", nil
				}
				return nil, ctx.Err()
			}
			twolane.HandleFunc(w, "obeys", f)
			twolane.HandleFunc(w, "stays", f)
		})
		time.Sleep(sec)
		w.faults.Inject(faultstore.Rule{Ops: []faultstore.Op{faultstore.Claim}, Fault: faultstore.Delay, Delay: 300 * time.Millisecond})
		for typ, want := range map[string]twolane.Status{"obeys": twolane.StatusFailed, "stays": twolane.StatusSucceeded} {
			end := time.Now().Add(30 * sec)
			c := r.wait(r.submit(twolane.Submission{Type: typ, Deadline: end})...)[0]
			if d := ended.Sub(end); d < 0 || d > 310*time.Millisecond {
				r.Errorf("%s: its context ended %v after the deadline", typ, d)
			}
			if !errors.Is(cause, twolane.ErrDeadline) || !errors.Is(err, context.DeadlineExceeded) {
				r.Errorf("%s: cause %v, err %v", typ, cause, err)
			}
			if c.Status != want || want == twolane.StatusFailed && c.Reason != twolane.ReasonDeadline {
				r.Errorf("%s: %v %s", typ, c.Status, c.Reason)
			}
		}
	})
}
