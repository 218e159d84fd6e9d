package cloudsim

import (
	"fmt"
	"time"
)

// invocation is one announced call of a handler.
type invocation struct {
	id, worker, lane string
	commands         []string
}

// invocations are those that are alive.
type invocations struct {
	byID    map[string]*invocation
	command map[string]*invocation // the latest of each command
	count   map[string]int         // by "worker/lane"
	early   map[string]bool        // ended before their begin arrived
	began   map[string]*window     // by lane
}

func newInvocations() invocations {
	return invocations{byID: map[string]*invocation{}, command: map[string]*invocation{}, count: map[string]int{},
		early: map[string]bool{}, began: map[string]*window{}}
}

// Begin announces an invocation of worker for commands. The same id again changes nothing. Each command that is alive in
// another invocation counts as a duplicate run.
func (c *Cloud) Begin(now time.Time, worker, lane, id string, commands []string) {
	if c.begin(now, worker, lane, id, commands) && c.cfg.OnBegin != nil {
		c.cfg.OnBegin(now, worker, lane)
	}
}

func (c *Cloud) begin(now time.Time, worker, lane, id string, commands []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.alive.byID[id] != nil || c.alive.early[id] {
		return false
	}
	inv := &invocation{id: id, worker: worker, lane: lane, commands: commands}
	for _, cmd := range commands {
		if other := c.alive.command[cmd]; other != nil {
			c.duplicate(fmt.Sprintf("command %s runs in %s (%s) and in %s (%s)", cmd, other.worker, other.lane, worker, lane))
		}
		c.alive.command[cmd] = inv
	}
	c.alive.byID[id] = inv
	c.alive.count[worker+"/"+lane]++
	if c.alive.began[lane] == nil {
		c.alive.began[lane] = &window{span: time.Second}
	}
	c.alive.began[lane].add(now)
	return true
}

// End announces that an invocation is about to return. If its begin has not arrived, it will change nothing when it does.
func (c *Cloud) End(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	inv := c.alive.byID[id]
	if inv == nil {
		c.alive.early[id] = true
		return
	}
	c.end(inv)
}

// WorkerGone ends the invocations of a worker whose process has been seen to end.
func (c *Cloud) WorkerGone(worker string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, inv := range c.alive.byID {
		if inv.worker == worker {
			c.end(inv)
		}
	}
}

func (c *Cloud) end(inv *invocation) {
	delete(c.alive.byID, inv.id)
	for _, cmd := range inv.commands {
		if c.alive.command[cmd] == inv {
			delete(c.alive.command, cmd)
		}
	}
	where := inv.worker + "/" + inv.lane
	if c.alive.count[where]--; c.alive.count[where] == 0 {
		delete(c.alive.count, where)
	}
}
