package memstore

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strconv"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// Act implements [store.Store].
func (s *Store) Act(ctx context.Context, req store.ActRequest) (store.ActReply, error) {
	if err := validAct(&req); err != nil {
		return store.ActReply{}, err
	}
	if err := s.begin(ctx); err != nil {
		return store.ActReply{}, err
	}
	defer s.mu.Unlock()
	now := s.peek()
	if req.Filter == nil {
		rep := store.ActReply{Results: make([]error, len(req.IDs)), UpTo: s.seq}
		for i, id := range req.IDs {
			if rep.Results[i] = s.actOne(now, id, &req); rep.Results[i] == nil {
				rep.Done++
			}
		}
		return rep, nil
	}
	rep := store.ActReply{UpTo: req.UpTo}
	if rep.UpTo == 0 {
		rep.UpTo = s.seq
	}
	var after uint64
	if req.Cursor != "" {
		n, err := strconv.ParseUint(req.Cursor, 10, 64)
		if err != nil {
			return rep, &store.InvalidError{Field: "cursor", Detail: "is not one of this store's"}
		}
		after = n
	}
	var cs []*store.Command
	for _, c := range s.cmds {
		if c.Seq > after && c.Seq <= rep.UpTo && matches(now, c, req.Filter) {
			cs = append(cs, c)
		}
	}
	sort.Slice(cs, func(i, j int) bool { return cs[i].Seq < cs[j].Seq })
	limit := req.Limit
	if limit <= 0 {
		limit = 100
	}
	if len(cs) > limit {
		cs = cs[:limit]
		rep.Cursor = strconv.FormatUint(cs[limit-1].Seq, 10)
	}
	for _, c := range cs {
		if s.actOne(now, c.ID, &req) == nil {
			rep.Done++
		}
	}
	return rep, nil
}

func validAct(req *store.ActRequest) error {
	bad := func(field, detail string) error { return &store.InvalidError{Field: field, Detail: detail} }
	switch {
	case req.Kind < store.ActRetry || req.Kind > store.ActRunNow:
		return bad("kind", fmt.Sprintf("unknown action %d", req.Kind))
	case (req.Filter == nil) == (len(req.IDs) == 0):
		return bad("filter", "give either ids or a filter")
	case req.Filter != nil && (req.Filter.Queue == "" || req.Filter.Status == 0):
		return bad("filter", "needs a queue and a status")
	case req.Limit < 0 || req.Limit > store.MaxItems:
		return bad("limit", fmt.Sprintf("%d is not between 0 and %d", req.Limit, store.MaxItems))
	}
	if req.Kind == store.ActMove {
		if err := store.ValidName("queue", req.Queue); err != nil {
			return err
		}
	}
	return tooMany(len(req.IDs))
}

func (s *Store) actOne(now rule.Now, id string, req *store.ActRequest) error {
	c := s.cmds[id]
	if c == nil || purgeable(now, c) {
		return store.ErrNotFound
	}
	if req.Kind == store.ActDelete {
		return s.deleteOne(now, c, req.Force)
	}
	if rule.Ended(now, c) {
		s.expire(now, c)
	}
	if req.Kind == store.ActRetry {
		if h := s.uniqueHolder(now, c.UniqueKey); h != nil && h != c {
			return &store.UniqueHeldError{Key: c.UniqueKey, Holder: h.ID, Status: h.Status}
		}
	}
	before := *c
	seq := s.seq + 1
	if err := rule.Act(now, seq, c, req, s.cfg.Queue(c.Queue)); err != nil {
		return err
	}
	if c.Seq == seq {
		s.seq = seq
	}
	s.follow(now, &before, c)
	return nil
}

func (s *Store) deleteOne(now rule.Now, c *store.Command, force bool) error {
	if err := rule.MayDelete(c, force); err != nil {
		return err
	}
	if c.Status.Terminal() && c.Notify != "" && c.PurgeAt == 0 {
		if !force {
			return fmt.Errorf("%w: the end of %s is not delivered yet; force deletes it all the same", store.ErrState, c.ID)
		}
		s.outbox = slices.DeleteFunc(s.outbox, func(e outboxEntry) bool { return e.id == c.ID })
	}
	delete(s.cmds, c.ID)
	s.left(now, c.Holds, &store.Command{})
	if !c.Status.Terminal() {
		s.wake(store.Wake{Kind: store.WakeEnd, ID: c.ID})
		if c.Place == store.Leased {
			s.wake(store.Wake{Kind: store.WakeCancel, ID: c.ID})
		}
		if c.Group != "" && s.groupLive(c.Group) == 0 {
			s.wake(store.Wake{Kind: store.WakeGroup, ID: c.Group})
		}
	}
	return nil
}

func matches(now rule.Now, c *store.Command, f *store.Filter) bool {
	if c.Tombstone || purgeable(now, c) || c.Queue != f.Queue || c.Status != f.Status ||
		f.Reason != "" && c.Reason != f.Reason || f.Type != "" && c.Type != f.Type || f.Group != "" && c.Group != f.Group {
		return false
	}
	at := c.Created
	if c.Status.Terminal() {
		at = c.Ended
	}
	return (f.Before == 0 || at < f.Before) && (f.After == 0 || at >= f.After)
}
