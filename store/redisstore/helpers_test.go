package redisstore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/redisstore"
)

// claimN leases up to n commands of type t in queue q for a worker.
func claimN(t testing.TB, s *redisstore.Store, worker string, lane store.Lane, n int) []*store.Command {
	t.Helper()
	req := store.ClaimRequest{Worker: worker, Nonce: fmt.Sprintf("nonce%06d", namespaces.Add(1)), Wants: []store.Want{
		{Queue: "q", Lane: lane, Max: n, Types: []store.TypeWant{{Type: "t"}}},
	}}
	req.Free[lane] = n
	rep, err := s.Claim(context.Background(), req)
	if err != nil {
		t.Error(err)
	}
	var cs []*store.Command
	for _, g := range rep.Grants {
		cs = append(cs, g.Items...)
	}
	return cs
}

// settleAll settles and fails unless every item was done by this call.
func settleAll(t testing.TB, s *redisstore.Store, items ...store.Settlement) {
	t.Helper()
	res, err := s.Settle(context.Background(), store.SettleRequest{Worker: "w1", Items: items})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range res {
		if r.State != store.SettleDone || r.Err != nil {
			t.Fatalf("settle of %s: %+v", items[i].ID, r)
		}
	}
}
