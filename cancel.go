package twolane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twolane/twolane/store"
)

// CancelOptions are the options of [Client.Cancel].
type CancelOptions struct {
	Reason string // for people
	// Force ends a command wherever it is, at once and without a visit of its Cancel hook; a worker that has it is told to stop, and its
	// outcome is refused.
	Force bool
}

// CancelResult answers for one command.
type CancelResult struct {
	ID     string
	Status Status // now
	// Requested is true while the command has not ended: a worker has it, or its Cancel hook is to be called.
	Requested bool
	// Err is [ErrNotFound], [ErrState] if it had ended otherwise before, or [ErrInvalid] if ID cannot be that of a command.
	Err error
}

// Cancel asks for the end of commands and answers for each in order. What no worker has ends CANCELLED at once, unless it is PROCESSING and its type has a
// Cancel hook: then a worker calls that first. The context of a handler that runs ends; if it still answers Done or Fail, that
// stands. Every cancel comes to an end, also without workers (by default within 10 minutes). Repeating it gets the same answer. opt may be nil.
func (c *Client) Cancel(ctx context.Context, ids []string, opt *CancelOptions) ([]CancelResult, error) {
	if opt == nil {
		opt = &CancelOptions{}
	}
	if len(opt.Reason) > store.MaxEventText {
		return nil, fmt.Errorf("cancel: %w", invalid("reason", "has %d bytes, at most %d are allowed", len(opt.Reason), store.MaxEventText))
	}
	results := make([]CancelResult, 0, len(ids))
	for len(ids) > 0 {
		n := min(len(ids), chunkItems)
		valid, refused := sift(ids[:n])
		var answers []store.CancelResult
		err := c.call(ctx, func(ctx context.Context, _ int) (err error) {
			if len(valid) == 0 {
				return nil
			}
			answers, err = c.store.Cancel(ctx, store.CancelRequest{IDs: valid, Reason: opt.Reason, Force: opt.Force})
			if err == nil && len(answers) != len(valid) {
				err = fmt.Errorf("store answered %d of %d ids", len(answers), len(valid))
			}
			return err
		})
		if err != nil {
			return results, fmt.Errorf("cancel: %w", err)
		}
		for i, id := range ids[:n] {
			if err := refused[i]; err != nil {
				results = append(results, CancelResult{ID: id, Err: fmt.Errorf("cancel: %w", err)})
				continue
			}
			results, answers = append(results, cancelResult(id, answers[0])), answers[1:]
		}
		ids = ids[n:]
	}
	return results, nil
}

// sift returns those of ids that can be ids of commands, and by their place why the others cannot.
func sift(ids []string) (valid []string, refused map[int]error) {
	for i, id := range ids {
		if err := store.ValidName("id", id); err != nil {
			if refused == nil {
				valid, refused = slices.Clone(ids[:i]), map[int]error{}
			}
			refused[i] = err
		} else if refused != nil {
			valid = append(valid, id)
		}
	}
	if refused == nil {
		valid = ids
	}
	return valid, refused
}

func cancelResult(id string, a store.CancelResult) CancelResult {
	r := CancelResult{ID: id, Status: a.Status, Requested: a.State == store.CancelRequested}
	switch a.State {
	case store.CancelNotFound:
		r.Err = fmt.Errorf("cancel %s: %w", id, ErrNotFound)
	case store.CancelTooLate:
		r.Err = fmt.Errorf("cancel %s: %w: it is %s already", id, ErrState, a.Status)
	}
	return r
}

// CancelMatching cancels the live commands that a filter matches and that were created before the call, page by page. Without a Status
// it takes both PENDING and PROCESSING ones. It returns how many ended or were asked to end; after an error it can be called again.
func (c *Client) CancelMatching(ctx context.Context, f Filter, opt *CancelOptions) (int, error) {
	if f.Status.Terminal() {
		return 0, fmt.Errorf("cancel: %w", invalid("status", "%s commands have ended", f.Status))
	}
	if _, err := f.prepare(); err != nil {
		return 0, fmt.Errorf("cancel: %w", err)
	}
	if f.Before.IsZero() {
		stats, err := c.stats(ctx, store.StatsRequest{Queues: []string{f.Queue}, Overview: true})
		if err != nil {
			return 0, fmt.Errorf("cancel: %w", err)
		}
		f.Before = stats.AsOf.Time().Add(time.Millisecond)
	}
	done := 0
	statuses := []Status{f.Status}
	if f.Status == 0 {
		statuses = []Status{StatusPending, StatusProcessing}
	}
	for _, f.Status = range statuses {
		for cursor, more := "", true; more; more = cursor != "" {
			page, err := c.List(ctx, ListOptions{Filter: f, Cursor: cursor, Limit: chunkItems})
			if err != nil {
				return done, fmt.Errorf("cancel: %w", err)
			}
			cursor = page.Next
			ids := make([]string, 0, len(page.Commands))
			for _, cmd := range page.Commands {
				if cmd.CancelAsked.IsZero() || opt != nil && opt.Force {
					ids = append(ids, cmd.ID)
				}
			}
			results, err := c.Cancel(ctx, ids, opt)
			for _, r := range results {
				if r.Err == nil {
					done++
				} else if !errors.Is(r.Err, ErrState) && !errors.Is(r.Err, ErrNotFound) { // it has ended meanwhile
					return done, r.Err
				}
			}
			if err != nil {
				return done, err
			}
		}
	}
	return done, nil
}
