package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/twolane/twolane/internal/redistest"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/redisstore"
)

// submitParts submits any number of commands.
func submitParts(t *testing.T, s *redisstore.Store, subs []store.Submission) {
	t.Helper()
	for part := range slices.Chunk(subs, store.MaxItems) {
		rs, err := s.Submit(context.Background(), store.SubmitRequest{Items: part})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rs {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
}

func audited(t *testing.T, s *redisstore.Store) {
	t.Helper()
	if rep, err := s.Audit(context.Background()); err != nil || len(rep.Violations) > 0 {
		t.Fatal(rep.Violations, err)
	}
}

// More lines than one command of a script may name leave their keys in one call: those of a paused queue are filed no more once there is room.
func TestManyLinesLeaveTheirKeysAtOnce(t *testing.T) {
	ctx := context.Background()
	s := open(t, redistest.Shared(t).URL(), fresh())
	defer s.Close()
	limit(t, s, store.Limit{Name: "l", By: store.ByGroup, Max: 1})
	const groups, lines = 100, 95
	var subs []store.Submission
	for i := range lines {
		for g := range groups {
			subs = append(subs, store.Submission{ID: fmt.Sprintf("c-%d-%d", g, i), Queue: "q", Type: "t", Group: fmt.Sprint("g", g), BatchKey: fmt.Sprint(i), Params: []byte("p")})
		}
	}
	submitParts(t, s, subs)
	var held []*store.Command
	for {
		cs := claimN(t, s, "w1", store.Intake, 1000)
		held = append(held, cs...)
		st, err := s.Limit(ctx, store.LimitKey{Limit: "l", Value: "g0"})
		if err != nil {
			t.Fatal(err)
		}
		if len(cs) == 0 && st.Lines == lines-1 {
			break
		}
	}
	if len(held) != groups {
		t.Fatalf("%d of %d groups run", len(held), groups)
	}
	cfg, err := s.Config(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Queues = map[string]store.QueueConfig{"q": {Pause: store.PauseAll}}
	if _, err := s.Configure(ctx, cfg.Version, cfg); err != nil {
		t.Fatal(err)
	}
	var items []store.Settlement
	for _, c := range held {
		items = append(items, store.Settlement{ID: c.ID, Lease: c.Lease, Kind: store.OutcomeDone})
	}
	settleAll(t, s, items...)
	audited(t, s)
}

// A claim takes tokens of more rates than one command of a script may name.
func TestManyRatesInOneClaim(t *testing.T) {
	s := open(t, redistest.Shared(t).URL(), fresh())
	defer s.Close()
	var ls []store.Limit
	for i := range 20 {
		ls = append(ls, store.Limit{Name: fmt.Sprintf("r%02d", i), By: store.ByGroup, Rate: 1})
	}
	limit(t, s, ls...)
	var subs []store.Submission
	for i := range 250 {
		subs = append(subs, store.Submission{ID: fmt.Sprint("c", i), Queue: "q", Type: "t", Group: fmt.Sprint("g", i), Params: []byte("p")})
	}
	submitParts(t, s, subs)
	if n := len(claimN(t, s, "w1", store.Intake, 250)); n != 250 {
		t.Fatalf("%d were granted", n)
	}
	audited(t, s)
}

// The lines of all types of a worker are more than one command of a script may name.
func TestManyLinesInOneClaim(t *testing.T) {
	s := open(t, redistest.Shared(t).URL(), fresh())
	defer s.Close()
	limit(t, s, store.Limit{Name: "l", By: store.ByGroup, Max: 1})
	const types = 9
	var subs []store.Submission
	for i := range types * 1001 {
		subs = append(subs, store.Submission{ID: fmt.Sprint("c", i), Queue: "q", Type: fmt.Sprint("t", i%types), Group: fmt.Sprint("g", i), Params: []byte("p")})
	}
	submitParts(t, s, subs)
	for i := range 2 {
		w := store.Want{Queue: "q", Lane: store.Intake, Max: 1000}
		for j := range types {
			w.Types = append(w.Types, store.TypeWant{Type: fmt.Sprint("t", j)})
		}
		rep, err := s.Claim(context.Background(), store.ClaimRequest{Worker: "w1", Nonce: fmt.Sprint("nonce00", i), Free: [2]int{1000}, Wants: []store.Want{w}})
		if err != nil {
			t.Fatal(err)
		}
		if len(rep.Grants) != 300 {
			t.Fatalf("%d were granted", len(rep.Grants))
		}
	}
	audited(t, s)
}

// Whoever has made room without telling: all keys of all limits are looked at, each once a second.
func TestSweepLooksAtAllLimitsWithinASecond(t *testing.T) {
	ctx := context.Background()
	url := redistest.Shared(t).URL()
	s := open(t, url, fresh())
	defer s.Close()
	now := store.Millis(2_000_000_000_000)
	step := func(d store.Millis) {
		t.Helper()
		now += d
		if err := s.SetClock(ctx, now); err != nil {
			t.Fatal(err)
		}
		for more := true; more; {
			r, err := s.Maintain(ctx)
			if err != nil {
				t.Fatal(err)
			}
			more = r.More
		}
	}
	step(0)
	const limits = 20
	var ls []store.Limit
	var subs []store.Submission
	for i := range limits {
		ty := fmt.Sprintf("t%02d", i)
		ls = append(ls, store.Limit{Name: "l" + ty, By: store.ByKey, Key: "k" + ty, Max: 1})
		for _, id := range []string{"run", "wait"} {
			subs = append(subs, store.Submission{ID: id + ty, Queue: "q", Type: "t", Keys: []store.Key{{Name: "k" + ty, Value: "v"}}, Params: []byte("p")})
		}
	}
	limit(t, s, ls...)
	submitParts(t, s, subs)
	if n := len(claimN(t, s, "w1", store.Intake, 50)); n != limits {
		t.Fatalf("%d run", n)
	}
	claimN(t, s, "w1", store.Intake, 50)
	for i := range limits {
		ty := fmt.Sprintf("t%02d", i)
		raw(t, url, "ZREM", "{"+s.Namespace()+"}:m|l"+ty, "v|run"+ty)
	}
	for range 21 { // the first look comes a second after the first line
		step(100)
	}
	if n := len(claimN(t, s, "w1", store.Intake, 50)); n != limits {
		t.Fatalf("%d of %d keys have been looked at", n, limits)
	}
}
