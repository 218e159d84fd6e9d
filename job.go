package twolane

import (
	"context"
	"fmt"
	"time"

	"github.com/twolane/twolane/internal/dispatch"
	"github.com/twolane/twolane/store"
)

// Causes of the end of a handler's context, for context.Cause. ErrDeadline and ErrMaxRun make the context's Err DeadlineExceeded.
var (
	ErrCancelRequested = dispatch.ErrCancelRequested // a user, or the command's deadline, asked for it
	ErrLeaseLost       = dispatch.ErrLeaseLost       // somebody else may run the command now; what this invocation answers is refused then
	ErrDraining        = dispatch.ErrDraining        // the worker ends; an error returned now gives the command back and counts for nothing
	ErrDeadline        = dispatch.ErrDeadline        // the command's deadline has passed
	ErrMaxRun          = dispatch.ErrMaxRun          // the invocation has run for its MaxRun
)

// Job is a command as its handler sees it.
type Job[P, S any] struct {
	JobInfo
	Params P // decoded
	State  S // what the last Processing kept; the zero value before
}

// JobInfo is what a [Job] is without its types: what [Middleware] sees.
type JobInfo struct {
	item *dispatch.Item
	b    *binding
}

// ID is the command's id.
func (j *JobInfo) ID() string { return j.item.Cmd.ID }

// IdempotencyKey is the same in every invocation of the command: give it to systems that recognise a repeated call.
func (j *JobInfo) IdempotencyKey() string { return j.item.Cmd.ID }

// Lease is the name of this invocation's lease, "token.nonce". The token grows with every lease of the namespace: a system that
// refuses smaller tokens than it has seen for a command is fenced against stale owners.
func (j *JobInfo) Lease() string { return j.item.Cmd.Lease.String() }

// Type, Queue, Group and UniqueKey are those of its submission.
func (j *JobInfo) Type() string      { return j.item.Cmd.Type }
func (j *JobInfo) Queue() string     { return j.item.Cmd.Queue }
func (j *JobInfo) Group() string     { return j.item.Cmd.Group }
func (j *JobInfo) UniqueKey() string { return j.item.Cmd.UniqueKey }

// Key is the value of a declared key, or "".
func (j *JobInfo) Key(name string) string {
	for _, k := range j.item.Cmd.Keys {
		if k.Name == name {
			return k.Value
		}
	}
	return ""
}

// Metadata is that of its submission. It must not be changed.
func (j *JobInfo) Metadata() map[string]string { return j.item.Cmd.Metadata }

// Starts counts its invocations, this one included.
func (j *JobInfo) Starts() int { return j.item.Cmd.Starts }

// Failures counts the errors in a row before this invocation.
func (j *JobInfo) Failures() int { return j.item.Cmd.Failures }

// Losses counts the losses of its worker in a row before this invocation.
func (j *JobInfo) Losses() int { return j.item.Cmd.Losses }

// Polls counts the calls of Check that have ended.
func (j *JobInfo) Polls() int { return j.item.Cmd.Polls }

// Created is when it was submitted, by the store's clock.
func (j *JobInfo) Created() time.Time { return j.item.Cmd.Created.Time() }

// Deadline is when it ends as FAILED, by the store's clock; ok is false if it has none.
func (j *JobInfo) Deadline() (t time.Time, ok bool) {
	return j.item.Cmd.Deadline.Time(), j.item.Cmd.Deadline != 0
}

// RawParams and RawState are the bytes that were stored. They must not be changed.
func (j *JobInfo) RawParams() []byte { return j.item.Cmd.Params }
func (j *JobInfo) RawState() []byte  { return j.item.Cmd.State }

// CancelReason says who or what asked for the end of the command, in a cancel visit.
func (j *JobInfo) CancelReason() string { return j.item.Cmd.CancelReason }

// Context is this command's own context. In a batch it may end before that of the call, which goes on for the other commands.
func (j *JobInfo) Context() context.Context { return j.item.Context() }

// Progress stores something for people to see while the command runs, encoded as Params are; at most 4 KiB. It is sent with the next
// renewal of the lease (within a quarter of the visibility timeout), at the latest when the invocation ends; only the last value counts, and it
// goes with the end of the command. It returns ErrLeaseLost if the lease can no longer be relied on: then the context ends as well.
func (j *JobInfo) Progress(v any) error {
	if err := j.Alive(); err != nil {
		return err
	}
	data, err := encode(j.b.codec, v)
	if err != nil {
		return fmt.Errorf("progress: %w", err)
	}
	if len(data) > store.MaxProgress {
		return &InvalidError{Field: "progress", Detail: fmt.Sprintf("has %d bytes, at most %d are allowed", len(data), store.MaxProgress), Max: store.MaxProgress}
	}
	j.item.SetProgress(data)
	return nil
}

// Alive returns ErrLeaseLost if the lease may have ended by now, as after the process was stopped or its machine suspended. It reads no more
// than the clock: ask it before a side effect that must not be made by a stale owner.
func (j *JobInfo) Alive() error {
	if !j.item.Alive(j.b.w.clock.Now()) {
		return ErrLeaseLost
	}
	return nil
}

// Answered returns how the invocation ended for this command, once it has, as metrics name it; "" before.
func (j *JobInfo) Answered() string {
	return j.item.Answered().String()
}

// Answer says, in ExecuteBatch or CheckBatch, how the invocation ended for this command; it is settled at once. The first answer counts:
// Answer reports whether this one does. An error means that it is tried again.
func (j *JobInfo) Answer(o Outcome, err error) bool {
	return j.item.Answer(j.b.settlement(j.item.Cmd, j.item.Inv.Lane, o, err))
}
