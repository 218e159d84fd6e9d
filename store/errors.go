package store

import (
	"errors"
	"fmt"
)

// Sentinels say which case it is; use errors.Is. Typed errors below say what about it.
var (
	ErrNotFound       = errors.New("no such command")
	ErrIDConflict     = errors.New("id is known with other contents")
	ErrUniqueHeld     = errors.New("unique key is held")
	ErrQueueFull      = errors.New("queue is full")
	ErrInvalid        = errors.New("invalid")
	ErrTooLarge       = errors.New("too large")
	ErrConfigConflict = errors.New("configuration was changed by somebody else")
	ErrSchema         = errors.New("store was written by an incompatible version")
	ErrClosed         = errors.New("store is closed")
	ErrState          = errors.New("not possible in the command's status")
	ErrAborted        = errors.New("not submitted: another item of the batch was refused")
	ErrReadOnly       = errors.New("store is out of memory or read-only for new commands")
)

// UniqueHeldError names the command that holds a unique key. It is [ErrUniqueHeld].
type UniqueHeldError struct {
	Key    string
	Holder string
	Status Status
}

func (e *UniqueHeldError) Error() string {
	return fmt.Sprintf("unique key %q is held by command %s (%s)", e.Key, e.Holder, e.Status)
}

func (e *UniqueHeldError) Is(target error) bool { return target == ErrUniqueHeld }

// InvalidError names the field that was refused. It is [ErrInvalid], or [ErrTooLarge] if Max is set.
type InvalidError struct {
	Field  string
	Detail string
	Max    int // bytes or entries that would have been accepted
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Detail }

func (e *InvalidError) Is(target error) bool {
	return target == ErrInvalid || e.Max > 0 && target == ErrTooLarge
}
