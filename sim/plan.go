package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twolane/twolane/internal/dispatch"
	"github.com/twolane/twolane/store"
)

// plan is what a seed draws once for its run.
type plan struct {
	calm      bool // nothing goes wrong: bounds are tight
	v         time.Duration
	poll      time.Duration
	length    time.Duration // of the chaos
	commands  int
	queues    []string
	pauses    bool // of queues
	rates     [][2]store.Rate
	losses    int
	grace     time.Duration
	overdue   dispatch.Overdue
	policy    dispatch.Policy
	reserve   int
	tick      bool // somebody without a worker does upkeep
	workers   []workerPlan
	batch     int
	poison    int // commands that kill their process, not submitted yet
	poisonous bool

	latency  time.Duration // of one message, at most
	lag      time.Duration // of a worker's loop, at most
	faults   float64       // probability of a fault of one call
	deafness float64       // probability that a wake-up is lost
	crash    float64       // rates per second of the whole
	stop     float64
	drain    float64
	clock    float64
	outage   float64
	cut      float64
	act      float64 // rates of users' operations beside submits
	rude     float64 // probability that a handler ignores its context
	tides    bool    // gates open and close, and judge
}

// workerPlan is one place for a process.
type workerPlan struct {
	permits [2]int
	queues  []string
	types   []string
}

// kinds are the types of commands.
var kinds = []string{"quick", "long", "hook", "batch", "slow", "poison"}

func draw(r *rand.Rand, seed uint64) plan {
	pick := func(ds ...time.Duration) time.Duration { return ds[r.IntN(len(ds))] }
	p := plan{
		calm: seed%5 == 0, v: pick(2*time.Second, 5*time.Second, 5*time.Second, 20*time.Second), poll: pick(200*time.Millisecond, time.Second),
		length: 15*time.Second + time.Duration(r.IntN(30))*time.Second, commands: 8 + r.IntN(32), losses: 3 + r.IntN(3),
		grace: pick(500*time.Millisecond, 5*time.Second), overdue: dispatch.Overdue(r.IntN(2)), policy: dispatch.Policy(r.IntN(3)),
		tick: r.IntN(2) == 0, batch: 2 + r.IntN(5),
	}
	for i := range 1 + r.IntN(3) {
		p.queues = append(p.queues, fmt.Sprintf("q%d", i))
	}
	p.rates = make([][2]store.Rate, len(p.queues))
	team := 1 + r.IntN(4)
	if !p.calm && r.IntN(8) == 0 {
		team += 3
	}
	for range team {
		p.workers = append(p.workers, workerPlan{permits: [2]int{1 + r.IntN(6), 1 + r.IntN(6)}, queues: p.queues, types: kinds})
	}
	if p.calm {
		p.latency = 3 * time.Millisecond
		for i := range p.workers {
			p.workers[i].permits = [2]int{60, 60}
		}
		return p
	}
	for i := range p.rates {
		for l := range p.rates[i] {
			if r.IntN(4) == 0 {
				p.rates[i][l] = store.Rate{Limit: 1 + r.Float64()*10, Burst: 1 + r.IntN(3)}
			}
		}
	}
	for i := range p.workers[1:] { // the first serves all
		w := &p.workers[i+1]
		if r.IntN(3) == 0 {
			w.queues = p.queues[r.IntN(len(p.queues)):]
		}
		if r.IntN(3) == 0 {
			w.types = kinds[r.IntN(len(kinds)):]
		}
	}
	if len(p.queues) > 1 && r.IntN(3) == 0 {
		p.reserve = 1
		for i := range p.workers {
			p.workers[i].permits[0]++
			p.workers[i].permits[1]++
		}
	}
	some := func(one int, most float64) float64 {
		if r.IntN(one) != 0 {
			return 0
		}
		return most * r.Float64()
	}
	p.latency = pick(2*time.Millisecond, 20*time.Millisecond, 100*time.Millisecond)
	p.lag = pick(0, 0, 5*time.Millisecond)
	p.faults, p.deafness = some(2, 0.3), some(3, 1)
	p.crash, p.stop, p.drain = some(2, 0.3), some(2, 0.3), some(3, 0.2)
	p.clock, p.outage, p.cut = some(3, 0.2), some(3, 0.1), some(3, 0.2)
	p.act, p.rude = some(1, 2), some(2, 0.8)
	p.pauses = r.IntN(3) == 0
	p.tides = r.IntN(4) == 0
	if r.IntN(4) == 0 {
		p.poison, p.poisonous = 1+r.IntN(3), true
	}
	return p
}

// config is the namespace's configuration at the start.
func (p *plan) config() store.Config {
	cfg := store.Config{Visibility: p.v, Queues: map[string]store.QueueConfig{}}
	for i, q := range p.queues {
		cfg.Queues[q] = store.QueueConfig{Rates: p.rates[i], MaxLosses: p.losses, CancelFor: 20 * time.Second}
	}
	return cfg
}
