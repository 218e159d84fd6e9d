package rule

import (
	"time"
	"unicode/utf8"

	"github.com/twolane/twolane/store"
)

// end makes c terminal.
func end(now Now, c *store.Command, q store.QueueConfig, status store.Status, reason store.Reason) {
	c.Was, c.Status, c.Reason, c.Place = c.Status, status, reason, store.Nowhere
	c.Lease, c.LeasedAt, c.LeaseUntil, c.Overdue = store.LeaseName{}, 0, 0, false
	c.Due, c.Eligible, c.Progress, c.Unknown = 0, 0, nil, false
	leave(c, true)
	c.Ended = now.Wall
	event(now, c, store.EventEnded, c.Owner, string(reason))
	c.Owner = ""
	c.PurgeAt = 0
	if c.Notify == "" {
		c.PurgeAt = PurgeAt(c, q)
	}
}

// PurgeAt is when the record of an ended command may go: never before TombstoneFor has passed.
func PurgeAt(c *store.Command, q store.QueueConfig) store.Millis {
	keep := c.Retention
	if keep == 0 {
		keep = q.Retention
	}
	return c.Ended.Add(max(keep, store.TombstoneFor))
}

// Strip turns an ended command into its tombstone: the id, its contents' fingerprint and how it ended.
func Strip(c *store.Command) {
	c.Tombstone = true
	c.Params, c.State, c.Result, c.Metadata, c.Events, c.Error = nil, nil, nil, nil, nil, ""
	c.PurgeAt = c.Ended.Add(store.TombstoneFor)
}

// StripAtEnd reports whether nothing but the tombstone of c is kept, once its outbox entry is gone.
func StripAtEnd(c *store.Command, q store.QueueConfig) bool {
	return c.Retention < 0 || c.Retention == 0 && q.Retention < 0
}

// Ended reports whether a command at rest is past its deadline or its start_by.
func Ended(now Now, c *store.Command) bool {
	if c.Status.Terminal() || c.Place == store.Leased {
		return false
	}
	if c.Deadline != 0 && now.Wall >= c.Deadline {
		return c.CancelAsked == 0 || c.Status == store.Pending
	}
	return c.StartBy != 0 && c.Starts == 0 && now.Wall >= c.StartBy
}

// EndsAt is when time alone ends a live command at rest: the earlier of its deadline and, if it never started, its start_by; 0 is never.
func EndsAt(c *store.Command) store.Millis {
	at := c.Deadline
	if c.StartBy != 0 && c.Starts == 0 && (at == 0 || c.StartBy < at) {
		at = c.StartBy
	}
	return at
}

// Expire ends a command for which Ended holds. A PROCESSING one whose type has a Cancel hook is cancelled first, so that what it started
// elsewhere is stopped.
func Expire(now Now, c *store.Command, q store.QueueConfig) {
	if c.Deadline == 0 || now.Wall < c.Deadline {
		end(now, c, q, store.Failed, store.ReasonExpired)
		return
	}
	pastDeadline(now, c, q)
}

// pastDeadline ends a command at rest that has no time left, or makes its cancel visit due.
func pastDeadline(now Now, c *store.Command, q store.QueueConfig) {
	if c.Status == store.Processing && c.HasHook {
		askCancel(now, c, "deadline")
		c.CancelEnds = store.ReasonDeadline
		visit(now, c, q)
		return
	}
	end(now, c, q, store.Failed, store.ReasonDeadline)
}

// AsRead returns what a reader sees of c now: one that time has ended reads as ended. It does not change c.
func AsRead(now Now, c *store.Command, q store.QueueConfig) *store.Command {
	d := c.Clone()
	if d != nil && Ended(now, d) {
		Expire(now, d, q)
	}
	return d
}

// event appends to the last MaxEvents of c.
func event(now Now, c *store.Command, kind store.EventKind, worker, text string) {
	if len(text) > store.MaxEventText {
		text = text[:store.MaxEventText]
		for len(text) > 0 && !utf8.ValidString(text) && len(text) > store.MaxEventText-utf8.UTFMax {
			text = text[:len(text)-1]
		}
	}
	if n := len(c.Events); n >= store.MaxEvents {
		c.Events = append([]store.Event(nil), c.Events[n-store.MaxEvents+1:]...)
	}
	c.Events = append(c.Events, store.Event{At: now.Wall, Kind: kind, Worker: worker, Text: text})
}

func cancelFor(q store.QueueConfig) time.Duration {
	if q.CancelFor > 0 {
		return q.CancelFor
	}
	return store.DefaultCancelFor
}
