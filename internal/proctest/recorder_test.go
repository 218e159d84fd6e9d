package proctest

import (
	"context"
	"sync/atomic"

	"github.com/twolane/twolane/store"
)

// recorder writes down what a process says to the store and what it hears.
type recorder struct {
	store.Store
	j     *journal
	ready atomic.Bool
	// taken, if set, is called when the store has taken a Done and the caller does not know it yet.
	taken func()
}

func (r *recorder) Submit(ctx context.Context, req store.SubmitRequest) ([]store.SubmitResult, error) {
	sent := now()
	res, err := r.Store.Submit(ctx, req)
	e := event{Kind: evSubmit, Sent: sent}
	if err != nil {
		e.Text = err.Error()
	}
	for i := range req.Items {
		if err != nil || res[i].Err == nil {
			e.Items = append(e.Items, item{ID: req.Items[i].ID})
		}
	}
	r.j.add(e)
	return res, err
}

func (r *recorder) Claim(ctx context.Context, req store.ClaimRequest) (store.ClaimReply, error) {
	sent := now()
	rep, err := r.Store.Claim(ctx, req)
	e := event{Kind: evClaim, Sent: sent}
	for _, g := range rep.Grants {
		for _, c := range g.Items {
			e.Items = append(e.Items, item{ID: c.ID, Lease: c.Lease.String(), Starts: c.Starts, Failures: c.Failures, Losses: c.Losses})
		}
	}
	if err != nil {
		e.Text = err.Error()
	}
	if err != nil || len(e.Items) > 0 {
		r.j.add(e)
	}
	return rep, err
}

func (r *recorder) Renew(ctx context.Context, req store.RenewRequest) (store.RenewReply, error) {
	sent := now()
	rep, err := r.Store.Renew(ctx, req)
	if err != nil {
		r.j.add(event{Kind: evRenew, Sent: sent, Text: err.Error()})
		return rep, err
	}
	if !req.Gone && r.ready.CompareAndSwap(false, true) {
		r.j.add(event{Kind: evReady, Sent: sent})
	}
	if len(req.Leases) > 0 {
		e := event{Kind: evRenew, Sent: sent}
		for i, l := range req.Leases {
			e.Items = append(e.Items, item{ID: l.ID, Lease: l.Lease.String(), State: renewStates[rep.Results[i].State]})
		}
		r.j.add(e)
	}
	return rep, err
}

const (
	stateOK   = "ok"
	stateLost = "lost"
)

var renewStates = map[store.RenewState]string{store.RenewOK: stateOK, store.RenewLost: stateLost, store.RenewRefused: "refused"}

func (r *recorder) Settle(ctx context.Context, req store.SettleRequest) ([]store.SettleResult, error) {
	e := event{Kind: evSend}
	for i := range req.Items {
		s := &req.Items[i]
		e.Items = append(e.Items, item{ID: s.ID, Lease: s.Lease.String(), Outcome: s.Kind.String()})
	}
	e.Sent = now()
	r.j.add(e)
	res, err := r.Store.Settle(ctx, req)
	e.Kind = evSettle
	done := false
	if err != nil {
		e.Text = err.Error()
	} else {
		for i := range e.Items {
			e.Items[i].State = res[i].State.String()
			done = done || res[i].State == store.SettleDone && req.Items[i].Kind == store.OutcomeDone
		}
	}
	r.j.add(e)
	r.followUps(&req, res, err, e.Sent)
	if done && r.taken != nil {
		r.taken()
	}
	return res, err
}

// followUps writes down what came in with the end of others: for sure, or maybe, where the answer was lost.
func (r *recorder) followUps(req *store.SettleRequest, res []store.SettleResult, err error, sent int64) {
	sure, maybe := event{Kind: evSubmit, Sent: sent}, event{Kind: evSubmit, Sent: sent, Text: "the answer was lost"}
	for i := range req.Items {
		for j := range req.Items[i].FollowUps {
			it := item{ID: req.Items[i].FollowUps[j].ID}
			switch {
			case err != nil || res[i].State == store.SettleAlready || res[i].State == store.SettleUnknown:
				maybe.Items = append(maybe.Items, it)
			case res[i].State == store.SettleDone && res[i].FollowUps[j].Err == nil:
				sure.Items = append(sure.Items, it)
			}
		}
	}
	for _, e := range []event{sure, maybe} {
		if len(e.Items) > 0 {
			r.j.add(e)
		}
	}
}
