package twolane

import (
	"context"
	"fmt"

	"github.com/twolane/twolane/store"
)

// Audit proves every invariant of the whole store, also while it is in use. It reads everything once, and is bounded by ctx alone.
func (c *Client) Audit(ctx context.Context) (store.AuditReport, error) {
	r, err := c.store.Audit(ctx)
	if err != nil {
		return r, fmt.Errorf("audit: %w", err)
	}
	return r, nil
}
