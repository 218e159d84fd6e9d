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

// A limitLiar is a memory store that keeps other limits than it was given, or forgets a rule of theirs.
type limitLiar struct {
	*memstore.Store
	configure func(*store.Config)
	settle    func(*store.Settlement)
}

func (l limitLiar) Configure(ctx context.Context, expect uint64, c store.Config) (store.Config, error) {
	c = c.Clone()
	l.configure(&c)
	return l.Store.Configure(ctx, expect, c)
}

func (l limitLiar) Settle(ctx context.Context, req store.SettleRequest) ([]store.SettleResult, error) {
	for i := range req.Items {
		l.settle(&req.Items[i])
	}
	return l.Store.Settle(ctx, req)
}

// A store with a rule of limits broken does not get through a few walks.
func TestLimitWalksFindALiar(t *testing.T) {
	each := func(change func(*store.Limit)) func(*limitLiar) {
		return func(l *limitLiar) {
			l.configure = func(c *store.Config) {
				for i := range c.Limits {
					change(&c.Limits[i])
				}
			}
		}
	}
	for name, lie := range map[string]func(*limitLiar){
		"one more is let in": each(func(l *store.Limit) {
			if l.Rate == 0 {
				l.Max++
			}
		}),
		"one fewer is let in": each(func(l *store.Limit) { l.Max = max(0, l.Max-1) }),
		"a rate is twice as fast": each(func(l *store.Limit) {
			if l.Rate > 0 {
				l.Burst = 2
			}
		}),
		"scope command ends with the lease": each(func(l *store.Limit) { l.Scope = store.ScopeInvocation }),
		"what was given back unstarted counts as started": func(l *limitLiar) {
			l.settle = func(s *store.Settlement) { s.Unstarted = false }
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(100) {
				l := limitLiar{memstore.New(), func(*store.Config) {}, func(*store.Settlement) {}}
				lie(&l)
				_, d := replayLimits(t, l, seed)
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
