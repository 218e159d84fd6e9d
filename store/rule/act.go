package rule

import (
	"fmt"

	"github.com/twolane/twolane/store"
)

// Act does req to a known command and says why not if it can't. Deletion and unique keys are the caller's: it asks MayDelete, and it looks
// whether another command holds the unique key before a retry.
func Act(now Now, seq uint64, c *store.Command, req *store.ActRequest, q store.QueueConfig) error {
	refuse := func(why string) error { return fmt.Errorf("%w: %s is %s: %s", store.ErrState, c.ID, c.Status, why) }
	switch req.Kind {
	case store.ActRetry:
		return retryEnded(now, seq, c, req)
	case store.ActMove:
		if c.Status.Terminal() || c.Place == store.Leased {
			return refuse("only a live command that is not leased can be moved")
		}
		event(now, c, store.EventMoved, "", "from "+c.Queue+" to "+req.Queue)
		c.Queue = req.Queue
	case store.ActReprioritise:
		if c.Status.Terminal() {
			return refuse("it has ended")
		}
		c.Priority = req.Priority
	case store.ActRunNow:
		if c.Status.Terminal() || c.Place == store.Leased {
			return refuse("only a live command that is not leased can run now")
		}
		if c.Place == store.Scheduled {
			c.NotBefore = 0
			Promote(now, seq, c)
		} else if c.Status == store.Processing {
			c.Due = min(c.Due, now.Run)
		}
	default:
		return &store.InvalidError{Field: "kind", Detail: fmt.Sprintf("unknown action %d", req.Kind)}
	}
	return nil
}

// MayDelete says why a command may not be deleted.
func MayDelete(c *store.Command, force bool) error {
	if c.Place == store.Leased && !force {
		return fmt.Errorf("%w: %s is leased; cancel it first, or force", store.ErrState, c.ID)
	}
	return nil
}

func retryEnded(now Now, seq uint64, c *store.Command, req *store.ActRequest) error {
	refuse := func(why string) error { return fmt.Errorf("%w: %s is %s: %s", store.ErrState, c.ID, c.Status, why) }
	if c.Status != store.Failed && c.Status != store.Cancelled {
		return refuse("only FAILED and CANCELLED commands can be retried")
	}
	if c.Tombstone || c.Notify != "" && c.PurgeAt == 0 {
		return refuse("its contents are gone, or its end is not delivered yet")
	}
	deadline := c.Deadline
	if req.Deadline != 0 {
		deadline = req.Deadline
	}
	if deadline != 0 && deadline <= now.Wall {
		return refuse("its deadline has passed; give a new one")
	}
	status := c.Was
	switch req.As {
	case store.AsExecute:
		status = store.Pending
	case store.AsCheck:
		if status != store.Processing {
			return refuse("it was never PROCESSING")
		}
	}
	c.Was, c.Status, c.Reason, c.Place, c.Seq = 0, status, "", store.InLine, seq
	c.Deadline, c.StartBy, c.NotBefore = deadline, 0, 0
	c.Failures, c.Losses, c.Decodes = 0, 0, 0
	c.Unknown = false
	c.Ended, c.PurgeAt, c.Result = 0, 0, nil
	c.CancelAsked, c.CancelUntil, c.CancelReason, c.CancelEnds = 0, 0, "", ""
	if status == store.Pending {
		c.State, c.HasHook, c.Due, c.Eligible = nil, false, 0, now.Wall
	} else {
		c.Due, c.Eligible = now.Run, 0
	}
	event(now, c, store.EventRetried, "", req.By)
	return nil
}
