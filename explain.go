package twolane

import (
	"context"
	"fmt"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// Wait is a stable code for what a command waits for.
type Wait string

const (
	WaitNotBefore Wait = "not_before"      // its first time to run
	WaitBackoff   Wait = "backoff"         // the end of the pause after a failure, a snooze or a loss
	WaitPoll      Wait = "poll"            // the time of its next Check
	WaitPaused    Wait = "queue_paused"    // the end of a pause
	WaitNoWorker  Wait = "no_worker"       // a worker that serves its queue and can run its type in its lane
	WaitGate      Wait = "gate"            // a gate of the workers that could run it
	WaitPermits   Wait = "permits"         // a permit: all that there are are taken
	WaitRate      Wait = "rate"            // a token of the queue's rate
	WaitLimit     Wait = "limit"           // room under a limit, or a token of a rate limit
	WaitTurn      Wait = "turn"            // nothing but the next claim, and those before it
	WaitCancel    Wait = "cancel_visit"    // a worker that calls its Cancel hook
	WaitHandler   Wait = "handler"         // its handler, which runs
	WaitOverdue   Wait = "handler_overdue" // its handler, which ignores the end of its time
	WaitLease     Wait = "lease_expiry"    // the end of the lease of a worker that is gone
	WaitNothing   Wait = "ended"           // it has ended
)

// Explanation says what one command waits for, who has it, and when it will move. The numbers are those that the store decides by.
type Explanation struct {
	Command *Command // without Params, State, Result, Progress and Metadata
	AsOf    time.Time
	Wait    Wait   // the first thing that it waits for
	Text    string // one or two sentences for people; they may change
	// Also are further things that stand in the way and would stop it next.
	Also []Wait
	// Until is when it moves by time alone, at the latest; zero if that is unknown or never.
	Until time.Time
	// EndsAt is when its deadline or start_by ends it; zero if nothing does.
	EndsAt time.Time

	// Of what is leased: who has it, since when, and until when if its worker does not renew.
	Worker     string // id
	WorkerName string // "name on host, pid n", or empty if the worker is not alive any more
	Since      time.Time
	LeaseUntil time.Time

	// Of what could run: commands of its lane that go before it (a lower bound if AheadAtLeast), and the permits of the workers that can run it.
	Ahead         int
	AheadAtLeast  bool
	Permits, Free int
	// Limit is what stops it, if a limit does.
	Limit *LimitWait
	// Gate is what stops it, if a gate does: of those of the workers that could run it the one that opens first, as its worker last said.
	Gate *store.GateState
}

// Explain says why a command stands where it stands. It makes a few bounded calls.
func (c *Client) Explain(ctx context.Context, id string) (Explanation, error) {
	e, err := c.explain(ctx, id)
	if err != nil {
		return e, fmt.Errorf("explain %s: %w", id, err)
	}
	return e, nil
}

func (c *Client) explain(ctx context.Context, id string) (Explanation, error) {
	if err := store.ValidName("id", id); err != nil {
		return Explanation{}, err
	}
	found, err := c.read(ctx, []string{id}, store.GetOptions{NoBlobs: true})
	if err != nil {
		return Explanation{}, err
	}
	if found[0] == nil {
		return Explanation{}, ErrNotFound
	}
	r := found[0]
	stats, cfg, err := c.statsAndConfig(ctx, []string{r.Queue})
	if err != nil {
		return Explanation{}, err
	}
	x := explainer{r: r, s: &stats, q: cfg.Queue(r.Queue), now: rule.Now{Wall: stats.AsOf, Run: stats.Run, Lease: stats.LeaseAt}}
	x.Command, x.AsOf = c.command(r, stats.Run.Sub(stats.AsOf)), stats.AsOf.Time()
	if x.inTurn() {
		if err := c.countAhead(ctx, &x); err != nil {
			return Explanation{}, err
		}
		if err := c.findLimit(ctx, &cfg, &x); err != nil {
			return Explanation{}, err
		}
	}
	x.explain()
	return x.Explanation, nil
}

// Bounds of counting what goes before a command.
const (
	aheadPages = 3
	aheadPage  = 1000
)

// countAhead counts the commands that have their turn before x.r, in the order in which claims take them.
func (c *Client) countAhead(ctx context.Context, x *explainer) error {
	req := store.ListRequest{Filter: store.Filter{Queue: x.r.Queue, Status: x.r.Status}, Place: store.InLine, Limit: aheadPage}
	for range aheadPages {
		var page store.ListPage
		err := c.call(ctx, func(ctx context.Context, _ int) (err error) {
			page, err = c.store.List(ctx, req)
			return err
		})
		if err != nil {
			return err
		}
		for _, o := range page.Commands {
			if o.ID != x.r.ID && rule.Claimable(x.now, o) && before(x.q.Order, o, x.r) {
				x.Ahead++
			}
		}
		if req.Cursor = page.Cursor; req.Cursor == "" {
			return nil
		}
	}
	x.AheadAtLeast = true
	return nil
}

// before reports whether a goes before b.
func before(order store.Order, a, b *store.Command) bool {
	if ca, cb := rule.Class(a).Visit(), rule.Class(b).Visit(); ca != cb {
		return ca
	}
	sa, sb := rule.Score(order, a), rule.Score(order, b)
	return sa < sb || sa == sb && a.ID < b.ID
}
