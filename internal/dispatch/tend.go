package dispatch

import (
	"time"

	"github.com/twolane/twolane/store"
)

// tender does the upkeep of the namespace while no claim does it: a worker whose permits are all held still reaps, expires and promotes.
type tender struct {
	done   time.Duration // when any call of ours did upkeep
	flight bool
	bad    backoff
	more   int
}

const upkeepEvery = time.Second

func (t *tender) wake(c *Core) time.Duration {
	if t.flight || c.drain.on || !c.renew.reg || c.claim.flight || c.claim.call != nil {
		return 0
	}
	at := t.done + upkeepEvery
	if c.roomy() { // the claim that is about to be made does it
		at = max(at, min(c.claim.next+1, t.done+upkeepEvery*5/4))
	}
	return max(1, at, t.bad.after)
}

func (c *Core) stepTend(now time.Duration) {
	if at := c.tend.wake(c); at == 0 || now < at {
		return
	}
	c.tend.flight = true
	c.out.Maintain = &MaintainCall{Timeout: max(c.v/8, time.Millisecond)}
}

// Maintained takes the answer to a call of Maintain.
func (c *Core) Maintained(now time.Duration, reply store.MaintainReply, err error) {
	t := &c.tend
	t.flight = false
	if err != nil {
		c.failed(now, &t.bad, "maintain", err)
		return
	}
	c.worked(now, &t.bad, "maintain")
	c.replied(now, &reply)
	if t.more++; reply.More && t.more < moreMany {
		t.done = now - upkeepEvery
		return
	}
	t.more = 0
}
