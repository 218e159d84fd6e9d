package faultstore

import (
	"context"

	"github.com/twolane/twolane/store"
)

// Wrap returns a store that does what inner does, but for the faults. It has the optional abilities ([store.Clocker], [store.Describer]) that
// inner has; they and Close never fail by a rule. Several stores may be wrapped by the same Faults: rules and counts are then about all of them.
func (f *Faults) Wrap(inner store.Store) store.Store {
	w := &wrapped{f: f, inner: inner}
	c, clocker := inner.(store.Clocker)
	d, describer := inner.(store.Describer)
	switch {
	case clocker && describer:
		return struct {
			*wrapped
			store.Clocker
			store.Describer
		}{w, c, d}
	case clocker:
		return struct {
			*wrapped
			store.Clocker
		}{w, c}
	case describer:
		return struct {
			*wrapped
			store.Describer
		}{w, d}
	}
	return w
}

type wrapped struct {
	f     *Faults
	inner store.Store
}

var _ store.Store = (*wrapped)(nil)

func (w *wrapped) Submit(ctx context.Context, req store.SubmitRequest) ([]store.SubmitResult, error) {
	return do(ctx, w.f, Submit, req, func() ([]store.SubmitResult, error) { return w.inner.Submit(ctx, req) })
}

func (w *wrapped) Claim(ctx context.Context, req store.ClaimRequest) (store.ClaimReply, error) {
	return do(ctx, w.f, Claim, req, func() (store.ClaimReply, error) { return w.inner.Claim(ctx, req) })
}

func (w *wrapped) Renew(ctx context.Context, req store.RenewRequest) (store.RenewReply, error) {
	return do(ctx, w.f, Renew, req, func() (store.RenewReply, error) { return w.inner.Renew(ctx, req) })
}

func (w *wrapped) Settle(ctx context.Context, req store.SettleRequest) ([]store.SettleResult, error) {
	return do(ctx, w.f, Settle, req, func() ([]store.SettleResult, error) { return w.inner.Settle(ctx, req) })
}

func (w *wrapped) Cancel(ctx context.Context, req store.CancelRequest) ([]store.CancelResult, error) {
	return do(ctx, w.f, Cancel, req, func() ([]store.CancelResult, error) { return w.inner.Cancel(ctx, req) })
}

func (w *wrapped) Act(ctx context.Context, req store.ActRequest) (store.ActReply, error) {
	return do(ctx, w.f, Act, req, func() (store.ActReply, error) { return w.inner.Act(ctx, req) })
}

func (w *wrapped) Get(ctx context.Context, ids []string, opt store.GetOptions) ([]*store.Command, error) {
	return do(ctx, w.f, Get, ids, func() ([]*store.Command, error) { return w.inner.Get(ctx, ids, opt) })
}

func (w *wrapped) List(ctx context.Context, req store.ListRequest) (store.ListPage, error) {
	return do(ctx, w.f, List, req, func() (store.ListPage, error) { return w.inner.List(ctx, req) })
}

func (w *wrapped) Stats(ctx context.Context, req store.StatsRequest) (store.Stats, error) {
	return do(ctx, w.f, Stats, req, func() (store.Stats, error) { return w.inner.Stats(ctx, req) })
}

func (w *wrapped) Config(ctx context.Context) (store.Config, error) {
	return do(ctx, w.f, Config, nil, func() (store.Config, error) { return w.inner.Config(ctx) })
}

func (w *wrapped) Configure(ctx context.Context, expect uint64, cfg store.Config) (store.Config, error) {
	return do(ctx, w.f, Configure, cfg, func() (store.Config, error) { return w.inner.Configure(ctx, expect, cfg) })
}

func (w *wrapped) Limit(ctx context.Context, key store.LimitKey) (store.LimitState, error) {
	return do(ctx, w.f, Limit, key, func() (store.LimitState, error) { return w.inner.Limit(ctx, key) })
}

func (w *wrapped) Outbox(ctx context.Context, req store.OutboxRequest) ([]store.OutboxEntry, error) {
	return do(ctx, w.f, Outbox, req, func() ([]store.OutboxEntry, error) { return w.inner.Outbox(ctx, req) })
}

func (w *wrapped) Maintain(ctx context.Context) (store.MaintainReply, error) {
	return do(ctx, w.f, Maintain, nil, func() (store.MaintainReply, error) { return w.inner.Maintain(ctx) })
}

func (w *wrapped) Audit(ctx context.Context) (store.AuditReport, error) {
	return do(ctx, w.f, Audit, nil, func() (store.AuditReport, error) { return w.inner.Audit(ctx) })
}

func (w *wrapped) Close() error { return w.inner.Close() }

func (w *wrapped) Watch(ctx context.Context) (store.Watcher, error) {
	v := w.f.decide(Watch, nil)
	switch v.fault { // there is no step whose answer could be lost
	case FailBefore, DropReply:
		return nil, v.err
	case Delay:
		if err := w.f.sleep(ctx, v.delay); err != nil {
			return nil, err
		}
	case Hang, HangReply:
		select {
		case <-v.healed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	inner, err := w.inner.Watch(ctx)
	if err != nil {
		return nil, err
	}
	return watch(w.f, inner), nil
}
