package demo

import (
	"sync"
	"time"
)

// StallMeter measures the longest time with an eligible command, a free intake permit, a token, and no start. It hears of each
// start when it happens and of the rest by samples, so it is exact to about one sample. Tokens are counted in a copy of the
// intake lane's bucket that only starts take from. Its methods may be called concurrently.
type StallMeter struct {
	mu      sync.Mutex
	rate    float64 // tokens per second
	burst   float64
	tokens  float64
	filled  time.Time // when tokens was right
	holds   bool      // at the last sample something could start
	since   time.Time // since when something could have started and nothing has
	longest time.Duration
}

// NewStallMeter returns a meter for a lane with this rate and burst.
func NewStallMeter(rate float64, burst int) *StallMeter {
	return &StallMeter{rate: rate, burst: float64(burst), tokens: float64(burst)}
}

// Started says that an invocation of the intake lane began.
func (m *StallMeter) Started(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.holds {
		m.reach(now)
	}
	m.fill(now)
	m.tokens = max(0, m.tokens-1)
	m.since = now.Add(m.untilToken())
}

// Sample says what could be seen at now: how many commands were eligible, how many intake permits free.
func (m *StallMeter) Sample(now time.Time, eligible, free int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	could := eligible > 0 && free > 0
	switch {
	case !could:
		m.holds = false
	case m.holds:
		m.reach(now)
	default:
		m.holds = true
		m.fill(now)
		if at := now.Add(m.untilToken()); at.After(m.since) {
			m.since = at
		}
	}
}

// Longest returns the longest stall so far.
func (m *StallMeter) Longest() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.longest
}

func (m *StallMeter) reach(now time.Time) { m.longest = max(m.longest, now.Sub(m.since)) }

func (m *StallMeter) fill(now time.Time) {
	if !m.filled.IsZero() {
		m.tokens = min(m.burst, m.tokens+max(0, now.Sub(m.filled).Seconds())*m.rate)
	}
	m.filled = now
}

func (m *StallMeter) untilToken() time.Duration {
	if m.tokens >= 1 {
		return 0
	}
	return time.Duration((1 - m.tokens) / m.rate * float64(time.Second))
}
