package memstore

import (
	"context"
	"fmt"

	"github.com/twolane/twolane/internal/mutant"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// Renew implements [store.Store].
func (s *Store) Renew(ctx context.Context, req store.RenewRequest) (store.RenewReply, error) {
	if err := tooMany(len(req.Leases)); err != nil {
		return store.RenewReply{}, err
	}
	if err := store.ValidName("worker", req.Worker.ID); err != nil {
		return store.RenewReply{}, err
	}
	for i := range req.Leases {
		if n := len(req.Leases[i].Progress); n > store.MaxProgress {
			return store.RenewReply{}, &store.InvalidError{Field: "progress", Detail: fmt.Sprintf("has %d bytes, at most %d are allowed", n, store.MaxProgress), Max: store.MaxProgress}
		}
	}
	if err := s.begin(ctx); err != nil {
		return store.RenewReply{}, err
	}
	defer s.mu.Unlock()
	now := s.advance()
	v := s.cfg.V()
	// The caller's own leases and registration go first: whoever comes back in time is not reaped by its own call.
	if req.Gone {
		delete(s.workers, req.Worker.ID)
		s.nonces[req.Worker.ID] = gone
	} else {
		if s.nonces[req.Worker.ID] == gone {
			delete(s.nonces, req.Worker.ID)
		}
		w := req.Worker
		w.Seen, w.Expires = now.Wall, now.Lease.Add(v)
		s.workers[w.ID] = &w
	}
	rep := store.RenewReply{Results: make([]store.RenewResult, len(req.Leases))}
	if mutant.On(mutant.ReapWithoutRecheck) {
		s.maintain(now)
	}
	for i := range req.Leases {
		rep.Results[i] = rule.Renew(now, s.cmds[req.Leases[i].ID], &req.Leases[i], v)
	}
	rep.MaintainReply = s.maintain(now)
	rep.Workers = s.liveWorkers(now)
	return rep, nil
}

func (s *Store) liveWorkers(now rule.Now) int {
	n := 0
	for id := range s.workers {
		if s.ownerLives(now, id) {
			n++
		}
	}
	return n
}

// Settle implements [store.Store].
func (s *Store) Settle(ctx context.Context, req store.SettleRequest) ([]store.SettleResult, error) {
	if err := tooMany(len(req.Items)); err != nil {
		return nil, err
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := s.peek()
	res := make([]store.SettleResult, len(req.Items))
	for i := range req.Items {
		res[i] = s.settleOne(now, &req.Items[i])
	}
	return res, nil
}

func (s *Store) settleOne(now rule.Now, it *store.Settlement) store.SettleResult {
	c := s.cmds[it.ID]
	var res store.SettleResult
	if c != nil {
		res.Status, res.Reason = c.Status, c.Reason
	}
	if res.State = rule.Compare(c, it); res.State != store.SettleDone {
		return res
	}
	if err := rule.ValidSettlement(it); err != nil {
		return store.SettleResult{Status: c.Status, Err: err}
	}
	if it.Kind == store.OutcomeThrottled {
		k := typeKey{c.Queue, c.Lane(), c.Type}
		s.throttles[k] = s.throttles[k].Throttled(now.Run, it.Observed, s.cfg.Queue(c.Queue).Rates[c.Lane()])
	}
	if mutant.On(mutant.RateTokenGivenBack) && it.Kind == store.OutcomeGiveBack {
		delete(s.buckets, laneKey{c.Queue, c.Lane()})
	}
	s.change(now, c, func(q store.QueueConfig) { rule.Settle(now, c, it, q, s.cfg.V()) })
	for j := range it.FollowUps {
		r := s.submitOne(now, &it.FollowUps[j], false)
		if r.Created {
			s.arrived(now, s.cmds[it.FollowUps[j].ID])
		}
		res.FollowUps = append(res.FollowUps, r)
	}
	res.Status, res.Reason = c.Status, c.Reason
	return res
}

// Cancel implements [store.Store].
func (s *Store) Cancel(ctx context.Context, req store.CancelRequest) ([]store.CancelResult, error) {
	if err := tooMany(len(req.IDs)); err != nil {
		return nil, err
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := s.peek()
	res := make([]store.CancelResult, len(req.IDs))
	for i, id := range req.IDs {
		c := s.cmds[id]
		if c == nil || purgeable(now, c) {
			res[i].State = store.CancelNotFound
			continue
		}
		s.change(now, c, func(q store.QueueConfig) {
			if rule.Ended(now, c) {
				rule.Expire(now, c, q)
			}
			res[i] = rule.Cancel(now, c, req.Reason, req.Force, q)
		})
	}
	return res, nil
}
