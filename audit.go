package twolane

import (
	"context"
	"fmt"

	"github.com/twolane/twolane/store"
)

// AuditReport says what [Client.Audit] looked at and what is wrong.
type AuditReport = store.AuditReport

// Audit proves every invariant of the whole store, also while it is in use. It reads everything once, and is bounded by ctx alone.
func (c *Client) Audit(ctx context.Context) (AuditReport, error) {
	r, err := c.store.Audit(ctx)
	if err != nil {
		return r, fmt.Errorf("audit: %w", err)
	}
	return r, nil
}
