package proctest

import (
	"sync"
	"time"
)

// stalls measures how long the machine leaves this process without time. On one that is given more than it can do, processes of others do not
// come in time either, and a bound in seconds of a clock would test the machine.
var stalls = &stallMeter{}

const (
	stallTick = 10 * time.Millisecond
	stallFrom = 50 * time.Millisecond // less is not counted
)

type stallMeter struct {
	mu   sync.Mutex
	list []window
	last int64
}

// run measures until the process ends.
func (m *stallMeter) run() {
	m.last = now()
	for range time.Tick(stallTick) {
		m.mu.Lock()
		at := now()
		if late := at - m.last - int64(stallTick); late > int64(stallFrom) {
			m.list = append(m.list, window{m.last, at})
		}
		m.last = at
		m.mu.Unlock()
	}
}

// between adds up the stalls that touch a time.
func (m *stallMeter) between(from, to int64) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := int64(0)
	for _, w := range m.list {
		sum += max(0, min(w.to, to)-max(w.from, from))
	}
	return time.Duration(sum)
}
