package model_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/twolane/twolane/model"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/memstore"
)

// A liar is a memory store with one rule broken.
type liar struct {
	*memstore.Store
	claim  func(*store.ClaimRequest)
	renew  func(*store.RenewRequest)
	settle func(*store.SettleRequest)
	cancel func(*store.CancelRequest)
}

func (l liar) Claim(ctx context.Context, req store.ClaimRequest) (store.ClaimReply, error) {
	l.claim(&req)
	return l.Store.Claim(ctx, req)
}

func (l liar) Renew(ctx context.Context, req store.RenewRequest) (store.RenewReply, error) {
	l.renew(&req)
	return l.Store.Renew(ctx, req)
}

func (l liar) Settle(ctx context.Context, req store.SettleRequest) ([]store.SettleResult, error) {
	l.settle(&req)
	return l.Store.Settle(ctx, req)
}

func (l liar) Cancel(ctx context.Context, req store.CancelRequest) ([]store.CancelResult, error) {
	l.cancel(&req)
	return l.Store.Cancel(ctx, req)
}

// A store with a rule broken does not get through a few walks.
func TestWalksFindALiar(t *testing.T) {
	nonces := 0
	for name, lie := range map[string]func(*liar){
		"a settle does not say that it is a retry": func(l *liar) {
			l.settle = func(r *store.SettleRequest) { r.Items[0].Again = false }
		},
		"an error is counted as a snooze": func(l *liar) {
			l.settle = func(r *store.SettleRequest) {
				if r.Items[0].Kind == store.OutcomeRetry {
					r.Items[0].Kind = store.OutcomeSnooze
				}
			}
		},
		"the type has no Cancel hook": func(l *liar) {
			l.settle = func(r *store.SettleRequest) { r.Items[0].HasHook = false }
		},
		"a repeated claim claims anew": func(l *liar) {
			l.claim = func(r *store.ClaimRequest) {
				nonces++
				r.Nonce = fmt.Sprintf("another%04d", nonces)
			}
		},
		"heartbeats come from somebody else": func(l *liar) {
			l.renew = func(r *store.RenewRequest) { r.Worker.ID = "somebody" }
		},
		"renewals do not extend leases": func(l *liar) {
			l.renew = func(r *store.RenewRequest) { r.Leases = nil }
		},
		"force is not enough": func(l *liar) {
			l.cancel = func(r *store.CancelRequest) { r.Force = false }
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(100) {
				l := liar{memstore.New(), func(*store.ClaimRequest) {}, func(*store.RenewRequest) {}, func(*store.SettleRequest) {}, func(*store.CancelRequest) {}}
				lie(&l)
				d := newReplay(t, l, model.Walk(seed, 250)).run()
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				if d != "" {
					t.Logf("found by seed %d", seed)
					return
				}
			}
			t.Error("100 walks did not see it")
		})
	}
}
