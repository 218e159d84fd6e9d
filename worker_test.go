package twolane_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twolane/twolane"
)

type number struct{ N int }

func TestWorkerRunsToTheEnd(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		var polls []int
		r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
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
			cmd, err := r.client.Wait(r.Context(), ids[i])
			if err != nil {
				r.Fatal(err)
			}
			var got number
			if err := cmd.DecodeResult(&got); err != nil || cmd.Status != twolane.StatusSucceeded || got.N != want {
				r.Errorf("%s: %v %v %v, want %d", ids[i], cmd.Status, got, err, want)
			}
		}
		if d := time.Since(start); d < 15*time.Second || d > 15300*time.Millisecond {
			r.Errorf("three polls 5 s apart took %v", d)
		}
		if len(polls) != 3 || polls[0] != 70 || polls[2] != 72 {
			r.Errorf("states at the polls: %v, want 70 71 72", polls)
		}
	})
}

func TestWorkerRetriesErrors(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		var at []time.Time
		r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
			twolane.HandleFunc(w, "flaky", func(ctx context.Context, job *twolane.Job[number, []byte]) (any, error) {
				at = append(at, time.Now())
				if job.Failures() < 2 {
					return nil, errors.New("no")
				}
				return nil, nil
			})
		})
		id := r.submit(twolane.Submission{Type: "flaky"})[0]
		cmd, err := r.client.Wait(r.Context(), id)
		if err != nil || cmd.Status != twolane.StatusSucceeded || cmd.Starts != 3 {
			r.Errorf("%+v %v", cmd, err)
		}
		if len(at) == 3 {
			if d := at[1].Sub(at[0]); d < 500*time.Millisecond || d > 1100*time.Millisecond {
				r.Errorf("first retry after %v", d)
			}
			if d := at[2].Sub(at[1]); d < time.Second || d > 2100*time.Millisecond {
				r.Errorf("second retry after %v", d)
			}
		}
	})
}
