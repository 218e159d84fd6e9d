package store

import "time"

// Bounds of what a command may carry; more is refused with an error that is [ErrTooLarge].
const (
	MaxParams        = 256 << 10
	MaxState         = 64 << 10
	MaxResult        = 1 << 20
	MaxError         = 64 << 10
	MaxProgress      = 4 << 10
	MaxMetadata      = 4 << 10 // bytes of all names and values
	MaxMetadataKeys  = 32
	MaxKeys          = 4
	MaxCost          = 64
	MaxName          = 128 // bytes of an id, queue, type, group, key or topic
	MaxEvents        = 16
	MaxEventText     = 200
	MaxFollowUps     = 200
	MaxAtomic        = 200
	TombstoneFor     = 10 * time.Minute
	DefaultRetention = 24 * time.Hour
	DefaultKeep      = 100_000
	DefaultV         = 20 * time.Second
	DefaultLosses    = 5
	MaxDecodes       = 5
	DefaultCancelFor = 10 * time.Minute
	DeadlineGrace    = 30 * time.Second       // renewals are refused from deadline + this
	MinPoll          = 100 * time.Millisecond // floor of a poll interval
)

// Submission is one command to submit. See [Command] for the fields; an empty Queue is not filled in here.
type Submission struct {
	ID, Queue, Type, Group string
	BatchKey               string
	Keys                   []Key // sorted by name, names distinct
	Cost                   int   // 0 means 1
	Params                 []byte
	UniqueKey              string
	Notify                 string
	Priority               uint8
	Metadata               map[string]string
	NotBefore              Millis
	Delay                  time.Duration // as NotBefore, counted from the store's now; the later of both holds
	StartBy, Deadline      Millis
	MaxFailures            int
	Retention              time.Duration
}

// SubmitRequest is a batch of submissions. Ids must be distinct within it.
type SubmitRequest struct {
	Items []Submission
	// Atomic submits all or none, up to MaxAtomic items; the refused item carries its error, the others ErrAborted.
	Atomic bool
}

// SubmitResult answers for one item.
type SubmitResult struct {
	Created bool   // false with a nil Err: it was known already
	Status  Status // of the command that is now known by this id
	Err     error  // ErrIDConflict, *UniqueHeldError, ErrQueueFull, *InvalidError, ErrAborted, ErrReadOnly
}
