package redisstore

import (
	"context"

	"github.com/twolane/twolane/store"
)

// Audit implements [store.Store].
func (s *Store) Audit(ctx context.Context) (store.AuditReport, error) {
	return store.AuditReport{}, nil
}
