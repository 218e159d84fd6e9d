package twolane

import (
	"maps"
	"slices"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// DefaultQueue is the queue of a [Submission] that names none.
const DefaultQueue = "default"

// Submission is a command to submit. Only Type is required. Names (ID, Queue, Type, Group, UniqueKey, BatchKey, Notify and Keys) are 1 to
// 128 bytes of A-Z a-z 0-9 . _ : @ / -, the first a letter or digit.
type Submission struct {
	// Type names the handler.
	Type string
	// Queue is where it stands in line; empty means [DefaultQueue].
	Queue string
	// Params are what the handler gets, encoded with the client's [Codec] unless they are []byte or json.RawMessage; at most 256 KiB.
	Params any

	// ID makes the submit idempotent beyond one call: while the command lives and at least 10 minutes beyond its end, the same ID with
	// the same Queue, Type, Params, Group and Keys is known already, and with others [ErrIDConflict]. Empty draws a time-ordered one.
	ID string
	// UniqueKey lets one live command of the namespace have it; another one is refused with a [UniqueHeldError] until that has ended.
	UniqueKey string
	// Group names commands to wait for together.
	Group string
	// BatchKey lets commands with the same one share a call of a batch handler.
	BatchKey string
	// Keys are up to four name=value pairs that limits can name.
	Keys map[string]string
	// Cost is how much the command counts for limits, 1 to 64; 0 means 1.
	Cost int

	// NotBefore and Delay (counted from the store's now) say when it may run first; the later of both holds.
	NotBefore time.Time
	Delay     time.Duration
	// StartBy ends it as FAILED (expired) if no worker has started it by then.
	StartBy time.Time
	// Deadline ends it as FAILED (deadline_exceeded) and ends the context of a handler that runs then.
	Deadline time.Time
	// Priority orders the commands of a queue that wait for their first run, 0 first.
	Priority uint8
	// MaxFailures ends it as FAILED (retries_exhausted) at that many failures in a row; 0 retries until something else ends it.
	MaxFailures int

	// Metadata is carried along for people and middleware: at most 32 names and 4 KiB.
	Metadata map[string]string
	// Retention is how long its record is kept after its end; 0 means as long as the queue says, less than 0 only the tombstone.
	Retention time.Duration
	// Notify names the outbox topic that gets its end; the record is then kept until the entry is acknowledged (see [Client.Outbox]).
	Notify string
}

// prepare is the one place where defaults are filled in, ids are drawn and submissions are checked. The id is in the result also when
// there is an error.
func (s *Submission) prepare(codec Codec) (store.Submission, error) {
	p := store.Submission{
		ID: s.ID, Queue: s.Queue, Type: s.Type, Group: s.Group, BatchKey: s.BatchKey, Cost: s.Cost, UniqueKey: s.UniqueKey,
		Notify: s.Notify, Priority: s.Priority, Metadata: maps.Clone(s.Metadata), NotBefore: store.At(s.NotBefore), Delay: s.Delay,
		StartBy: store.At(s.StartBy), Deadline: store.At(s.Deadline), MaxFailures: s.MaxFailures, Retention: s.Retention,
	}
	if p.ID == "" {
		p.ID = ids.next(time.Now())
	}
	if p.Queue == "" {
		p.Queue = DefaultQueue
	}
	if len(s.Keys) > 0 {
		p.Keys = make([]store.Key, 0, len(s.Keys))
		for _, name := range slices.Sorted(maps.Keys(s.Keys)) {
			p.Keys = append(p.Keys, store.Key{Name: name, Value: s.Keys[name]})
		}
	}
	var err error
	if p.Params, err = encode(codec, s.Params); err != nil {
		return p, invalid("params", "cannot be encoded: %v", err)
	}
	if err := rule.ValidSubmission(&p); err != nil {
		return p, err
	}
	switch {
	case p.Deadline != 0 && p.Deadline <= p.NotBefore:
		return p, invalid("deadline", "is not after not_before: the command could never run")
	case p.StartBy != 0 && p.StartBy <= p.NotBefore:
		return p, invalid("start_by", "is not after not_before: the command could never run")
	}
	return p, nil
}

// size is about how many bytes a submission takes on its way to the store.
func size(s *store.Submission) int {
	n := 256 + len(s.Params)
	for k, v := range s.Metadata {
		n += len(k) + len(v)
	}
	return n
}
