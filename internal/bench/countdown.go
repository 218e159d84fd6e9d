package bench

import "sync/atomic"

// countdown closes a channel at the n-th call of one.
type countdown struct {
	left atomic.Int64
	done chan struct{}
}

func newCountdown(n int, done chan struct{}) *countdown {
	c := &countdown{done: done}
	c.left.Store(int64(n))
	return c
}

func (c *countdown) one() {
	if c.left.Add(-1) == 0 {
		close(c.done)
	}
}
