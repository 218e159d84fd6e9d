package redisstore_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twolane/twolane/internal/redistest"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/redisstore"
)

func openPush(t *testing.T, url string) *redisstore.Store {
	t.Helper()
	s, err := redisstore.OpenURL(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if r, err := s.Audit(context.Background()); err != nil || len(r.Violations) > 0 {
			t.Errorf("audit: %v %v", r.Violations, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestPushIsOnceAndCleansUp(t *testing.T) {
	srv := redistest.Start(t)
	s := openPush(t, srv.URL()+"/3?namespace=push")
	ctx := t.Context()
	db, err := s.Database(ctx)
	if err != nil || !strings.HasSuffix(db, "/3") || len(db) < 10 {
		t.Fatalf("database %q, %v", db, err)
	}
	do := func(args ...string) []string {
		t.Helper()
		c, err := srv.Client()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		dc, release := c.Dedicate()
		defer release()
		if err := dc.Do(ctx, dc.B().Select().Index(3).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		m, err := dc.Do(ctx, dc.B().Arbitrary(args...).Build()).ToMessage()
		if err != nil {
			return nil
		}
		if a, err := m.AsStrSlice(); err == nil {
			return a
		}
		if n, err := m.AsInt64(); err == nil {
			return []string{strconv.FormatInt(n, 10)}
		}
		v, _ := m.ToString()
		return []string{v}
	}
	items := []store.Submission{}
	for _, id := range []string{"a", "b", "c", "d"} {
		sub := store.Submission{ID: id, Queue: "q", Type: "t", Notify: "top", Deadline: 1}
		if id == "d" {
			sub.Retention = -1
		}
		items = append(items, sub)
	}
	if _, err := s.Submit(ctx, store.SubmitRequest{Items: items}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Maintain(ctx); err != nil { // their deadline has passed
		t.Fatal(err)
	}
	es, err := s.Outbox(ctx, store.OutboxRequest{Topic: "top", Max: 10, HideFor: 10000})
	if err != nil || len(es) != 4 {
		t.Fatalf("%d entries, %v", len(es), err)
	}
	seq := map[string]uint64{}
	for _, e := range es {
		seq[e.Command.ID] = e.Seq
	}
	do("SET", "mine", "token")
	do("SET", "theirs", "other")
	do("SET", "gone", "1")
	do("SET", "string", "1")
	do("LPUSH", "set", "1") // a list where a value is expected
	push := []store.PushItem{
		{Seq: seq["a"], List: "res", Value: []byte("1\x00"), TTL: 50000, Del: []string{"gone", "none"},
			DelIf: []store.PushCondition{{Key: "mine", Value: "token"}, {Key: "theirs", Value: "token"}, {Key: "set", Value: "token"}}},
		{Seq: seq["b"], List: "string", Value: []byte("2")},
		{Seq: seq["c"], List: "res", Value: []byte("3")},
		{Seq: seq["d"], List: "res2", Value: []byte("4")},
		{Seq: 999, List: "res", Value: []byte("5")},
		{Seq: seq["a"], List: "res", Value: []byte("6")},
	}
	states, err := s.Push(ctx, "top", push)
	want := []store.PushState{store.PushDone, store.PushRefused, store.PushDone, store.PushDone, store.PushGone, store.PushGone}
	if err != nil || !slices.Equal(states, want) {
		t.Fatalf("%v %v", states, err)
	}
	again, err := s.Push(ctx, "top", push)
	if err != nil || slices.Contains(again, store.PushDone) {
		t.Fatalf("%v %v", again, err)
	}
	if got := do("LRANGE", "res", "0", "-1"); !slices.Equal(got, []string{"3", "1\x00"}) {
		t.Errorf("%q", got)
	}
	if got := do("LRANGE", "res2", "0", "-1"); !slices.Equal(got, []string{"4"}) {
		t.Errorf("%q", got)
	}
	if n, err := strconv.Atoi(do("PTTL", "res")[0]); err != nil || n <= 0 || n > 50000 {
		t.Errorf("lives for %d ms, %v", n, err)
	}
	if got := do("EXISTS", "mine", "theirs", "gone", "set"); got[0] != "2" {
		t.Errorf("%s of the kept keys are left, want theirs and set", got)
	}
	if got := do("EXISTS", "mine", "gone"); got[0] != "0" {
		t.Errorf("%s keys were not taken away", got)
	}
	left, err := s.Outbox(ctx, store.OutboxRequest{Topic: "top", Max: 10, Ack: []uint64{seq["b"]}})
	if err != nil || len(left) != 0 {
		t.Errorf("%d entries left, %v", len(left), err)
	}
	cs, err := s.Get(ctx, []string{"a", "d"}, store.GetOptions{})
	if err != nil || cs[0] == nil || cs[0].PurgeAt == 0 || cs[1] == nil || !cs[1].Tombstone {
		t.Errorf("%+v %v", cs, err)
	}
}

// A settle can push its result itself: then there is no outbox entry. What is not pushed has one.
func TestSettlePushes(t *testing.T) {
	srv := redistest.Start(t)
	s := openPush(t, srv.URL()+"?namespace=push")
	ctx := t.Context()
	ids := []string{"a", "b", "c", "d", "e"}
	items := make([]store.Submission, len(ids))
	for i, id := range ids {
		items[i] = store.Submission{ID: id, Queue: "q", Type: "t", Notify: "top", Metadata: map[string]string{"m": "1"}}
	}
	if _, err := s.Submit(ctx, store.SubmitRequest{Items: items}); err != nil {
		t.Fatal(err)
	}
	rep, err := s.Claim(ctx, store.ClaimRequest{Worker: "w", Nonce: "nonce0001", Free: [2]int{9, 0}, Wants: []store.Want{{Queue: "q", Max: 9, Types: []store.TypeWant{{Type: "t"}}}}})
	if err != nil || len(rep.Grants) != len(ids) {
		t.Fatalf("%d grants, %v", len(rep.Grants), err)
	}
	lease := map[string]store.LeaseName{}
	for _, g := range rep.Grants {
		lease[g.Items[0].ID] = g.Items[0].Lease
	}
	for _, args := range [][]string{{"SET", "string", "1"}, {"SET", "mine", "token"}, {"SET", "gone", "1"}} {
		if _, err := srv.Do(ctx, args...); err != nil {
			t.Fatal(err)
		}
	}
	push := &store.PushItem{List: "res", TTL: 60000, Del: []string{"gone"}, DelIf: []store.PushCondition{{Key: "mine", Value: "token"}}}
	req := store.SettleRequest{Worker: "w", Items: []store.Settlement{
		{ID: "a", Lease: lease["a"], Kind: store.OutcomeDone, Result: []byte("1"), Push: push},
		{ID: "b", Lease: lease["b"], Kind: store.OutcomeFail, Error: "bad", Result: []byte("2"), Push: push},
		{ID: "c", Lease: lease["c"], Kind: store.OutcomeDone, Result: []byte("3"), Push: &store.PushItem{List: "string"}},
		{ID: "d", Lease: lease["d"], Kind: store.OutcomeDone, Result: []byte("4"), FollowUps: []store.Submission{{ID: "f", Queue: "q", Type: "t"}}, Push: &store.PushItem{List: "res"}},
		{ID: "e", Lease: lease["e"], Kind: store.OutcomeRetry, Error: "no", Push: push},
	}}
	for _, want := range []store.SettleState{store.SettleDone, store.SettleAlready} {
		got, err := s.Settle(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		for i, g := range got {
			if g.State != want || g.Err != nil {
				t.Errorf("%s: %+v, want %v", ids[i], g, want)
			}
		}
	}
	lines, err := srv.Do(ctx, "LRANGE", "res", "0", "-1")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := lines.AsStrSlice(); err != nil || !slices.Equal(got, []string{"4", "2", "1"}) {
		t.Errorf("%q %v", got, err)
	}
	if n, err := srv.Do(ctx, "EXISTS", "gone", "mine"); err != nil {
		t.Fatal(err)
	} else if left, err := n.AsInt64(); err != nil || left != 0 {
		t.Errorf("%d keys are left, %v", left, err)
	}
	es, err := s.Outbox(ctx, store.OutboxRequest{Topic: "top", Max: 10, HideFor: 1})
	if err != nil || len(es) != 1 || es[0].Command.ID != "c" || string(es[0].Command.Result) != "3" {
		t.Errorf("%+v %v", es, err)
	}
	cs, err := s.Get(ctx, []string{"a", "b", "f"}, store.GetOptions{})
	if err != nil || string(cs[0].Result) != "1" || cs[0].PurgeAt == 0 || cs[1].Status != store.Failed || cs[1].Error != "bad" || cs[2] == nil {
		t.Errorf("%+v %v", cs, err)
	}
}
