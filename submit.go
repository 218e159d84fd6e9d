package twolane

import (
	"context"
	"errors"
	"fmt"

	"github.com/twolane/twolane/store"
)

// SubmitResult answers for one submission.
type SubmitResult struct {
	ID      string // also when there is an error: submit again with it
	Created bool   // false without an error: the command was known already, maybe by an earlier try of this call
	Status  Status // of the command that is known by this id now
	Err     error  // of this item; nil means that the store has it
}

// SubmitOptions are the options of [Client.SubmitMany].
type SubmitOptions struct {
	// Atomic submits all or none, of at most 200 submissions: the refused ones have their error, the others [ErrAborted].
	Atomic bool
}

// Submit hands a command to the store. When it returns without an error, the command is there to stay, as far as the store promises
// durability, and is run whatever happens to this process.
//
// Refusals are [ErrInvalid], [ErrTooLarge], [ErrIDConflict], [ErrUniqueHeld], [ErrQueueFull] and [ErrReadOnly]. After any other error the command may
// or may not be there; submitting again with the ID of the result is safe. Submits that are made at the same time share calls of the store.
func (c *Client) Submit(ctx context.Context, s Submission) (SubmitResult, error) {
	item, err := s.prepare(c.codec)
	res := SubmitResult{ID: item.ID}
	if err == nil {
		var r store.SubmitResult
		if r, err = c.submit(ctx, item); err == nil {
			res.Created, res.Status, err = r.Created || s.ID == "" && r.Err == nil, r.Status, r.Err
		}
	}
	if err != nil {
		res.Err = fmt.Errorf("submit %s: %w", res.ID, err)
	}
	return res, res.Err
}

// SubmitMany submits any number of commands, 500 in a call of the store, and answers for each in order. opt may be nil.
//
// A refused submission does not stop the others, unless opt.Atomic. The returned error is not about single submissions, which carry theirs, but says
// that a call failed, or that an atomic batch was refused; what was not answered then carries it too. Repeating the whole with
// the IDs of the results is safe.
func (c *Client) SubmitMany(ctx context.Context, subs []Submission, opt *SubmitOptions) ([]SubmitResult, error) {
	atomic := opt != nil && opt.Atomic
	results := make([]SubmitResult, len(subs))
	items := make([]store.Submission, 0, len(subs))
	index := make([]int, 0, len(subs)) // of items in subs
	seen := make(map[string]bool, len(subs))
	for i := range subs {
		item, err := subs[i].prepare(c.codec)
		results[i].ID = item.ID
		if err == nil && atomic && seen[item.ID] {
			err = invalid("id", "%s is twice in one atomic batch", item.ID)
		}
		seen[item.ID] = true
		if err != nil {
			results[i].Err = fmt.Errorf("submit %s: %w", item.ID, err)
			continue
		}
		items, index = append(items, item), append(index, i)
	}
	defer func() { // an id that was drawn here was known to nobody before
		for i := range results {
			results[i].Created = results[i].Err == nil && (results[i].Created || subs[i].ID == "")
		}
	}()
	if atomic {
		return results, c.submitAtomic(ctx, items, index, results)
	}
	for len(items) > 0 {
		n := chunk(items)
		if err := c.submitChunk(ctx, store.SubmitRequest{Items: items[:n]}, index[:n], results); err != nil {
			for _, i := range index[n:] {
				results[i].Err = fmt.Errorf("submit %s: not sent: %w", results[i].ID, err)
			}
			return results, err
		}
		items, index = items[n:], index[n:]
	}
	return results, nil
}

// submitAtomic submits items if no other submission of the batch was refused.
func (c *Client) submitAtomic(ctx context.Context, items []store.Submission, index []int, results []SubmitResult) error {
	abort := func(err error) error {
		for _, i := range index {
			if results[i].Err == nil {
				results[i].Err = fmt.Errorf("submit %s: %w", results[i].ID, ErrAborted)
			}
		}
		return err
	}
	if len(results) > store.MaxAtomic {
		return abort(&InvalidError{Field: "submissions", Max: store.MaxAtomic,
			Detail: fmt.Sprintf("are %d, an atomic batch takes at most %d", len(results), store.MaxAtomic)})
	}
	if len(items) == 0 && len(results) == 0 {
		return nil
	}
	if len(items) == len(results) {
		if err := c.submitChunk(ctx, store.SubmitRequest{Items: items, Atomic: true}, index, results); err != nil {
			return err
		}
	}
	for i := range results {
		if err := results[i].Err; err != nil && !errors.Is(err, ErrAborted) {
			return abort(err)
		}
	}
	return nil
}

// chunk is how many of the items go into the next call: bounded, and with no id twice.
func chunk(items []store.Submission) int {
	bytes, seen := 0, make(map[string]bool, min(len(items), chunkItems))
	for n := range items {
		bytes += size(&items[n])
		if n == chunkItems || n > 0 && bytes > chunkBytes || seen[items[n].ID] {
			return n
		}
		seen[items[n].ID] = true
	}
	return len(items)
}

// submitChunk makes one call and files its answers.
func (c *Client) submitChunk(ctx context.Context, req store.SubmitRequest, index []int, results []SubmitResult) error {
	answers, err := c.submitAll(ctx, req)
	for n, i := range index {
		e := err
		if err == nil {
			results[i].Created, results[i].Status, e = answers[n].Created, answers[n].Status, answers[n].Err
		}
		if e != nil {
			results[i].Err = fmt.Errorf("submit %s: %w", results[i].ID, e)
		}
	}
	return err
}

// submitAll calls the store, again if need be. What an earlier try has created is then known already.
func (c *Client) submitAll(ctx context.Context, req store.SubmitRequest) (results []store.SubmitResult, err error) {
	err = c.call(ctx, func(ctx context.Context, _ int) error {
		var err error
		if results, err = c.store.Submit(ctx, req); err == nil && len(results) != len(req.Items) {
			err = fmt.Errorf("store answered %d of %d submissions", len(results), len(req.Items))
		}
		return err
	})
	return results, err
}
