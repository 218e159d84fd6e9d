package twolane

import (
	"context"
	"fmt"
	"time"

	"github.com/twolane/twolane/store"
)

// OutboxOptions are the options of [Client.Outbox].
type OutboxOptions struct {
	Ack []uint64 // entries that were delivered: they go, and the records that they kept may
	Max int      // entries to read, at most 1000; 0 only acknowledges
	// HideFor hides what is read from other readers for so long; what is not acknowledged by then shows again. 0 means 30 seconds.
	HideFor time.Duration
}

// OutboxEntry is the end of one command that asked for it with Notify.
type OutboxEntry struct {
	Seq     uint64 // names the entry in Ack
	Command *Command
}

// Outbox acknowledges entries of a topic and reads others: the ends of the commands whose Notify is the topic, each at least once. A lost reply
// hides its entries for a while.
func (c *Client) Outbox(ctx context.Context, topic string, opt OutboxOptions) ([]OutboxEntry, error) {
	if err := store.ValidName("topic", topic); err != nil {
		return nil, err
	}
	switch {
	case opt.Max < 0 || opt.Max > store.MaxItems:
		return nil, invalid("max", "%d is not between 0 and %d", opt.Max, store.MaxItems)
	case len(opt.Ack) > store.MaxItems:
		return nil, invalid("ack", "has %d entries, at most %d are allowed", len(opt.Ack), store.MaxItems)
	case opt.HideFor < 0:
		return nil, invalid("hide_for", "is negative")
	case opt.HideFor == 0:
		opt.HideFor = 30 * time.Second
	}
	var found []store.OutboxEntry
	err := c.call(ctx, func(ctx context.Context, _ int) (err error) {
		found, err = c.store.Outbox(ctx, store.OutboxRequest{Topic: topic, Ack: opt.Ack, Max: opt.Max, HideFor: store.Millis(opt.HideFor.Milliseconds())})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("outbox %s: %w", topic, err)
	}
	entries := make([]OutboxEntry, len(found))
	for i, e := range found {
		entries[i] = OutboxEntry{Seq: e.Seq, Command: c.command(e.Command, 0)}
	}
	return entries, nil
}
