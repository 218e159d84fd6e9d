package cloudsim

import (
	"container/heap"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

// MaxDescribe is how many ids one describe call takes.
const MaxDescribe = 100

// Config says how the cloud behaves. Zero durations and rates are taken as they are, see [Defaults].
type Config struct {
	Rate  float64 // calls per second that the bucket admits
	Burst int

	StartMin, StartMax       time.Duration // latency of a start call
	DescribeMin, DescribeMax time.Duration // latency of every other call
	TaskMin, TaskMax         time.Duration // how long a task runs

	ErrorRate float64 // part of the start and describe calls that fail, half of them after the effect
	Seed      uint64

	// OnBegin, if set, is told of every invocation that begins, in the goroutine of its announcement.
	OnBegin func(now time.Time, worker, lane string)
}

// Defaults is the cloud of the demo: 40 calls per second with a burst of 10, start calls of 50 to 500 ms, tasks of 10 to 20 s.
func Defaults() Config {
	return Config{
		Rate: 40, Burst: 10,
		StartMin: 50 * time.Millisecond, StartMax: 500 * time.Millisecond,
		DescribeMin: 20 * time.Millisecond, DescribeMax: 100 * time.Millisecond,
		TaskMin: 10 * time.Second, TaskMax: 20 * time.Second,
	}
}

// Validate names what makes no sense.
func (c *Config) Validate() error {
	switch {
	case !(c.Rate > 0) || math.IsInf(c.Rate, 0):
		return fmt.Errorf("cloudsim: rate %v is not above 0", c.Rate)
	case c.Burst < 1:
		return fmt.Errorf("cloudsim: burst %d is below 1", c.Burst)
	case c.StartMin < 0 || c.StartMax < c.StartMin, c.DescribeMin < 0 || c.DescribeMax < c.DescribeMin,
		c.TaskMin < 0 || c.TaskMax < c.TaskMin:
		return errors.New("cloudsim: a duration is negative, or its maximum is below its minimum")
	case !(c.ErrorRate >= 0 && c.ErrorRate < 1):
		return fmt.Errorf("cloudsim: error rate %v is not in [0, 1)", c.ErrorRate)
	}
	return nil
}

// Status is the state of a task.
type Status string

const (
	Running Status = "RUNNING"
	Done    Status = "SUCCEEDED"
	Deleted Status = "DELETED"
	Unknown Status = "UNKNOWN" // no task has this id
)

// Task is what the cloud says about one task.
type Task struct {
	ID     string `json:"id"`
	Status Status `json:"status"`
}

type task struct {
	id      string
	command string
	ends    time.Time
	deleted bool
}

func (t *task) status(now time.Time) Status {
	switch {
	case t.deleted:
		return Deleted
	case now.Before(t.ends):
		return Running
	}
	return Done
}

// Cloud is the state of the simulated cloud. Its methods may be called concurrently. Time that
// goes back counts as time that stands still.
type Cloud struct {
	cfg Config

	mu      sync.Mutex
	bucket  bucket
	window  window
	tasks   map[string]*task // by id
	byKey   map[string]*task // by idempotency key
	command map[string]*task // first task of a command
	ends    endHeap          // of the tasks that run
	calls   map[string]int   // calls of each kind and key, for the draw of errors
	alive   invocations
	stats   Stats
}

// New returns an empty cloud; cfg must be valid.
func New(cfg Config) (*Cloud, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Cloud{
		cfg:     cfg,
		bucket:  bucket{rate: cfg.Rate, burst: float64(cfg.Burst), tokens: float64(cfg.Burst)},
		window:  window{span: time.Second},
		tasks:   map[string]*task{},
		byKey:   map[string]*task{},
		command: map[string]*task{},
		calls:   map[string]int{},
		alive:   newInvocations(),
	}, nil
}

// Admit takes a token for one call. Without one it answers false and when the next will be there.
func (c *Cloud) Admit(now time.Time) (ok bool, retryAfter time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Calls++
	c.stats.CallsPerSecondMax = max(c.stats.CallsPerSecondMax, c.window.add(now))
	ok, retryAfter = c.bucket.take(now)
	if !ok {
		c.stats.Throttled++
	}
	return ok, retryAfter
}

// Start makes the task of key, or finds the one that key has made before. A command that asks for a second task by another
// key gets it, as from a real cloud, and is counted as a duplicate run.
func (c *Cloud) Start(now time.Time, key, command string) Task {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reap(now)
	if t := c.byKey[key]; t != nil {
		return Task{ID: t.id, Status: t.status(now)}
	}
	span := c.cfg.TaskMax - c.cfg.TaskMin
	t := &task{
		id:      fmt.Sprintf("task-%d", len(c.tasks)+1),
		command: command,
		ends:    now.Add(c.cfg.TaskMin + time.Duration(c.draw("task", key, 0)*float64(span))),
	}
	c.tasks[t.id], c.byKey[key] = t, t
	if first := c.command[command]; first != nil {
		c.duplicate(fmt.Sprintf("command %s has task %s and started task %s", command, first.id, t.id))
	} else {
		c.command[command] = t
		c.stats.Launched++
		c.stats.LastLaunch = now
	}
	heap.Push(&c.ends, t)
	c.stats.Started++
	c.stats.Live = len(c.ends)
	c.stats.LiveMax = max(c.stats.LiveMax, c.stats.Live)
	return Task{ID: t.id, Status: Running}
}

// Describe tells the state of each id, in order.
func (c *Cloud) Describe(now time.Time, ids []string) ([]Task, error) {
	if len(ids) > MaxDescribe {
		return nil, fmt.Errorf("cloudsim: %d ids in one call; at most %d", len(ids), MaxDescribe)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reap(now)
	out := make([]Task, len(ids))
	for i, id := range ids {
		out[i] = Task{ID: id, Status: Unknown}
		if t := c.tasks[id]; t != nil {
			out[i].Status = t.status(now)
		}
	}
	return out, nil
}

// Delete stops a task; one that has ended stays as it is. It reports whether the id is known.
func (c *Cloud) Delete(now time.Time, id string) (Task, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reap(now)
	t := c.tasks[id]
	if t == nil {
		return Task{ID: id, Status: Unknown}, false
	}
	if t.status(now) == Running {
		t.deleted = true
		c.stats.Deleted++
		for i, r := range c.ends {
			if r == t {
				heap.Remove(&c.ends, i)
				break
			}
		}
		c.stats.Live = len(c.ends)
	}
	return Task{ID: id, Status: t.status(now)}, true
}

// reap counts the tasks that have ended by now.
func (c *Cloud) reap(now time.Time) {
	for len(c.ends) > 0 && !now.Before(c.ends[0].ends) {
		heap.Pop(&c.ends)
		c.stats.Finished++
	}
	c.stats.Live = len(c.ends)
}

// endHeap orders tasks by their end.
type endHeap []*task

func (h endHeap) Len() int           { return len(h) }
func (h endHeap) Less(i, j int) bool { return h[i].ends.Before(h[j].ends) }
func (h endHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *endHeap) Push(x any)        { *h = append(*h, x.(*task)) }
func (h *endHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	*h = old[:len(old)-1]
	return t
}
