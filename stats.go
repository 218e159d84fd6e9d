package twolane

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twolane/twolane/store"
)

// Stats are numbers for people and metrics, all as of one moment of the store.
type Stats struct {
	AsOf    time.Time
	Queues  []QueueStats
	Workers []WorkerStats      // that are alive
	Lost    int                // ids set aside for want of a readable record
	Outbox  map[string]int     // entries that wait, by topic
	Bytes   int64              // that the store occupies; 0 if it does not know
	Limits  []store.LimitStats // in force
	Config  uint64             // version of the configuration
}

// QueueStats are the numbers of one queue.
type QueueStats struct {
	Queue      string
	Pause      PauseMode // in force
	PauseUntil time.Time // zero without an end
	Lanes      [2]LaneStats
	Scheduled  int       // PENDING commands that wait for not_before or for the end of a backoff
	NextDue    time.Time // of the first of them
	// The records of finished commands that are kept.
	Succeeded, Failed, Cancelled int
	Reasons                      map[Reason]int // of the failed ones
	Types                        []store.TypeStats
}

// LaneStats are the numbers of one lane of a queue.
type LaneStats struct {
	InLine   int           // in intake all are ready; in repoll Ready are, the others wait for their next poll
	Ready    int           // in line and due
	Leased   int           // a worker has them
	Eligible int           // ready ones, leases that are over, and scheduled ones whose time has come
	Expired  int           // leases that are over and not reaped yet
	Overdue  int           // handlers that ignore the end of their time
	AtLeast  bool          // Eligible and Ready are lower bounds
	Oldest   time.Duration // how long the oldest eligible command has waited; 0 if there is none
	NextDue  time.Time     // the next poll

	// Permits and Free are those of the live workers that serve the queue and know one of the lane's types. A worker that serves several queues
	// counts in each.
	Permits, Free int
	// Unclaimable commands are of types that no live worker can run in this lane.
	Unclaimable int
	// Waits is why the eligible commands wait: [WaitPaused], [WaitNoWorker], [WaitGate], [WaitLimit], [WaitPermits], [WaitRate] or [WaitTurn]; empty if there are none.
	Waits Wait
	// Starved is true when the oldest eligible command has waited for two seconds, twice the pace at which workers look by themselves.
	Starved bool
	// Overloaded is true of a repoll lane whose oldest due poll is late by more than a second with permits free, a worker for its types, and no pause or
	// rate in the way: the store or the workers cannot keep up. The store does not know the interval of a poll. A second is what the promise of 5 % allows
	// an interval of 20 s; so a lane of shorter intervals is called overloaded late, and none is wrongly.
	Overloaded bool
}

const (
	starvedAfter    = 2 * time.Second
	overloadedAfter = time.Second
)

// WorkerStats are what a worker says about itself.
type WorkerStats struct {
	ID, Name, Host, Version string
	PID                     int
	Started, Seen           time.Time
	Queues                  []string
	Types                   [2][]string // by lane
	Permits, Running        [2]int      // by lane
	Draining                bool
	Gates                   []store.GateState // of its gates those that hold something back
}

// Stats reads the numbers of the named queues, or of all that are known. Its cost does not grow with the number of commands.
func (c *Client) Stats(ctx context.Context, queues ...string) (Stats, error) {
	s, cfg, err := c.statsAndConfig(ctx, queues)
	if err != nil {
		return Stats{}, fmt.Errorf("stats: %w", err)
	}
	return assemble(s, &cfg), nil
}

// statsAndConfig reads numbers and the configuration that they stand under.
func (c *Client) statsAndConfig(ctx context.Context, queues []string) (store.Stats, Config, error) {
	for _, q := range queues {
		if err := store.ValidName("queue", q); err != nil {
			return store.Stats{}, Config{}, err
		}
	}
	s, err := c.stats(ctx, store.StatsRequest{Queues: queues})
	if err != nil {
		return s, Config{}, err
	}
	c.cached.mu.Lock()
	cfg := c.cached.cfg
	c.cached.mu.Unlock()
	if cfg.Version != s.Config || cfg.Queues == nil {
		if cfg, err = c.Config(ctx); err != nil {
			return s, cfg, err
		}
		c.cached.mu.Lock()
		c.cached.cfg = cfg
		c.cached.mu.Unlock()
	}
	return s, cfg, nil
}

// stats calls the store.
func (c *Client) stats(ctx context.Context, req store.StatsRequest) (s store.Stats, err error) {
	err = c.call(ctx, func(ctx context.Context, _ int) (err error) {
		s, err = c.store.Stats(ctx, req)
		return err
	})
	if err == nil {
		c.clock.set(&s)
	}
	return s, err
}

// assemble turns the store's numbers into what users see.
func assemble(s store.Stats, cfg *Config) Stats {
	st := Stats{AsOf: s.AsOf.Time(), Lost: s.Lost, Outbox: s.Outbox, Bytes: s.Bytes, Limits: s.Limits, Config: s.Config}
	for i := range s.Workers {
		w := &s.Workers[i]
		st.Workers = append(st.Workers, WorkerStats{ID: w.ID, Name: w.Name, Host: w.Host, Version: w.Version, PID: w.PID, Started: w.Started.Time(),
			Seen: w.Seen.Time(), Queues: w.Queues, Types: w.Types, Permits: w.Permits, Running: w.Running, Draining: w.Draining, Gates: w.Gates})
	}
	ahead := s.Run.Sub(s.AsOf)
	for i := range s.Queues {
		q := &s.Queues[i]
		d := QueueStats{Queue: q.Queue, Pause: q.Pause, Scheduled: q.Scheduled, NextDue: q.NextDue.Time(), Succeeded: q.Succeeded,
			Failed: q.Failed, Cancelled: q.Cancelled, Reasons: q.Reasons, Types: q.Types}
		conf := cfg.Queue(q.Queue)
		if q.Pause != PauseNone {
			d.PauseUntil = conf.PauseUntil.Time()
		}
		for lane := range q.Lanes {
			d.Lanes[lane] = laneStats(&s, q, Lane(lane), conf.Rates[lane])
			if due := q.Lanes[lane].NextDue; due != 0 {
				d.Lanes[lane].NextDue = due.Time().Add(-ahead)
			}
		}
		st.Queues = append(st.Queues, d)
	}
	return st
}

func laneStats(s *store.Stats, q *store.QueueStats, lane Lane, rate Rate) LaneStats {
	l := &q.Lanes[lane]
	d := LaneStats{InLine: l.InLine, Leased: l.Leased, Eligible: l.Eligible, Expired: l.Expired, Overdue: l.Overdue, AtLeast: l.AtLeast}
	if d.Ready = l.InLine; lane == Repoll {
		d.Ready = max(0, min(l.InLine, l.Eligible-l.Expired))
	}
	if l.OldestEligible != 0 {
		d.Oldest = max(0, s.AsOf.Sub(l.OldestEligible))
	}
	var types []string // in the lane now; none are known of commands that wait for a time
	claimable, open := false, false
	for _, t := range q.Types {
		if t.Lane != lane || t.InLine == 0 && t.Leased == 0 {
			continue
		}
		types = append(types, t.Type)
		claimable = claimable || t.Workers > 0
		open = open || t.Workers > 0 && heldByGate(s.Workers, lane, q.Queue, t.Type) == nil
		if t.Workers == 0 {
			d.Unclaimable += t.InLine
		}
	}
	all, free, some := permits(s.Workers, q.Queue, lane, types)
	d.Permits, d.Free = all, free
	if d.Eligible > 0 {
		d.Waits = obstacle(q.Pause, lane, claimable || len(types) == 0 && some, claimable && !open, d.Free, l.Filed > 0, rate)
		d.Starved = d.Oldest >= starvedAfter
		d.Overloaded = lane == Repoll && d.Waits == WaitTurn && d.Oldest > overloadedAfter
	}
	return d
}

// permits adds up what the workers have that serve a queue and can run one of the types in a lane; no types are all. some is whether there is such a worker.
func permits(workers []store.Worker, queue string, lane Lane, types []string) (all, free int, some bool) {
	for i := range workers {
		w := &workers[i]
		knows := len(types) == 0 && len(w.Types[lane]) > 0 || slices.ContainsFunc(types, func(t string) bool { return slices.Contains(w.Types[lane], t) })
		if w.Draining || !knows || !slices.Contains(w.Queues, queue) {
			continue
		}
		some = true
		all += w.Permits[lane]
		free += max(0, w.Permits[lane]-w.Running[lane])
	}
	return all, free, some
}
