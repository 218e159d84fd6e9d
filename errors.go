package twolane

import (
	"errors"
	"fmt"

	"github.com/twolane/twolane/store"
)

// Errors of the client; use errors.Is. They are those of package store, so that programs need to import only this one.
var (
	ErrNotFound       = store.ErrNotFound       // no such command: it never was, or its retention is over
	ErrIDConflict     = store.ErrIDConflict     // the id is known with another queue, type, params, group or keys
	ErrUniqueHeld     = store.ErrUniqueHeld     // see UniqueHeldError
	ErrQueueFull      = store.ErrQueueFull      // the queue's cap on waiting commands is reached
	ErrInvalid        = store.ErrInvalid        // see InvalidError
	ErrTooLarge       = store.ErrTooLarge       // see InvalidError; also ErrInvalid
	ErrState          = store.ErrState          // not possible in the command's status
	ErrAborted        = store.ErrAborted        // another item of an atomic SubmitMany was refused
	ErrReadOnly       = store.ErrReadOnly       // the store takes no new commands now
	ErrConfigConflict = store.ErrConfigConflict // the configuration kept changing under Configure
	ErrSchema         = store.ErrSchema         // the store was written by an incompatible version
	ErrClosed         = store.ErrClosed         // the client or its store is closed
)

// UniqueHeldError names the command that holds a unique key. It is [ErrUniqueHeld].
type UniqueHeldError = store.UniqueHeldError

// InvalidError names the field that was refused and why. It is [ErrInvalid], and [ErrTooLarge] if Max is set.
type InvalidError = store.InvalidError

// reworded is an error of the store whose words do not fit where it came up.
type reworded struct {
	text string
	is   error
}

func (e *reworded) Error() string { return e.text }
func (e *reworded) Unwrap() error { return e.is }

var (
	errClosed  = &reworded{"the client is closed", ErrClosed}
	errNoLimit = &reworded{"no such limit is in force", ErrNotFound}
)

func invalid(field, format string, args ...any) error {
	return &InvalidError{Field: field, Detail: fmt.Sprintf(format, args...)}
}

// final reports whether the same call would get the same answer again, so that it is not repeated.
func final(err error) bool {
	for _, is := range [...]error{ErrInvalid, ErrTooLarge, ErrSchema, ErrClosed, ErrConfigConflict, ErrNotFound, ErrState, ErrIDConflict, ErrUniqueHeld, ErrQueueFull, ErrReadOnly} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}
