package sim

import (
	"context"
	"slices"

	"github.com/twolane/twolane/internal/dispatch"
	"github.com/twolane/twolane/store"
)

// settled takes the answer of the store to a settle.
func (o *oracle) settled(p *proc, req *store.SettleRequest, res []store.SettleResult, err error) {
	if err != nil {
		return
	}
	for i := range req.Items {
		it, got := &req.Items[i], &res[i]
		r := o.recs[it.ID]
		current := r != nil && r.exists && r.lease == it.Lease
		o.w.log("store settles %s of %s with %s: %s %s %v", it.ID, p.id, it.Kind, got.State, got.Status, got.Err)
		if got.Err != nil {
			if !current {
				o.fail("stale-owner", "%s: the settlement of %s was refused as invalid, not as lost", it.ID, it.Lease)
				continue
			}
			r.refused++
			continue
		}
		want := store.SettleLost
		switch {
		case current:
			want = store.SettleDone
		case r != nil && r.exists && r.settled == it.Lease && !o.forgotten(it.ID, r):
			want = store.SettleAlready
		case it.Again:
			want = store.SettleUnknown
		}
		if got.State != want {
			o.fail("stale-owner", "%s: %s settles %s with %s and gets %s, want %s; the lease is %s of %s", it.ID, p.id, it.Lease, it.Kind, got.State, want, r.lease, r.owner)
			continue
		}
		if want == store.SettleDone {
			o.asAnswered(r, it)
			o.ended(r, it, got)
		}
	}
}

// asAnswered looks whether what is settled is what the handler has answered: an error that nobody is to blame for may become a give-back.
func (o *oracle) asAnswered(r *record, s *store.Settlement) {
	if r.refused > 0 || s.Kind == store.OutcomeAbandon {
		return
	}
	for _, x := range r.runs {
		for i, it := range x.inv.Items {
			if x.leases[i] != s.Lease {
				continue
			}
			kind := it.Answered()
			blameless := s.Kind == store.OutcomeGiveBack && (kind == store.OutcomeRetry || kind == store.OutcomeCancelRetry || kind == 0)
			if kind != s.Kind && !blameless && (kind != 0 || s.Kind != store.OutcomeRetry) {
				o.fail("counters", "%s was answered with %s and is settled with %s", s.ID, kind, s.Kind)
			}
		}
	}
}

// ended takes note of a settlement that was made.
func (o *oracle) ended(r *record, it *store.Settlement, got *store.SettleResult) {
	poll := r.status == store.Processing
	r.settled, r.settledAt, r.latest = it.Lease, o.w.wall(), o.w.wall()
	if it.Kind == store.OutcomeAbandon {
		r.lose(o, o.lease+min(max(0, o.w.wall()-o.last), store.Millis(o.cfg.V().Milliseconds())/4))
		o.unlease(r)
		r.status = got.Status
		return
	}
	if it.Kind == store.OutcomeGiveBack {
		if it.Unstarted {
			r.starts--
		}
		o.unlease(r)
		r.status = got.Status
		return
	}
	r.losses = 0
	if poll && it.Kind != store.OutcomeCancelled && it.Kind != store.OutcomeCancelRetry {
		r.polls++
	}
	switch it.Kind {
	case store.OutcomeDone, store.OutcomeProcessing:
		r.failures = 0
	case store.OutcomeRetry:
		r.failures++
	case store.OutcomeThrottled:
		o.lane(r.sub.Queue, lanes[poll]).throttled = o.run
	}
	if it.SetState && it.Kind == store.OutcomeProcessing {
		r.state = it.State
	}
	o.unlease(r)
	r.status = got.Status
	if end := r.sub.Deadline; it.Kind == store.OutcomeRetry && end != 0 && o.w.wall().Add(max(it.Delay, store.MinPoll)) >= end && !got.Status.Terminal() {
		if c := o.peek(it.ID); c == nil || c.CancelAsked == 0 {
			o.fail("deadline", "%s is to be tried again in %v, after its deadline", it.ID, it.Delay)
		}
	}
	for i := range got.FollowUps {
		o.entered(&it.FollowUps[i], &got.FollowUps[i])
		if got.FollowUps[i].Err == nil {
			o.recs[it.FollowUps[i].ID].acked = true
		}
	}
	if c := o.peek(it.ID); c != nil && !c.Tombstone {
		o.count(r, c)
		if c.Status != got.Status && !c.Status.Terminal() {
			o.fail("contents", "%s was settled as %s and is %s", it.ID, got.Status, c.Status)
		}
	}
}

// started looks at a handler that is called.
func (o *oracle) started(p *proc, own *run, it *dispatch.Item) {
	id := it.Cmd.ID
	r := o.recs[id]
	r.runs = slices.DeleteFunc(r.runs, func(x *run) bool { return x.over })
	for _, x := range r.runs {
		i := slices.IndexFunc(x.inv.Items, func(y *dispatch.Item) bool { return y.Cmd.ID == id })
		if answered := x.inv.Items[i].Answered() != 0; answered {
			continue // a batch call that goes on with others
		}
		switch {
		case x.leases[i] == it.Cmd.Lease:
			o.fail("one-live", "%s: lease %s is run twice, by %s and %s", id, it.Cmd.Lease, x.p.id, p.id)
		case x.p == p:
			o.fail("one-live", "%s is started by %s, where it still runs", id, p.id)
		case it.Cmd.Lease != r.lease && p.resumed > 0: // it was stopped, and its clock with it, before it took this up
		case x.causes[i] == nil && x.cause == nil && !x.p.stopped && x.p.resumed <= x.since[i] && o.w.stepped <= x.since[i] && r.broken <= x.started:
			o.fail("one-live", "%s is started by %s while %s runs it, whose context has not ended", id, p.id, x.p.id)
		}
	}
	own.since = append(own.since, 0)
	if it.Cmd.Lease == r.lease {
		own.since[len(own.since)-1] = r.renewed
	}
	r.runs = append(r.runs, own)
}

// fenced looks whether the owner of a lease that may end within V/8 has ended the context.
func (o *oracle) fenced(id string, r *record) {
	// The core may be told late by its loop, and the store counts whole milliseconds.
	margin := store.Millis((r.v/8 - o.w.plan.lag).Milliseconds()) - 3
	for _, x := range r.runs {
		for i, it := range x.inv.Items {
			if x.over || it.Cmd.ID != id || x.leases[i] != r.lease {
				continue
			}
			if answered := it.Answered() != 0; answered || x.abandoned {
				continue
			}
			if x.causes[i] == nil && x.cause == nil && !x.p.stopped && x.p.resumed <= r.renewed && o.w.stepped <= r.renewed && o.lease > r.until-margin {
				o.fail("fence", "%s: lease %s ends in %v, and %s runs it with a context that has not ended", id, r.lease, r.until.Sub(o.lease), x.p.id)
			}
		}
	}
}

// leaseLost looks at a loss that a worker noticed: none without a cause.
func (o *oracle) leaseLost(p *proc, e *dispatch.Event) {
	r := o.recs[e.Item.Cmd.ID]
	if o.w.plan.calm && r.broken == 0 {
		o.fail("fence", "%s lost the lease of %s though nothing went wrong: %s", p.id, e.Item.Cmd.ID, e.Text)
	}
}

// cancelled takes the answer to a cancel.
func (o *oracle) cancelled(req *store.CancelRequest, res []store.CancelResult, err error) {
	if err != nil {
		return
	}
	for i, id := range req.IDs {
		r := o.recs[id]
		if r == nil || !r.exists {
			if res[i].State != store.CancelNotFound {
				o.fail("contents", "cancel of the unknown %s answers %s", id, res[i].State)
			}
			continue
		}
		o.w.log("store cancels %s: %s %s", id, res[i].State, res[i].Status)
		switch res[i].State {
		case store.CancelRequested:
			if req.Force {
				o.fail("cancel-ends", "a forced cancel of %s is only requested", id)
			}
			if r.asked == 0 {
				r.asked = o.w.now
			}
		case store.CancelEnded:
			if r.lease != (store.LeaseName{}) {
				if !req.Force {
					o.fail("cancel-ends", "%s is leased and a cancel ended it", id)
				}
				r.broken = o.w.now
				o.unlease(r)
			}
			r.status = store.Cancelled
		}
	}
}

// acted takes the answer to operator work.
func (o *oracle) acted(req *store.ActRequest, rep *store.ActReply, err error) {
	if err != nil {
		return
	}
	for i, id := range req.IDs {
		r := o.recs[id]
		if rep.Results[i] != nil || r == nil {
			continue
		}
		o.w.log("store acts %d on %s", req.Kind, id)
		switch req.Kind {
		case store.ActDelete:
			if r.lease != (store.LeaseName{}) {
				if !req.Force {
					o.fail("one-live", "%s is leased and was deleted without force", id)
				}
				r.broken = o.w.now
			}
			o.unlease(r)
			r.exists, r.dropped = false, true
			r.settled, r.state = store.LeaseName{}, nil
		case store.ActRetry:
			cs, err := o.w.mem.Get(context.Background(), []string{id}, store.GetOptions{})
			if err != nil || cs[0] == nil {
				o.fail("nothing-lost", "%s was retried and is not there: %v", id, err)
				return
			}
			r.status, r.failures, r.losses, r.asked = cs[0].Status, 0, 0, 0
			r.sub.Deadline = cs[0].Deadline
			r.sub.StartBy = 0
			if r.status == store.Pending {
				r.state = nil
			}
			r.since = -1
		case store.ActMove:
			r.sub.Queue = req.Queue
			r.since = -1
		}
	}
}
