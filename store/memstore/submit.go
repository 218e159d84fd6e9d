package memstore

import (
	"context"
	"fmt"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// Submit implements [store.Store].
func (s *Store) Submit(ctx context.Context, req store.SubmitRequest) ([]store.SubmitResult, error) {
	if err := tooMany(len(req.Items)); err != nil {
		return nil, err
	}
	if req.Atomic && len(req.Items) > store.MaxAtomic {
		return nil, &store.InvalidError{Field: "items", Detail: fmt.Sprintf("an atomic batch has at most %d", store.MaxAtomic), Max: store.MaxAtomic}
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := s.peek()
	res := make([]store.SubmitResult, len(req.Items))
	if req.Atomic {
		refused := false
		var added []string
		for i := range req.Items {
			res[i] = s.submitOne(now, &req.Items[i], true)
			refused = refused || res[i].Err != nil
			if res[i].Created {
				added = append(added, req.Items[i].ID)
			}
		}
		if refused {
			for _, id := range added {
				delete(s.cmds, id)
			}
			for i := range res {
				if res[i].Err == nil {
					res[i] = store.SubmitResult{Err: store.ErrAborted}
				}
			}
			return res, nil
		}
		for _, id := range added {
			s.arrived(now, s.cmds[id])
		}
		return res, nil
	}
	for i := range req.Items {
		if res[i] = s.submitOne(now, &req.Items[i], true); res[i].Created {
			s.arrived(now, s.cmds[req.Items[i].ID])
		}
	}
	return res, nil
}

func (s *Store) submitOne(now rule.Now, sub *store.Submission, capped bool) store.SubmitResult {
	if err := rule.ValidSubmission(sub); err != nil {
		return store.SubmitResult{Err: err}
	}
	if c := s.cmds[sub.ID]; c != nil && !purgeable(now, c) {
		if rule.Ended(now, c) {
			s.expire(now, c)
		}
		if c.Fingerprint != rule.Fingerprint(sub) {
			return store.SubmitResult{Status: c.Status, Err: store.ErrIDConflict}
		}
		return store.SubmitResult{Status: c.Status}
	}
	if h := s.uniqueHolder(now, sub.UniqueKey); h != nil {
		return store.SubmitResult{Err: &store.UniqueHeldError{Key: sub.UniqueKey, Holder: h.ID, Status: h.Status}}
	}
	if most := s.cfg.Queue(sub.Queue).MaxReady; capped && most > 0 && s.ready(sub.Queue) >= most {
		return store.SubmitResult{Err: store.ErrQueueFull}
	}
	c := rule.New(now, s.seq+1, sub)
	if a := rule.NeverFits(now, &s.cfg, c); a != nil {
		return store.SubmitResult{Err: &store.InvalidError{Field: "cost", Detail: fmt.Sprintf("%d can never fit limit %s of %d", c.Cost, a.LimitKey, a.Max)}}
	}
	s.seq++
	s.cmds[sub.ID] = c
	return store.SubmitResult{Created: true, Status: c.Status}
}

func (s *Store) arrived(now rule.Now, c *store.Command) {
	s.follow(now, &store.Command{Status: store.Pending}, c)
}

// ready counts the PENDING commands of a queue that have no lease.
func (s *Store) ready(queue string) int {
	n := 0
	s.live(func(c *store.Command) {
		if c.Queue == queue && c.Status == store.Pending && c.Place != store.Leased {
			n++
		}
	})
	return n
}

func tooMany(n int) error {
	if n > store.MaxItems {
		return &store.InvalidError{Field: "items", Detail: fmt.Sprintf("%d in one call, at most %d are allowed", n, store.MaxItems), Max: store.MaxItems}
	}
	return nil
}
