package twolane

import (
	"fmt"
	"time"

	"github.com/twolane/twolane/internal/dispatch"
	"github.com/twolane/twolane/store"
)

// Outcome is how an invocation ended for a command. Make one with [Done], [Processing], [Fail], [Snooze], [Throttled] or [Drop]. An error beside
// it means that it did not end: the command is tried again with backoff.
type Outcome struct {
	kind   store.OutcomeKind
	value  any
	after  time.Duration
	reason store.Reason
	err    error
	follow []Submission
}

// Done ends the command as SUCCEEDED with a result, encoded as Params are; nil is no result. The followUps are submitted in the same atomic
// step, also into a queue that is full (MaxReady): work that has begun goes on. One that is refused (its unique key is held, its id is known
// with other contents) does not undo the end.
func Done(result any, followUps ...Submission) Outcome {
	return Outcome{kind: store.OutcomeDone, value: result, follow: followUps}
}

// Processing says that what was started goes on elsewhere: the command is PROCESSING, keeps state, and is checked again in after, counted
// from now; 0 means the handler's Poll. At least 100 ms pass.
func Processing(state any, after time.Duration) Outcome {
	return Outcome{kind: store.OutcomeProcessing, value: state, after: after}
}

// Fail ends the command as FAILED (error) with err's text. A plain error instead would be retried.
func Fail(err error) Outcome {
	return Outcome{kind: store.OutcomeFail, err: err, reason: store.ReasonError}
}

// WithResult gives a Fail a result for whoever reads the command, encoded as Params are.
func (o Outcome) WithResult(result any) Outcome {
	o.value = result
	return o
}

// Drop ends the command as FAILED (dropped) with a result: it is not wanted any more, or not now.
func Drop(result any) Outcome {
	return Outcome{kind: store.OutcomeFail, value: result, reason: store.ReasonDropped}
}

// Snooze lets the command run again in after, in the lane it is in, with the state it has. It is no failure.
func Snooze(after time.Duration) Outcome {
	return Outcome{kind: store.OutcomeSnooze, after: after}
}

// Throttled says that what the handler calls is overloaded (HTTP 429 or 503): the command runs again in after (0 or less: the backoff), without
// a failure, and the rate at which commands of its type start is lowered for all workers, to rise again by itself.
func Throttled(after time.Duration) Outcome {
	return Outcome{kind: store.OutcomeThrottled, after: after}
}

// String names the outcome as metrics do.
func (o Outcome) String() string { return o.kind.String() }

// keptOfTooLarge is how much of a result or state over its limit is kept.
const keptOfTooLarge = 4 << 10

// settlement turns an outcome and error of a handler into what is offered to the store.
func (b *binding) settlement(cmd *store.Command, lane Lane, o Outcome, err error) store.Settlement {
	if err != nil {
		return b.retry(cmd, lane, err, false)
	}
	s := store.Settlement{Kind: o.kind}
	switch o.kind {
	case store.OutcomeDone, store.OutcomeFail:
		data, err := encode(b.codec, o.value)
		if err != nil {
			return b.retry(cmd, lane, fmt.Errorf("result: %w", err), true)
		}
		if len(data) > store.MaxResult {
			return tooLarge("result", data, store.MaxResult)
		}
		s.Result, s.Reason = data, o.reason
		if o.kind == store.OutcomeFail && o.reason == store.ReasonError {
			s.Error = "failed"
			if o.err != nil {
				s.Error = dispatch.ErrorText(o.err)
			}
		}
		if s.FollowUps, err = b.followUps(o.follow); err != nil {
			return b.retry(cmd, lane, err, false)
		}
	case store.OutcomeProcessing:
		data, err := encode(b.codec, o.value)
		if err != nil {
			return b.retry(cmd, lane, fmt.Errorf("state: %w", err), true)
		}
		if len(data) > store.MaxState {
			return tooLarge("state", data, store.MaxState)
		}
		if !b.lanes[Repoll] {
			return b.retry(cmd, lane, fmt.Errorf("type %s has no Check: it cannot be PROCESSING", b.typ), false)
		}
		s.State, s.SetState, s.HasHook = data, string(data) != string(cmd.State), b.hook
		s.Delay, s.Grid = clampDelay(o.after), 0
		if o.after <= 0 {
			s.Delay = b.poll
		}
		s.Delay = max(s.Delay, store.MinPoll)
		if b.batch[Repoll] > 1 {
			s.Grid = b.grid(s.Delay)
		}
	case store.OutcomeSnooze:
		s.Delay = max(clampDelay(o.after), store.MinPoll)
	case store.OutcomeThrottled:
		s.Delay = clampDelay(o.after)
		if o.after <= 0 {
			s.Delay = b.backoff.delay(1, nil)
		}
	default:
		return b.retry(cmd, lane, fmt.Errorf("the handler returned neither an outcome nor an error"), false)
	}
	return s
}

// retry is the settlement of an error.
func (b *binding) retry(cmd *store.Command, lane Lane, err error, decode bool) store.Settlement {
	d := b.backoff.delay(cmd.Failures+1, err)
	return b.retryIn(lane, err, decode, d)
}

// retryIn is the same with a delay that was drawn before: a failed batch call draws once.
func (b *binding) retryIn(lane Lane, err error, decode bool, d time.Duration) store.Settlement {
	if lane == Repoll {
		d = max(d, b.poll)
	}
	return store.Settlement{Kind: store.OutcomeRetry, Error: dispatch.ErrorText(err), Delay: d, Decode: decode}
}

func tooLarge(what string, data []byte, most int) store.Settlement {
	return store.Settlement{
		Kind: store.OutcomeFail, Reason: store.ReasonTooLarge, Result: data[:min(len(data), keptOfTooLarge)],
		Error: fmt.Sprintf("the %s has %d bytes, at most %d are allowed; its first %d bytes are kept as the result", what, len(data), most, keptOfTooLarge),
	}
}

func (b *binding) followUps(subs []Submission) ([]store.Submission, error) {
	if len(subs) == 0 {
		return nil, nil
	}
	if len(subs) > store.MaxFollowUps {
		return nil, invalid("follow_ups", "are %d, at most %d are allowed", len(subs), store.MaxFollowUps)
	}
	out := make([]store.Submission, len(subs))
	for i := range subs {
		var err error
		if out[i], err = subs[i].prepare(b.codec); err != nil {
			return nil, fmt.Errorf("follow_ups[%d]: %w", i, err)
		}
	}
	return out, nil
}

// grid is the quantum that due times of a batch type are rounded up to, so that what falls due in it shares a call.
func (b *binding) grid(interval time.Duration) time.Duration {
	if b.maxWait != 0 {
		return max(0, b.maxWait)
	}
	return min(interval/20, 250*time.Millisecond)
}

const maxDelay = 10 * 365 * 24 * time.Hour

func clampDelay(d time.Duration) time.Duration { return min(max(0, d), maxDelay) }
