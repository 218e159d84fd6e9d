package sqlitestore_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twolane/twolane/store"
)

// A claim that meets more ended commands than one step of maintenance takes ends them on its way, also those whose events lie apart from the
// record, and comes to what is behind them.
func TestClaimClearsHeads(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "store.db"), relaxed)
	defer closeStore(t, s)
	now := store.Millis(2_000_000_000_000)
	clock := func(d time.Duration) {
		t.Helper()
		now = now.Add(d)
		if err := s.SetClock(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
	clock(0)
	const old = 150
	var req store.SubmitRequest
	for i := range old {
		sub := submission(fmt.Sprintf("old-%03d", i))
		sub.Deadline = now.Add(time.Hour)
		req.Items = append(req.Items, sub)
	}
	if _, err := s.Submit(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	why := strings.Repeat("because ", 25)
	for range 8 { // eight events of two hundred bytes
		for left := old; left > 0; {
			rep := claim(t, s, "w", store.Intake, old)
			if len(rep.Grants) == 0 && !rep.More {
				t.Fatalf("%d of %d are not to be had", left, old)
			}
			if len(rep.Grants) > 0 {
				settle(t, s, rep, store.Settlement{Kind: store.OutcomeRetry, Error: why, Delay: time.Second})
			}
			left -= len(rep.Grants)
		}
		clock(5 * time.Second)
	}
	for more := true; more; { // all of them are in line
		rep, err := s.Maintain(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		more = rep.More
	}
	submit(t, s, "new")
	clock(2 * time.Hour)
	for range 10 {
		rep := claim(t, s, "w", store.Intake, 5)
		if len(rep.Grants) == 1 {
			if id := rep.Grants[0].Items[0].ID; id != "new" {
				t.Fatalf("granted %s", id)
			}
			cs, err := s.Get(t.Context(), []string{"old-149"}, store.GetOptions{})
			if err != nil || cs[0].Status != store.Failed || cs[0].Reason != store.ReasonDeadline || len(cs[0].Events) != 9 {
				t.Errorf("%+v, %v", cs[0], err)
			}
			return
		}
	}
	t.Error("what is behind the ended ones never comes")
}

// More unreadable records at the head of a line than one claim sets aside do not close it.
func TestClaimPassesUnreadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path, relaxed)
	defer closeStore(t, s)
	var ids []string
	for i := range 350 {
		ids = append(ids, fmt.Sprintf("bad-%03d", i))
	}
	submit(t, s, ids...)
	submit(t, s, "good")
	tamper(t, path, "UPDATE cmd SET rec=x'00' WHERE id LIKE 'bad%'")
	for range 20 {
		if rep := claim(t, s, "w", store.Intake, 300); len(rep.Grants) > 0 {
			st, err := s.Stats(t.Context(), store.StatsRequest{})
			if rep.Grants[0].Items[0].ID != "good" || err != nil || st.Lost != 350 {
				t.Errorf("granted %s, %d lost, %v", rep.Grants[0].Items[0].ID, st.Lost, err)
			}
			return
		}
	}
	t.Error("what is behind the unreadable ones never comes")
}
