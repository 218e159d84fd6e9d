package sqlitestore

import (
	"context"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// Cancel implements [store.Store].
func (s *Store) Cancel(ctx context.Context, req store.CancelRequest) ([]store.CancelResult, error) {
	if err := tooMany(len(req.IDs)); err != nil {
		return nil, err
	}
	res := make([]store.CancelResult, len(req.IDs))
	err := s.do(ctx, normal, true, func(w *writer) error {
		now := w.look()
		for i, id := range req.IDs {
			r, err := w.byID(id)
			if err != nil {
				return err
			}
			if r == nil || purgeable(now, r.c) {
				res[i] = store.CancelResult{State: store.CancelNotFound}
				continue
			}
			if err := w.change(now, r, func(q store.QueueConfig) {
				if rule.Ended(now, r.c) {
					rule.Expire(now, r.c, q)
				}
				res[i] = rule.Cancel(now, r.c, req.Reason, req.Force, q)
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}
