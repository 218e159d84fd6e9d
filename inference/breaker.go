package inference

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twolane/twolane/gate"
)

// breaker keeps a gateway that fails from being called by everything that waits. After so many failures in a row, without a success, only a probe is sent
// now and then; a success opens it again, doubling, so that a gateway that has just come back is not run over. The requests wait in the store meanwhile: it
// counts for nothing.
type breaker struct {
	gate.Changes
	mu      sync.Mutex
	row     int // failures since the last success
	allowed int // requests in flight that are allowed; 0 is no bound
	next    time.Time
	pause   time.Duration
}

const (
	breakAfter = 20
	probeFirst = 50 * time.Millisecond
	probeLast  = time.Second
)

// Read implements [gate.Gate].
func (b *breaker) Read(now time.Time, s gate.Scope) gate.Reading {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := gate.Reading{Budget: 1, Value: float64(b.row), Threshold: breakAfter, Up: true}
	switch {
	case b.allowed == 0 || s.Permits == 0:
		return r
	case now.Before(b.next):
		r.Budget, r.Opens, r.Reason, r.Detail = 0, b.next, gate.Throttled, "the gateway fails; it is probed"
		return r
	}
	r.Budget = min(1, float64(b.allowed)/float64(s.Permits))
	if r.Budget < 1 {
		r.Reason, r.Detail = gate.Throttled, "the gateway has failed; it is opened again"
	}
	return r
}

// failed notes that the gateway did not answer, or with a failure of its own.
func (b *breaker) failed(now time.Time) {
	b.mu.Lock()
	b.row++
	tripped := b.row >= breakAfter && (b.allowed != 1 || !now.Before(b.next))
	if tripped {
		switch {
		case b.allowed != 1 || b.pause == 0:
			b.pause = probeFirst
		default:
			b.pause = min(2*b.pause, probeLast)
		}
		b.allowed = 1
		b.next = now.Add(b.pause/2 + rand.N(b.pause))
	}
	b.mu.Unlock()
	if tripped {
		b.Changed()
	}
}

// succeeded notes an answer that is no failure. opened says that it ends a time of probes.
func (b *breaker) succeeded(permits int) (opened bool) {
	b.mu.Lock()
	b.row = 0
	was := b.allowed
	if was != 0 {
		opened = !b.next.IsZero()
		b.next, b.pause = time.Time{}, 0
		if b.allowed *= 2; b.allowed >= permits {
			b.allowed = 0
		}
	}
	b.mu.Unlock()
	if was != 0 {
		b.Changed()
	}
	return opened
}

// tripped reports whether the gateway is probed.
func (b *breaker) tripped() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.allowed == 1 && !b.next.IsZero()
}

// claimAhead lets a worker claim a little more than what may be in flight, but only while requests take so little time that what was claimed ahead is sent
// at once.
type claimAhead struct {
	workers int
	mu      sync.Mutex
	took    time.Duration // of late, in the mean
}

// aheadBelow is how long requests may take in the mean to be claimed ahead.
const aheadBelow = 500 * time.Millisecond

func (c *claimAhead) observe(took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took += (took - c.took) / 32
}

// Read implements [gate.Gate].
func (c *claimAhead) Read(_ time.Time, s gate.Scope) gate.Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := gate.Reading{Budget: 1, Value: c.took.Seconds(), Threshold: aheadBelow.Seconds(), Up: true}
	if c.took > aheadBelow && s.Permits > c.workers {
		r.Budget, r.Reason = float64(c.workers)/float64(s.Permits), gate.Full
	}
	return r
}
