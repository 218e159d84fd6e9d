package rule

import (
	"fmt"

	"github.com/twolane/twolane/store"
)

// Check says what is wrong with a record by itself: status, place and the fields that follow from them. Every Audit calls it.
func Check(c *store.Command) []string {
	var bad []string
	say := func(format string, a ...any) { bad = append(bad, fmt.Sprintf(format, a...)) }
	switch c.Status {
	case store.Pending, store.Processing:
		if c.Place == store.Nowhere || c.Place > store.Leased {
			say("is %s in place %s", c.Status, c.Place)
		}
		if c.Ended != 0 || c.PurgeAt != 0 || c.Tombstone || c.Reason != "" {
			say("is live but has an end")
		}
	case store.Succeeded, store.Failed, store.Cancelled:
		if c.Place != store.Nowhere {
			say("is %s in place %s", c.Status, c.Place)
		}
		if c.Ended == 0 {
			say("has ended without a time")
		}
		if (c.Status == store.Failed) != (c.Reason != "") {
			say("is %s with reason %q", c.Status, c.Reason)
		}
		if c.Notify == "" && c.PurgeAt == 0 {
			say("has ended and will never be purged")
		}
		if c.PurgeAt != 0 && c.PurgeAt < c.Ended.Add(store.TombstoneFor) {
			say("will be forgotten within %v of its end", store.TombstoneFor)
		}
	default:
		say("has unknown status %d", c.Status)
	}
	if c.Status.Terminal() == (c.Was == 0) || c.Was.Terminal() {
		say("is %s and was %s", c.Status, c.Was)
	}
	if c.Place != store.Leased && (c.Owner != "" || c.LeasedAt != 0 || c.LeaseUntil != 0 || c.Overdue) {
		say("is in place %s with leftovers of a lease of %q", c.Place, c.Owner)
	}
	if c.Place == store.Scheduled && c.Status != store.Pending {
		say("is %s and scheduled", c.Status)
	}
	if leased := c.Place == store.Leased; leased != (c.Lease != store.LeaseName{}) || leased && (c.Owner == "" || c.LeaseUntil == 0) {
		say("is in place %s with lease %q of %q until %d", c.Place, c.Lease, c.Owner, c.LeaseUntil)
	}
	if c.Starts < 0 || c.Failures < 0 || c.Losses < 0 || c.Polls < 0 || c.Decodes < 0 {
		say("has a negative counter: starts %d, failures %d, losses %d, polls %d, decodes %d", c.Starts, c.Failures, c.Losses, c.Polls, c.Decodes)
	}
	if v := CheckHolds(c); v != "" {
		say("%s", v)
	}
	if len(c.Events) > store.MaxEvents {
		say("keeps %d events", len(c.Events))
	}
	return bad
}
