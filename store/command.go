package store

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Millis is a point in time in milliseconds since 1970 UTC; 0 means none.
type Millis int64

// At converts a time to Millis; the zero time becomes 0.
func At(t time.Time) Millis {
	if t.IsZero() {
		return 0
	}
	return Millis(t.UnixMilli())
}

// Time converts m to a time in UTC; 0 becomes the zero time.
func (m Millis) Time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(m)).UTC()
}

// Add returns m + d, d rounded up to a whole millisecond.
func (m Millis) Add(d time.Duration) Millis {
	return m + Millis((d+time.Millisecond-1)/time.Millisecond)
}

// Sub returns m - n.
func (m Millis) Sub(n Millis) time.Duration { return time.Duration(m-n) * time.Millisecond }

// Status is what users see of a command's life. The last three are terminal.
type Status uint8

const (
	Pending Status = iota + 1
	Processing
	Succeeded
	Failed
	Cancelled
)

var statusNames = [...]string{"", "PENDING", "PROCESSING", "SUCCEEDED", "FAILED", "CANCELLED"}

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "UNKNOWN(" + strconv.Itoa(int(s)) + ")"
}

// Terminal reports whether the command's life is over.
func (s Status) Terminal() bool { return s >= Succeeded }

// ParseStatus is the inverse of [Status.String].
func ParseStatus(s string) (Status, error) {
	for i, n := range statusNames {
		if i > 0 && strings.EqualFold(n, s) {
			return Status(i), nil
		}
	}
	return 0, fmt.Errorf("%w: unknown status %q", ErrInvalid, s)
}

// Reason says why a command FAILED.
type Reason string

const (
	ReasonError            Reason = "error"             // its handler said so
	ReasonRetriesExhausted Reason = "retries_exhausted" // max_failures
	ReasonWorkerLost       Reason = "worker_lost"       // it lost its worker too often in a row
	ReasonDeadline         Reason = "deadline_exceeded"
	ReasonExpired          Reason = "expired" // start_by passed before the first claim
	ReasonUndecodable      Reason = "undecodable"
	ReasonDropped          Reason = "dropped" // by a gate
	ReasonTooLarge         Reason = "too_large"
)

// Reasons lists every [Reason].
var Reasons = []Reason{ReasonError, ReasonRetriesExhausted, ReasonWorkerLost, ReasonDeadline, ReasonExpired, ReasonUndecodable, ReasonDropped, ReasonTooLarge}

// Place is where the store keeps a command.
type Place uint8

const (
	// Nowhere is the place of terminal commands.
	Nowhere Place = iota
	// InLine: ready PENDING commands, and PROCESSING ones whether or not their poll is due.
	InLine
	// Scheduled: PENDING commands that wait for not_before or for the end of a backoff.
	Scheduled
	// Leased: a worker has it.
	Leased
)

var placeNames = [...]string{"none", "line", "scheduled", "leased"}

func (p Place) String() string {
	if int(p) < len(placeNames) {
		return placeNames[p]
	}
	return "UNKNOWN(" + strconv.Itoa(int(p)) + ")"
}

// Lane separates new work from re-polls.
type Lane uint8

const (
	Intake Lane = iota // PENDING commands: Execute
	Repoll             // PROCESSING commands: Check, and cancel visits
)

// Lanes lists both.
var Lanes = [2]Lane{Intake, Repoll}

func (l Lane) String() string { return [2]string{"intake", "repoll"}[l&1] }

// Class is the part of a line that says what kind of turn its commands wait for.
type Class uint8

const (
	ClassFirst   Class = iota // a first run, or an ordinary poll
	ClassRerun                // PENDING with a failure or a loss behind it
	ClassSuspect              // two or more losses in a row: runs alone
	ClassCancel               // a cancel visit
	ClassHolder               // holds a command-scope slot and never waits for one
	// ClassSuspectVisit is a cancel visit of a suspect: it passes what cancel visits pass, and runs alone as suspects do.
	ClassSuspectVisit
)

// Visit reports whether the turn is a cancel visit.
func (c Class) Visit() bool { return c == ClassCancel || c == ClassSuspectVisit }

// Suspect reports whether the turn has to be had alone, after two or more losses in a row.
func (c Class) Suspect() bool { return c == ClassSuspect || c == ClassSuspectVisit }

func (c Class) String() string {
	return [...]string{"first", "rerun", "suspect", "cancel", "holder", "suspect_visit"}[min(int(c), 5)]
}

// Key is one declared name=value pair of a command, fixed at submit; limits can name it.
type Key struct{ Name, Value string }

// LeaseName names one lease for all time: the token comes from one counter of the namespace and grows; the nonce
// is drawn by the worker for each claim call. The zero value is no lease. It is compared whole.
type LeaseName struct {
	Token uint64
	Nonce string
}

func (l LeaseName) String() string {
	if l.Token == 0 {
		return ""
	}
	return strconv.FormatUint(l.Token, 10) + "." + l.Nonce
}

// ParseLeaseName is the inverse of [LeaseName.String].
func ParseLeaseName(s string) (LeaseName, error) {
	if s == "" {
		return LeaseName{}, nil
	}
	t, nonce, ok := strings.Cut(s, ".")
	n, err := strconv.ParseUint(t, 10, 64)
	if !ok || err != nil || nonce == "" {
		return LeaseName{}, fmt.Errorf("%w: lease name %q", ErrInvalid, s)
	}
	return LeaseName{Token: n, Nonce: nonce}, nil
}

// EventKind says what an [Event] tells.
type EventKind string

const (
	EventProcessing EventKind = "processing"       // the first Processing of a run
	EventError      EventKind = "error"            // a retry was scheduled
	EventSnoozed    EventKind = "snoozed"          // by its handler
	EventThrottled  EventKind = "throttled"        // by what the handler calls
	EventGivenBack  EventKind = "given_back"       // by its worker
	EventLost       EventKind = "worker_lost"      // its lease and its worker's heartbeat expired
	EventClaimLost  EventKind = "lease_expired"    // its lease expired, its worker lives
	EventCancelAsk  EventKind = "cancel_requested" // by a user, or by the deadline
	EventCancelErr  EventKind = "cancel_error"     // a cancel visit failed
	EventOverdue    EventKind = "overdue"          // its handler ran past its time
	EventRetried    EventKind = "retried"          // by an operator
	EventMoved      EventKind = "moved"
	EventEnded      EventKind = "ended"
)

// Event is one thing that happened to a command.
type Event struct {
	At     Millis
	Kind   EventKind
	Worker string
	Text   string // at most MaxEventText bytes
}

// Command is the record of one command. The fields up to Retention are fixed at submit, but for what an operator changes.
type Command struct {
	ID, Queue, Type, Group string
	BatchKey               string // commands with the same one may share a batch call
	Keys                   []Key  // sorted by name
	Cost                   int
	Params                 []byte
	UniqueKey              string
	Notify                 string // outbox topic of the end, "" for none
	Priority               uint8  // 0 first
	Metadata               map[string]string
	NotBefore              Millis        // server time
	StartBy                Millis        // server time; ends the command if it was never claimed
	Deadline               Millis        // server time
	MaxFailures            int           // in a row; 0 for no end
	Retention              time.Duration // 0: the queue's; negative: only the tombstone
	Fingerprint            uint64        // of what makes a re-submit the same

	Status Status
	Reason Reason // of FAILED
	Was    Status // PENDING or PROCESSING when it ended: where a retry puts it back; 0 while live
	Place  Place
	Seq    uint64 // arrival order; a command that comes back from a backoff arrives anew

	Created  Millis // server time
	Eligible Millis // server time since when it has waited to run; 0 while it does not
	Ended    Millis // server time
	PurgeAt  Millis // server time; 0 while live or while its outbox entry stands
	Due      Millis // run clock: end of a backoff (PENDING), or when the poll is due (PROCESSING)

	Starts    int // invocations, the current one included
	Failures  int // in a row
	Losses    int // in a row
	Polls     int // invocations of Check that ended
	Decodes   int // decode errors in a row
	State     []byte
	Result    []byte // of SUCCEEDED, or what a drop left
	Error     string // the last error, kept until the next outcome that is none
	Progress  []byte
	Events    []Event // oldest first, at most MaxEvents
	Tombstone bool    // only the id and how it ended are still known

	Lease      LeaseName // current one
	Owner      string    // worker of the current lease
	LeasedAt   Millis    // lease clock
	LeaseUntil Millis    // lease clock
	Overdue    bool      // its handler ignores the end of its time
	Settled    LeaseName // the last lease that a settle ended

	Holds    []Hold // of limits, by limit name
	Unknown  bool   // a worker was lost with it: what it started may exist
	Overflow bool   // this lease was admitted over a limit that only classifies

	HasHook      bool   // a Cancel hook exists for what is PROCESSING
	CancelAsked  Millis // server time; 0 if not asked
	CancelUntil  Millis // server time; cancel visits end here. 0 until the first rest after the request
	CancelReason string // who or what asked, for people
	CancelEnds   Reason // "" ends CANCELLED; else the reason of FAILED (deadline)
}

// Lane returns the lane that the command stands in.
func (c *Command) Lane() Lane {
	if c.Status == Processing {
		return Repoll
	}
	return Intake
}

// Clone returns a copy that shares only byte slices.
func (c *Command) Clone() *Command {
	if c == nil {
		return nil
	}
	d := *c
	d.Keys = append([]Key(nil), c.Keys...)
	d.Events = append([]Event(nil), c.Events...)
	d.Holds = append([]Hold(nil), c.Holds...)
	if c.Metadata != nil {
		d.Metadata = make(map[string]string, len(c.Metadata))
		for k, v := range c.Metadata {
			d.Metadata[k] = v
		}
	}
	return &d
}
