package store

import "time"

// GetOptions says how much of a command to read.
type GetOptions struct {
	// NoBlobs leaves params, state, result, progress, metadata and events out.
	NoBlobs bool
}

// ListRequest asks for a page. Filter.Queue and Filter.Status are required.
type ListRequest struct {
	Filter Filter
	// Place narrows live commands, if set; Nowhere means any.
	Place  Place
	Cursor string // from the last page
	Limit  int    // at most MaxItems; 0 means 100
}

// ListPage is one page. Cursor is empty at the end.
type ListPage struct {
	Commands []*Command // without blobs
	Cursor   string
}

// StatsRequest asks for numbers.
type StatsRequest struct {
	Queues []string // empty: all that are known
	Groups []string // whose live commands to count
	// Overview leaves types and workers out.
	Overview bool
}

// Stats are numbers for people and metrics, all as of one moment.
type Stats struct {
	AsOf    Millis
	Run     Millis // run clock, to compare with due times
	LeaseAt Millis // lease clock
	Queues  []QueueStats
	Workers []Worker
	Groups  map[string]int // live commands of each asked group
	Lost    int            // ids set aside for want of a readable record
	Outbox  map[string]int // entries by topic
	Limits  []LimitStats   // in force, in the order of the configuration
	Config  uint64         // version
	Bytes   int64          // that the store occupies; 0 if it does not know
}

// QueueStats are the numbers of one queue.
type QueueStats struct {
	Queue     string
	Pause     PauseMode // in force now
	Lanes     [2]LaneStats
	Scheduled int // PENDING, waiting for not_before or a backoff
	NextDue   Millis
	// Finished counts the records that are kept, by status.
	Succeeded, Failed, Cancelled int
	Reasons                      map[Reason]int
	Types                        []TypeStats
}

// LaneStats are the numbers of one lane of a queue.
type LaneStats struct {
	InLine   int // in place InLine, due or not
	Eligible int // could run now but for permits, pause, rates and limits; expired leases included
	Leased   int // expired ones included
	Expired  int // leases over, not reaped yet
	// OldestEligible is the server time since when the oldest eligible command has waited; 0 if there is none.
	OldestEligible Millis
	NextDue        Millis // run clock: the next poll; 0 if none
	// AtLeast says that Eligible is a lower bound, since counting all would not have been bounded.
	AtLeast bool
	Overdue int // leases whose handler ignores the end of its time
	// Filed is how many lines wait for a limit; more than 100 may be told as 100.
	Filed int
	// Rate is the rate in force, and Token how long until its next token; 0 if one is there, or there is no rate.
	Rate  Rate
	Token time.Duration
}

// TypeStats are the numbers of one type in one lane of a queue.
type TypeStats struct {
	Type    string
	Lane    Lane
	InLine  int
	Leased  int
	Workers int // live workers that can run it
	// Throttled is the rate in starts per second that throttling has lowered it to, 0 if it has not; Token is how long until its next token.
	Throttled float64
	Token     time.Duration
}

// OutboxRequest reads a topic.
type OutboxRequest struct {
	Topic string
	Ack   []uint64 // sequence numbers of entries that were delivered: removed first
	Max   int      // entries to read, at most MaxItems; 0 only acknowledges
	// HideFor hides what is read from other readers (server time), in milliseconds; unacknowledged entries then show again.
	HideFor Millis
}

// OutboxEntry is the end of one command that asked for it with Notify.
type OutboxEntry struct {
	Seq     uint64
	Command *Command // terminal, with its blobs; kept until the entry is acknowledged
}
