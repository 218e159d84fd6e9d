package store

import "time"

// OutcomeKind is how an invocation ended.
type OutcomeKind uint8

const (
	// OutcomeDone: SUCCEEDED, also after a cancel was asked for.
	OutcomeDone OutcomeKind = iota + 1
	// OutcomeFail: FAILED with Reason, also after a cancel was asked for.
	OutcomeFail
	// OutcomeProcessing: PROCESSING with State, polled again after Delay.
	OutcomeProcessing
	// OutcomeRetry: a failure; again after Delay, in the status it has.
	OutcomeRetry
	// OutcomeSnooze: again after Delay, no failure. A PROCESSING command keeps its state.
	OutcomeSnooze
	// OutcomeThrottled: as snooze, and the narrowest rate that covers the command is lowered.
	OutcomeThrottled
	// OutcomeGiveBack: back where it was, after Delay if set; costs nothing.
	OutcomeGiveBack
	// OutcomeCancelled: a cancel visit has succeeded; the command ends.
	OutcomeCancelled
	// OutcomeCancelRetry: a cancel visit has failed; again after Delay until the command's CancelUntil.
	OutcomeCancelRetry
	// OutcomeAbandon: the worker gives up on a handler that ignores its context: the lease ends as a loss.
	OutcomeAbandon
)

var outcomeNames = [...]string{"", "done", "fail", "processing", "retry", "snooze", "throttled", "give_back", "cancelled", "cancel_retry", "abandon"}

func (k OutcomeKind) String() string {
	if int(k) < len(outcomeNames) {
		return outcomeNames[k]
	}
	return "unknown"
}

// Settlement ends one lease.
type Settlement struct {
	ID    string
	Lease LeaseName
	Kind  OutcomeKind

	Reason Reason        // of OutcomeFail
	Error  string        // of Fail, Retry, CancelRetry, Abandon; cut to MaxError by the caller
	Result []byte        // of Done, or of a Fail that leaves one
	State  []byte        // of Processing, when SetState; otherwise the state stays as it is
	Delay  time.Duration // of Processing, Retry, Snooze, Throttled, GiveBack, CancelRetry
	// SetState says that State replaces the state.
	SetState bool
	// HasHook says at Processing that the type has a Cancel hook.
	HasHook bool
	// Grid rounds the due time of Processing up to a multiple of it.
	Grid time.Duration
	// Decode says at Retry that params, state or result could not be decoded; MaxDecodes in a row end the command.
	Decode bool
	// Unstarted says at GiveBack that no handler was called.
	Unstarted bool
	// Observed is, at Throttled, how many starts per second of the type this caller believes all workers make together.
	Observed float64
	// FollowUps are submitted in the step in which Done ends the command. They pass the queue's MaxReady: work that has begun goes on.
	FollowUps []Submission
	// Push, with Done and Fail, hands Result over to a list in this step, in place of an outbox entry; its Seq and Value are not read. Only a
	// [ListPusher] takes it. If the list cannot take it, an outbox entry is written as ever.
	Push *PushItem
	// Again says that this settle was sent before and its answer was not seen: lost becomes unknown.
	Again bool
}

// SettleRequest is a batch of settlements.
type SettleRequest struct {
	Worker string
	Items  []Settlement
}

// SettleState is what became of one settlement.
type SettleState uint8

const (
	SettleDone    SettleState = iota + 1 // this call did it
	SettleAlready                        // an earlier call did it
	SettleLost                           // the lease was not current; nothing changed
	SettleUnknown                        // as lost, but an earlier try may have done it
)

func (s SettleState) String() string {
	return [...]string{"", "done", "already", "lost", "unknown"}[min(int(s), 4)]
}

// SettleResult answers for one settlement.
type SettleResult struct {
	State     SettleState
	Status    Status         // of the command after this step, if it is known
	Reason    Reason         // of FAILED
	Err       error          // *InvalidError: nothing changed and the lease stands
	FollowUps []SubmitResult // in order; a refused one does not undo the end of the parent
}
