package dispatch

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/twolane/twolane/gate"
	"github.com/twolane/twolane/store"
)

// Invocation is one call of a handler: for one command, or for a batch of commands of one line. Its exported fields do not change.
type Invocation struct {
	Type  *Type
	Queue string
	Lane  store.Lane
	Class store.Class
	Items []*Item
	// Wait is how long the first of its commands had been eligible when it was claimed; for a poll, how late it is.
	Wait time.Duration
	// Panic is what contained the end of the handler, if it did not return. It is there once the invocation is over.
	Panic error

	// Of the core.
	started  time.Duration
	cause    error         // why its context was ended; nil while it was not
	causeAt  time.Duration // when
	overdue  bool
	gone     bool // abandoned: its permit is somebody else's
	waiting  int  // items that must be renewed before it starts
	left     int  // items not answered yet
	over     bool // its handler has returned, or was never called
	timer    timer
	listAt   int // place in Core.live
	item     [1]Item
	itemRefs [1]*Item
	cells    []*GateCell // that it counts under
	cellRefs [2]*GateCell

	// Of the shell.
	ctx    context.Context
	cancel context.CancelCauseFunc
	early  func(*Item)
	goexit bool
}

// Started is when the handler was called, on the core's clock.
func (inv *Invocation) Started() time.Duration { return inv.started }

// Batch reports whether it was called as a batch.
func (inv *Invocation) Batch() bool {
	return inv.Type.Batch[inv.Lane&1] > 1 && !inv.Class.Visit()
}

// Item is one command of an invocation, with its lease.
type Item struct {
	Cmd *store.Command // as it was claimed
	Inv *Invocation

	answered atomic.Uint32                 // 0: no; 1: out is being written; else hasAnswer + its kind
	out      store.Settlement              // the core's own once there is an answer
	progress atomic.Pointer[[]byte]        // not sent yet
	response atomic.Pointer[gate.Response] // what the handler says about the backend; nil: what its answer says
	fenceAt  atomic.Int64                  // Duration at which the lease may not be relied on any more

	// Of the core.
	sent    time.Duration // when the last acknowledged claim or renewal was sent
	phase   phase
	cause   error         // why its context was ended
	proved  bool          // renewed since the claim that took so long
	lost    bool          // the store has said that the lease is not current, or it is not to be renewed any more
	again   bool          // a settle was sent without seeing its answer
	ended   time.Duration // when its answer was taken
	patient bool          // its outcome waits, and nobody waits for it
	refused int           // how often the store refused its settlement as invalid
	endsAt  time.Duration // when its deadline passes; 0 if it has none
	timer   timer
	heldAt  int // place in Core.held, from 1; 0 is not there

	// Of the shell.
	ctx    context.Context
	cancel context.CancelCauseFunc
}

type phase uint8

const (
	proving  phase = iota // claimed too long ago: renewed before its handler may start
	running               // its handler has not answered for it
	flushing              // answered; its progress is being sent
	settling              // answered; waits for the store
	settled               // the store has answered, or nothing is left to be said
)

// Answer says how the invocation ended for this command. The first answer counts: Answer reports whether this one did. In a
// batch the command is settled at once, while the call may go on with the others. ID and Lease are filled in.
func (it *Item) Answer(s store.Settlement) bool {
	if !it.answered.CompareAndSwap(0, 1) {
		return false
	}
	s.ID, s.Lease = it.Cmd.ID, it.Cmd.Lease
	it.out = s
	it.answered.Store(hasAnswer + uint32(s.Kind))
	if early := it.Inv.early; early != nil && len(it.Inv.Items) > 1 {
		early(it)
	}
	return true
}

const hasAnswer = 2

// Answered returns how the first answer says that the invocation ended for this command; 0 while there is none.
func (it *Item) Answered() store.OutcomeKind {
	return store.OutcomeKind(max(it.answered.Load(), hasAnswer) - hasAnswer)
}

// Context is the context of this command of a batch; of a single one it is that of the call.
func (it *Item) Context() context.Context { return it.ctx }

// SetProgress lets the next renewal carry p, which must not be changed any more. What was set before and not yet sent is forgotten.
func (it *Item) SetProgress(p []byte) { it.progress.Store(&p) }

// SetResponse says what the backend told about its load, in place of what the answer says.
func (it *Item) SetResponse(r gate.Response) { it.response.Store(&r) }

// Alive reports whether the lease can be relied on at now.
func (it *Item) Alive(now time.Duration) bool { return now < time.Duration(it.fenceAt.Load()) }

// Left is how much time its deadline left it when its handler was called; 0 if it has none.
func (it *Item) Left() time.Duration {
	if it.endsAt == 0 {
		return 0
	}
	return max(0, it.endsAt-it.Inv.started)
}

// Sent is when the call was sent that the lease is counted from.
func (it *Item) Sent() time.Duration { return it.sent }

func newInvocation(t *Type, g *store.Grant) *Invocation {
	inv := &Invocation{Type: t, Queue: g.Items[0].Queue, Lane: g.Lane, Class: g.Class, left: len(g.Items)}
	inv.timer.inv = inv
	if len(g.Items) == 1 {
		inv.itemRefs[0] = &inv.item[0]
		inv.Items = inv.itemRefs[:]
	} else {
		block := make([]Item, len(g.Items))
		inv.Items = make([]*Item, len(g.Items))
		for i := range block {
			inv.Items[i] = &block[i]
		}
	}
	for i, cmd := range g.Items {
		it := inv.Items[i]
		it.Cmd, it.Inv = cmd, inv
		it.timer.item = it
	}
	return inv
}
