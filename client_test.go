package twolane_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/memstore"
)

// faulty is a store whose calls a test can watch and spoil.
type faulty struct {
	store.Store
	mu     sync.Mutex
	calls  map[string]int
	before func(op string, n int) error // n counts the calls of op from 1; an error is answered instead of the call
	after  func(op string, n int) error // an error is answered after the call was made
	wrap   func(store.Watcher) store.Watcher
	submit func(context.Context, store.SubmitRequest)
}

func (f *faulty) pass(op string, call func() error) error {
	f.mu.Lock()
	if f.calls == nil {
		f.calls = map[string]int{}
	}
	f.calls[op]++
	n, before, after := f.calls[op], f.before, f.after
	f.mu.Unlock()
	if before != nil {
		if err := before(op, n); err != nil {
			return err
		}
	}
	if err := call(); err != nil {
		return err
	}
	if after != nil {
		return after(op, n)
	}
	return nil
}

func (f *faulty) count(op string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

func (f *faulty) spoil(before, after func(op string, n int) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls, f.before, f.after = nil, before, after
}

func (f *faulty) Submit(ctx context.Context, req store.SubmitRequest) (r []store.SubmitResult, err error) {
	if f.submit != nil {
		f.submit(ctx, req)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	err = f.pass("submit", func() error { r, err = f.Store.Submit(ctx, req); return err })
	return r, err
}

func (f *faulty) Get(ctx context.Context, ids []string, opt store.GetOptions) (r []*store.Command, err error) {
	err = f.pass("get", func() error { r, err = f.Store.Get(ctx, ids, opt); return err })
	return r, err
}

func (f *faulty) Act(ctx context.Context, req store.ActRequest) (r store.ActReply, err error) {
	err = f.pass("act", func() error { r, err = f.Store.Act(ctx, req); return err })
	return r, err
}

func (f *faulty) Maintain(ctx context.Context) (r store.MaintainReply, err error) {
	err = f.pass("maintain", func() error { r, err = f.Store.Maintain(ctx); return err })
	return r, err
}

func (f *faulty) Configure(ctx context.Context, expect uint64, cfg store.Config) (r store.Config, err error) {
	err = f.pass("configure", func() error { r, err = f.Store.Configure(ctx, expect, cfg); return err })
	return r, err
}

func (f *faulty) Watch(ctx context.Context) (w store.Watcher, err error) {
	err = f.pass("watch", func() error { w, err = f.Store.Watch(ctx); return err })
	if err == nil && f.wrap != nil {
		w = f.wrap(w)
	}
	return w, err
}

// env is a client on a store in memory, in a bubble of fake time.
type env struct {
	*testing.T
	*twolane.Client
	st    *faulty
	token int
}

// run runs f in a bubble and audits the store after it.
func run(t *testing.T, f func(t *testing.T, e *env)) {
	t.Helper()
	runWith(t, &twolane.Options{Logger: slog.New(slog.DiscardHandler)}, f)
}

func runWith(t *testing.T, opt *twolane.Options, f func(t *testing.T, e *env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := &env{T: t, st: &faulty{Store: memstore.New()}}
		e.Client = twolane.NewClient(e.st, opt)
		t.Cleanup(func() {
			e.st.spoil(nil, nil)
			if r, err := e.Audit(context.Background()); err != nil || len(r.Violations) > 0 {
				t.Errorf("audit: %v %v", r.Violations, err)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
		f(t, e)
	})
}

func (e *env) must(s twolane.Submission) string {
	e.Helper()
	res, err := e.Submit(e.Context(), s)
	if err != nil {
		e.Fatal(err)
	}
	return res.ID
}

func (e *env) get(id string) *twolane.Command {
	e.Helper()
	cmd, err := e.Get(e.Context(), id)
	if err != nil {
		e.Fatal(err)
	}
	return cmd
}

// worker registers a worker that can run typ in both lanes of queue.
func (e *env) worker(id, queue, typ string, permits, running int) {
	e.Helper()
	types := [2][]string{{typ}, {typ}}
	_, err := e.st.Renew(e.Context(), store.RenewRequest{Worker: store.Worker{ID: id, Name: "w", Host: "h", PID: 7, Queues: []string{queue},
		Types: types, Permits: [2]int{permits, permits}, Running: [2]int{running, running}}})
	if err != nil {
		e.Fatal(err)
	}
}

// claim leases one command, as worker w would.
func (e *env) claim(w, queue string, lane store.Lane, typ string) *store.Command {
	e.Helper()
	e.token++
	req := store.ClaimRequest{Worker: w, Nonce: fmt.Sprintf("nonce%05d", e.token),
		Wants: []store.Want{{Queue: queue, Lane: lane, Max: 1, Types: []store.TypeWant{{Type: typ}}, Suspect: true}}}
	req.Free[lane] = 1
	reply, err := e.st.Claim(e.Context(), req)
	if err != nil {
		e.Fatal(err)
	}
	if len(reply.Grants) == 0 {
		return nil
	}
	return reply.Grants[0].Items[0]
}

// settle ends the lease of a claimed command.
func (e *env) settle(c *store.Command, s store.Settlement) {
	e.Helper()
	s.ID, s.Lease = c.ID, c.Lease
	r, err := e.st.Settle(e.Context(), store.SettleRequest{Worker: c.Owner, Items: []store.Settlement{s}})
	if err != nil || r[0].Err != nil || r[0].State != store.SettleDone {
		e.Fatalf("settle: %+v %v", r, err)
	}
}

// finish runs one command of type "a" in the default queue to its end.
func (e *env) finish(s store.Settlement) string {
	e.Helper()
	c := e.claim("w1", "default", store.Intake, "a")
	if c == nil {
		e.Fatal("nothing to claim")
	}
	e.settle(c, s)
	return c.ID
}

var errNet = errors.New("connection reset")

func only(op string, calls ...int) func(string, int) error {
	return func(o string, n int) error {
		for _, c := range calls {
			if o == op && n == c {
				return errNet
			}
		}
		return nil
	}
}

func TestCloseEndsEverything(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		id := e.must(twolane.Submission{Type: "a"})
		errs := make(chan error, 2)
		go func() { _, err := e.Wait(e.Context(), id); errs <- err }()
		go func() { errs <- e.WaitGroup(e.Context(), "nobody") }() // answers
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-errs; !errors.Is(err, twolane.ErrClosed) {
			t.Fatalf("waiting ended with %v", err)
		}
		if _, err := e.Submit(e.Context(), twolane.Submission{Type: "a"}); !errors.Is(err, twolane.ErrClosed) {
			t.Fatalf("submit: %v", err)
		}
		if _, err := e.Get(e.Context(), id); !errors.Is(err, twolane.ErrClosed) {
			t.Fatalf("get: %v", err)
		}
		if err := e.Close(); err != nil { // a second time
			t.Fatal(err)
		}
		// Goroutines that are left would keep the bubble from ending.
	})
}

func TestUpkeepComesEachSecondAndBacksOff(t *testing.T) {
	var log bytes.Buffer
	runWith(t, &twolane.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, e *env) {
		time.Sleep(10*time.Second + time.Millisecond)
		if n := e.st.count("maintain"); n != 10 {
			t.Fatalf("%d calls in 10 s", n)
		}
		e.st.spoil(func(op string, _ int) error {
			if op == "maintain" {
				return errNet
			}
			return nil
		}, nil)
		time.Sleep(time.Minute)
		if n := e.st.count("maintain"); n < 10 || n > 30 {
			t.Fatalf("%d calls in a minute of errors", n)
		}
		if n := bytes.Count(log.Bytes(), []byte("level=WARN")); n != 1 {
			t.Fatalf("%d warnings in one episode:\n%s", n, log.String())
		}
		e.st.spoil(nil, nil)
		time.Sleep(20 * time.Second)
		if n := e.st.count("maintain"); n < 14 {
			t.Fatalf("%d calls in 20 s after the errors", n)
		}
		if !bytes.Contains(log.Bytes(), []byte("works again")) {
			t.Fatal("nobody says that it works again")
		}
	})
}

func TestUpkeepGoesOnWhileThereIsMore(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		at := time.Now().Add(500 * time.Millisecond)
		for range 450 {
			e.must(twolane.Submission{Type: "a", StartBy: at})
		}
		time.Sleep(time.Second + time.Millisecond)
		if n := e.st.count("maintain"); n != 5 {
			t.Fatalf("%d calls for 450 ends at 100 a call", n)
		}
	})
}

func TestCallsAreRepeatedAndGiveUp(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		id := e.must(twolane.Submission{Type: "a"})
		e.st.spoil(only("get", 1, 2, 3), nil)
		if _, err := e.Get(e.Context(), id); err != nil {
			t.Fatalf("after three errors: %v", err)
		}
		e.st.spoil(func(string, int) error { return errNet }, nil)
		start := time.Now()
		if _, err := e.Get(e.Context(), id); !errors.Is(err, errNet) {
			t.Fatal(err)
		}
		if n, took := e.st.count("get"), time.Since(start); n != 6 || took < 775*time.Millisecond || took > 1550*time.Millisecond {
			t.Fatalf("%d tries in %v", n, took)
		}
		ctx, cancel := context.WithTimeoutCause(e.Context(), 300*time.Millisecond, errors.New("no patience"))
		defer cancel()
		start = time.Now()
		_, err := e.Get(ctx, id)
		if err == nil || time.Since(start) != 300*time.Millisecond || !errors.Is(err, errNet) {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
	})
}

// A peer that has gone silent holds a try, not the call.
func TestF019_SilentPeerEndsATry(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		hang := true
		e.st.submit = func(ctx context.Context, _ store.SubmitRequest) {
			if hang {
				hang = false
				<-ctx.Done()
			}
		}
		start := time.Now()
		e.must(twolane.Submission{Type: "a"})
		if took := time.Since(start); took < 10*time.Second || took > 11*time.Second {
			t.Fatalf("took %v", took)
		}
	})
}

// describing is a store with settings to warn of, which it tells at the n-th try.
type describing struct {
	store.Store
	n int
}

func (d *describing) Describe(context.Context) (store.Description, error) {
	if d.n--; d.n > 0 {
		return store.Description{}, errNet
	}
	return store.Description{Kind: "redis", Durability: "none", Warnings: []string{"appendonly is off", "the server is a replica"}}, nil
}

// What an operator should change is said once by each client that stays open, and not by one that only submits something.
func TestWarningsOfTheStoreAreSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, open := range []time.Duration{500 * time.Millisecond, time.Minute} {
			var out bytes.Buffer
			st := &describing{memstore.New(), 2}
			c := twolane.NewClient(st, &twolane.Options{Logger: slog.New(slog.NewTextHandler(&out, nil))})
			time.Sleep(open)
			c.Close()
			want := 0
			if open >= time.Minute {
				want = 1
			}
			for _, w := range st.warnings() {
				if n := bytes.Count(out.Bytes(), []byte(w)); n != want {
					t.Errorf("%q was said %d times in %v, want %d", w, n, open, want)
				}
			}
		}
	})
}

func (d *describing) warnings() []string {
	desc, _ := (&describing{}).Describe(context.Background())
	return desc.Warnings
}
