package cloudsim

import (
	"maps"
	"time"
)

// Stats are the books of a cloud.
type Stats struct {
	Calls             int // that cost a token or were refused one
	CallsPerSecondMax int // most calls in any second
	CallsPerSecond    int // calls in the last second
	Throttled         int // calls answered 429
	Errors            int // calls answered 5xx

	Started  int // tasks made
	Finished int // tasks that ended by themselves
	Deleted  int
	Live     int // tasks that run now
	LiveMax  int

	Launched   int       // commands that have a task
	LastLaunch time.Time // when the last of them got it

	Invocations   map[string]int // alive now, by worker and lane as "worker/lane"
	Began         map[string]int // in the last second, by lane
	DuplicateRuns int
	Duplicates    []string // the first few of them, in words
}

const maxDuplicates = 10

// Stats returns the books as of now.
func (c *Cloud) Stats(now time.Time) Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reap(now)
	s := c.stats
	s.CallsPerSecond = c.window.count(now)
	s.Duplicates = append([]string(nil), s.Duplicates...)
	s.Invocations = maps.Clone(c.alive.count)
	s.Began = make(map[string]int, len(c.alive.began))
	for lane, w := range c.alive.began {
		s.Began[lane] = w.count(now)
	}
	return s
}

// duplicate counts a duplicate run. The caller holds the lock.
func (c *Cloud) duplicate(what string) {
	c.stats.DuplicateRuns++
	if len(c.stats.Duplicates) < maxDuplicates {
		c.stats.Duplicates = append(c.stats.Duplicates, what)
	}
}
