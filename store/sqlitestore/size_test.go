package sqlitestore_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/sqlitestore"
)

// grown is a store with n waiting, n finished and, of each, one in its own group.
func grown(t *testing.T, n int) *sqlitestore.Store {
	t.Helper()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), relaxed)
	if err := s.SetClock(t.Context(), 2_000_000_000_000); err != nil {
		t.Fatal(err)
	}
	add := func(prefix string) {
		for i := 0; i < n; i += 500 {
			var req store.SubmitRequest
			for j := range 500 {
				sub := submission(fmt.Sprintf("%s-%06d", prefix, i+j))
				sub.Group = fmt.Sprintf("%s-group-%d", prefix, (i+j)/10)
				sub.Params = sub.Params[:20]
				req.Items = append(req.Items, sub)
			}
			if _, err := s.Submit(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
	}
	add("done")
	for left := n; left > 0; {
		rep := claim(t, s, "w", store.Intake, 500)
		settle(t, s, rep, store.Settlement{Kind: store.OutcomeDone})
		left -= len(rep.Grants)
	}
	add("wait")
	return s
}

// F128, F129, F136: claims, settles, numbers, lists and purges with ten times as many commands, lines and groups. That nothing is scanned is held by the
// query plans, that a purge is bounded by this test; the times are for people to read.
func TestF129_Growth(t *testing.T) {
	if testing.Short() {
		t.Skip("fills files")
	}
	const small, large = 1_600, 10_000
	took := map[string][2]time.Duration{}
	for i, n := range []int{small, large} {
		s := grown(t, n)
		measure := func(what string, f func()) {
			var all []time.Duration
			for range 15 {
				start := time.Now()
				f()
				all = append(all, time.Since(start))
			}
			slices.Sort(all)
			x := took[what]
			x[i] = all[len(all)/2]
			took[what] = x
		}
		var rep store.ClaimReply
		measure("claim", func() { rep = claim(t, s, "w", store.Intake, 10) })
		measure("settle", func() {
			rep := claim(t, s, "w", store.Intake, 10)
			settle(t, s, rep, store.Settlement{Kind: store.OutcomeRetry, Delay: time.Hour})
		})
		measure("renew", func() {
			req := store.RenewRequest{Worker: store.Worker{ID: "w"}}
			for _, g := range rep.Grants {
				req.Leases = append(req.Leases, store.RenewItem{ID: g.Items[0].ID, Lease: g.Items[0].Lease})
			}
			if _, err := s.Renew(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		})
		measure("stats", func() {
			if _, err := s.Stats(t.Context(), store.StatsRequest{Groups: []string{"wait-group-1"}}); err != nil {
				t.Fatal(err)
			}
		})
		for _, status := range []store.Status{store.Pending, store.Succeeded, store.Failed} {
			measure("list "+status.String(), func() {
				if _, err := s.List(t.Context(), store.ListRequest{Filter: store.Filter{Queue: "q", Status: status}}); err != nil {
					t.Fatal(err)
				}
			})
		}
		if err := s.SetClock(t.Context(), 2_000_000_000_000+2*store.Millis(store.DefaultRetention.Milliseconds())); err != nil {
			t.Fatal(err)
		}
		measure("purge", func() {
			rep, err := s.Maintain(t.Context())
			if err != nil || rep.Purged == 0 || rep.Purged > 100 || !rep.More {
				t.Fatalf("%+v, %v", rep, err)
			}
		})
		closeStore(t, s)
	}
	for what, x := range took {
		t.Logf("%-16s %8v with %d, %8v with %d", what, x[0].Round(10*time.Microsecond), small, x[1].Round(10*time.Microsecond), large)
	}
}

// F128: retention by count leaves what the queue keeps, by bounded steps, and a purge of finished records does not make the file grow for ever.
func TestF128_RetentionBoundsTheFile(t *testing.T) {
	if testing.Short() {
		t.Skip("fills files")
	}
	s := open(t, filepath.Join(t.TempDir(), "store.db"), relaxed)
	defer closeStore(t, s)
	if err := s.SetClock(t.Context(), 2_000_000_000_000); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Configure(t.Context(), 0, store.Config{Queues: map[string]store.QueueConfig{"q": {Keep: 500}}}); err != nil {
		t.Fatal(err)
	}
	now := store.Millis(2_000_000_000_000)
	var after [2]int64
	for round := range 12 {
		var ids []string
		for i := range 1000 {
			ids = append(ids, fmt.Sprintf("r%d-%d", round, i))
		}
		submit(t, s, ids...)
		for left := 1000; left > 0; {
			rep := claim(t, s, "w", store.Intake, 500)
			settle(t, s, rep, store.Settlement{Kind: store.OutcomeDone, Result: params})
			left -= len(rep.Grants)
		}
		now += 11 * 60 * 1000 // tombstones go after ten minutes
		if err := s.SetClock(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		for more := true; more; {
			rep, err := s.Maintain(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			more = rep.More
		}
		st, err := s.Stats(t.Context(), store.StatsRequest{})
		if err != nil || st.Queues[0].Succeeded > 500 {
			t.Fatalf("%+v, %v", st.Queues, err)
		}
		if round == 3 {
			after[0] = s.Pages(t)
		}
		after[1] = s.Pages(t)
	}
	if after[1] > after[0]*5/4 {
		t.Errorf("the file grew from %d to %d pages while it kept the same", after[0], after[1])
	}
}
