package simrt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/faultstore"
	"github.com/twolane/twolane/store/memstore"
)

// world is one run.
type world struct {
	*testing.T
	rng    *rand.Rand // of the main goroutine alone
	seed   uint64
	mem    *memstore.Store
	client *twolane.Client
	own    *faultstore.Faults // between the client and the store
	v      time.Duration
	calm   bool
	team   []*member
	next   int // number of the next command

	mu     sync.Mutex
	healed bool
	cmds   map[string]*command
	ids    []string
	runs   int
}

// member is one worker at work.
type member struct {
	w       *world
	faults  *faultstore.Faults
	client  *twolane.Client
	worker  *twolane.Worker
	permits twolane.Lanes
	overdue twolane.OverduePolicy // what is abandoned has no permit and still runs
	stop    context.CancelFunc
	ended   chan error
	running [2]int // invocations, under world.mu
}

// command is what is known of one.
type command struct {
	sub     twolane.Submission
	deleted bool
	broken  int // leases that a user broke
	runs    []*invocation
}

type invocation struct {
	job    *twolane.JobInfo
	broken int // command.broken when it began
}

// run makes one run.
func run(t *testing.T, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 7)), mem: memstore.New(), cmds: map[string]*command{}, calm: seed%4 == 0}
		w.v = []time.Duration{2 * time.Second, 5 * time.Second, 20 * time.Second}[w.rng.IntN(3)]
		w.own = faultstore.New(seed)
		w.client = twolane.NewClient(w.own.Wrap(w.mem), &twolane.Options{Logger: quiet})
		w.must(w.configure(store.QueueConfig{CancelFor: 20 * time.Second, MaxLosses: 4}))
		for i := range 1 + w.rng.IntN(3) {
			w.team = append(w.team, w.hire(i))
		}
		w.chaos()
		w.heal()
		w.finish()
	})
	if t.Failed() {
		t.Logf("seed %d; again: go test ./sim/simrt -race -run TestSeed -seed=%d", seed, seed)
	}
}

var quiet = slog.New(slog.DiscardHandler)

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) configure(q store.QueueConfig) error {
	_, err := w.client.Configure(w.Context(), func(c *twolane.Config) error {
		c.Visibility = w.v
		c.Queues = map[string]store.QueueConfig{"a": q, "b": {CancelFor: 20 * time.Second, MaxLosses: 4}}
		return nil
	})
	return err
}

// hire starts a worker.
func (w *world) hire(i int) *member {
	m := &member{w: w, faults: faultstore.New(w.seed<<8 + uint64(i)), ended: make(chan error, 1)}
	m.permits = twolane.Lanes{Intake: 1 + w.rng.IntN(5), Repoll: 1 + w.rng.IntN(5)}
	m.client = twolane.NewClient(m.faults.Wrap(w.mem), &twolane.Options{Logger: quiet, NoTick: true})
	m.overdue = twolane.OverduePolicy(w.rng.IntN(2))
	var err error
	m.worker, err = twolane.NewWorker(m.client, twolane.WorkerConfig{
		Name: fmt.Sprintf("m%d", i), Queues: []twolane.QueueShare{{Name: "a"}, {Name: "b"}}, Concurrency: m.permits,
		PollInterval: 500 * time.Millisecond, DrainBudget: budget, OverdueGrace: time.Second, MaxRun: 10 * time.Second,
		Overdue: m.overdue, Middleware: []twolane.Middleware{m.around},
	})
	w.must(err)
	m.handlers()
	ctx, stop := context.WithCancel(w.Context())
	m.stop = stop
	go func() { m.ended <- m.worker.Run(ctx) }()
	return m
}

const budget = 8 * time.Second

// fire drains a worker and looks at what it says.
func (m *member) fire() {
	w := m.w
	start := time.Now()
	m.stop()
	err := <-m.ended
	if d := time.Since(start); d > budget+2*time.Second {
		w.Errorf("drain: Run returned %v after its context ended, with a budget of %v", d, budget)
	}
	if e, ok := errors.AsType[*twolane.DrainError](err); ok {
		if r := e.Report; r.Held != r.Settled+r.GivenBack+r.Lost+len(r.Running)+len(r.Unsettled) {
			w.Errorf("drain: the report does not add up: %+v", r)
		}
	} else if err != nil {
		w.Errorf("drain: %v", err)
	}
	if w.isHealed() && err != nil {
		w.Errorf("drain: with nothing to do Run returned %v", err)
	}
	if err := m.client.Close(); err != nil {
		w.Error(err)
	}
}

func (w *world) isHealed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.healed
}

// around counts the permits of a worker and the handlers of each command.
func (m *member) around(ctx context.Context, call *twolane.Call, next func(context.Context) error) error {
	w := m.w
	w.mu.Lock()
	w.runs++
	m.running[call.Lane]++
	if most := [2]int{m.permits.Intake, m.permits.Repoll}[call.Lane]; m.running[call.Lane] > most && m.overdue == twolane.KeepOverdue {
		w.Errorf("permits: %d run in lane %v with %d permits", m.running[call.Lane], call.Lane, most)
	}
	own := make([]*invocation, len(call.Jobs))
	for i, job := range call.Jobs {
		c := w.cmds[job.ID()]
		for _, other := range c.runs {
			if other.job.Context().Err() == nil && other.job.Answered() == "" && other.broken == c.broken {
				w.Errorf("one-live: %s (%s) starts as %s while another handler of it runs and its context has not ended", job.ID(), call.Type, job.Lease())
			}
		}
		own[i] = &invocation{job, c.broken}
		c.runs = append(c.runs, own[i])
	}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		m.running[call.Lane]--
		for i, job := range call.Jobs {
			w.cmds[job.ID()].forget(own[i])
		}
	}()
	return next(ctx)
}

func (c *command) forget(own *invocation) {
	for i, o := range c.runs {
		if o == own {
			c.runs = append(c.runs[:i:i], c.runs[i+1:]...)
			return
		}
	}
}
