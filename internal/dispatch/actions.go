package dispatch

import (
	"errors"
	"time"

	"github.com/twolane/twolane/gate"
	"github.com/twolane/twolane/store"
)

// Causes of the end of an invocation's context.
var (
	ErrCancelRequested = errors.New("cancel requested")
	ErrLeaseLost       = errors.New("lease lost")
	ErrDraining        = errors.New("worker is draining")
	ErrDeadline        = errors.New("deadline of the command has passed")
	ErrMaxRun          = errors.New("maximum run time has passed")
)

// Actions are what the shell is to do, in this order; what is in Cancel may be in Start too, and is started first then. They and what they hold belong to the core and are valid until the next Step, but
// for calls and invocations, which the shell hands back.
type Actions struct {
	Cancel   []Cancellation
	Renew    []*RenewCall
	Settle   *SettleCall
	Claim    *ClaimCall
	Start    []*Invocation
	Stats    *StatsCall
	Maintain *MaintainCall
	Events   []Event
	// Wake is when Step must be called again at the latest.
	Wake time.Duration
	// Done says that a drain is over: call Core.Report and stop.
	Done bool
}

// Cancellation ends the context of one item, or of a whole call if Item is nil.
type Cancellation struct {
	Inv   *Invocation
	Item  *Item
	Cause error
}

// ClaimCall is a call of Store.Claim. Give it back with Core.Claimed.
type ClaimCall struct {
	Req     store.ClaimRequest
	Timeout time.Duration
	first   time.Duration // when it was first sent
	sent    time.Duration // when it was last sent
	tries   int
	reserve [2]bool     // asks for reserved permits only
	rooms   []*GateCell // whose room is bounded, in the order of the request's
}

// RenewCall is a call of Store.Renew. Give it back with Core.Renewed.
type RenewCall struct {
	Req     store.RenewRequest
	Timeout time.Duration
	sent    time.Duration
	items   []*Item
	kind    renewKind
}

type renewKind uint8

const (
	renewTick  renewKind = iota // part of the tick
	renewExtra                  // for some items, at once
	renewGone                   // the last one
)

// SettleCall is a call of Store.Settle. Give it back with Core.Settled.
type SettleCall struct {
	Req     store.SettleRequest
	Timeout time.Duration
	items   []*Item
}

// StatsCall is a call of Store.Stats. Give it back with Core.Counted.
type StatsCall struct {
	Req     store.StatsRequest
	Timeout time.Duration
}

// MaintainCall is a call of Store.Maintain. Give it back with Core.Maintained.
type MaintainCall struct{ Timeout time.Duration }

// EventKind says what an [Event] tells.
type EventKind uint8

const (
	Started        EventKind = iota + 1 // a handler is called; Inv
	Ended                               // an invocation is over, D is how long it ran; Inv
	Finished                            // the store has answered a settlement; Item, Outcome, State, Status
	LeaseLost                           // a lease was lost or its context fenced, once for each item; Item, Text
	Margin                              // a renewal came back; F is the share of V that the tightest lease of it had left
	RenewDone                           // a tick is over; D is how long it took, F is 1 if it failed
	ClaimDone                           // a claim call came back; D is how long it took, N the invocations granted
	StoreFailed                         // a store call failed; Text is which, Err, N the number in a row
	StoreBack                           // it works again; Text is which, D since the first failure
	RunTooLong                          // an invocation has run for its max run time; Inv, D
	MarkedOverdue                       // an invocation goes on after its context ended; Inv, D since then
	Abandoned                           // its lease was ended; Inv
	Returned                            // an overdue invocation has returned; Inv, D that it was overdue
	GaveBack                            // a grant was given back unstarted; Item, Text
	Starving                            // Lane starts nothing though N commands are eligible; Text is why, Detail, D the age of the oldest
	StarvationOver                      // Lane goes on; D is how long it stood
	Unclaimable                         // commands of Type in Queue and Lane have no worker; N of them, 0 when that is over
	Reaped                              // maintenance of one of our calls ended leases; N losses of a worker, M others
	Refused                             // the store refused a settlement as invalid; Item, Err
	LimitDecided                        // a limit decided about N commands or wants of a claim; Lane, Text is its name, Detail is Admitted or LimitRefused
	GateDecided                         // a gate decided about N commands or claims; Gate, Text is the reason, Detail
	GateClosed                          // a gate has been closed for a while; Gate, D since it closed
	GateOpen                            // it is open again; Gate, D that it was closed
	GateSource                          // the source of a gate answers (N is 1) or does not; Gate
	GateKey                             // a gate closes Key for D; Gate
	Drained                             // a drain is over; Text
	DrainStarted
)

// Event is something that metrics, logs and hooks want to know. It costs nothing if nobody looks.
type Event struct {
	Kind    EventKind
	Lane    store.Lane
	Outcome store.OutcomeKind
	State   store.SettleState
	Status  store.Status
	N, M    int
	F       float64
	D       time.Duration
	Inv     *Invocation
	Item    *Item
	Queue   string
	Type    string
	Text    string
	Detail  string
	Err     error
	Gate    *GateCell
	Key     gate.Key
}

func (a *Actions) reset() {
	clear(a.Cancel)
	clear(a.Renew)
	clear(a.Start)
	clear(a.Events)
	*a = Actions{Cancel: a.Cancel[:0], Renew: a.Renew[:0], Start: a.Start[:0], Events: a.Events[:0]}
}
