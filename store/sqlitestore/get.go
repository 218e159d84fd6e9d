package sqlitestore

import (
	"context"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// Get implements [store.Store].
func (s *Store) Get(ctx context.Context, ids []string, opt store.GetOptions) ([]*store.Command, error) {
	if err := tooMany(len(ids)); err != nil {
		return nil, err
	}
	var res []*store.Command
	err := s.read(ctx, func(r *reader) error {
		res = make([]*store.Command, len(ids))
		for i, id := range ids {
			w, err := r.get(r.q(selectRow+"id=?").Text(id), !opt.NoBlobs)
			if err != nil {
				return err
			}
			if w != nil && w.c.ID != id {
				return misled("ids", id, w.c.ID)
			}
			if w == nil || purgeable(r.now, w.c) {
				continue
			}
			res[i] = r.asRead(w.c)
			if opt.NoBlobs {
				noBlobs(res[i])
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// asRead is what a reader sees of a command now.
func (r *reader) asRead(c *store.Command) *store.Command {
	if !rule.Ended(r.now, c) {
		return c
	}
	return rule.AsRead(r.now, c, r.cfg.Queue(c.Queue))
}
