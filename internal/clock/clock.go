// Package clock reads the time that leases are counted on: monotonic, and going on while the machine is suspended where the
// system can tell.
//
// Go's own monotonic clock stands still while a Linux machine is suspended, so a worker that slept for ten minutes would believe that
// its leases are fresh. [Clock] adds the difference between the boot-time clock and the monotonic clock. In a
// testing/synctest bubble the difference does not move, and the clock shows the bubble's time.
package clock

import (
	"sync"
	"time"
)

// recheck is how stale the reading of the suspended time may be: reading it costs two system calls.
const recheck = 10 * time.Millisecond

// Clock is a stopwatch that starts with New. It may be used concurrently.
type Clock struct {
	origin    time.Time
	suspended func() time.Duration // time the machine was suspended since boot

	mu    sync.Mutex    // guards the fields below
	base  time.Duration // suspended at New
	extra time.Duration // suspended since New
	read  time.Duration // when extra was read, without suspends
}

// New returns a clock that shows zero now.
func New() *Clock { return newClock(suspended) }

func newClock(s func() time.Duration) *Clock {
	return &Clock{origin: time.Now(), suspended: s, base: s()}
}

// Now is the time since New, suspends included where they can be seen. It never goes back. A suspend is seen at the latest 10 ms after it
// ended.
func (c *Clock) Now() time.Duration {
	mono := time.Since(c.origin)
	c.mu.Lock()
	defer c.mu.Unlock()
	if mono-c.read >= recheck || c.read == 0 {
		c.read = mono
		// The two clocks are read one after the other: a difference below a millisecond is the reading's own.
		if d := c.suspended() - c.base; d > c.extra+time.Millisecond {
			c.extra = d
		}
	}
	return mono + c.extra
}

// Time converts a reading of the clock to wall-clock time, for context deadlines.
func (c *Clock) Time(at time.Duration) time.Time { return time.Now().Add(at - c.Now()) }
