package dispatch

import (
	"context"
	crand "crypto/rand"
	"math/rand/v2"
	"time"

	"github.com/twolane/twolane/gate"
	"github.com/twolane/twolane/store"
)

// Config says what a worker serves. It is not changed after it was given to New.
type Config struct {
	Worker  store.Worker // the registration; Types, Queues and Permits are filled in
	Queues  []Queue
	Policy  Policy
	Permits [2]int // by lane
	Types   []*Type
	Gates   []gate.Binding // valid ones

	Poll       time.Duration // between claims while nothing is known to be due; +/- 10 %
	Visibility time.Duration // until the store's first reply tells
	Grace      time.Duration // from the end of a context to overdue
	Overdue    Overdue
	// StarvedAfter is how many polls a lane with eligible work may start nothing before that is said.
	StarvedAfter int
	// Rand returns numbers in [0,1) and Nonce names for claim calls; both are called only by the core.
	Rand  func() float64
	Nonce func() string
	// Wall is the time of day at a time of the core, for gates; called only by the core.
	Wall func(now time.Duration) time.Time
}

// Queue is one queue's share of the permits.
type Queue struct {
	Name    string
	Weight  int // of Weighted; at least 1
	Reserve int // permits of each lane that no other queue may take
}

// Policy says how several queues share the permits of a lane.
type Policy uint8

const (
	RoundRobin Policy = iota
	Weighted
	Strict // in the order of Config.Queues
)

// Overdue says what becomes of an invocation that goes on after its context ended.
type Overdue uint8

const (
	// Keep renews its lease and holds its permit until it returns.
	Keep Overdue = iota
	// Abandon ends its lease as a loss and gives its permit to others; the worker is unhealthy while such an invocation runs.
	Abandon
)

// Type is one type of command that the worker can run.
type Type struct {
	Name   string
	Lanes  [2]bool       // in which it can run
	Batch  [2]int        // commands in one call, by lane; 0 and 1 are one
	MaxRun time.Duration // of one invocation; 0 for no bound
	// Run runs an invocation in a goroutine of its own and answers for each of its items with Item.Answer.
	Run func(ctx context.Context, inv *Invocation)
	// Failed answers for the items of a call that did not: it panicked, ended its goroutine, or left them out. All get the same delay.
	// If it is nil, or leaves items out itself, they are retried in a second.
	Failed func(inv *Invocation, items []*Item, err error)
}

func (c *Config) withDefaults() Config {
	d := *c
	if d.Poll <= 0 {
		d.Poll = time.Second
	}
	if d.Visibility <= 0 {
		d.Visibility = store.DefaultV
	}
	if d.Grace <= 0 {
		d.Grace = 10 * time.Second
	}
	if d.StarvedAfter <= 0 {
		d.StarvedAfter = 5
	}
	if d.Rand == nil {
		d.Rand = rand.Float64
	}
	if d.Wall == nil {
		d.Wall = func(time.Duration) time.Time { return time.Now() }
	}
	if d.Nonce == nil {
		d.Nonce = crand.Text // 26 characters of base32
	}
	d.Worker.Permits = d.Permits
	d.Worker.Queues, d.Worker.Types = nil, [2][]string{}
	d.Queues = append([]Queue(nil), d.Queues...)
	for i := range d.Queues {
		if d.Policy != Weighted || d.Queues[i].Weight <= 0 {
			d.Queues[i].Weight = 1
		}
		d.Worker.Queues = append(d.Worker.Queues, d.Queues[i].Name)
	}
	for _, t := range d.Types {
		for l := range t.Lanes {
			if t.Lanes[l] {
				d.Worker.Types[l] = append(d.Worker.Types[l], t.Name)
			}
		}
	}
	return d
}
