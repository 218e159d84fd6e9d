package twolane

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/twolane/twolane/store"
)

// Filter matches commands. Queue is required; zero fields match all.
type Filter struct {
	Queue  string
	Status Status
	Reason Reason // of FAILED
	Type   string
	Group  string
	// After and Before match what was created (live commands) or ended (finished ones) at or after the one and before the other.
	After, Before time.Time
}

func (f *Filter) prepare() (store.Filter, error) {
	s := store.Filter{Queue: f.Queue, Status: f.Status, Reason: f.Reason, Type: f.Type, Group: f.Group, After: store.At(f.After), Before: store.At(f.Before)}
	if err := store.ValidName("queue", f.Queue); err != nil {
		return s, err
	}
	for _, n := range [...]struct{ field, value string }{{"type", f.Type}, {"group", f.Group}} {
		if n.value != "" {
			if err := store.ValidName(n.field, n.value); err != nil {
				return s, err
			}
		}
	}
	switch {
	case f.Status > StatusCancelled:
		return s, invalid("status", "unknown status %d", f.Status)
	case f.Reason != "" && f.Status != StatusFailed:
		return s, invalid("reason", "is of FAILED commands only")
	case s.After != 0 && s.Before != 0 && s.After >= s.Before:
		return s, invalid("after", "is not before %s", f.Before)
	}
	return s, nil
}

// ListOptions ask for commands.
type ListOptions struct {
	Filter        // List needs its Status, too
	Place  Place  // narrows live commands, if set
	Cursor string // of the page before
	Limit  int    // of a page: at most 1000; 0 means 100
}

// Page is one page of a list.
type Page struct {
	Commands []*Command // without Params, State, Result, Progress, Metadata and Events
	Next     string     // Cursor of the next page; empty at the end
}

// List reads one page: finished commands newest end first, live ones in an order of the store's choice. A page may be short or empty while there is
// a next one.
func (c *Client) List(ctx context.Context, opt ListOptions) (Page, error) {
	f, err := opt.prepare()
	switch {
	case err != nil:
		return Page{}, fmt.Errorf("list: %w", err)
	case f.Status == 0:
		return Page{}, fmt.Errorf("list: %w", invalid("status", "is required"))
	case opt.Limit < 0 || opt.Limit > store.MaxItems:
		return Page{}, fmt.Errorf("list: %w", invalid("limit", "%d is not between 0 and %d", opt.Limit, store.MaxItems))
	}
	var page store.ListPage
	err = c.call(ctx, func(ctx context.Context, _ int) (err error) {
		page, err = c.store.List(ctx, store.ListRequest{Filter: f, Place: opt.Place, Cursor: opt.Cursor, Limit: opt.Limit})
		return err
	})
	if err != nil {
		return Page{}, fmt.Errorf("list: %w", err)
	}
	ahead, err := c.ahead(ctx, page.Commands)
	if err != nil {
		return Page{}, fmt.Errorf("list: %w", err)
	}
	p := Page{Next: page.Cursor, Commands: make([]*Command, len(page.Commands))}
	for i, s := range page.Commands {
		p.Commands[i] = c.command(s, ahead)
	}
	return p, nil
}

// All yields every command that opt matches, page by page; without a Status, one status after the other, so that a command that changes meanwhile
// may come twice or not at all. An error is yielded once, as the last.
func (c *Client) All(ctx context.Context, opt ListOptions) iter.Seq2[*Command, error] {
	return func(yield func(*Command, error) bool) {
		statuses := []Status{opt.Status}
		if opt.Status == 0 {
			statuses = []Status{StatusPending, StatusProcessing, StatusSucceeded, StatusFailed, StatusCancelled}
		}
		for _, opt.Status = range statuses {
			for {
				page, err := c.List(ctx, opt)
				if err != nil {
					yield(nil, err)
					return
				}
				for _, cmd := range page.Commands {
					if !yield(cmd, nil) {
						return
					}
				}
				if opt.Cursor = page.Next; opt.Cursor == "" {
					break
				}
			}
		}
	}
}
