package redisstore

import (
	"context"

	"github.com/twolane/twolane/store"
)

// Limit implements [store.Store]. No limit is in force: Configure refuses them.
func (s *Store) Limit(ctx context.Context, _ store.LimitKey) (store.LimitState, error) {
	if err := ctx.Err(); err != nil {
		return store.LimitState{}, err
	}
	return store.LimitState{}, store.ErrNotFound
}
