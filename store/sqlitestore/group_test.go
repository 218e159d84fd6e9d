package sqlitestore_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/sqlitestore"
)

// close audits a store and closes it.
func closeStore(t testing.TB, s *sqlitestore.Store) {
	t.Helper()
	audit(t, s)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func audit(t testing.TB, s *sqlitestore.Store) {
	t.Helper()
	rep, err := s.Audit(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Violations) > 0 {
		t.Errorf("audit found:\n  %s", strings.Join(rep.Violations, "\n  "))
	}
}

func submission(id string) store.Submission {
	return store.Submission{ID: id, Queue: "q", Type: "t", Params: params}
}

func submit(t testing.TB, s store.Store, ids ...string) {
	t.Helper()
	var req store.SubmitRequest
	for _, id := range ids {
		req.Items = append(req.Items, submission(id))
	}
	res, err := s.Submit(context.Background(), req)
	if err != nil {
		t.Error(err)
		return
	}
	for i := range res {
		if res[i].Err != nil {
			t.Errorf("%s: %v", ids[i], res[i].Err)
		}
	}
}

var nonces atomic.Int64

func claim(t testing.TB, s store.Store, worker string, lane store.Lane, n int) store.ClaimReply {
	t.Helper()
	req := claimOf(int(nonces.Add(1)), lane, n)
	req.Worker = worker
	rep, err := s.Claim(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func settle(t testing.TB, s store.Store, rep store.ClaimReply, how store.Settlement) {
	t.Helper()
	res, err := s.Settle(context.Background(), settlement(rep, how))
	if err != nil {
		t.Fatal(err)
	}
	for i := range res {
		if res[i].Err != nil || res[i].State != store.SettleDone {
			t.Errorf("settle: %+v", res[i])
		}
	}
}

// F075: under synchronous=FULL the commit, which flushes, comes before the answer; what need not survive a power loss does not flush.
func TestF075_FlushBeforeAnswer(t *testing.T) {
	type commit struct{ durable, flushes bool }
	var mu sync.Mutex
	var seen []commit
	var answered atomic.Bool
	opt := (&sqlitestore.Options{}).BeforeCommit(func(durable, flushes bool) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, commit{durable, flushes})
		if answered.Load() {
			t.Error("the answer came before the commit")
		}
	})
	s := open(t, filepath.Join(t.TempDir(), "store.db"), opt)
	defer closeStore(t, s)
	check := func(what string, want commit, call func()) {
		t.Helper()
		before := s.Syncs(t)
		mu.Lock()
		seen = nil
		mu.Unlock()
		call()
		answered.Store(true)
		mu.Lock()
		if len(seen) != 1 || seen[0] != want {
			t.Errorf("%s was committed as %+v, want %+v", what, seen, want)
		}
		mu.Unlock()
		answered.Store(false)
		if flushed := s.Syncs(t) > before; flushed != want.flushes {
			t.Errorf("%s: the log was flushed to the disk: %v", what, flushed)
		}
	}
	full, normal := commit{true, true}, commit{false, false}
	check("submit", full, func() { submit(t, s, "a") })
	var rep store.ClaimReply
	check("claim", normal, func() { rep = claim(t, s, "w", store.Intake, 1) })
	check("renew", normal, func() {
		if _, err := s.Renew(t.Context(), store.RenewRequest{Worker: store.Worker{ID: "w"}}); err != nil {
			t.Error(err)
		}
	})
	check("settle", full, func() { settle(t, s, rep, store.Settlement{Kind: store.OutcomeDone}) })
	check("configure", full, func() {
		if _, err := s.Configure(t.Context(), 0, store.Config{}); err != nil {
			t.Error(err)
		}
	})
}

// A relaxed store never flushes at a commit, and says so.
func TestRelaxed(t *testing.T) {
	opt := (&sqlitestore.Options{Relaxed: true}).BeforeCommit(func(_, flushes bool) {
		if flushes {
			t.Error("a commit flushes")
		}
	})
	s := open(t, filepath.Join(t.TempDir(), "store.db"), opt)
	defer closeStore(t, s)
	submit(t, s, "a")
	d, err := s.Describe(t.Context())
	if err != nil || len(d.Warnings) == 0 || !strings.Contains(d.Durability, "NORMAL") {
		t.Errorf("%+v, %v", d, err)
	}
}

// A step that fails in a transaction takes nobody along, and nothing of it stays.
func TestNeighbours(t *testing.T) {
	for _, sql := range []string{
		"INSERT INTO nowhere VALUES (1)",
		"UPDATE cmd SET place=7", // against a CHECK, when rows have been written already
		"INSERT INTO reason VALUES (9,'x',1); INSERT INTO reason VALUES (9,'x',1)",
		"ROLLBACK; INSERT INTO nowhere VALUES (1)", // as a full disk does it: the whole transaction is gone
	} {
		t.Run(sql[:10], func(t *testing.T) {
			s := open(t, filepath.Join(t.TempDir(), "store.db"), relaxed)
			defer closeStore(t, s)
			submit(t, s, "first")
			held, release := make(chan struct{}), make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				if err := s.Hold(t.Context(), held, release); err != nil {
					t.Error(err)
				}
			})
			<-held
			for i := range 20 {
				wg.Go(func() {
					if i == 10 {
						if err := s.Break(t.Context(), sql); err == nil {
							t.Error("the broken step was committed")
						}
						return
					}
					submit(t, s, fmt.Sprintf("n%02d", i))
				})
			}
			waitFor(t, func() bool { return s.Waiting() == 21 })
			close(release)
			wg.Wait()
			got := 0
			for i := range 20 {
				cs, err := s.Get(t.Context(), []string{fmt.Sprintf("n%02d", i)}, store.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if cs[0] != nil {
					got++
				}
			}
			if got != 19 {
				t.Errorf("%d of 19 neighbours were stored", got)
			}
			submit(t, s, "last")
		})
	}
}

func waitFor(t testing.TB, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it never happens")
		}
	}
}

// F133: with 150 ms for each flush many submitters share flushes, and renewals come through in a fraction of a lease.
func TestF133_SlowFlush(t *testing.T) {
	const v = 4 * time.Second
	var flushes atomic.Int64
	var slow atomic.Bool
	opt := (&sqlitestore.Options{}).BeforeCommit(func(durable, _ bool) {
		if durable && slow.Load() {
			flushes.Add(1)
			time.Sleep(150 * time.Millisecond)
		}
	})
	s := open(t, filepath.Join(t.TempDir(), "store.db"), opt)
	defer closeStore(t, s)
	if _, err := s.Configure(t.Context(), 0, store.Config{Visibility: v}); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for i := range 10 {
		ids = append(ids, fmt.Sprintf("lease-%d", i))
	}
	submit(t, s, ids...)
	held := claim(t, s, "w", store.Intake, 10)
	slow.Store(true)
	stop := make(chan struct{})
	var submitted atomic.Int64
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				submit(t, s, fmt.Sprintf("s-%d-%d", g, i))
				submitted.Add(1)
			}
		})
	}
	var worst time.Duration
	for range 15 {
		var req store.RenewRequest
		req.Worker.ID = "w"
		for _, g := range held.Grants {
			req.Leases = append(req.Leases, store.RenewItem{ID: g.Items[0].ID, Lease: g.Items[0].Lease})
		}
		start := time.Now()
		rep, err := s.Renew(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		worst = max(worst, time.Since(start))
		for i, r := range rep.Results {
			if r.State != store.RenewOK {
				t.Errorf("lease %d: %+v", i, r)
			}
		}
	}
	close(stop)
	wg.Wait()
	t.Logf("%d submits in %d flushes; the slowest renewal took %v", submitted.Load(), flushes.Load(), worst)
	if worst >= v/4 {
		t.Errorf("a renewal took %v, a quarter of the lease is %v", worst, v/4)
	}
	if n, f := submitted.Load(), flushes.Load(); n < 2*f {
		t.Errorf("%d submits took %d flushes", n, f)
	}
}

// F134: writers of one process and of another handle never see a busy database.
func TestF134_NeverBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	a := open(t, path, relaxed)
	defer closeStore(t, a)
	b := open(t, path, relaxed)
	defer closeStore(t, b)
	var wg sync.WaitGroup
	for g := range 16 {
		s := []*sqlitestore.Store{a, b}[g%2]
		wg.Go(func() {
			for i := range 20 {
				submit(t, s, fmt.Sprintf("c-%d-%d", g, i))
				if _, err := s.Maintain(t.Context()); err != nil {
					t.Error(err)
				}
				if _, err := s.Stats(t.Context(), store.StatsRequest{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	st, err := b.Stats(t.Context(), store.StatsRequest{})
	if err != nil || st.Queues[0].Lanes[store.Intake].InLine != 320 {
		t.Errorf("%+v, %v", st.Queues, err)
	}
}

// A caller whose context ends leaves at once, whether its step waits, is made, or is flushed; its step is made whole or not at all.
func TestContextEnds(t *testing.T) {
	flushing := make(chan struct{}, 100)
	var slow atomic.Bool
	opt := (&sqlitestore.Options{}).BeforeCommit(func(bool, bool) {
		if slow.Load() {
			flushing <- struct{}{}
			time.Sleep(300 * time.Millisecond)
		}
	})
	s := open(t, filepath.Join(t.TempDir(), "store.db"), opt)
	defer closeStore(t, s)
	slow.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-flushing
		cancel()
	}()
	start := time.Now()
	_, err := s.Submit(ctx, store.SubmitRequest{Items: []store.Submission{submission("a")}})
	if took := time.Since(start); err == nil || took > 250*time.Millisecond {
		t.Errorf("%v after %v", err, took)
	}
	slow.Store(false)
	submit(t, s, "a", "b") // known or not: it is there once
}
