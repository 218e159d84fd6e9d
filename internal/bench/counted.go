package bench

import (
	"context"
	"sync/atomic"

	"github.com/twolane/twolane/store"
)

// counted counts the calls of a store.
type counted struct {
	store.Store
	calls atomic.Int64
}

func (c *counted) Submit(ctx context.Context, req store.SubmitRequest) ([]store.SubmitResult, error) {
	c.calls.Add(1)
	return c.Store.Submit(ctx, req)
}

func (c *counted) Claim(ctx context.Context, req store.ClaimRequest) (store.ClaimReply, error) {
	c.calls.Add(1)
	return c.Store.Claim(ctx, req)
}

func (c *counted) Renew(ctx context.Context, req store.RenewRequest) (store.RenewReply, error) {
	c.calls.Add(1)
	return c.Store.Renew(ctx, req)
}

func (c *counted) Settle(ctx context.Context, req store.SettleRequest) ([]store.SettleResult, error) {
	c.calls.Add(1)
	return c.Store.Settle(ctx, req)
}

func (c *counted) Get(ctx context.Context, ids []string, opt store.GetOptions) ([]*store.Command, error) {
	c.calls.Add(1)
	return c.Store.Get(ctx, ids, opt)
}

func (c *counted) Stats(ctx context.Context, req store.StatsRequest) (store.Stats, error) {
	c.calls.Add(1)
	return c.Store.Stats(ctx, req)
}

func (c *counted) Config(ctx context.Context) (store.Config, error) {
	c.calls.Add(1)
	return c.Store.Config(ctx)
}

func (c *counted) Maintain(ctx context.Context) (store.MaintainReply, error) {
	c.calls.Add(1)
	return c.Store.Maintain(ctx)
}
