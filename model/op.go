package model

import (
	"fmt"
	"time"
)

// The time of a walk. A replay sets the visibility timeout to WalkV and MaxLosses to its default; OpTick moves the store's
// clock by WalkTick and does maintenance until nothing is left. Nothing else moves the clock. Delays and deadlines of n
// ticks are n x WalkTick - WalkTick/2, so that no answer hangs on which of two equal times comes first.
const (
	WalkV    = 20 * time.Second
	WalkTick = WalkV * 24 / 100 // the fifth tick without a renewal ends a lease, the fourth does not
	// WalkCancelFor is how long cancel visits are tried in a walk, in ticks as delays are.
	WalkCancelFor = 6
)

// WalkDelay is a delay, or the time to a deadline, of n ticks; 0 stays 0.
func WalkDelay(n int) time.Duration {
	if n <= 0 {
		return 0
	}
	return time.Duration(n)*WalkTick - WalkTick/2
}

// A Trajectory is a walk through the model: operations of users, workers and time on an empty store, one after the other,
// with the answer to each and the commands after it.
type Trajectory struct {
	Seed     uint64
	Commands []WalkCommand
	Workers  int
	Queues   int
	Ops      []Op
}

// A WalkCommand is what is fixed about one id of a walk.
type WalkCommand struct {
	Queue, Type int
	Hook        bool  // what is settled as Processing has a Cancel hook
	Keys        uint8 // bit l: it declares the key that limit l counts by
}

// A WalkLimit is one limit as it is in force. Each has a key of its own, with one value; a limit that comes back after it was
// removed is another one.
type WalkLimit struct {
	Limit, Version int
	Max            int
	Command        bool // scope command
	Rate           bool // one start per tick
}

// An OpKind is one call of a store, or the passing of time.
type OpKind uint8

// The operations.
const (
	OpSubmit OpKind = iota // Command, with Delay (not before) and Deadline; Want.Created
	OpClaim                // Worker with Queues, Types and Free, as claim number Claim; Want.Granted
	OpRepeat               // the claim number Claim of Worker again, with its nonce; Want.Granted
	OpRenew                // Worker, and Leases; Want.Renewed. A new incarnation registers so before all else
	OpSettle               // Worker settles Lease with Outcome and Delay; Want.Answer
	OpCancel               // Command, or Force; Want.Cancel
	OpDelete               // Command, in any place; Want.Found
	OpPause                // Queue: Pause 0 takes it back, 1 is intake, 2 both lanes
	OpLimits               // Limits are those in force from now on
	OpTick                 // time passes
	endOfOps
)

// String names the operation.
func (k OpKind) String() string {
	return [...]string{"submit", "claim", "repeat claim", "renew", "settle", "cancel", "delete", "pause", "limits", "tick"}[k]
}

// A LeaseRef names the lease that a claim gave on a command. The replay keeps the lease names that the store drew.
type LeaseRef struct{ Command, Claim int }

// A CancelAnswer is what the store says to a cancel.
type CancelAnswer uint8

// The answers to a cancel.
const (
	CancelEnded CancelAnswer = iota + 1
	CancelRequested
	CancelTooLate
	CancelNotFound
)

// A Renewal is the answer for one lease of a renewal.
type Renewal struct {
	Answer Answer // OK or Lost
	// Refused: the deadline is over for so long that the lease runs out.
	Refused bool
	Cancel  bool // a cancel was asked for
}

// An Op is one operation. Which fields count is said at its kind.
type Op struct {
	Kind    OpKind
	Command int
	Queue   int
	Pause   int
	Delay   int // ticks, see [WalkDelay]
	// Deadline is in so many ticks; 0 is none.
	Deadline int
	Force    bool

	Worker      int
	Incarnation int // of the worker: together they are its identity
	Claim       int // number of the claim call, from 1
	Free        [2]int
	Queues      []int
	Types       []int
	Leases      []LeaseRef

	Lease     LeaseRef
	Outcome   Outcome
	Again     bool // this settle was sent before
	Visit     bool // the claim gave a cancel visit
	Unstarted bool // with GiveBack: its handler never ran

	Limits []WalkLimit

	Want  Want
	After []View // the commands after it, by number
	// Members are those of each limit that is in force after it, in the order of the numbers of the limits.
	Members []int
}

// Want is the expected answer.
type Want struct {
	Created bool
	Found   bool
	Granted []int // commands, in no order; each an invocation of its own
	Renewed []Renewal
	Answer  Answer
	Cancel  CancelAnswer
}

// A View is what a read of a command shows. The zero View is no command.
type View struct {
	Status Status
	// Place is Ready or Parked for what a store keeps in line, by whether its poll is due.
	Place  Place
	Reason Reason
	Lease  LeaseRef // the current one, Claim 0 for none
	// Resting says that only time is uncertain: the command waits after losses for as long as the store's backoff says, so it
	// is in line or waits, whatever Place says.
	Resting                         bool
	Starts, Failures, Losses, Polls int
	CancelAsked                     bool
	Holds                           []int // limits in force that it is a member of
}

// String is the operation on one line.
func (o Op) String() string {
	who := fmt.Sprintf("w%d.%d", o.Worker, o.Incarnation)
	switch o.Kind {
	case OpSubmit:
		return fmt.Sprintf("submit c%d delay %d deadline %d -> created %v", o.Command, o.Delay, o.Deadline, o.Want.Created)
	case OpClaim:
		return fmt.Sprintf("claim %d by %s free %v queues %v types %v -> %v", o.Claim, who, o.Free, o.Queues, o.Types, o.Want.Granted)
	case OpRepeat:
		return fmt.Sprintf("repeat claim %d by %s -> %v", o.Claim, who, o.Want.Granted)
	case OpRenew:
		return fmt.Sprintf("renew by %s %v -> %v", who, o.Leases, o.Want.Renewed)
	case OpSettle:
		return fmt.Sprintf("settle by %s %v %s delay %d again %v -> %s", who, o.Lease, o.Outcome, o.Delay, o.Again, o.Want.Answer)
	case OpCancel:
		return fmt.Sprintf("cancel c%d force %v -> %d", o.Command, o.Force, o.Want.Cancel)
	case OpDelete:
		return fmt.Sprintf("delete c%d -> found %v", o.Command, o.Want.Found)
	case OpPause:
		return fmt.Sprintf("pause q%d %d", o.Queue, o.Pause)
	case OpLimits:
		return fmt.Sprintf("limits %+v", o.Limits)
	}
	return o.Kind.String()
}
