package twolane_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/memstore"
)

type number struct{ N int }

// bench is a store with a client and a worker that serves it, in a synctest bubble.
type rig struct {
	*testing.T
	st     store.Store
	client *twolane.Client
	worker *twolane.Worker
	stop   context.CancelFunc
	ended  chan error
}

func newRig(t *testing.T, st store.Store, cfg twolane.WorkerConfig, handlers func(w *twolane.Worker)) *rig {
	t.Helper()
	r := &rig{T: t, st: st, ended: make(chan error, 1)}
	r.client = twolane.NewClient(st, &twolane.Options{Logger: slog.New(slog.DiscardHandler)})
	w, err := twolane.NewWorker(r.client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.worker = w
	handlers(w)
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	go func() { r.ended <- w.Run(ctx) }()
	return r
}

// end drains the worker, and audits and closes the store.
func (r *rig) end() error {
	r.Helper()
	r.stop()
	err := <-r.ended
	r.client.Close()
	rep, aerr := r.st.Audit(context.Background())
	if aerr != nil || len(rep.Violations) > 0 {
		r.Errorf("audit: %v %v", aerr, rep.Violations)
	}
	r.st.Close()
	return err
}

func (r *rig) submit(subs ...twolane.Submission) []string {
	r.Helper()
	res, err := r.client.SubmitMany(r.Context(), subs, nil)
	if err != nil {
		r.Fatal(err)
	}
	ids := make([]string, len(res))
	for i := range res {
		if res[i].Err != nil {
			r.Fatal(res[i].Err)
		}
		ids[i] = res[i].ID
	}
	return ids
}

func TestWorkerRunsToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var polls []int
		r := newRig(t, memstore.New(), twolane.WorkerConfig{}, func(w *twolane.Worker) {
			twolane.Handle(w, "launch", twolane.Handler[number, number]{
				Execute: func(ctx context.Context, job *twolane.Job[number, number]) (twolane.Outcome, error) {
					return twolane.Processing(number{job.Params.N * 10}, 5*time.Second), nil
				},
				Check: func(ctx context.Context, job *twolane.Job[number, number]) (twolane.Outcome, error) {
					polls = append(polls, job.State.N)
					if job.Polls() < 2 {
						return twolane.Processing(number{job.State.N + 1}, 5*time.Second), nil
					}
					return twolane.Done(job.State), nil
				},
			})
			twolane.HandleFunc(w, "twice", func(ctx context.Context, job *twolane.Job[number, []byte]) (any, error) {
				return number{2 * job.Params.N}, nil
			})
		})
		start := time.Now()
		ids := r.submit(twolane.Submission{Type: "launch", Params: number{7}}, twolane.Submission{Type: "twice", Params: number{21}})
		for i, want := range []int{72, 42} {
			cmd, err := r.client.Wait(t.Context(), ids[i])
			if err != nil {
				t.Fatal(err)
			}
			var got number
			if err := cmd.DecodeResult(&got); err != nil || cmd.Status != twolane.StatusSucceeded || got.N != want {
				t.Errorf("%s: %v %v %v, want %d", ids[i], cmd.Status, got, err, want)
			}
		}
		if d := time.Since(start); d < 15*time.Second || d > 15300*time.Millisecond {
			t.Errorf("three polls 5 s apart took %v", d)
		}
		if len(polls) != 3 || polls[0] != 70 || polls[2] != 72 {
			t.Errorf("states at the polls: %v, want 70 71 72", polls)
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestWorkerRetriesErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		r := newRig(t, memstore.New(), twolane.WorkerConfig{}, func(w *twolane.Worker) {
			twolane.HandleFunc(w, "flaky", func(ctx context.Context, job *twolane.Job[number, []byte]) (any, error) {
				at = append(at, time.Now())
				if job.Failures() < 2 {
					return nil, errors.New("no")
				}
				return nil, nil
			})
		})
		id := r.submit(twolane.Submission{Type: "flaky"})[0]
		cmd, err := r.client.Wait(t.Context(), id)
		if err != nil || cmd.Status != twolane.StatusSucceeded || cmd.Starts != 3 {
			t.Errorf("%+v %v", cmd, err)
		}
		if len(at) == 3 {
			if d := at[1].Sub(at[0]); d < 500*time.Millisecond || d > 1100*time.Millisecond {
				t.Errorf("first retry after %v", d)
			}
			if d := at[2].Sub(at[1]); d < time.Second || d > 2100*time.Millisecond {
				t.Errorf("second retry after %v", d)
			}
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}
