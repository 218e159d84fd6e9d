package twolane_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
)

func TestWaitAnswersAtTheEnd(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		id := e.must(twolane.Submission{Type: "a", Metadata: map[string]string{"k": "v"}})
		go func() {
			time.Sleep(30 * time.Second)
			e.finish(store.Settlement{Kind: store.OutcomeDone, Result: []byte(`"r"`)})
		}()
		start := time.Now()
		cmd, err := e.Wait(e.Context(), id)
		if err != nil || cmd.Status != twolane.StatusSucceeded || string(cmd.Result) != `"r"` || cmd.Metadata["k"] != "v" || cmd.Err() != nil {
			t.Fatalf("%+v %v", cmd, err)
		}
		if late := time.Since(start) - 30*time.Second; late > 50*time.Millisecond {
			t.Fatalf("answered %v late", late)
		}
		if n := e.st.count("get"); n > 40 {
			t.Fatalf("%d reads in 30 s", n)
		}
		start = time.Now()
		if cmd, err = e.Wait(e.Context(), id); err != nil || cmd.Status != twolane.StatusSucceeded || time.Since(start) != 0 {
			t.Fatal("what has ended is waited for", cmd, err)
		}
	})
}

func TestWaitWithoutWakeUps(t *testing.T) {
	for name, spoil := range map[string]func(*faulty){
		"lost": func(f *faulty) { f.wrap = func(w store.Watcher) store.Watcher { return deaf{w} } },
		"refused": func(f *faulty) {
			f.spoil(func(op string, _ int) error {
				if op == "watch" {
					return errNet
				}
				return nil
			}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, e *env) {
				spoil(e.st)
				for _, after := range []time.Duration{time.Millisecond, time.Second, time.Minute} {
					id := e.must(twolane.Submission{Type: "a", Group: "g"})
					go func() {
						time.Sleep(after)
						e.finish(store.Settlement{Kind: store.OutcomeDone})
					}()
					start, reads := time.Now(), e.st.count("get")
					if _, err := e.Wait(e.Context(), id); err != nil {
						t.Fatal(err)
					}
					if late := time.Since(start) - after; late > time.Second {
						t.Fatalf("%v: answered %v late", after, late)
					}
					if n := e.st.count("get") - reads; n > 12+int(after/time.Second) {
						t.Fatalf("%v: %d reads", after, n)
					}
				}
			})
		})
	}
}

func TestWaitForMany(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		const n = 1000
		subs := make([]twolane.Submission, n)
		for i := range subs {
			subs[i] = twolane.Submission{Type: "a", ID: fmt.Sprint("c", i), Deadline: time.Now().Add(time.Minute)}
		}
		if _, err := e.SubmitMany(e.Context(), subs, nil); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i := range 2 * n { // two for each
			wg.Go(func() {
				if cmd, err := e.Wait(e.Context(), subs[i%n].ID); err != nil || cmd.Status != twolane.StatusFailed {
					t.Error(cmd, err)
				}
			})
		}
		start := time.Now()
		wg.Wait()
		if d := time.Since(start); d < time.Minute || d > time.Minute+50*time.Millisecond {
			t.Fatalf("took %v", d)
		}
		if reads := e.st.count("get"); reads > n+60*3 { // one for each at most, and all of them together each second
			t.Fatalf("%d reads", reads)
		}
		if n := e.st.count("watch"); n != 1 {
			t.Fatalf("%d watchers", n)
		}
	})
}

func TestWaitGroupForAllAndFollowUps(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		e.must(twolane.Submission{Type: "a", Group: "g"})
		e.must(twolane.Submission{Type: "a", Group: "g"})
		e.must(twolane.Submission{Type: "other", Group: "h"})
		var ended time.Time
		go func() {
			time.Sleep(time.Second)
			e.finish(store.Settlement{Kind: store.OutcomeDone})
			time.Sleep(time.Second)
			e.finish(store.Settlement{Kind: store.OutcomeDone, FollowUps: []store.Submission{{ID: "child", Queue: "default", Type: "a", Group: "g"}}})
			time.Sleep(10 * time.Second)
			ended = time.Now()
			e.finish(store.Settlement{Kind: store.OutcomeFail})
		}()
		if err := e.WaitGroup(e.Context(), "g"); err != nil {
			t.Fatal(err)
		}
		if ended.IsZero() || time.Since(ended) > 50*time.Millisecond {
			t.Fatalf("answered with the group live, or %v late", time.Since(ended))
		}
	})
}

func TestWaitEndsOtherwise(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		if _, err := e.Wait(e.Context(), "nobody"); !errors.Is(err, twolane.ErrNotFound) {
			t.Fatalf("unknown: %v", err)
		}
		id := e.must(twolane.Submission{Type: "a"})
		patience := errors.New("no patience")
		ctx, cancel := context.WithTimeoutCause(e.Context(), time.Second, patience)
		defer cancel()
		if _, err := e.Wait(ctx, id); !errors.Is(err, patience) {
			t.Fatalf("context: %v", err)
		}
		go func() {
			time.Sleep(time.Second)
			if _, err := e.Delete(e.Context(), twolane.IDs(id), nil); err != nil {
				t.Error(err)
			}
		}()
		if _, err := e.Wait(e.Context(), id); !errors.Is(err, twolane.ErrNotFound) {
			t.Fatalf("deleted: %v", err)
		}
		// The store fails for a while: waiting goes on, and says so only when the context ends.
		id = e.must(twolane.Submission{Type: "a", Deadline: time.Now().Add(20 * time.Second)})
		e.st.spoil(func(string, int) error { return errNet }, nil)
		ctx, cancel = context.WithTimeout(e.Context(), 5*time.Second)
		defer cancel()
		if _, err := e.Wait(ctx, id); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errNet) {
			t.Fatalf("while the store fails: %v", err)
		}
		go func() {
			time.Sleep(10 * time.Second)
			e.st.spoil(nil, nil)
		}()
		start := time.Now()
		if cmd, err := e.Wait(e.Context(), id); err != nil || cmd.Reason != twolane.ReasonDeadline || time.Since(start) > 17*time.Second {
			t.Fatalf("after the store failed: %v %v %v", cmd, err, time.Since(start))
		}
		// A store that is closed ends waiting at once.
		id = e.must(twolane.Submission{Type: "a"})
		e.st.spoil(func(string, int) error { return store.ErrClosed }, nil)
		if _, err := e.Wait(e.Context(), id); !errors.Is(err, twolane.ErrClosed) {
			t.Fatalf("closed: %v", err)
		}
		synctest.Wait()
	})
}

// deaf is a watcher that loses every wake-up.
type deaf struct{ store.Watcher }

func (deaf) C() <-chan store.Wake { return nil }

// loud is a watcher that says all the time that wake-ups were lost.
type loud struct {
	store.Watcher
	ch <-chan store.Wake
}

func (l loud) C() <-chan store.Wake { return l.ch }

// Wake-ups that were lost make the waiter read everything, but not all the time.
func TestWaitDoesNotReadHotUnderAFlood(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		ch := make(chan store.Wake, 64)
		e.st.wrap = func(w store.Watcher) store.Watcher { return loud{w, ch} }
		id := e.must(twolane.Submission{Type: "a"})
		ctx, cancel := context.WithTimeout(e.Context(), 10*time.Second)
		defer cancel()
		errs := make(chan error)
		go func() { _, err := e.Wait(ctx, id); errs <- err }()
		for ctx.Err() == nil {
			ch <- store.Wake{Kind: store.WakeAll}
			time.Sleep(100 * time.Microsecond)
		}
		<-errs
		if n := e.st.count("get"); n < 300 || n > 402 { // one in 25 ms
			t.Fatalf("%d reads in 10 s", n)
		}
	})
}

// ledger is a watcher that keeps what it is asked for.
type ledger struct {
	store.Watcher
	mu  sync.Mutex
	ids map[string]bool
}

func (l *ledger) Await(ids, groups []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range append(ids, groups...) {
		l.ids[id] = true
	}
	return l.Watcher.Await(ids, groups)
}

func (l *ledger) Forget(ids, groups []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range append(ids, groups...) {
		delete(l.ids, id)
	}
	l.Watcher.Forget(ids, groups)
}

func TestWaitForgets(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		l := &ledger{ids: map[string]bool{}}
		e.st.wrap = func(w store.Watcher) store.Watcher { l.Watcher = w; return l }
		kept := e.must(twolane.Submission{Type: "b", Group: "g"})
		var wg sync.WaitGroup
		long, stop := context.WithCancel(e.Context())
		wg.Go(func() { _, _ = e.Wait(long, kept) })
		wg.Go(func() { _ = e.WaitGroup(long, "g") })
		for range 50 {
			id := e.must(twolane.Submission{Type: "a"})
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(e.Context(), time.Second)
				defer cancel()
				_, _ = e.Wait(ctx, kept) // one of several waits for it
				_, _ = e.Wait(ctx, id)
			})
			wg.Go(func() {
				if _, err := e.Wait(e.Context(), id); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(2 * time.Second)
		for range 50 {
			e.finish(store.Settlement{Kind: store.OutcomeDone})
		}
		synctest.Wait()
		l.mu.Lock()
		if len(l.ids) != 2 || !l.ids[kept] || !l.ids["g"] {
			t.Errorf("still asked for: %v", l.ids)
		}
		l.mu.Unlock()
		stop()
		wg.Wait()
		synctest.Wait()
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.ids) != 0 {
			t.Errorf("still asked for: %v", l.ids)
		}
	})
}
