// Package twolanetest runs a program's handlers in its own tests: on a store in memory, in a bubble of fake time (testing/synctest), with a real
// worker. An hour of polling takes a fraction of a second, no test sleeps, and each ends with an audit of the store.
//
//	func TestLaunch(t *testing.T) {
//		twolanetest.Run(t, func(w *twolane.Worker) {
//			twolane.Handle(w, "launch", launch.Handler(fakeCloud))
//		}, func(e *twolanetest.Env) {
//			id := e.Submit(twolane.Submission{Type: "launch", Params: launch.Params{Image: "debian"}})
//			e.RunUntilIdle(time.Hour)
//			e.RequireStatus(id, twolane.StatusSucceeded)
//		})
//	}
//
// Handlers run in goroutines as always, so they may use time, contexts and channels of the bubble; network and files are no part of fake
// time, so give handlers fakes of what they call. The first moment of a bubble is midnight UTC 2000-01-01.
package twolanetest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/memstore"
)

// Env is what a test has: a client and a running worker on an empty store. It is for the goroutine of the test.
type Env struct {
	*testing.T
	Client *twolane.Client
	Store  store.Store
	start  time.Time
}

// Options are the settings of [RunWith]; the zero value is what [Run] takes.
type Options struct {
	Client twolane.Options      // Logger is nil: the test's log
	Worker twolane.WorkerConfig // Queues empty: the default queue
	// Store is wrapped around the store in memory, for a test that wants to see or spoil its calls.
	Store func(store.Store) store.Store
}

// Run starts a worker with the handlers that register gives it, and calls test. When test returns, the worker drains, for up to a minute of fake
// time, and the store is audited.
func Run(t *testing.T, register func(*twolane.Worker), test func(*Env)) {
	t.Helper()
	RunWith(t, Options{}, register, test)
}

// RunWith is [Run] with options.
func RunWith(t *testing.T, opt Options, register func(*twolane.Worker), test func(*Env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := &Env{T: t, Store: memstore.New(), start: time.Now()}
		if opt.Store != nil {
			e.Store = opt.Store(e.Store)
		}
		if opt.Client.Logger == nil {
			opt.Client.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{ReplaceAttr: noTime}))
		}
		if opt.Worker.DrainBudget == 0 {
			opt.Worker.DrainBudget = time.Minute
		}
		e.Client = twolane.NewClient(e.Store, &opt.Client)
		w, err := twolane.NewWorker(e.Client, opt.Worker)
		if err != nil {
			t.Fatal(err)
		}
		register(w)
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		defer func() {
			stop()
			if err := <-ended; err != nil {
				t.Errorf("worker: %v", err)
			}
			report, err := e.Client.Audit(context.Background())
			if err != nil {
				t.Errorf("%v", err)
			}
			for _, v := range report.Violations {
				t.Errorf("audit: %s", v)
			}
			if err := e.Client.Close(); err != nil {
				t.Error(err)
			}
			if err := e.Store.Close(); err != nil {
				t.Error(err)
			}
		}()
		test(e)
	})
}

func noTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{} // fake time says nothing to who reads the log
	}
	return a
}

// Submit submits a command and returns its id.
func (e *Env) Submit(s twolane.Submission) string {
	e.Helper()
	res, err := e.Client.Submit(e.Context(), s)
	if err != nil {
		e.Fatal(err)
	}
	return res.ID
}

// Get reads a command.
func (e *Env) Get(id string) *twolane.Command {
	e.Helper()
	cmd, err := e.Client.Get(e.Context(), id)
	if err != nil {
		e.Fatal(err)
	}
	return cmd
}

// Elapsed is how much fake time has passed since the test began.
func (e *Env) Elapsed() time.Duration { return time.Since(e.start) }

// Advance lets d pass, and waits until everything that happens by then has happened.
func (e *Env) Advance(d time.Duration) {
	synctest.Wait()
	if d > 0 {
		time.Sleep(d)
	}
	synctest.Wait()
}

// Steps of RunUntilIdle while something runs: small at first, so that what follows an end is seen soon after it.
const (
	firstStep = time.Millisecond
	lastStep  = time.Second
)

// RunUntilIdle lets time pass, at most horizon of it, until nothing is left to do in it: every command has ended, or waits for a time beyond
// the horizon, for the end of a pause without one, or for a worker that knows its type. It returns how much time it let pass.
func (e *Env) RunUntilIdle(horizon time.Duration) time.Duration {
	e.Helper()
	start := time.Now()
	end := start.Add(horizon)
	step, last := firstStep, ""
	for {
		synctest.Wait()
		stats, err := e.Client.Stats(e.Context())
		if err != nil {
			e.Fatal(err)
		}
		now := time.Now()
		next := nextMove(&stats, now)
		if next.IsZero() || next.After(end) || !now.Before(end) {
			return now.Sub(start)
		}
		if !next.After(now) { // something runs, or is about to: look again after a while, a longer one each time that nothing has changed
			if seen := fmt.Sprint(stats.Queues); seen != last {
				step, last = firstStep, seen
			} else {
				step = min(2*step, lastStep)
			}
			next = now.Add(step)
		}
		if next.After(end) {
			next = end
		}
		time.Sleep(next.Sub(now))
	}
}

// nextMove is when something happens next: now if something runs or can start, zero if time alone moves nothing.
func nextMove(s *twolane.Stats, now time.Time) (at time.Time) {
	sooner := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for i := range s.Queues {
		q := &s.Queues[i]
		sooner(q.NextDue)
		for lane := range q.Lanes {
			l := &q.Lanes[lane]
			sooner(l.NextDue)
			switch {
			case l.Leased > 0:
				sooner(now)
			case l.Eligible == 0:
			case l.Waits == twolane.WaitPaused:
				sooner(q.PauseUntil)
			case l.Waits != twolane.WaitNoWorker:
				sooner(now)
			}
		}
	}
	return at
}

// RequireStatus fails the test at once unless the command has one of the statuses, and says why it stands where it stands. It returns the command.
func (e *Env) RequireStatus(id string, want ...twolane.Status) *twolane.Command {
	e.Helper()
	cmd := e.Get(id)
	if slices.Contains(want, cmd.Status) {
		return cmd
	}
	why, err := e.Client.Explain(e.Context(), id)
	if err != nil {
		e.Fatal(err)
	}
	for _, ev := range cmd.Events {
		e.Logf("%s %s %s", ev.At.Sub(e.start), ev.Kind, ev.Text)
	}
	e.Fatalf("command %s (%s) is %s after %v, want %v: %s", id, cmd.Type, cmd.Status, e.Elapsed(), want, why.Text)
	return nil
}

// RequireResult fails the test at once unless the command has SUCCEEDED, and decodes its result into the value that v points to.
func (e *Env) RequireResult(id string, v any) {
	e.Helper()
	if err := e.RequireStatus(id, twolane.StatusSucceeded).DecodeResult(v); err != nil {
		e.Fatal(err)
	}
}
