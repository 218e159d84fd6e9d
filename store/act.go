package store

// ActKind is a piece of operator work.
type ActKind uint8

const (
	// ActRetry brings a FAILED or CANCELLED command back with its counters in a row at zero.
	ActRetry ActKind = iota + 1
	// ActDelete removes the record. A leased command is skipped unless Force, which breaks its lease.
	ActDelete
	// ActMove puts a live command that is not leased into another queue.
	ActMove
	// ActReprioritise sets the priority of a live command.
	ActReprioritise
	// ActRunNow ends a backoff, or makes a poll due.
	ActRunNow
)

// RetryAs says in which lane a retried command starts again.
type RetryAs uint8

const (
	AsBefore  RetryAs = iota // where it was
	AsExecute                // PENDING
	AsCheck                  // PROCESSING with the state it had; refused if it never was
)

// Filter matches commands. Zero fields match all.
type Filter struct {
	Queue  string // required by List and Act
	Status Status // required by List and Act
	Reason Reason // of FAILED
	Type   string
	Group  string
	// Before matches what was created (live) or ended (terminal) before it.
	Before Millis
	After  Millis
}

// ActRequest does one kind of work on IDs, or on the next piece of what Filter matches.
type ActRequest struct {
	Kind   ActKind
	IDs    []string
	Filter *Filter
	Cursor string // from the last reply
	Limit  int    // commands looked at in this step; 0 means 100, at most MaxItems
	// UpTo bounds a filtered action to commands that arrived before it began (see ActReply.UpTo); 0 sets it now.
	UpTo uint64

	As       RetryAs
	Deadline Millis // of ActRetry: the new one, needed if the old has passed
	Queue    string // of ActMove
	Priority uint8  // of ActReprioritise
	Force    bool
	By       string // who, for the event
}

// ActReply says what was done. Results are for IDs, in order: nil is done.
type ActReply struct {
	Done    int
	Results []error // ErrNotFound, ErrState, *UniqueHeldError, …
	Cursor  string  // not empty: the filter may match more
	UpTo    uint64
}
