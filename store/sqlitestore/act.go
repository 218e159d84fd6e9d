package sqlitestore

import (
	"context"
	"fmt"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// Act implements [store.Store].
func (s *Store) Act(ctx context.Context, req store.ActRequest) (store.ActReply, error) {
	if err := validAct(&req); err != nil {
		return store.ActReply{}, err
	}
	var rep store.ActReply
	if req.Filter == nil {
		err := s.do(ctx, normal, true, func(w *writer) error {
			now := w.look()
			rep = store.ActReply{Results: make([]error, len(req.IDs)), UpTo: w.st.ns.seq}
			for i, id := range req.IDs {
				why, err := w.actOn(now, id, &req)
				if err != nil {
					return err
				}
				if rep.Results[i] = why; why == nil {
					rep.Done++
				}
			}
			return nil
		})
		return rep, err
	}
	from, err := parseCursor(req.Cursor, req.Filter.Status)
	if err != nil {
		return rep, err
	}
	err = s.do(ctx, bulk, true, func(w *writer) error {
		var err error
		rep, err = w.actPiece(&req, from)
		return err
	})
	return rep, err
}

// actPiece acts on the next commands that a filter matches.
func (w *writer) actPiece(req *store.ActRequest, from cursor) (store.ActReply, error) {
	now, start := w.look(), time.Now()
	rep := store.ActReply{UpTo: req.UpTo}
	if rep.UpTo == 0 {
		rep.UpTo = w.st.ns.seq
	}
	limit := req.Limit
	if limit <= 0 {
		limit = 100
	}
	q := w.st.queues[req.Filter.Queue]
	if q == nil {
		return rep, nil
	}
	if err := w.st.flushLines(); err != nil {
		return rep, err
	}
	at, next, done, err := walk(w, q.q, req.Filter.Status, from, limit)
	if err != nil {
		return rep, err
	}
	// A command whose priority is changed moves within its line: one that moves back is met again, and counts once.
	passed := from.passed
	for i, p := range at {
		if i > 0 && time.Since(start) > bulkTime { // renewals wait behind us
			next, done = at[i-1], false
			break
		}
		if p.line != from.line || p.phase != from.phase {
			passed = 0
		}
		from = p
		r, err := w.byNumber(p.n)
		if err != nil {
			return rep, err
		}
		if r == nil || r.c.Seq > rep.UpTo || !matches(now, r.c, req.Filter) {
			continue
		}
		has := req.Kind == store.ActReprioritise && r.c.Priority == req.Priority
		if has && passed > 0 {
			passed--
			continue
		}
		why, err := w.act(now, r, req)
		if err != nil {
			return rep, err
		}
		if why == nil {
			rep.Done++
			if req.Kind == store.ActReprioritise && !has && p.phase == phaseInLine && r.cols.line == p.line && r.cols.score > p.minor {
				passed++
			}
		}
	}
	if !done {
		if next.line == from.line && next.phase == from.phase {
			next.passed = passed
		}
		rep.Cursor = next.String()
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

// actOn acts on a command by id. Why it is not possible is the first result, what went wrong with the store the second.
func (w *writer) actOn(now rule.Now, id string, req *store.ActRequest) (why, err error) {
	r, err := w.byID(id)
	if err != nil {
		return nil, err
	}
	if r == nil || purgeable(now, r.c) {
		return store.ErrNotFound, nil
	}
	return w.act(now, r, req)
}

func (w *writer) act(now rule.Now, r *row, req *store.ActRequest) (why, err error) {
	c := r.c
	if req.Kind == store.ActDelete {
		return w.delete(r, req.Force)
	}
	if rule.Ended(now, c) {
		if err := w.expire(now, r); err != nil {
			return nil, err
		}
	}
	if req.Kind == store.ActRetry {
		h, err := w.uniqueHolder(now, c.UniqueKey)
		if err != nil {
			return nil, err
		}
		if h != nil && h.n != r.n {
			return &store.UniqueHeldError{Key: c.UniqueKey, Holder: h.c.ID, Status: h.c.Status}, nil
		}
	}
	before := *c
	seq := w.st.ns.seq + 1
	if err := rule.Act(now, seq, c, req, r.k.q.cfg); err != nil {
		return err, nil
	}
	if c.Seq == seq {
		w.st.change().seq = seq
	}
	if c.Queue != before.Queue {
		if err := w.move(r); err != nil {
			return nil, err
		}
	}
	return nil, w.follow(now, &before, r)
}

// move gives a row the type of its new queue.
func (w *writer) move(r *row) error {
	q, err := w.st.queue(r.c.Queue)
	if err != nil {
		return err
	}
	r.k, err = w.st.kind(q, r.c.Type, true)
	return err
}

func (w *writer) delete(r *row, force bool) (why, err error) {
	c := r.c
	if why := rule.MayDelete(c, force); why != nil {
		return why, nil
	}
	if c.Status.Terminal() && c.Notify != "" && c.PurgeAt == 0 {
		if !force {
			return fmt.Errorf("%w: the end of %s is not delivered yet; force deletes it all the same", store.ErrState, c.ID), nil
		}
		if err := w.dropEntry(r.n); err != nil {
			return nil, err
		}
	}
	if !c.Status.Terminal() {
		w.wakes = append(w.wakes, store.Wake{Kind: store.WakeEnd, ID: c.ID})
		if c.Place == store.Leased {
			w.wakes = append(w.wakes, store.Wake{Kind: store.WakeCancel, ID: c.ID})
		}
	}
	return nil, w.remove(r)
}
