package twolane

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/twolane/twolane/store"
)

// PauseMode is what a pause stops.
type PauseMode = store.PauseMode

const (
	PauseNone   = store.PauseNone
	PauseIntake = store.PauseIntake // no Execute starts
	PauseAll    = store.PauseAll    // no Execute or Check starts; cancel visits pass
)

// Pause stops a queue from starting handlers, until a time of the store's clock or, if until is zero, until [Client.Resume]. What runs goes on, deadlines
// too. The pause is part of the configuration: it outlives every process, and needs none to end. A time that has passed pauses nothing.
//
// A queue need not exist to be paused: it is no more than a name that commands carry.
func (c *Client) Pause(ctx context.Context, queue string, mode PauseMode, until time.Time) error {
	switch {
	case mode == PauseNone:
		return fmt.Errorf("pause of %s: %w", queue, invalid("mode", "none pauses nothing"))
	case mode > PauseAll:
		return fmt.Errorf("pause of %s: %w", queue, invalid("mode", "unknown mode %d", mode))
	}
	return c.setPause(ctx, queue, mode, until)
}

// Resume ends a pause. Resuming a queue that is not paused is no error.
func (c *Client) Resume(ctx context.Context, queue string) error {
	return c.setPause(ctx, queue, PauseNone, time.Time{})
}

func (c *Client) setPause(ctx context.Context, queue string, mode PauseMode, until time.Time) error {
	if err := store.ValidName("queue", queue); err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	_, err := c.configure(ctx, func(cfg *Config) error {
		q := cfg.Queues[queue]
		q.Pause, q.PauseUntil = mode, store.At(until)
		if reflect.DeepEqual(q, QueueConfig{}) {
			delete(cfg.Queues, queue)
		} else {
			cfg.Queues[queue] = q
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("pause of %s: %w", queue, err)
	}
	return nil
}
