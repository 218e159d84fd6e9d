package redisstore_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/twolane/twolane/internal/redistest"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/redisstore"
)

// limitedWorld is a namespace with a full limit for one group, a member, lines that wait, and one that was opened.
func limitedWorld(t *testing.T, url string) *redisstore.Store {
	t.Helper()
	ctx := context.Background()
	s := open(t, url, fresh())
	t.Cleanup(func() { s.Close() })
	if err := s.SetClock(ctx, 2_000_000_000_000); err != nil {
		t.Fatal(err)
	}
	limit(t, s, store.Limit{Name: "l", By: store.ByGroup, Max: 1, Values: map[string]int{"wide": 2}})
	var subs []store.Submission
	for _, id := range []string{"a1", "a2", "a3", "b1", "wide1", "wide2"} {
		subs = append(subs, store.Submission{ID: id, Queue: "q", Type: "t", Group: strings.TrimRight(id, "123"), Params: []byte("p")})
	}
	subs[2].BatchKey = "other" // a line of its own
	if _, err := s.Submit(ctx, store.SubmitRequest{Items: subs}); err != nil {
		t.Fatal(err)
	}
	if cs := claimN(t, s, "w1", store.Intake, 6); len(cs) != 4 {
		t.Fatalf("%d were granted", len(cs))
	}
	return s
}

func limit(t *testing.T, s *redisstore.Store, ls ...store.Limit) {
	t.Helper()
	cfg, err := s.Config(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	cfg.Limits = ls
	if _, err := s.Configure(context.Background(), cfg.Version, cfg); err != nil {
		t.Fatal(err)
	}
}

// Damage to what limits keep has to be found too.
func TestAuditFindsDamagedLimits(t *testing.T) {
	srv := redistest.Shared(t)
	if rep, err := limitedWorld(t, srv.URL()).Audit(context.Background()); err != nil || len(rep.Violations) > 0 {
		t.Fatal(rep.Violations, err)
	}
	for _, d := range []struct{ name, cmd, want string }{
		{"no member", "ZREM m|l a|a1", "a1: is a member of l|a, which do not count it"},
		{"member of nothing", "ZADD m|l 0 b|ghost", "members of l|b: are 2"},
		{"member twice", "ZADD m|l 0 a|a1|2", "members of l|a: are 2"},
		{"no number of lines", "DEL lf|l", "filed lines of l|a"},
		{"wrong number of lines", "HSET lf|l a 7", "filed lines of l|a"},
		{"wrong only line", "HSET lf|l a $only", "is said to be the only one"},
		{"not swept", "DEL fv|l", "no sweep looks at them"},
		{"swept for nothing", "ZADD fv|l 0 nobody|", "is swept and no line is filed"},
		{"not under its key", "DEL fl|l|a", "whose lines do not name it"},
		{"under another key", "ZADD fl|l|b 1 $line", "stands under l|b"},
		{"filing gone", "DEL fd", "closed lines and is not filed"},
		{"open and closed", "ZREM o|q|i0|t $line", "is not open in"},
		{"closed elsewhere", "ZADD o|q|i0|t -5 $line", "is closed at"},
		{"lines of the lane", "HSET fn q|i 9", "filed lines of q|i"},
		{"room of nobody", "HSET fs l|nobody 5", "room stands for the lines of it"},
		{"re-test of nobody", "ZADD fr 5 $other", "is to be tested again and is not filed"},
		{"late re-test", "ZADD fr 5 $line", "is not tested again"},
		{"late sweep", "HSET meta fsw 5", "the sweep of keys is overdue"},
		{"max of a value", "HSET cfg =l|wide x", "bad_limit"},
	} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := limitedWorld(t, srv.URL())
			ctx := context.Background()
			prefix := "{" + s.Namespace() + "}:"
			base := func(id string) string {
				m, err := srv.Do(ctx, "GETRANGE", prefix+"c|"+id, "20", "35")
				if err != nil {
					t.Fatal(err)
				}
				text, _ := m.ToString()
				return text + "i0"
			}
			words := strings.Split(d.cmd, " ")
			words[1] = prefix + words[1]
			for i, w := range words {
				switch w {
				case "$line":
					words[i] = base("a2")
				case "$other":
					words[i] = base("b1")
				case "$only":
					words[i] = "1 " + base("b1") + "\x01q|i0|t"
				}
			}
			if _, err := srv.Do(ctx, words...); err != nil {
				t.Fatal(err)
			}
			rep, err := s.Audit(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(rep.Violations, func(v string) bool { return strings.Contains(v, d.want) }) {
				t.Errorf("%q is not among %q", d.want, rep.Violations)
			}
		})
	}
}

// F029: what is stored of a limit is damaged: nobody else stands still, the value is closed at worst, the audit says so, and the configuration is
// what counts: it is written anew with the next change.
func TestF029_StoredLimit(t *testing.T) {
	srv := redistest.Shared(t)
	ctx := context.Background()
	for _, bad := range []string{"", "x", "-1", "0", "1000000000000", "gone"} {
		t.Run("stored "+bad, func(t *testing.T) {
			s := limitedWorld(t, srv.URL())
			key := "{" + s.Namespace() + "}:cfg"
			var err error
			if bad == "gone" {
				_, err = srv.Do(ctx, "HDEL", key, "=l|wide")
			} else {
				_, err = srv.Do(ctx, "HSET", key, "=l|wide", bad)
			}
			if err != nil {
				t.Fatal(err)
			}
			submit := func(ids ...string) {
				t.Helper()
				for _, id := range ids {
					if _, err := s.Submit(ctx, store.SubmitRequest{Items: []store.Submission{{ID: id, Queue: "q", Type: "t", Group: strings.TrimRight(id, "34"), Params: []byte("p")}}}); err != nil {
						t.Fatal(err)
					}
				}
			}
			submit("wide3", "c3")
			got := claimN(t, s, "w2", store.Intake, 9)
			if !slices.ContainsFunc(got, func(c *store.Command) bool { return c.ID == "c3" }) {
				t.Errorf("%d were granted: another group stands still", len(got))
			}
			rep, err := s.Audit(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(rep.Violations, func(v string) bool { return strings.Contains(v, "bad_limit") }) {
				t.Errorf("audit says %q", rep.Violations)
			}
			limit(t, s, store.Limit{Name: "l", By: store.ByGroup, Max: 1, Values: map[string]int{"wide": 5}})
			if err := s.SetClock(ctx, 2_000_000_000_000+store.Millis(3000)); err != nil {
				t.Fatal(err)
			}
			submit("wide4")
			n := len(got) - 1
			for range 3 {
				n += len(claimN(t, s, "w2", store.Intake, 9))
			}
			if n != 2 {
				t.Errorf("%d more of the group run, not 2", n)
			}
			if rep, err := s.Audit(ctx); err != nil || len(rep.Violations) > 0 {
				t.Error(rep.Violations, err)
			}
		})
	}
}

// Values that begin alike stand in another order than their members would by value alone: none that has no room may be taken for one that has.
func TestSweepKnowsValuesThatBeginAlike(t *testing.T) {
	s := open(t, redistest.Shared(t).URL(), fresh())
	t.Cleanup(func() { s.Close() })
	ctx := context.Background()
	now := store.Millis(2_000_000_000_000)
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(s.SetClock(ctx, now))
	limit(t, s, store.Limit{Name: "l", By: store.ByGroup, Max: 1})
	var subs []store.Submission
	for _, g := range []string{"t", "t1", "t10", "t1a", "t-1", "u"} {
		for _, n := range []string{".1", ".2"} {
			subs = append(subs, store.Submission{ID: g + n, Queue: "q", Type: "t", Group: g, Params: []byte("p")})
		}
	}
	res, err := s.Submit(ctx, store.SubmitRequest{Items: subs})
	ok(err)
	for i := range res {
		ok(res[i].Err)
	}
	if cs := claimN(t, s, "w1", store.Intake, 20); len(cs) != 6 {
		t.Fatalf("%d were granted", len(cs))
	}
	for range 3 {
		now += 1000
		ok(s.SetClock(ctx, now))
		_, err := s.Maintain(ctx)
		ok(err)
		for _, g := range []string{"t", "t1", "t10", "t1a", "t-1", "u"} {
			st, err := s.Limit(ctx, store.LimitKey{Limit: "l", Value: g})
			ok(err)
			if len(st.Filed) != 1 || st.Filed[0].Opened || st.Members != 1 {
				t.Errorf("%s: %+v", g, st)
			}
		}
	}
	for _, g := range []string{"t1", "t10", "u", "t"} { // room that nobody has told of
		_, err := redistest.Shared(t).Do(ctx, "ZREM", "{"+s.Namespace()+"}:m|l", g+"|"+g+".1")
		ok(err)
		now += 1100
		ok(s.SetClock(ctx, now))
		_, err = s.Maintain(ctx)
		ok(err)
		if st, err := s.Limit(ctx, store.LimitKey{Limit: "l", Value: g}); err != nil || !st.Filed[0].Opened {
			t.Errorf("%s has room for a second, and its line is closed: %+v, %v", g, st, err)
		}
	}
	if st, err := s.Limit(ctx, store.LimitKey{Limit: "l", Value: "t-1"}); err != nil || st.Filed[0].Opened {
		t.Errorf("t-1 has none, and its line is open: %+v, %v", st, err)
	}
}
