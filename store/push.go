package store

import "context"

// ListPusher is implemented by stores that live in a database which also has lists of other programs, and can hand an outbox entry over to one
// in the step that takes it away: each entry then reaches its list exactly once.
type ListPusher interface {
	// Database names the database whose lists can be pushed to, the same for everybody who has it open. It is empty if there is none.
	Database(ctx context.Context) (string, error)
	// Push hands entries over and answers for each in order. An entry that is gone was delivered before, by whomever.
	Push(ctx context.Context, topic string, items []PushItem) ([]PushState, error)
}

// PushItem is one entry to hand over.
type PushItem struct {
	Seq   uint64
	List  string // pushed to at its left end
	Value []byte
	TTL   Millis          // the list lives so long from now; 0 leaves its time as it is
	Del   []string        // keys that go
	DelIf []PushCondition // keys that go if they have a value
}

// PushCondition names a key by what it must hold.
type PushCondition struct{ Key, Value string }

// PushState is what became of one entry.
type PushState uint8

const (
	PushDone    PushState = iota + 1 // it is in its list
	PushGone                         // it was not in the outbox any more
	PushRefused                      // what has the name of the list is no list; the entry stands
)
