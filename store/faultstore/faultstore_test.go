package faultstore_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/faultstore"
	"github.com/twolane/twolane/store/memstore"
	"github.com/twolane/twolane/store/storetest"
)

func submit(ctx context.Context, s store.Store, id string) error {
	_, err := s.Submit(ctx, store.SubmitRequest{Items: []store.Submission{{ID: id, Queue: "q", Type: "t"}}})
	return err
}

func stored(t *testing.T, s store.Store, id string) bool {
	t.Helper()
	cs, err := s.Get(context.Background(), []string{id}, store.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cs[0] != nil
}

// Without rules a wrapped store is the store: it passes the conformance suite.
func TestConformance(t *testing.T) {
	storetest.Run(t, storetest.Harness{Open: func(*testing.T) store.Store { return faultstore.New(1).Wrap(memstore.New()) }})
}

func TestFaults(t *testing.T) {
	own := errors.New("own")
	for _, tt := range []struct {
		rule   faultstore.Rule
		err    error
		stored bool
	}{
		{faultstore.Rule{Fault: faultstore.FailBefore}, faultstore.ErrInjected, false},
		{faultstore.Rule{Fault: faultstore.DropReply}, faultstore.ErrInjected, true},
		{faultstore.Rule{Fault: faultstore.DropReply, Err: own}, own, true},
		{faultstore.Rule{Fault: faultstore.Delay, Delay: time.Second}, nil, true},
		{faultstore.Rule{Fault: faultstore.Delay, Delay: time.Hour}, context.DeadlineExceeded, false},
		{faultstore.Rule{Fault: faultstore.Hang}, context.DeadlineExceeded, false},
		{faultstore.Rule{Fault: faultstore.HangReply}, context.DeadlineExceeded, true},
	} {
		t.Run(tt.rule.Fault.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner, f := memstore.New(), faultstore.New(1)
				s := f.Wrap(inner)
				f.Inject(tt.rule)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := submit(ctx, s, "a"); !errors.Is(err, tt.err) {
					t.Errorf("error %v, want %v", err, tt.err)
				}
				if got := stored(t, inner, "a"); got != tt.stored {
					t.Errorf("stored: %v", got)
				}
				if f.Calls(faultstore.Submit) != 1 || f.Hits(faultstore.Submit) != 1 || f.Calls(faultstore.Get) != 0 {
					t.Errorf("calls %d, hits %d", f.Calls(faultstore.Submit), f.Hits(faultstore.Submit))
				}
				f.Heal()
				if err := submit(t.Context(), s, "b"); err != nil {
					t.Errorf("after Heal: %v", err)
				}
			})
		})
	}
}

func TestHealReleases(t *testing.T) {
	for _, fault := range []faultstore.Fault{faultstore.Hang, faultstore.HangReply} {
		synctest.Test(t, func(t *testing.T) {
			f := faultstore.New(1)
			s := f.Wrap(memstore.New())
			f.Inject(faultstore.Rule{Fault: fault})
			done := make(chan error, 1)
			go func() { done <- submit(t.Context(), s, "a") }()
			synctest.Wait()
			select {
			case err := <-done:
				t.Fatalf("%s did not hang: %v", fault, err)
			default:
			}
			f.Heal()
			if err := <-done; err != nil || !stored(t, s, "a") {
				t.Errorf("%s: after Heal %v", fault, err)
			}
		})
	}
}

func TestWhich(t *testing.T) {
	f := faultstore.New(1)
	s := f.Wrap(memstore.New())
	var hit []string
	call := func(id string) {
		if submit(t.Context(), s, id) != nil {
			hit = append(hit, id)
		}
	}
	f.Inject(faultstore.Rule{
		Ops: []faultstore.Op{faultstore.Submit}, Fault: faultstore.FailBefore, Skip: 1, Count: 2,
		Match: func(c faultstore.Call) bool { return c.Req.(store.SubmitRequest).Items[0].ID >= "c" },
	})
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		call(id)
	}
	if !slices.Equal(hit, []string{"d", "e"}) {
		t.Errorf("hit %v, want d and e", hit)
	}
	if _, err := s.Maintain(t.Context()); err != nil {
		t.Errorf("another operation was hit: %v", err)
	}
}

// The same seed hits the same calls, also when other operations come between them; another seed hits others.
func TestSeed(t *testing.T) {
	run := func(seed uint64, between bool) (hits []int) {
		f := faultstore.New(seed)
		s := f.Wrap(memstore.New())
		f.Inject(faultstore.Rule{Fault: faultstore.FailBefore, P: 0.3})
		for i := range 200 {
			if between {
				_, _ = s.Stats(t.Context(), store.StatsRequest{}) // an error is what the rule is for
			}
			if _, err := s.Maintain(t.Context()); err != nil {
				hits = append(hits, i)
			}
		}
		return hits
	}
	a := run(7, false)
	if len(a) < 30 || len(a) > 90 {
		t.Errorf("%d of 200 calls were hit at 0.3", len(a))
	}
	if !slices.Equal(a, run(7, true)) {
		t.Error("calls of another operation changed what the seed decides")
	}
	if slices.Equal(a, run(8, false)) {
		t.Error("two seeds hit the same calls")
	}
}

type bare struct{ store.Store }

type clocked struct {
	store.Store
	store.Clocker
}

type described struct {
	store.Store
	store.Describer
}

func TestKeepsAbilities(t *testing.T) {
	m := memstore.New()
	for _, tt := range []struct {
		inner        store.Store
		clock, descr bool
	}{{m, true, true}, {bare{m}, false, false}, {clocked{m, m}, true, false}, {described{m, m}, false, true}} {
		s := faultstore.New(1).Wrap(tt.inner)
		_, clock := s.(store.Clocker)
		_, descr := s.(store.Describer)
		if clock != tt.clock || descr != tt.descr {
			t.Errorf("%T: clock %v, describe %v", tt.inner, clock, descr)
		}
	}
}

func TestWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faultstore.New(1)
		s := f.Wrap(memstore.New())
		f.Inject(faultstore.Rule{Ops: []faultstore.Op{faultstore.Watch}, Fault: faultstore.FailBefore, Count: 1})
		if _, err := s.Watch(t.Context()); !errors.Is(err, faultstore.ErrInjected) {
			t.Fatalf("watch: %v", err)
		}
		w, err := s.Watch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f.Inject(faultstore.Rule{Ops: []faultstore.Op{faultstore.Wake}, Fault: faultstore.FailBefore, Count: 1})
		for _, id := range []string{"a", "b"} {
			if err := submit(t.Context(), s, id); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if n := len(w.C()); n != 1 || f.Calls(faultstore.Wake) != 2 {
			t.Errorf("%d wake-ups of %d arrived", n, f.Calls(faultstore.Wake))
		}
		for range 200 { // more than fit: the watcher never blocks the store, and in the end one says that some were lost
			if err := submit(t.Context(), s, "c"); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Act(t.Context(), store.ActRequest{Kind: store.ActDelete, IDs: []string{"c"}}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		all := false
		for k := range w.C() {
			all = all || k.Kind == store.WakeAll
		}
		if !all {
			t.Error("wake-ups were lost and nothing says so")
		}
	})
}
