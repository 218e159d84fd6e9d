package twolane_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
)

func TestSubmitFillsIn(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		var last string
		for range 1000 {
			res, err := e.Submit(e.Context(), twolane.Submission{Type: "a", Params: map[string]int{"n": 1}, Keys: map[string]string{"z": "1", "a": "2"}})
			if err != nil || !res.Created || res.Status != twolane.StatusPending {
				t.Fatalf("%+v %v", res, err)
			}
			if len(res.ID) != 26 || res.ID <= last {
				t.Fatalf("id %s after %s", res.ID, last)
			}
			last = res.ID
		}
		cmd := e.get(last)
		if cmd.Queue != "default" || cmd.Cost != 1 || string(cmd.Params) != `{"n":1}` || cmd.Keys["z"] != "1" || len(cmd.Keys) != 2 {
			t.Fatalf("%+v", cmd)
		}
	})
}

func TestSubmitRefuses(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for field, s := range map[string]twolane.Submission{
		"type":         {},
		"id":           {Type: "a", ID: "é"},
		"queue":        {Type: "a", Queue: " "},
		"keys.k":       {Type: "a", Keys: map[string]string{"k": ""}},
		"keys":         {Type: "a", Keys: map[string]string{"a": "1", "b": "1", "c": "1", "d": "1", "e": "1"}},
		"cost":         {Type: "a", Cost: 65},
		"params":       {Type: "a", Params: make(chan int)},
		"delay":        {Type: "a", Delay: -1},
		"max_failures": {Type: "a", MaxFailures: -1},
		"metadata":     {Type: "a", Metadata: map[string]string{"": "x"}},
		"deadline":     {Type: "a", NotBefore: now, Deadline: now},
		"start_by":     {Type: "a", NotBefore: now, StartBy: now.Add(-time.Second)},
		"not_before":   {Type: "a", NotBefore: time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		run(t, func(t *testing.T, e *env) {
			res, err := e.Submit(e.Context(), s)
			bad, ok := errors.AsType[*twolane.InvalidError](err)
			if !ok || bad.Field != field || !errors.Is(err, twolane.ErrInvalid) || res.Err == nil || e.st.count("submit") != 0 {
				t.Fatalf("%s: %v", field, err)
			}
		})
	}
}

func TestF135_SizesAreRefusedBeforeTheStore(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		for n, ok := range map[int]bool{store.MaxParams - 1: true, store.MaxParams: true, store.MaxParams + 1: false} {
			before := e.st.count("submit")
			_, err := e.Submit(e.Context(), twolane.Submission{Type: "a", Params: make([]byte, n)})
			if ok != (err == nil) || !ok && (!errors.Is(err, twolane.ErrTooLarge) || e.st.count("submit") != before) {
				t.Fatalf("%d bytes: %v", n, err)
			}
		}
		for cmd, err := range e.All(e.Context(), twolane.ListOptions{Filter: twolane.Filter{Queue: "default"}}) {
			if err != nil || cmd.Params != nil {
				t.Fatalf("a list carries %d bytes of params: %v", len(cmd.Params), err)
			}
		}
	})
}

func TestSubmitIsIdempotentByID(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		s := twolane.Submission{ID: "x", Type: "a", Params: 1}
		e.must(s)
		res, err := e.Submit(e.Context(), s)
		if err != nil || res.Created {
			t.Fatalf("again: %+v %v", res, err)
		}
		s.Params = 2
		if _, err := e.Submit(e.Context(), s); !errors.Is(err, twolane.ErrIDConflict) {
			t.Fatalf("other params: %v", err)
		}
		e.finish(store.Settlement{Kind: store.OutcomeDone})
		s.Params = 1
		if res, err = e.Submit(e.Context(), s); err != nil || res.Created || res.Status != twolane.StatusSucceeded {
			t.Fatalf("after the end: %+v %v", res, err)
		}
	})
}

// The reply is lost after the commit: the call is repeated with the same id, and nothing is there twice.
func TestSubmitSurvivesALostReply(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		e.st.spoil(nil, only("submit", 1))
		res, err := e.Submit(e.Context(), twolane.Submission{Type: "a"})
		if err != nil || !res.Created || e.st.count("submit") != 2 {
			t.Fatalf("%+v %v", res, err)
		}
		e.st.spoil(nil, func(op string, n int) error {
			if op == "submit" && n <= 6 {
				return errNet
			}
			return nil
		})
		res, err = e.Submit(e.Context(), twolane.Submission{Type: "a"})
		if !errors.Is(err, errNet) || res.ID == "" {
			t.Fatalf("%+v %v", res, err)
		}
		if again, err := e.Submit(e.Context(), twolane.Submission{ID: res.ID, Type: "a"}); err != nil || again.Created {
			t.Fatalf("again: %+v %v", again, err)
		}
		if s, err := e.Stats(e.Context()); err != nil || s.Queues[0].Lanes[twolane.Intake].Ready != 2 {
			t.Fatalf("%+v %v", s, err)
		}
	})
}

func TestSubmitsGatherWhileACallIsUnderWay(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		var sizes []int
		gate := make(chan struct{})
		e.st.submit = func(_ context.Context, req store.SubmitRequest) {
			sizes = append(sizes, len(req.Items))
			<-gate
		}
		var wg sync.WaitGroup
		var failed atomic.Int32
		for i := range 64 {
			wg.Go(func() {
				if _, err := e.Submit(e.Context(), twolane.Submission{Type: "a", Params: i}); err != nil {
					failed.Add(1)
				}
			})
		}
		synctest.Wait()
		if len(sizes) != 1 {
			t.Fatalf("calls under way: %v", sizes)
		}
		start := time.Now()
		close(gate)
		wg.Wait()
		sum := 0
		for _, n := range sizes {
			sum += n
		}
		// The first call took who was there, the next takes all that waited; the runtime may split that once more.
		if failed.Load() != 0 || len(sizes) > 3 || sum != 64 || time.Since(start) != 0 {
			t.Fatalf("calls %v, %d failed, %v", sizes, failed.Load(), time.Since(start))
		}
	})
}

// Two submits of one id cannot share a call, and both are answered.
func TestSubmitsOfOneIDGather(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		gate := make(chan struct{})
		e.st.submit = func(_ context.Context, req store.SubmitRequest) {
			if len(req.Items) != 1 {
				t.Errorf("one id %d times in one call", len(req.Items))
			}
			<-gate
		}
		var wg sync.WaitGroup
		var created, conflicts atomic.Int32
		for i := range 20 {
			wg.Go(func() {
				res, err := e.Submit(e.Context(), twolane.Submission{ID: "x", Type: "a", Params: i % 2})
				if res.Created {
					created.Add(1)
				}
				if errors.Is(err, twolane.ErrIDConflict) {
					conflicts.Add(1)
				}
			})
		}
		synctest.Wait()
		close(gate)
		wg.Wait()
		if created.Load() != 1 || conflicts.Load() != 10 {
			t.Fatalf("%d created, %d conflicts", created.Load(), conflicts.Load())
		}
	})
}

func TestSubmitLeavesWithItsContext(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		var called atomic.Int32
		gone := make(chan struct{})
		e.st.submit = func(ctx context.Context, _ store.SubmitRequest) {
			if called.Add(1) == 1 {
				<-ctx.Done() // ends when the last caller has gone
				close(gone)
			}
		}
		ctx, cancel := context.WithCancel(e.Context())
		errs := make(chan error, 2)
		go func() { _, err := e.Submit(ctx, twolane.Submission{Type: "a"}); errs <- err }()
		synctest.Wait()
		waiting, stop := context.WithCancel(e.Context())
		go func() { _, err := e.Submit(waiting, twolane.Submission{Type: "a"}); errs <- err }()
		synctest.Wait()
		stop() // never sent
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		<-gone
		e.must(twolane.Submission{Type: "a"})
		if n := called.Load(); n != 2 {
			t.Fatalf("%d calls", n)
		}
	})
}

func TestF159_ManyAtOnceByItem(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		const n = 10_000
		subs := make([]twolane.Submission, n)
		for i := range subs {
			subs[i] = twolane.Submission{ID: fmt.Sprintf("b-%d", i), Type: "a", Params: i}
		}
		subs[5000].Type = "not a name"
		for round := range 2 {
			results, err := e.SubmitMany(e.Context(), subs, nil)
			if err != nil || len(results) != n {
				t.Fatal(len(results), err)
			}
			for i, r := range results {
				if r.ID != subs[i].ID || (r.Err != nil) != (i == 5000) || r.Created != (round == 0 && i != 5000) {
					t.Fatalf("round %d, item %d: %+v", round, i, r)
				}
			}
		}
		if s, err := e.Stats(e.Context()); err != nil || s.Queues[0].Lanes[twolane.Intake].Ready != n-1 {
			t.Fatalf("%+v %v", s, err)
		}
		if calls := e.st.count("submit"); calls != 2*(n/500) {
			t.Fatalf("%d calls", calls)
		}
	})
}

func TestF159_ManyAtOnceAtomic(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		subs := make([]twolane.Submission, 200)
		for i := range subs {
			subs[i] = twolane.Submission{Type: "a", UniqueKey: fmt.Sprintf("u%d", i)}
		}
		e.must(twolane.Submission{Type: "a", UniqueKey: "u100"})
		results, err := e.SubmitMany(e.Context(), subs, &twolane.SubmitOptions{Atomic: true})
		if !errors.Is(err, twolane.ErrUniqueHeld) {
			t.Fatal(err)
		}
		for i, r := range results {
			if want := map[bool]error{true: twolane.ErrUniqueHeld, false: twolane.ErrAborted}[i == 100]; !errors.Is(r.Err, want) || r.Created {
				t.Fatalf("item %d: %v", i, r.Err)
			}
		}
		subs[7].Cost = -1
		results, err = e.SubmitMany(e.Context(), subs, &twolane.SubmitOptions{Atomic: true})
		if !errors.Is(err, twolane.ErrInvalid) || !errors.Is(results[7].Err, twolane.ErrInvalid) || !errors.Is(results[8].Err, twolane.ErrAborted) {
			t.Fatal(err, results[7].Err, results[8].Err)
		}
		subs[7].Cost, subs[100].UniqueKey = 0, ""
		results, err = e.SubmitMany(e.Context(), subs, &twolane.SubmitOptions{Atomic: true})
		if err != nil || slices.ContainsFunc(results, func(r twolane.SubmitResult) bool { return !r.Created }) {
			t.Fatal(err)
		}
		if _, err := e.SubmitMany(e.Context(), make([]twolane.Submission, 201), &twolane.SubmitOptions{Atomic: true}); !errors.Is(err, twolane.ErrInvalid) {
			t.Fatal(err)
		}
		twice := []twolane.Submission{{ID: "x", Type: "a"}, {ID: "x", Type: "a"}}
		if _, err := e.SubmitMany(e.Context(), twice, &twolane.SubmitOptions{Atomic: true}); !errors.Is(err, twolane.ErrInvalid) {
			t.Fatal(err)
		}
		results, err = e.SubmitMany(e.Context(), twice, nil)
		if err != nil || !results[0].Created || results[1].Created || results[1].Err != nil {
			t.Fatalf("%+v %v", results, err)
		}
	})
}

func TestSubmitManyFailsHalfWay(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		subs := make([]twolane.Submission, 1200)
		for i := range subs {
			subs[i].Type = "a"
		}
		e.st.spoil(func(op string, n int) error {
			if op == "submit" && n >= 2 && n <= 7 {
				return errNet
			}
			return nil
		}, nil)
		results, err := e.SubmitMany(e.Context(), subs, nil)
		if !errors.Is(err, errNet) || results[499].Err != nil || !errors.Is(results[500].Err, errNet) || !errors.Is(results[1199].Err, errNet) {
			t.Fatal(err, results[499].Err, results[500].Err, results[1199].Err)
		}
		for i := range subs {
			subs[i].ID = results[i].ID
		}
		again, err := e.SubmitMany(e.Context(), subs, nil)
		if err != nil || again[0].Created || !again[1199].Created {
			t.Fatalf("%v %+v %+v", err, again[0], again[1199])
		}
	})
}

func TestF161_StartByWithoutWorkers(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		id := e.must(twolane.Submission{Type: "a", StartBy: time.Now().Add(5 * time.Second)})
		time.Sleep(5 * time.Second)
		if cmd := e.get(id); cmd.Status != twolane.StatusFailed || cmd.Reason != twolane.ReasonExpired { // reads do not wait for upkeep
			t.Fatalf("at start_by: %s %s", cmd.Status, cmd.Reason)
		}
		time.Sleep(5 * time.Second)
		if c := e.claim("w1", "default", store.Intake, "a"); c != nil {
			t.Fatal("it ran")
		}
		cmd := e.get(id)
		ends := 0
		for _, ev := range cmd.Events {
			if ev.Kind == store.EventEnded {
				ends++
			}
		}
		if cmd.Starts != 0 || ends != 1 || cmd.Err() == nil {
			t.Fatalf("%d starts, %d ends, %v", cmd.Starts, ends, cmd.Err())
		}
	})
}

func TestParamsComeBackByteForByte(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		for _, raw := range []string{`[]`, `{}`, `{"a":1,"a":2}`, `9007199254740993`, "\x00\xff", ` {"x" : 1}`} {
			if got := e.get(e.must(twolane.Submission{Type: "a", Params: []byte(raw)})); string(got.Params) != raw {
				t.Errorf("%q came back as %q", raw, got.Params)
			}
			if got := e.get(e.must(twolane.Submission{Type: "a", Params: json.RawMessage(raw)})); string(got.Params) != raw {
				t.Errorf("%q came back as %q", raw, got.Params)
			}
		}
		cmd := e.get(e.must(twolane.Submission{Type: "a", Params: map[string]int64{"n": 1<<53 + 1}}))
		var v map[string]any
		if err := cmd.DecodeParams(&v); err != nil || fmt.Sprint(v["n"]) != "9007199254740993" {
			t.Fatal(v, err)
		}
		var raw []byte
		if err := cmd.DecodeParams(&raw); err != nil || string(raw) != `{"n":9007199254740993}` {
			t.Fatal(string(raw), err)
		}
		var n int
		if err := cmd.DecodeParams(&n); err == nil {
			t.Fatal("an object decodes into an int")
		}
	})
}
