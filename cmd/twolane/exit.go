package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/twolane/twolane"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1 // the operation failed, or a promise was broken
	exitUsage       = 2
	exitNotFound    = 3
	exitUnreachable = 6 // the store does not answer: try again
	exitInterrupted = 130
)

// usageError says that the command line makes no sense.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usage(err error) error { return &usageError{err} }

func usagef(format string, args ...any) error { return usage(fmt.Errorf(format, args...)) }

// errReported ends a verb that has already said what failed.
var errReported = errors.New("failed")

// errInterrupted is the cause of the context after the first Ctrl-C.
var errInterrupted = errors.New("interrupted")

// withoutCanceled takes out of joined errors those that say no more than that the context has ended.
func withoutCanceled(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var left []error
		for _, err := range joined.Unwrap() {
			left = append(left, withoutCanceled(err))
		}
		return errors.Join(left...)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, errInterrupted) {
		return nil
	}
	return err
}

// exitCode maps an error to an exit code; silent says that it was told already.
func exitCode(ctx context.Context, err error) (code int, silent bool) {
	_, isUsage := errors.AsType[*usageError](err)
	_, isNet := errors.AsType[*net.OpError](err)
	switch {
	case isUsage:
		return exitUsage, false
	case errors.Is(context.Cause(ctx), errInterrupted):
		return exitInterrupted, errors.Is(err, errReported) || withoutCanceled(err) == nil
	case errors.Is(err, errReported):
		return exitFailed, true
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, twolane.ErrNotFound):
		return exitNotFound, false
	case isNet:
		return exitUnreachable, false
	}
	return exitFailed, false
}

// interruptible returns a context that ends with the first Ctrl-C or SIGTERM; the second ends the process.
func interruptible(errs io.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-signals:
		case <-done:
			return
		}
		fmt.Fprintln(errs, "twolane: stopping; press Ctrl-C again to end at once")
		cancel(errInterrupted)
		select {
		case <-signals:
			os.Exit(exitInterrupted)
		case <-done:
		}
	})
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		wg.Wait()
		cancel(nil)
	}
}
