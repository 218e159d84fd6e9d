package twolane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twolane/twolane/store"
)

// Selection says which commands an operation is for; see [IDs] and [Matching]. The zero value selects none.
type Selection struct {
	ids    []string
	filter *Filter
}

// IDs selects commands by id.
func IDs(ids ...string) Selection { return Selection{ids: ids} }

// Matching selects the commands that f matches. Those that arrive after the operation has begun are left alone. Without a Status it is every status that the operation can be done to;
// Delete needs one.
func Matching(f Filter) Selection { return Selection{filter: &f} }

// ActOptions are the options of the operations on selected commands; nil is the zero value.
type ActOptions struct {
	By string // who does it, for the command's events
	// PerSecond paces an operation by filter: at most so many commands in a second; 0 does not.
	PerSecond float64
	// Resume goes on where an operation by filter stopped: [ActResult.Resume].
	Resume string

	As       RetryAs   // of Retry
	Deadline time.Time // of Retry: the new one; required if the old has passed
	Force    bool      // of Delete: also what a worker has, and what the outbox has not delivered
}

// RetryAs says in which lane a retried command starts again.
type RetryAs = store.RetryAs

const (
	AsBefore  = store.AsBefore  // where it was when it ended
	AsExecute = store.AsExecute // PENDING
	AsCheck   = store.AsCheck   // PROCESSING with the state that it had
)

// ActResult says what an operation did.
type ActResult struct {
	Done    int     // commands that it was done to; after repeated calls at least so many
	Results []error // of [IDs], in order: nil is done; [ErrNotFound], [ErrState], [ErrInvalid] for what is no id, a [UniqueHeldError], …
	Resume  string  // not empty after an operation by filter that did not come to its end
}

// Retry brings FAILED and CANCELLED commands back to life under their ids, with no failures and losses counted.
func (c *Client) Retry(ctx context.Context, what Selection, opt *ActOptions) (ActResult, error) {
	return c.act(ctx, "retry", store.ActRequest{Kind: store.ActRetry}, what, opt, StatusFailed, StatusCancelled)
}

// Delete removes commands with all that is known of them, their ids too. What a worker has is left alone, unless opt.Force; cancel is the
// gentle way.
func (c *Client) Delete(ctx context.Context, what Selection, opt *ActOptions) (ActResult, error) {
	return c.act(ctx, "delete", store.ActRequest{Kind: store.ActDelete}, what, opt)
}

// Purge deletes finished commands that f matches: those that have ended when it begins. It works in small steps and can be resumed.
func (c *Client) Purge(ctx context.Context, f Filter, opt *ActOptions) (ActResult, error) {
	return c.act(ctx, "purge", store.ActRequest{Kind: store.ActDelete}, Matching(f), opt, StatusSucceeded, StatusFailed, StatusCancelled)
}

// Move puts live commands that no worker has into another queue.
func (c *Client) Move(ctx context.Context, what Selection, queue string, opt *ActOptions) (ActResult, error) {
	return c.act(ctx, "move", store.ActRequest{Kind: store.ActMove, Queue: queue}, what, opt, StatusPending, StatusProcessing)
}

// RunNow ends the waiting of commands for not_before, for a backoff, or for their next poll.
func (c *Client) RunNow(ctx context.Context, what Selection, opt *ActOptions) (ActResult, error) {
	return c.act(ctx, "run now", store.ActRequest{Kind: store.ActRunNow}, what, opt, StatusPending, StatusProcessing)
}

// Reprioritise sets the priority of live commands, 0 first.
func (c *Client) Reprioritise(ctx context.Context, what Selection, priority uint8, opt *ActOptions) (ActResult, error) {
	return c.act(ctx, "reprioritise", store.ActRequest{Kind: store.ActReprioritise, Priority: priority}, what, opt, StatusPending, StatusProcessing)
}

// act does req to what is selected. possible are the statuses that it can be done to; none is any, of which a filter must name one.
func (c *Client) act(ctx context.Context, verb string, req store.ActRequest, what Selection, opt *ActOptions, possible ...Status) (res ActResult, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", verb, err)
		}
	}()
	if opt == nil {
		opt = &ActOptions{}
	}
	req.By, req.As, req.Deadline, req.Force = opt.By, opt.As, store.At(opt.Deadline), opt.Force
	switch {
	case req.Kind == store.ActMove:
		if err := store.ValidName("queue", req.Queue); err != nil {
			return res, err
		}
	case opt.As > AsCheck:
		return res, invalid("as", "unknown way %d to retry", opt.As)
	}
	if len(opt.By) > store.MaxEventText {
		return res, invalid("by", "has %d bytes, at most %d are allowed", len(opt.By), store.MaxEventText)
	}
	if opt.PerSecond < 0 {
		return res, invalid("per_second", "is negative")
	}
	if what.filter == nil {
		return c.actIDs(ctx, req, what.ids)
	}
	f, err := what.filter.prepare()
	if err != nil {
		return res, err
	}
	statuses := possible
	switch {
	case f.Status != 0 && len(possible) > 0 && !slices.Contains(possible, f.Status):
		return res, invalid("status", "cannot be done to %s commands", f.Status)
	case f.Status != 0:
		statuses = []Status{f.Status}
	case len(possible) == 0:
		return res, invalid("status", "is required")
	}
	return c.actMatching(ctx, req, f, statuses, opt)
}

// actIDs does req to commands by id.
func (c *Client) actIDs(ctx context.Context, req store.ActRequest, ids []string) (ActResult, error) {
	var res ActResult
	for len(ids) > 0 {
		n := min(len(ids), chunkItems)
		valid, refused := sift(ids[:n])
		var reply store.ActReply
		if len(valid) > 0 {
			req.IDs = valid
			var again bool
			var err error
			if reply, again, err = c.actOnce(ctx, req); err == nil && again {
				err = c.credit(ctx, &req, &reply)
			}
			if err != nil {
				return res, err
			}
		}
		res.Done += reply.Done
		for i := range n {
			if err := refused[i]; err != nil {
				res.Results = append(res.Results, err)
				continue
			}
			res.Results, reply.Results = append(res.Results, reply.Results[0]), reply.Results[1:]
		}
		ids = ids[n:]
	}
	return res, nil
}

// actOnce makes one call, and reports whether an earlier try of it may have done something.
func (c *Client) actOnce(ctx context.Context, req store.ActRequest) (reply store.ActReply, again bool, err error) {
	err = c.call(ctx, func(ctx context.Context, try int) (err error) {
		again = try > 0
		if reply, err = c.store.Act(ctx, req); err == nil && req.Filter == nil && len(reply.Results) != len(req.IDs) {
			err = fmt.Errorf("store answered %d of %d ids", len(reply.Results), len(req.IDs))
		}
		return err
	})
	return reply, again, err
}

// credit turns the refusals of a repeated call into what an earlier try of it has done: the deleted is gone, the retried lives.
func (c *Client) credit(ctx context.Context, req *store.ActRequest, reply *store.ActReply) error {
	var refused []int
	var ids []string
	for i, err := range reply.Results {
		switch {
		case req.Kind == store.ActDelete && errors.Is(err, ErrNotFound):
			reply.Results[i] = nil
			reply.Done++
		case req.Kind == store.ActRetry && errors.Is(err, ErrState):
			refused, ids = append(refused, i), append(ids, req.IDs[i])
		}
	}
	if len(ids) == 0 {
		return nil
	}
	found, err := c.read(ctx, ids, store.GetOptions{NoBlobs: true})
	if err != nil {
		return err
	}
	for n, i := range refused {
		if found[n] != nil && !found[n].Status.Terminal() {
			reply.Results[i] = nil
			reply.Done++
		}
	}
	return nil
}

// actMatching does req to what f matches, in small steps, one status after the other.
func (c *Client) actMatching(ctx context.Context, req store.ActRequest, f store.Filter, statuses []Status, opt *ActOptions) (ActResult, error) {
	var res ActResult
	at := resume{status: statuses[0]}
	if opt.Resume != "" {
		var err error
		if at, err = parseResume(opt.Resume); err != nil || !slices.Contains(statuses, at.status) {
			return res, invalid("resume", "%q is not of this operation", opt.Resume)
		}
	}
	req.Filter, req.Limit = &f, 100
	if opt.PerSecond > 0 {
		req.Limit = int(max(1, min(100, opt.PerSecond/10)))
	}
	for _, status := range statuses[slices.Index(statuses, at.status):] {
		at.status, f.Status = status, status
		for more := true; more; more = at.cursor != "" {
			req.Cursor, req.UpTo = at.cursor, at.upTo
			reply, _, err := c.actOnce(ctx, req)
			if err != nil {
				res.Resume = at.String()
				return res, err
			}
			at.cursor, at.upTo = reply.Cursor, reply.UpTo
			res.Done += reply.Done
			if opt.PerSecond > 0 && reply.Done > 0 && !sleep(ctx, time.Duration(float64(reply.Done)/opt.PerSecond*float64(time.Second))) {
				if at.cursor != "" || status != statuses[len(statuses)-1] {
					res.Resume = at.String()
					return res, context.Cause(ctx)
				}
			}
		}
	}
	return res, nil
}

// resume is where an operation by filter stands.
type resume struct {
	status Status
	upTo   uint64
	cursor string
}

func (r resume) String() string { return fmt.Sprintf("%d.%d.%s", r.status, r.upTo, r.cursor) }

func parseResume(s string) (r resume, err error) {
	parts := strings.SplitN(s, ".", 3)
	if len(parts) != 3 {
		return r, errors.New("three parts wanted")
	}
	status, err := strconv.ParseUint(parts[0], 10, 8)
	if err != nil {
		return r, err
	}
	r.status, r.cursor = Status(status), parts[2]
	r.upTo, err = strconv.ParseUint(parts[1], 10, 64)
	return r, err
}
