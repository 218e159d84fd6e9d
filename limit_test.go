package twolane_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
)

func (e *env) setLimit(l twolane.Limit) {
	e.Helper()
	if err := e.SetLimit(e.Context(), l); err != nil {
		e.Fatal(err)
	}
}

func TestLimits(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		e.setLimit(twolane.Limit{Name: "vms", Max: 2, Scope: twolane.ScopeCommand})
		e.setLimit(twolane.Limit{Name: "api", By: twolane.ByKey, Key: "tenant", Rate: 5})
		e.setLimit(twolane.Limit{Name: "vms", Max: 1, Scope: twolane.ScopeCommand})
		ls, err := e.Limits(e.Context())
		if err != nil || len(ls) != 2 || ls[0].Max != 1 || ls[1].Name != "api" {
			t.Fatalf("%+v %v", ls, err)
		}
		before, err := e.Config(e.Context())
		if err != nil {
			t.Fatal(err)
		}
		e.setLimit(ls[0])
		if after, err := e.Config(e.Context()); err != nil || after.Version != before.Version {
			t.Fatalf("the same again made version %d of %d: %v", after.Version, before.Version, err)
		}
		a, b := e.must(twolane.Submission{Type: "a"}), e.must(twolane.Submission{Type: "a"})
		c := e.claim("w1", "default", store.Intake, "a")
		if c == nil || c.ID != a || e.claim("w1", "default", store.Intake, "a") != nil {
			t.Fatal("not exactly one runs")
		}
		st, err := e.Limit(e.Context(), "vms", "")
		if err != nil || st.Members != 1 || !slices.Equal(st.Holders, []string{a}) || st.Lines != 1 {
			t.Fatalf("%+v %v", st, err)
		}
		all, err := e.Stats(e.Context())
		if err != nil || len(all.Limits) != 2 || all.Limits[0].Members != 1 || all.Queues[0].Lanes[twolane.Intake].Waits != twolane.WaitNoWorker {
			t.Fatalf("%+v %v", all, err)
		}
		e.worker("w1", "default", "a", 5, 1)
		if all, err = e.Stats(e.Context()); err != nil || all.Queues[0].Lanes[twolane.Intake].Waits != twolane.WaitLimit {
			t.Fatalf("%+v %v", all.Queues, err)
		}
		for range 2 {
			if err := e.RemoveLimit(e.Context(), "vms"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := e.Limit(e.Context(), "vms", ""); !errors.Is(err, twolane.ErrNotFound) {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if c := e.claim("w1", "default", store.Intake, "a"); c == nil || c.ID != b {
			t.Fatalf("after the limit is gone %v runs", c)
		}
		var inv *twolane.InvalidError
		if err := e.SetLimit(e.Context(), twolane.Limit{Name: "x", Max: -1}); !errors.As(err, &inv) || inv.Field != "limits.x.max" {
			t.Fatal(err)
		}
		if _, err := e.Submit(e.Context(), twolane.Submission{Type: "a", Cost: 2}); err != nil {
			t.Fatal(err)
		}
		e.setLimit(twolane.Limit{Name: "one", Max: 1})
		if _, err := e.Submit(e.Context(), twolane.Submission{Type: "a", Cost: 2}); !errors.As(err, &inv) || inv.Field != "cost" {
			t.Fatal(err)
		}
	})
}

// Which limit holds a command, with its value, threshold, holders, and the length of and the place in the line.
func TestF143_ExplainNamesTheLimit(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		e.worker("w1", "default", "a", 5, 0)
		e.setLimit(twolane.Limit{Name: "tenant", By: twolane.ByGroup, Max: 2, Values: map[string]int{"rate": 9, "small": 5}})
		e.setLimit(twolane.Limit{Name: "rate", By: twolane.ByKey, Key: "k", Rate: 0.1})
		explain := func(id string) twolane.Explanation {
			t.Helper()
			x, err := e.Explain(e.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(x.Text)
			return x
		}
		one, two := e.must(twolane.Submission{ID: "one", Type: "a", Group: "g"}), e.must(twolane.Submission{ID: "two", Type: "a", Group: "g"})
		for range 2 {
			e.claim("w1", "default", store.Intake, "a")
		}
		first := e.must(twolane.Submission{ID: "first", Type: "a", Group: "g", BatchKey: "b"})
		x := explain(first)
		if x.Wait != twolane.WaitLimit || x.Limit == nil || x.Limit.Position != 0 || !slices.Equal(x.Limit.Holders, []string{one, two}) {
			t.Fatalf("before a claim met it: %+v %+v", x, x.Limit)
		}
		e.claim("w1", "default", store.Intake, "a")
		second := e.must(twolane.Submission{ID: "second", Type: "a", Group: "g"})
		e.claim("w1", "default", store.Intake, "a")
		x = explain(second)
		if l := x.Limit; x.Wait != twolane.WaitLimit || l.Limit != "tenant" || l.Value != "g" || l.Max != 2 || l.Members != 2 || l.Lines != 2 || l.Position != 2 {
			t.Fatalf("%+v %+v", x, x.Limit)
		}
		if !strings.Contains(x.Text, "limit tenant=g is full (2 of 2, held by one and 1 others); its line is number 2 of 2 that wait") {
			t.Fatal(x.Text)
		}
		for range 2 {
			e.must(twolane.Submission{Type: "a", Group: "rate", Keys: map[string]string{"k": "v"}})
		}
		waits := e.must(twolane.Submission{ID: "waits", Type: "a", Group: "rate", Keys: map[string]string{"k": "v"}})
		for range 3 {
			e.claim("w1", "default", store.Intake, "a")
		}
		x = explain(waits)
		if x.Wait != twolane.WaitLimit || !x.Limit.Rate || x.Limit.Next <= 9*time.Second || x.Until.Sub(x.AsOf) != x.Limit.Next {
			t.Fatalf("%+v %+v", x, x.Limit)
		}
		large := e.must(twolane.Submission{ID: "large", Type: "a", Group: "small", Cost: 5})
		e.setLimit(twolane.Limit{Name: "tenant", By: twolane.ByGroup, Max: 2})
		if x = explain(large); x.Wait != twolane.WaitLimit || !x.Limit.Never {
			t.Fatalf("%+v %+v", x, x.Limit)
		}
		free := e.must(twolane.Submission{ID: "free", Type: "a", Group: "other"})
		if x = explain(free); x.Wait != twolane.WaitTurn || x.Limit != nil {
			t.Fatalf("%+v %+v", x, x.Limit)
		}
	})
}
