package twolane_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
)

var def = twolane.Filter{Queue: "default"}

func TestListPagesAndAll(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		for i := range 250 {
			e.must(twolane.Submission{ID: fmt.Sprint("c", i), Type: map[bool]string{true: "a", false: "b"}[i%2 == 0], Params: "p"})
		}
		for range 50 {
			e.finish(store.Settlement{Kind: store.OutcomeFail, Error: "x"})
			time.Sleep(time.Second)
		}
		seen := map[string]int{}
		opt := twolane.ListOptions{Filter: twolane.Filter{Queue: "default", Status: twolane.StatusPending}, Limit: 33}
		for {
			page, err := e.List(e.Context(), opt)
			if err != nil || len(page.Commands) > 33 {
				t.Fatal(len(page.Commands), err)
			}
			for _, cmd := range page.Commands {
				seen[cmd.ID]++
			}
			if opt.Cursor = page.Next; opt.Cursor == "" {
				break
			}
		}
		if len(seen) != 200 {
			t.Fatalf("%d pending ones", len(seen))
		}
		var last time.Time
		n := 0
		for cmd, err := range e.All(e.Context(), twolane.ListOptions{Filter: def}) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; cmd.Status == twolane.StatusFailed {
				if !last.IsZero() && cmd.Ended.After(last) {
					t.Fatal("not the newest end first")
				}
				last = cmd.Ended
			}
		}
		if n != 250 {
			t.Fatalf("%d commands", n)
		}
		for range e.All(e.Context(), twolane.ListOptions{Filter: def}) {
			break // an early end is no panic
		}
		for field, o := range map[string]twolane.ListOptions{
			"queue":  {Filter: twolane.Filter{Status: twolane.StatusFailed}},
			"status": {Filter: def},
			"limit":  {Filter: twolane.Filter{Queue: "q", Status: twolane.StatusFailed}, Limit: 1001},
			"reason": {Filter: twolane.Filter{Queue: "q", Status: twolane.StatusPending, Reason: twolane.ReasonError}},
		} {
			_, err := e.List(e.Context(), o)
			if bad, ok := errors.AsType[*twolane.InvalidError](err); !ok || bad.Field != field {
				t.Errorf("%s: %v", field, err)
			}
		}
	})
}

func TestCancelAnswersForEach(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		waiting, running, done := e.must(twolane.Submission{Type: "b"}), e.must(twolane.Submission{Type: "a"}), e.must(twolane.Submission{Type: "c"})
		e.claim("w1", "default", store.Intake, "a")
		e.settle(e.claim("w1", "default", store.Intake, "c"), store.Settlement{Kind: store.OutcomeDone})
		for range 2 { // the same again, the same answer
			r, err := e.Cancel(e.Context(), []string{waiting, "no id", running, done, "nobody"}, &twolane.CancelOptions{Reason: "enough"})
			if err != nil || len(r) != 5 || r[1].ID != "no id" || !errors.Is(r[1].Err, twolane.ErrInvalid) {
				t.Fatal(r, err)
			}
			r = slices.Delete(r, 1, 2)
			if r[0].Status != twolane.StatusCancelled || r[0].Err != nil || !r[1].Requested || r[1].Err != nil ||
				!errors.Is(r[2].Err, twolane.ErrState) || !errors.Is(r[3].Err, twolane.ErrNotFound) {
				t.Fatalf("%+v", r)
			}
		}
		if cmd := e.get(waiting); cmd.CancelReason != "enough" || cmd.Err() == nil {
			t.Fatalf("%+v", cmd)
		}
		r, err := e.Cancel(e.Context(), []string{running}, &twolane.CancelOptions{Force: true})
		if err != nil || r[0].Status != twolane.StatusCancelled || r[0].Requested {
			t.Fatal(r, err)
		}
	})
}

func TestCancelMatching(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		for range 1100 {
			e.must(twolane.Submission{Type: "a"})
		}
		e.must(twolane.Submission{Type: "b"})
		if n, err := e.CancelMatching(e.Context(), twolane.Filter{Queue: "default", Type: "a"}, nil); n != 1100 || err != nil {
			t.Fatal(n, err)
		}
		if n, err := e.CancelMatching(e.Context(), def, nil); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if _, err := e.CancelMatching(e.Context(), twolane.Filter{Queue: "default", Status: twolane.StatusFailed}, nil); !errors.Is(err, twolane.ErrInvalid) {
			t.Fatal(err)
		}
	})
}

// failAll fails n commands of type a, ids c0, c1, …
func failAll(e *env, n int) {
	e.Helper()
	for i := range n {
		e.must(twolane.Submission{ID: fmt.Sprint("c", i), Type: "a"})
	}
	for range n {
		e.finish(store.Settlement{Kind: store.OutcomeFail, Error: "x"})
	}
}

func TestF163_ReplayDeadOnesAtARate(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		const n = 500
		failAll(e, n)
		e.must(twolane.Submission{Type: "b"})
		e.settle(e.claim("w1", "default", store.Intake, "b"), store.Settlement{Kind: store.OutcomeFail})
		dead := 0
		for _, err := range e.All(e.Context(), twolane.ListOptions{Filter: twolane.Filter{Queue: "default", Status: twolane.StatusFailed, Reason: twolane.ReasonError}}) {
			if err != nil {
				t.Fatal(err)
			}
			dead++
		}
		if dead != n+1 {
			t.Fatalf("%d dead", dead)
		}
		start := time.Now()
		go func() { // one that fails again meanwhile is not replayed a second time
			time.Sleep(time.Second)
			e.finish(store.Settlement{Kind: store.OutcomeFail})
		}()
		r, err := e.Retry(e.Context(), twolane.Matching(twolane.Filter{Queue: "default", Type: "a"}), &twolane.ActOptions{PerSecond: 50, By: "ann"})
		if err != nil || r.Done != n || r.Resume != "" {
			t.Fatalf("%+v %v", r, err)
		}
		if took := time.Since(start); took < 9900*time.Millisecond || took > 10100*time.Millisecond {
			t.Fatalf("500 at 50/s took %v", took)
		}
		cmd := e.get("c7") // its own id, and what happened to it
		retried := cmd.Events[len(cmd.Events)-1]
		if cmd.Status != twolane.StatusPending || cmd.Failures != 0 || retried.Kind != store.EventRetried || retried.Text != "ann" {
			t.Fatalf("%+v", cmd)
		}
	})
}

func TestFilteredActionStopsAndResumes(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		failAll(e, 500)
		ctx, cancel := context.WithTimeout(e.Context(), 2*time.Second+time.Millisecond)
		defer cancel()
		r, err := e.Purge(ctx, def, &twolane.ActOptions{PerSecond: 50})
		if !errors.Is(err, context.DeadlineExceeded) || r.Done < 95 || r.Done > 110 || r.Resume == "" {
			t.Fatalf("%+v %v", r, err)
		}
		failAll(e, 0)
		more := e.must(twolane.Submission{Type: "a"})
		e.finish(store.Settlement{Kind: store.OutcomeFail}) // after the purge began: it stays
		rest, err := e.Purge(e.Context(), def, &twolane.ActOptions{Resume: r.Resume})
		if err != nil || rest.Done+r.Done != 500 {
			t.Fatalf("%+v and %+v %v", r, rest, err)
		}
		e.get(more)
		for _, bad := range []string{"x", "9.1.", "1.0.", "4.x."} {
			if _, err := e.Purge(e.Context(), def, &twolane.ActOptions{Resume: bad}); !errors.Is(err, twolane.ErrInvalid) {
				t.Errorf("resume %q: %v", bad, err)
			}
		}
	})
}

func TestActionsByID(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		failAll(e, 2)
		later := e.must(twolane.Submission{Type: "a", Delay: time.Hour, Priority: 9})
		if r, err := e.RunNow(e.Context(), twolane.IDs(later), nil); err != nil || r.Done != 1 {
			t.Fatal(r, err)
		}
		if r, err := e.Reprioritise(e.Context(), twolane.IDs(later), 1, nil); err != nil || r.Done != 1 {
			t.Fatal(r, err)
		}
		if r, err := e.Move(e.Context(), twolane.Matching(def), "other", nil); err != nil || r.Done != 1 {
			t.Fatal(r, err)
		}
		if cmd := e.get(later); cmd.Place != twolane.PlaceLine || cmd.Priority != 1 || cmd.Queue != "other" {
			t.Fatalf("%+v", cmd)
		}
		r, err := e.Retry(e.Context(), twolane.IDs("", "c0", "nobody", "a b", later), nil)
		if err != nil || r.Done != 1 || r.Results[1] != nil || !errors.Is(r.Results[2], twolane.ErrNotFound) || !errors.Is(r.Results[4], twolane.ErrState) {
			t.Fatal(r, err)
		}
		if !errors.Is(r.Results[0], twolane.ErrInvalid) || !errors.Is(r.Results[3], twolane.ErrInvalid) {
			t.Fatal(r)
		}
		for field, call := range map[string]func() (twolane.ActResult, error){
			"status": func() (twolane.ActResult, error) { return e.Delete(e.Context(), twolane.Matching(def), nil) },
			"queue":  func() (twolane.ActResult, error) { return e.Move(e.Context(), twolane.IDs("c0"), "", nil) },
			"per_second": func() (twolane.ActResult, error) {
				return e.Purge(e.Context(), def, &twolane.ActOptions{PerSecond: -1})
			},
		} {
			_, err := call()
			if bad, ok := errors.AsType[*twolane.InvalidError](err); !ok || bad.Field != field {
				t.Errorf("%s: %v", field, err)
			}
		}
		succeeded := twolane.Filter{Queue: "default", Status: twolane.StatusSucceeded}
		if _, err := e.Retry(e.Context(), twolane.Matching(succeeded), nil); !errors.Is(err, twolane.ErrInvalid) {
			t.Fatal(err)
		}
	})
}

// What a try did whose reply was lost is not reported as refused.
func TestActionsSurviveALostReply(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		failAll(e, 2)
		e.st.spoil(nil, only("act", 1))
		r, err := e.Retry(e.Context(), twolane.IDs("c0", "c1", "nobody"), nil)
		if err != nil || r.Done != 2 || r.Results[0] != nil || r.Results[1] != nil || r.Results[2] == nil || e.st.count("act") != 2 {
			t.Fatal(r, err)
		}
		e.st.spoil(nil, only("act", 1))
		if r, err = e.Delete(e.Context(), twolane.IDs("c0"), nil); err != nil || r.Done != 1 || r.Results[0] != nil || e.st.count("act") != 2 {
			t.Fatal(r, err)
		}
	})
}
