package memstore_test

import (
	"testing"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/memstore"
)

// The model by itself, end to end: submit, claim, park, poll, done.
func TestLife(t *testing.T) {
	ctx := t.Context()
	s := memstore.New()
	now := store.Millis(1_800_000_000_000)
	if err := s.SetClock(ctx, now); err != nil {
		t.Fatal(err)
	}
	res, err := s.Submit(ctx, store.SubmitRequest{Items: []store.Submission{{ID: "a", Queue: "q", Type: "t", Params: []byte("p")}}})
	if err != nil || !res[0].Created {
		t.Fatalf("submit: %+v, %v", res, err)
	}
	want := []store.Want{
		{Queue: "q", Lane: store.Intake, Max: 5, Types: []store.TypeWant{{Type: "t"}}},
		{Queue: "q", Lane: store.Repoll, Max: 5, Types: []store.TypeWant{{Type: "t"}}},
	}
	claim := func(nonce string) []store.Grant {
		t.Helper()
		rep, err := s.Claim(ctx, store.ClaimRequest{Worker: "w", Nonce: nonce, Free: [2]int{5, 5}, Wants: want})
		if err != nil {
			t.Fatal(err)
		}
		return rep.Grants
	}
	settle := func(g store.Grant, it store.Settlement) store.SettleState {
		t.Helper()
		it.ID, it.Lease = g.Items[0].ID, g.Items[0].Lease
		res, err := s.Settle(ctx, store.SettleRequest{Worker: "w", Items: []store.Settlement{it}})
		if err != nil || res[0].Err != nil {
			t.Fatal(err, res)
		}
		return res[0].State
	}
	g := claim("nonce001")
	if len(g) != 1 || g[0].Lane != store.Intake || string(g[0].Items[0].Params) != "p" {
		t.Fatalf("claim: %+v", g)
	}
	if again := claim("nonce001"); len(again) != 1 || again[0].Items[0].Lease != g[0].Items[0].Lease {
		t.Fatalf("the same claim again: %+v", again)
	}
	park := store.Settlement{Kind: store.OutcomeProcessing, State: []byte("s"), SetState: true, Delay: 5 * time.Second}
	if st := settle(g[0], park); st != store.SettleDone {
		t.Fatalf("processing: %v", st)
	}
	if st := settle(g[0], park); st != store.SettleAlready {
		t.Fatalf("processing again: %v", st)
	}
	if g := claim("nonce002"); len(g) != 0 {
		t.Fatalf("claimed before it is due: %+v", g)
	}
	now += 5000
	if err := s.SetClock(ctx, now); err != nil {
		t.Fatal(err)
	}
	g = claim("nonce003")
	if len(g) != 1 || g[0].Lane != store.Repoll || string(g[0].Items[0].State) != "s" {
		t.Fatalf("poll: %+v", g)
	}
	settle(g[0], store.Settlement{Kind: store.OutcomeDone, Result: []byte("r")})
	cs, err := s.Get(ctx, []string{"a", "b"}, store.GetOptions{})
	if err != nil || cs[0].Status != store.Succeeded || string(cs[0].Result) != "r" || cs[0].Polls != 1 || cs[0].Starts != 2 || cs[1] != nil {
		t.Fatalf("get: %+v, %v", cs[0], err)
	}
	rep, err := s.Audit(ctx)
	if err != nil || len(rep.Violations) != 0 {
		t.Fatalf("audit: %+v, %v", rep, err)
	}
}
