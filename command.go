package twolane

import (
	"fmt"
	"time"

	"github.com/twolane/twolane/store"
)

// Status is what users see of a command's life.
type Status = store.Status

// The last three are terminal.
const (
	StatusPending    = store.Pending    // not done yet: it waits, or Execute runs
	StatusProcessing = store.Processing // its handler said that it goes on elsewhere; it is checked again and again
	StatusSucceeded  = store.Succeeded
	StatusFailed     = store.Failed
	StatusCancelled  = store.Cancelled
)

// Reason says why a command FAILED.
type Reason = store.Reason

const (
	ReasonError            = store.ReasonError            // its handler said so
	ReasonRetriesExhausted = store.ReasonRetriesExhausted // MaxFailures in a row
	ReasonWorkerLost       = store.ReasonWorkerLost       // it lost its worker too often in a row
	ReasonDeadline         = store.ReasonDeadline         // its deadline passed
	ReasonExpired          = store.ReasonExpired          // its start_by passed before any worker started it
	ReasonUndecodable      = store.ReasonUndecodable      // its bytes could not be decoded five times in a row
	ReasonDropped          = store.ReasonDropped          // a gate refused it for good
	ReasonTooLarge         = store.ReasonTooLarge         // its result or state was over its limit
)

// Place is where the store keeps a command. Terminal ones are nowhere.
type Place = store.Place

const (
	PlaceLine      = store.InLine    // ready to run, or PROCESSING whether or not its poll is due
	PlaceScheduled = store.Scheduled // waits for not_before or for the end of a backoff
	PlaceLeased    = store.Leased    // a worker has it
)

// Lane separates new work from re-polls.
type Lane = store.Lane

const (
	Intake = store.Intake // PENDING commands: Execute
	Repoll = store.Repoll // PROCESSING commands: Check, and cancel visits
)

// Command is a snapshot of what the store knows about a command. All times are the store's. Byte slices must not be modified.
type Command struct {
	ID, Type, Queue, Group string
	UniqueKey, BatchKey    string
	Keys                   map[string]string
	Cost                   int
	Priority               uint8
	Params                 []byte
	Metadata               map[string]string
	NotBefore              time.Time
	StartBy                time.Time
	Deadline               time.Time
	MaxFailures            int
	Retention              time.Duration
	Notify                 string

	Status Status
	Reason Reason // of FAILED
	Place  Place

	Created time.Time
	// WaitsSince is since when it could have run; zero while it runs or waits for a time.
	WaitsSince time.Time
	// NextRun is when it may run again: not_before, the end of a backoff, or when its next poll is due. Zero when it waits for no time.
	NextRun time.Time
	Ended   time.Time
	PurgeAt time.Time // when its record goes; zero while it lives

	Starts   int // invocations begun
	Failures int // in a row
	Losses   int // of its worker, in a row
	Polls    int // invocations of Check that ended

	State     []byte // what Processing saved
	Result    []byte
	Error     string  // of the last failure
	Progress  []byte  // what its handler said last (see [JobInfo.Progress]); it goes with the end
	Events    []Event // the last 16 that are not uneventful polls, oldest first
	Tombstone bool    // only the id and how it ended are still known

	Worker string // that has it now
	Lease  string // name of its lease: a fencing token that is never used twice

	CancelAsked  time.Time
	CancelReason string

	codec Codec
	raw   *store.Command
}

// Event is one thing that happened to a command.
type Event struct {
	At     time.Time
	Kind   store.EventKind
	Worker string
	Text   string
}

// DecodeParams decodes the params into the value that v points to.
func (c *Command) DecodeParams(v any) error { return decode(c.codec, c.Params, v) }

// DecodeState decodes what the handler's last Processing saved.
func (c *Command) DecodeState(v any) error { return decode(c.codec, c.State, v) }

// DecodeResult decodes the result.
func (c *Command) DecodeResult(v any) error { return decode(c.codec, c.Result, v) }

// Err is nil unless the command FAILED or was CANCELLED; then it says why.
func (c *Command) Err() error {
	switch c.Status {
	case StatusFailed:
		if c.Error == "" {
			return fmt.Errorf("command %s failed: %s", c.ID, c.Reason)
		}
		return fmt.Errorf("command %s failed: %s: %s", c.ID, c.Reason, c.Error)
	case StatusCancelled:
		if c.CancelReason == "" {
			return fmt.Errorf("command %s was cancelled", c.ID)
		}
		return fmt.Errorf("command %s was cancelled: %s", c.ID, c.CancelReason)
	}
	return nil
}

// command turns a record into what users see. ahead is how far the run clock is ahead of the server's.
func (c *Client) command(s *store.Command, ahead time.Duration) *Command {
	d := &Command{
		ID: s.ID, Type: s.Type, Queue: s.Queue, Group: s.Group, UniqueKey: s.UniqueKey, BatchKey: s.BatchKey, Cost: s.Cost,
		Priority: s.Priority, Params: s.Params, Metadata: s.Metadata, NotBefore: s.NotBefore.Time(), StartBy: s.StartBy.Time(),
		Deadline: s.Deadline.Time(), MaxFailures: s.MaxFailures, Retention: s.Retention, Notify: s.Notify,
		Status: s.Status, Reason: s.Reason, Place: s.Place,
		Created: s.Created.Time(), WaitsSince: s.Eligible.Time(), Ended: s.Ended.Time(), PurgeAt: s.PurgeAt.Time(),
		Starts: s.Starts, Failures: s.Failures, Losses: s.Losses, Polls: s.Polls,
		State: s.State, Result: s.Result, Error: s.Error, Progress: s.Progress, Tombstone: s.Tombstone,
		Worker: s.Owner, Lease: s.Lease.String(), CancelAsked: s.CancelAsked.Time(), CancelReason: s.CancelReason,
		codec: c.codec, raw: s,
	}
	if len(s.Keys) > 0 {
		d.Keys = make(map[string]string, len(s.Keys))
		for _, k := range s.Keys {
			d.Keys[k.Name] = k.Value
		}
	}
	for _, e := range s.Events {
		d.Events = append(d.Events, Event{At: e.At.Time(), Kind: e.Kind, Worker: e.Worker, Text: e.Text})
	}
	if s.Place == store.Leased {
		d.WaitsSince = time.Time{}
	} else if !s.Status.Terminal() {
		d.NextRun = nextRun(s, ahead)
	}
	return d
}

// nextRun is when a command at rest may run, on the server's clock; zero if it waits for no time.
func nextRun(s *store.Command, ahead time.Duration) time.Time {
	var at time.Time
	if s.Due != 0 && (s.Place == store.Scheduled || s.Status == store.Processing) {
		at = s.Due.Time().Add(-ahead)
	}
	if s.Place == store.Scheduled && s.NotBefore.Time().After(at) {
		at = s.NotBefore.Time()
	}
	return at
}
