package cloudsim

import (
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"time"
)

// Fault says whether a call fails, and when.
type Fault int

const (
	NoFault     Fault = iota
	FaultBefore       // answered 5xx, nothing happened
	FaultAfter        // answered 5xx, it happened
)

// Plan is what is drawn for one call.
type Plan struct {
	Latency time.Duration
	Fault   Fault
}

// Plan draws the latency and the fault of the next call of a kind ("start", "describe", "delete") for key.
func (c *Cloud) Plan(kind, key string) Plan {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := kind + " " + key
	n := c.calls[name]
	c.calls[name]++
	lo, hi := c.cfg.DescribeMin, c.cfg.DescribeMax
	if kind == "start" {
		lo, hi = c.cfg.StartMin, c.cfg.StartMax
	}
	p := Plan{Latency: lo + time.Duration(c.draw(kind+" latency", key, n)*float64(hi-lo))}
	if kind != "delete" {
		switch x := c.draw(kind+" fault", key, n); {
		case x < c.cfg.ErrorRate/2:
			p.Fault = FaultBefore
		case x < c.cfg.ErrorRate:
			p.Fault = FaultAfter
		}
	}
	if p.Fault != NoFault {
		c.stats.Errors++
	}
	return p
}

// draw is a number in [0, 1) that depends on the seed and its arguments alone.
func (c *Cloud) draw(what, key string, n int) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(what + "\x00" + key + "\x00" + strconv.Itoa(n))) // a hash never fails
	return rand.New(rand.NewPCG(c.cfg.Seed, h.Sum64())).Float64()
}
