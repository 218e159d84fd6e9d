package rule

import "github.com/twolane/twolane/store"

// Cancel records a request to cancel a known command and says what became of it.
func Cancel(now Now, c *store.Command, reason string, force bool, q store.QueueConfig) store.CancelResult {
	answer := func(s store.CancelState) store.CancelResult { return store.CancelResult{State: s, Status: c.Status} }
	switch {
	case c.Status == store.Cancelled:
		return answer(store.CancelEnded)
	case c.Status.Terminal():
		return answer(store.CancelTooLate)
	}
	if force {
		if c.CancelAsked == 0 {
			askCancel(now, c, reason)
		}
		if c.Place == store.Leased {
			unlease(c)
		}
		c.CancelEnds = ""
		end(now, c, q, store.Cancelled, "")
		return answer(store.CancelEnded)
	}
	if c.CancelAsked != 0 {
		if c.CancelEnds != "" && c.Status == store.Processing {
			c.CancelEnds = "" // the user's wish goes over the deadline's
		}
		return answer(store.CancelRequested)
	}
	askCancel(now, c, reason)
	if c.Place != store.Leased {
		cancelAtRest(now, c, q)
	}
	if c.Status == store.Cancelled {
		return answer(store.CancelEnded)
	}
	return answer(store.CancelRequested)
}

// askCancel marks the command. How long visits are tried is counted from its first rest: however long its lease was, it gets one.
func askCancel(now Now, c *store.Command, reason string) {
	c.CancelAsked, c.CancelReason, c.CancelUntil = now.Wall, reason, 0
	event(now, c, store.EventCancelAsk, "", reason)
}

// cancelAtRest ends a command that has no lease and was asked to cancel, or makes its cancel visit due.
func cancelAtRest(now Now, c *store.Command, q store.QueueConfig) {
	if c.Status == store.Processing && c.HasHook && (c.CancelUntil == 0 || now.Wall < c.CancelUntil) {
		visit(now, c, q)
		return
	}
	if c.Status == store.Processing && c.HasHook {
		c.Error = "cancel_hook_failed: " + c.Error
		if len(c.Error) > store.MaxError {
			c.Error = c.Error[:store.MaxError]
		}
	}
	if c.CancelEnds != "" {
		end(now, c, q, store.Failed, c.CancelEnds)
		return
	}
	end(now, c, q, store.Cancelled, "")
}

// visit makes the cancel visit of a PROCESSING command due now.
func visit(now Now, c *store.Command, q store.QueueConfig) {
	if c.CancelUntil == 0 {
		c.CancelUntil = now.Wall.Add(cancelFor(q))
	}
	c.Place, c.Due = store.InLine, now.Run
}

// VisitOver reports whether a command waits for a cancel visit that is tried no more: it ends by itself.
func VisitOver(now Now, c *store.Command) bool {
	return c.Place == store.InLine && Class(c).Visit() && now.Wall >= c.CancelUntil
}

// EndVisit ends a command for which VisitOver holds.
func EndVisit(now Now, c *store.Command, q store.QueueConfig) { cancelAtRest(now, c, q) }
