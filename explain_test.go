package twolane_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
)

// Every place and every obstacle has its code, says what a person needs, and names the time at which it moves, if it is known.
func TestF143_ExplainSaysWhatACommandWaitsFor(t *testing.T) {
	a := twolane.Submission{ID: "x", Type: "a"}
	in := func(d time.Duration) func() time.Time { return func() time.Time { return time.Now().Add(d) } }
	none := func() time.Time { return time.Time{} }
	for name, c := range map[string]struct {
		set   func(e *env)
		wait  twolane.Wait
		until func() time.Time // after set
		text  string
		also  []twolane.Wait
	}{
		"not before": {func(e *env) {
			e.worker("w1", "default", "a", 1, 0)
			s := a
			s.Delay = time.Hour
			e.must(s)
		}, twolane.WaitNotBefore, in(time.Hour), "may not run before", nil},
		"not before, and then nobody": {func(e *env) {
			s := a
			s.Delay = time.Hour
			e.must(s)
		}, twolane.WaitNotBefore, in(time.Hour), "no live worker serves queue default and can run type a", []twolane.Wait{twolane.WaitNoWorker}},
		"backoff": {func(e *env) {
			e.worker("w1", "default", "a", 1, 0)
			e.must(a)
			e.finish(store.Settlement{Kind: store.OutcomeRetry, Delay: 8 * time.Second, Error: "no route to host\nmore"})
		}, twolane.WaitBackoff, in(8 * time.Second), "after a failure (no route to host) and", nil},
		"poll": {func(e *env) {
			e.worker("w1", "default", "a", 1, 0)
			e.must(a)
			e.finish(store.Settlement{Kind: store.OutcomeProcessing, Delay: 5 * time.Second})
		}, twolane.WaitPoll, in(5 * time.Second), "elsewhere; its next check is due", nil},
		"poll after failed checks": {func(e *env) {
			e.worker("w1", "default", "a", 1, 0)
			e.must(a)
			e.finish(store.Settlement{Kind: store.OutcomeProcessing, Delay: 5 * time.Second})
			for range 2 {
				time.Sleep(5 * time.Second)
				c := e.claim("w1", "default", store.Repoll, "a")
				e.settle(c, store.Settlement{Kind: store.OutcomeRetry, Delay: 5 * time.Second, Error: "403 Forbidden"})
			}
		}, twolane.WaitPoll, in(5 * time.Second), "elsewhere; after 2 failures in a row (403 Forbidden) its next check is due", nil},
		"nobody": {func(e *env) {
			e.worker("w1", "other", "a", 1, 0)
			e.worker("w2", "default", "b", 1, 0)
			e.must(a)
		}, twolane.WaitNoWorker, none, "no live worker", nil},
		"paused and nobody": {func(e *env) {
			e.must(a)
			if err := e.Pause(e.Context(), "default", twolane.PauseIntake, time.Now().Add(time.Minute)); err != nil {
				e.Fatal(err)
			}
		}, twolane.WaitPaused, in(time.Minute), "is paused (intake) until", []twolane.Wait{twolane.WaitNoWorker}},
		"paused for ever": {func(e *env) {
			e.worker("w1", "default", "a", 1, 0)
			e.must(a)
			if err := e.Pause(e.Context(), "default", twolane.PauseAll, time.Time{}); err != nil {
				e.Fatal(err)
			}
		}, twolane.WaitPaused, none, "until somebody resumes it", nil},
		"permits": {func(e *env) {
			e.worker("w1", "default", "a", 40, 40)
			e.worker("w2", "default", "a", 60, 60)
			e.must(twolane.Submission{Type: "b"})
			e.must(twolane.Submission{Type: "a"})
			e.must(a)
			e.must(twolane.Submission{Type: "a"})
		}, twolane.WaitPermits, none, "all 100 intake permits of the workers that can run it are taken. 2 others", nil},
		"rate": {func(e *env) {
			e.worker("w1", "default", "a", 40, 0)
			e.must(a)
			_, err := e.Configure(e.Context(), func(cfg *twolane.Config) error {
				cfg.Queues["default"] = twolane.QueueConfig{Rates: [2]twolane.Rate{{Limit: 0.5}}}
				return nil
			})
			if err != nil {
				e.Fatal(err)
			}
		}, twolane.WaitRate, none, "lets 0.5 start in a second", nil},
		"its turn": {func(e *env) {
			e.worker("w1", "default", "a", 40, 1)
			e.must(a)
		}, twolane.WaitTurn, none, "39 of 40 intake permits are free", nil},
		"its handler": {func(e *env) {
			e.worker("w1", "default", "a", 1, 0)
			e.must(a)
			e.claim("w1", "default", store.Intake, "a")
			time.Sleep(3 * time.Second)
		}, twolane.WaitHandler, none, "w1 (w on h, pid 7) has run Execute since", nil},
		"a handler that ignores its time": {func(e *env) {
			e.worker("w1", "default", "a", 1, 0)
			e.must(a)
			c := e.claim("w1", "default", store.Intake, "a")
			_, err := e.st.Renew(e.Context(), store.RenewRequest{Worker: store.Worker{ID: "w1", Host: "h", PID: 7}, Leases: []store.RenewItem{{ID: c.ID, Lease: c.Lease, Overdue: true}}})
			if err != nil {
				e.Fatal(err)
			}
		}, twolane.WaitOverdue, none, "ignores the end of its time", nil},
		"a dead worker": {func(e *env) {
			e.must(a)
			e.claim("w1", "default", store.Intake, "a") // never registered
			time.Sleep(3 * time.Second)
		}, twolane.WaitLease, in(17 * time.Second), "is not alive any more", nil},
		"a cancel visit": {func(e *env) {
			e.worker("w1", "default", "a", 1, 0)
			e.must(a)
			e.finish(store.Settlement{Kind: store.OutcomeProcessing, Delay: time.Hour, HasHook: true})
			if _, err := e.Cancel(e.Context(), []string{"x"}, nil); err != nil {
				e.Fatal(err)
			}
		}, twolane.WaitCancel, in(10 * time.Minute), "calls its Cancel hook next", nil},
		"nothing": {func(e *env) {
			e.must(a)
			e.finish(store.Settlement{Kind: store.OutcomeFail, Error: "disk is full."})
		}, twolane.WaitNothing, none, "FAILED (error: disk is full) at", nil},
		"nothing, cancelled": {func(e *env) {
			e.must(a)
			if _, err := e.Cancel(e.Context(), []string{"x"}, &twolane.CancelOptions{Reason: "enough"}); err != nil {
				e.Fatal(err)
			}
		}, twolane.WaitNothing, none, "CANCELLED (enough)", nil},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, e *env) {
				c.set(e)
				x, err := e.Explain(e.Context(), "x")
				if err != nil {
					t.Fatal(err)
				}
				t.Log(x.Text)
				if x.Wait != c.wait || !strings.Contains(x.Text, c.text) || !slices.Equal(x.Also, c.also) {
					t.Errorf("%s, also %s: %s", x.Wait, x.Also, x.Text)
				}
				if want := c.until(); x.Until.Sub(want).Abs() > 10*time.Millisecond {
					t.Errorf("until %v, want %v", x.Until, want)
				}
				if cmd := e.get("x"); !cmd.NextRun.IsZero() && x.Wait != twolane.WaitCancel && x.Until.Sub(cmd.NextRun).Abs() > time.Millisecond {
					t.Errorf("until %v, and the command's next run is %v", x.Until, cmd.NextRun)
				}
			})
		})
	}
}

func TestExplainSaysWhoHasIt(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		e.worker("w1", "default", "a", 1, 0)
		id := e.must(twolane.Submission{Type: "a", Deadline: time.Now().Add(time.Hour)})
		start := time.Now()
		e.claim("w1", "default", store.Intake, "a")
		time.Sleep(4 * time.Second)
		x, err := e.Explain(e.Context(), id)
		if err != nil || x.Worker != "w1" || x.WorkerName == "" || !x.Since.Equal(start) || !x.LeaseUntil.Equal(start.Add(20*time.Second)) ||
			!x.EndsAt.Equal(start.Add(time.Hour)) || !strings.Contains(x.Text, "Its time is over") {
			t.Fatalf("%+v %v", x, err)
		}
		if _, err := e.Explain(e.Context(), "nobody"); !errors.Is(err, twolane.ErrNotFound) {
			t.Fatal(err)
		}
	})
}

// The run clock does not go back with the server's, yet the times that users see are the server's.
func TestNextRunAfterTheClockWasSetBack(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		clock := e.st.Store.(store.Clocker)
		set := func(at time.Time) {
			if err := clock.SetClock(e.Context(), store.At(at)); err != nil {
				t.Fatal(err)
			}
		}
		noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
		set(noon)
		id := e.must(twolane.Submission{Type: "a"})
		time.Sleep(2 * time.Second) // upkeep has seen noon
		set(noon.Add(-time.Hour))
		time.Sleep(2 * time.Second)
		e.finish(store.Settlement{Kind: store.OutcomeProcessing, Delay: 10 * time.Second})
		time.Sleep(offsetFor)
		want := noon.Add(-time.Hour + 10*time.Second)
		if cmd := e.get(id); !cmd.NextRun.Equal(want) {
			t.Fatalf("next run %v, want %v", cmd.NextRun, want)
		}
		if x, err := e.Explain(e.Context(), id); err != nil || !x.Until.Equal(want) {
			t.Fatalf("until %v, want %v: %v", x.Until, want, err)
		}
	})
}

const offsetFor = 10 * time.Second

func TestF143_OrderOfTheLine(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		e.worker("w1", "default", "a", 1, 1)
		low := e.must(twolane.Submission{Type: "a", Priority: 5})
		for range 1500 {
			e.must(twolane.Submission{Type: "a"})
		}
		mid := e.must(twolane.Submission{Type: "a", Priority: 3})
		for id, want := range map[string]int{low: 1501, mid: 1500} {
			if x, err := e.Explain(e.Context(), id); err != nil || x.Ahead != want || x.AheadAtLeast {
				t.Fatalf("%d ahead, want %d: %v", x.Ahead, want, err)
			}
		}
		for range 2000 {
			e.must(twolane.Submission{Type: "a", Priority: 6})
		}
		if x, err := e.Explain(e.Context(), low); err != nil || !x.AheadAtLeast {
			t.Fatalf("%d ahead of a long line: %v", x.Ahead, err)
		}
	})
}
