package rule

import (
	"fmt"
	"time"

	"github.com/twolane/twolane/internal/mutant"
	"github.com/twolane/twolane/store"
)

// ValidSettlement checks what a store must never write; the error names the field.
func ValidSettlement(s *store.Settlement) error {
	for _, err := range [...]error{
		large("error", len(s.Error), store.MaxError, "bytes"), large("result", len(s.Result), store.MaxResult, "bytes"),
		large("state", len(s.State), store.MaxState, "bytes"), large("follow_ups", len(s.FollowUps), store.MaxFollowUps, "entries"),
	} {
		if err != nil {
			return err
		}
	}
	switch {
	case s.Kind < store.OutcomeDone || s.Kind > store.OutcomeAbandon:
		return &store.InvalidError{Field: "kind", Detail: fmt.Sprintf("unknown outcome %d", s.Kind)}
	case s.Delay < 0:
		return &store.InvalidError{Field: "delay", Detail: "is negative"}
	case s.Delay.Milliseconds() > int64(maxTime)/2:
		return &store.InvalidError{Field: "delay", Detail: "is too long"}
	case !(s.Observed >= 0 && s.Observed <= 1e9):
		return &store.InvalidError{Field: "observed", Detail: "is not between 0 and 1e9 per second"}
	case len(s.FollowUps) > 0 && s.Kind != store.OutcomeDone:
		return &store.InvalidError{Field: "follow_ups", Detail: "come only with done"}
	}
	for i := range s.FollowUps {
		if err := ValidSubmission(&s.FollowUps[i]); err != nil {
			return fmt.Errorf("follow_ups[%d]: %w", i, err)
		}
	}
	return nil
}

// Compare says whether the settlement may be made: SettleDone if its lease is current.
func Compare(c *store.Command, s *store.Settlement) store.SettleState {
	switch {
	case holds(c, s.Lease):
		return store.SettleDone
	case c != nil && c.Settled == s.Lease && s.Lease != store.LeaseName{} && !mutant.On(mutant.ForgetSettled):
		return store.SettleAlready
	case s.Again:
		return store.SettleUnknown
	}
	return store.SettleLost
}

// Settle ends the lease of c with a valid settlement whose lease is current.
func Settle(now Now, c *store.Command, s *store.Settlement, q store.QueueConfig, v time.Duration) {
	settle(now, c, s, q, v)
	if c.Status == store.Pending && c.Place != store.Leased && !c.Unknown {
		leave(c, true)
	}
	c.Owner = ""
}

func settle(now Now, c *store.Command, s *store.Settlement, q store.QueueConfig, v time.Duration) {
	defer func() { c.Owner = "" }()
	if s.Kind == store.OutcomeAbandon {
		c.Settled = s.Lease
		lose(now, c, now.Lease, q, v, s.Error)
		return
	}
	poll := c.Status == store.Processing
	owner := c.Owner
	unlease(c)
	c.Settled = s.Lease
	if s.Kind == store.OutcomeGiveBack {
		if s.Unstarted {
			c.Starts--
		} else {
			c.Unknown = false
			event(now, c, store.EventGivenBack, owner, s.Error)
		}
		if rest(now, c, q); !c.Status.Terminal() {
			wait(now, c, s.Delay)
		}
		return
	}
	c.Losses = 0
	c.Unknown = false // its handler has answered for all that it started
	if poll && s.Kind != store.OutcomeCancelled && s.Kind != store.OutcomeCancelRetry {
		c.Polls++
	}
	if s.Kind != store.OutcomeRetry {
		c.Decodes = 0
	}
	switch s.Kind {
	case store.OutcomeDone:
		c.Failures, c.Error, c.Result = 0, "", s.Result
		end(now, c, q, store.Succeeded, "")
	case store.OutcomeFail:
		c.Error, c.Result = s.Error, s.Result
		reason := s.Reason
		if reason == "" {
			reason = store.ReasonError
		}
		end(now, c, q, store.Failed, reason)
	case store.OutcomeProcessing:
		processing(now, c, s, q, owner)
	case store.OutcomeRetry:
		retry(now, c, s, q, owner)
	case store.OutcomeSnooze, store.OutcomeThrottled:
		kind := store.EventSnoozed
		if s.Kind == store.OutcomeThrottled {
			kind = store.EventThrottled
		}
		if c.Status == store.Pending || s.Kind == store.OutcomeThrottled {
			event(now, c, kind, owner, s.Error)
		}
		if rest(now, c, q); !c.Status.Terminal() && !Class(c).Visit() {
			wait(now, c, max(s.Delay, store.MinPoll))
		}
	case store.OutcomeCancelled:
		if c.CancelEnds != "" {
			end(now, c, q, store.Failed, c.CancelEnds)
		} else {
			end(now, c, q, store.Cancelled, "")
		}
	case store.OutcomeCancelRetry:
		c.Error = s.Error
		event(now, c, store.EventCancelErr, owner, s.Error)
		if rest(now, c, q); !c.Status.Terminal() {
			wait(now, c, max(s.Delay, store.MinPoll))
		}
	}
}

// processing records what only the handler can say: it goes on elsewhere, look again after the delay.
func processing(now Now, c *store.Command, s *store.Settlement, q store.QueueConfig, owner string) {
	if c.Status == store.Pending {
		event(now, c, store.EventProcessing, owner, "")
	}
	c.Status, c.Failures, c.Error, c.HasHook = store.Processing, 0, "", s.HasHook
	if s.SetState {
		c.State = s.State
	}
	c.Eligible = 0
	if rest(now, c, q); c.Status.Terminal() || Class(c).Visit() {
		return
	}
	c.Due = Grid(now.Run.Add(max(s.Delay, store.MinPoll)), s.Grid)
}

// Grid rounds a due time up to a multiple of grid, so that the polls of one quantum fall due together.
func Grid(due store.Millis, grid time.Duration) store.Millis {
	g := store.Millis(grid.Milliseconds())
	if g <= 1 {
		return due
	}
	return (due + g - 1) / g * g
}

// retry counts a failure and lets the command wait for its next try, if it has one.
func retry(now Now, c *store.Command, s *store.Settlement, q store.QueueConfig, owner string) {
	c.Failures++
	c.Error = s.Error
	if s.Decode {
		c.Decodes++
	} else {
		c.Decodes = 0
	}
	event(now, c, store.EventError, owner, s.Error)
	if c.CancelAsked != 0 {
		cancelAtRest(now, c, q)
		return
	}
	delay := max(s.Delay, store.MinPoll)
	switch {
	case c.Decodes >= store.MaxDecodes:
		end(now, c, q, store.Failed, store.ReasonUndecodable)
	case c.MaxFailures > 0 && c.Failures >= c.MaxFailures:
		end(now, c, q, store.Failed, store.ReasonRetriesExhausted)
	case c.Deadline != 0 && now.Wall.Add(delay) >= c.Deadline && !mutant.On(mutant.RetryForgetsDeadline):
		pastDeadline(now, c, q)
	default:
		wait(now, c, delay)
	}
}
