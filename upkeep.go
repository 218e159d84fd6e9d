package twolane

import (
	"context"
	"errors"
	"time"

	"github.com/twolane/twolane/store"
)

const (
	tickEvery   = time.Second
	tickTimeout = 2500 * time.Millisecond
	tickMost    = 5 * time.Second // between two tries while the store fails
	tickBurst   = 10              // calls in a row while the store says that there is more
)

// didUpkeep notes that a call of this process has just done what Maintain does, as Claim and Renew do.
func (c *Client) didUpkeep() { c.upkept.Store(time.Now().UnixNano()) }

// upkeep calls Maintain once a second until the client is closed, unless somebody else in this process just did the same.
func (c *Client) upkeep() {
	pause, failing := tickEvery, false
	untold := 3 // tries
	for sleep(c.ctx, pause) {
		if untold > 0 && !failing {
			if untold--; c.tellWarnings() {
				untold = 0
			}
		}
		if since := time.Since(time.Unix(0, c.upkept.Load())); since < tickEvery/2 && !failing {
			pause = tickEvery - since
			continue
		}
		err := c.maintain()
		switch {
		case c.ctx.Err() != nil:
			return
		case errors.Is(err, ErrClosed):
			c.log.Warn("the store was closed before its client: no more upkeep")
			return
		case err != nil:
			if !failing {
				c.log.Warn("upkeep fails: due times, deadlines and dead workers wait for it", "error", err)
			}
			failing, pause = true, jitter(min(max(2*pause, 2*tickEvery), tickMost))
		default:
			if failing {
				c.log.Info("upkeep works again")
			}
			failing, pause = false, tickEvery
		}
	}
}

// tellWarnings logs what an operator should change in the store's settings, and reports whether the store has said what there is.
func (c *Client) tellWarnings() bool {
	d, ok := c.store.(store.Describer)
	if !ok {
		return true
	}
	ctx, cancel := context.WithTimeout(c.ctx, tickTimeout)
	defer cancel()
	desc, err := d.Describe(ctx)
	if err != nil {
		return false // that the store does not answer is said elsewhere
	}
	for _, w := range desc.Warnings {
		c.log.Warn("a setting of the store: "+w, "kind", desc.Kind, "durability", desc.Durability)
	}
	return true
}

// maintain does all the upkeep that is there, in bounded steps.
func (c *Client) maintain() error {
	for n := 1; ; n++ {
		ctx, cancel := context.WithTimeout(c.ctx, tickTimeout)
		reply, err := c.store.Maintain(ctx)
		cancel()
		if err != nil {
			return err
		}
		c.didUpkeep()
		if !reply.More {
			return nil
		}
		if n%tickBurst == 0 && !sleep(c.ctx, 10*time.Millisecond) {
			return nil
		}
	}
}
