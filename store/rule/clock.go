package rule

import (
	"time"

	"github.com/twolane/twolane/internal/mutant"
	"github.com/twolane/twolane/store"
)

// Clocks are the three numbers kept beside the data of a namespace.
type Clocks struct {
	Last  store.Millis // server time of the last advance
	Run   store.Millis // polls, backoff, rates: never goes back
	Lease store.Millis // leases: as Run, but an outage counts for at most a quarter of the visibility timeout
}

// Now is one moment on the three clocks.
type Now struct {
	Wall  store.Millis // server time
	Run   store.Millis
	Lease store.Millis
}

// Start returns the clocks of a new namespace.
func Start(server store.Millis) Clocks { return Clocks{Last: server, Run: server, Lease: server} }

// Advance returns the clocks at server time. Claim, Renew and Maintain keep the result; other calls only look through it.
func (c Clocks) Advance(server store.Millis, v time.Duration) Clocks {
	d := max(0, server-c.Last)
	if mutant.On(mutant.LeasesOnServerTime) {
		return Clocks{Last: server, Run: c.Run + d, Lease: c.Lease + d}
	}
	return Clocks{Last: server, Run: c.Run + d, Lease: c.Lease + min(d, store.Millis(v.Milliseconds())/4)}
}

// Peek returns the moment for a call that writes and does not advance the clocks. What it sees of the run clock is at most a visibility timeout
// ahead of what is kept: whoever works renews more often, so a greater distance is a step of the server's clock, which may be taken back
// before a call has kept it, and what fell due by it would stand for as long as the step.
func (c Clocks) Peek(server store.Millis, v time.Duration) Now {
	now := c.Advance(server, v).Now()
	now.Run = min(now.Run, c.Run.Add(v))
	return now
}

// Now returns the moment that the clocks show.
func (c Clocks) Now() Now { return Now{Wall: c.Last, Run: c.Run, Lease: c.Lease} }
