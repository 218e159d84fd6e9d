package twolanetest_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/twolanetest"
)

func TestShortAndLongLivedCommands(t *testing.T) {
	type params struct{ Polls int }
	type state struct{ Left int }
	twolanetest.Run(t, func(w *twolane.Worker) {
		twolane.HandleFunc(w, "double", func(_ context.Context, job *twolane.Job[int, []byte]) (any, error) { return 2 * job.Params, nil })
		twolane.Handle(w, "long", twolane.Handler[params, state]{
			Execute: func(_ context.Context, job *twolane.Job[params, state]) (twolane.Outcome, error) {
				return twolane.Processing(state{job.Params.Polls}, time.Minute), nil
			},
			Check: func(_ context.Context, job *twolane.Job[params, state]) (twolane.Outcome, error) {
				if job.State.Left--; job.State.Left > 0 {
					return twolane.Processing(job.State, time.Minute), nil
				}
				return twolane.Done("up"), nil
			},
		})
	}, func(e *twolanetest.Env) {
		short, long := e.Submit(twolane.Submission{Type: "double", Params: 21}), e.Submit(twolane.Submission{Type: "long", Params: params{60}})
		e.Advance(time.Second)
		var n int
		if e.RequireResult(short, &n); n != 42 {
			e.Fatal(n)
		}
		e.RequireStatus(long, twolane.StatusProcessing)
		if passed := e.RunUntilIdle(2 * time.Hour); passed < 59*time.Minute || passed > 61*time.Minute {
			e.Fatalf("an hour of polls took %v", passed)
		}
		if cmd := e.RequireStatus(long, twolane.StatusSucceeded); cmd.Polls != 60 {
			e.Fatalf("%d polls", cmd.Polls)
		}
		if passed := e.RunUntilIdle(time.Hour); passed != 0 {
			e.Fatalf("nothing to do took %v", passed)
		}
	})
}

func TestFailuresBackOffUntilTheEnd(t *testing.T) {
	twolanetest.Run(t, func(w *twolane.Worker) {
		twolane.HandleFunc(w, "bad", func(context.Context, *twolane.Job[int, []byte]) (any, error) { return nil, errors.New("no") })
	}, func(e *twolanetest.Env) {
		id := e.Submit(twolane.Submission{Type: "bad", MaxFailures: 5})
		e.RunUntilIdle(time.Hour)
		if cmd := e.RequireStatus(id, twolane.StatusFailed); cmd.Reason != twolane.ReasonRetriesExhausted || cmd.Failures != 5 || cmd.Error != "no" {
			e.Fatalf("%+v", cmd)
		}
		if e.Elapsed() < 7*time.Second { // half of 1 + 2 + 4 + 8
			e.Fatalf("four pauses in %v", e.Elapsed())
		}
	})
}

// Idle is what time alone, within the horizon, does not move.
func TestRunUntilIdleStops(t *testing.T) {
	var runs atomic.Int32
	register := func(w *twolane.Worker) {
		twolane.HandleFunc(w, "a", func(context.Context, *twolane.Job[int, []byte]) (any, error) { runs.Add(1); return nil, nil })
		twolane.HandleFunc(w, "slow", func(ctx context.Context, _ *twolane.Job[int, []byte]) (any, error) {
			time.Sleep(300 * time.Millisecond)
			return nil, nil
		})
	}
	twolanetest.Run(t, register, func(e *twolanetest.Env) {
		later := e.Submit(twolane.Submission{Type: "a", Delay: 2 * time.Hour})
		e.Submit(twolane.Submission{Type: "unknown"})
		if passed := e.RunUntilIdle(time.Hour); passed != 0 {
			e.Fatalf("waited %v for what is due later and for what nobody knows", passed)
		}
		if passed := e.RunUntilIdle(3 * time.Hour); passed < 2*time.Hour || passed > 2*time.Hour+time.Second {
			e.Fatalf("took %v", passed)
		}
		e.RequireStatus(later, twolane.StatusSucceeded)
		if err := e.Client.Pause(e.Context(), "default", twolane.PauseAll, time.Now().Add(time.Minute)); err != nil {
			e.Fatal(err)
		}
		paused := e.Submit(twolane.Submission{Type: "a"})
		if passed := e.RunUntilIdle(time.Hour); passed < time.Minute || passed > time.Minute+2*time.Second {
			e.Fatalf("a pause of a minute took %v", passed)
		}
		e.RequireStatus(paused, twolane.StatusSucceeded)
		slow := e.Submit(twolane.Submission{Type: "slow"})
		if passed := e.RunUntilIdle(time.Hour); passed < 300*time.Millisecond || passed > time.Second {
			e.Fatalf("took %v", passed)
		}
		e.RequireStatus(slow, twolane.StatusSucceeded)
	})
	if runs.Load() != 2 {
		t.Fatalf("%d runs", runs.Load())
	}
}

// A handler that never answers takes the horizon and not for ever; the drain then ends its context.
func TestRunUntilIdleIsBounded(t *testing.T) {
	twolanetest.Run(t, func(w *twolane.Worker) {
		twolane.HandleFunc(w, "hang", func(ctx context.Context, _ *twolane.Job[int, []byte]) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
	}, func(e *twolanetest.Env) {
		e.Submit(twolane.Submission{Type: "hang"})
		if passed := e.RunUntilIdle(10 * time.Minute); passed != 10*time.Minute {
			e.Fatalf("took %v", passed)
		}
	})
}

// lossy loses every other reply of a settle after the store has taken it.
type lossy struct {
	store.Store
	n atomic.Int32
}

func (l *lossy) Settle(ctx context.Context, req store.SettleRequest) ([]store.SettleResult, error) {
	r, err := l.Store.Settle(ctx, req)
	if l.n.Add(1)%2 == 1 {
		return nil, errors.New("connection reset")
	}
	return r, err
}

func TestWithAStoreThatFails(t *testing.T) {
	var runs atomic.Int32
	opt := twolanetest.Options{Store: func(st store.Store) store.Store { return &lossy{Store: st} }}
	twolanetest.RunWith(t, opt, func(w *twolane.Worker) {
		twolane.HandleFunc(w, "a", func(context.Context, *twolane.Job[int, []byte]) (any, error) { runs.Add(1); return "r", nil })
	}, func(e *twolanetest.Env) {
		id := e.Submit(twolane.Submission{Type: "a"})
		e.RunUntilIdle(time.Minute)
		e.RequireStatus(id, twolane.StatusSucceeded)
	})
	if runs.Load() != 1 {
		t.Fatalf("%d runs", runs.Load())
	}
}
