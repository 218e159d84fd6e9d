package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// After Ctrl-C nobody is told that contexts were cancelled, but what could not be cleaned up is said.
func TestInterruptionIsNoError(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	probe := fmt.Errorf("floor probe: %w", context.Canceled)
	for _, c := range []struct {
		err    error
		silent bool
	}{
		{errInterrupted, true},
		{context.Canceled, true},
		{errors.Join(errors.Join(probe, probe), context.Canceled), true},
		{errors.Join(probe, errors.New("drop namespace x: no route to host")), false},
	} {
		if code, silent := exitCode(ctx, c.err); code != exitInterrupted || silent != c.silent {
			t.Errorf("%v: code %d, silent %v", c.err, code, silent)
		}
	}
	left := withoutCanceled(errors.Join(probe, errors.New("drop namespace x: no route to host")))
	if left == nil || left.Error() != "drop namespace x: no route to host" {
		t.Errorf("told: %v", left)
	}
}
