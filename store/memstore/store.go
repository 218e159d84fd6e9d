// Package memstore keeps commands in memory. It is the model that the other stores are compared with, and right for tests and small
// programs: one mutex, a map, and a filter. Every question is answered by definition, with no index that could be wrong, so
// a call costs time in proportion to the live commands. Nothing survives the process.
package memstore

import (
	"context"
	"sync"
	"time"

	"github.com/twolane/twolane/internal/mutant"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// Store is a store.Store in memory. Create it with [New].
type Store struct {
	mu     sync.Mutex
	closed bool
	fixed  store.Millis // the test's clock; 0 means time.Now

	clocks    rule.Clocks
	cfg       store.Config
	seq       uint64 // last arrival
	token     uint64 // last lease
	entry     uint64 // last outbox entry
	cmds      map[string]*store.Command
	workers   map[string]*store.Worker
	nonces    map[string]string // worker to the nonce of its last claim, or gone
	buckets   map[laneKey]rule.Bucket
	throttles map[typeKey]rule.Throttle
	// limitBuckets are the rate limits' states, filed the lines that wait by key, oldest first.
	limitBuckets map[store.LimitKey]rule.Bucket
	filed        map[store.LimitKey]*filed
	passed       map[string]int // how often a line let room stand, until it is granted
	virtual      map[laneKey]float64
	lastStart    map[groupKey]float64
	outbox       []outboxEntry
	watchers     map[*watcher]struct{}
}

// gone stands for the last claim of a worker that has taken itself off. No nonce is like it.
const gone = "-"

type laneKey struct {
	queue string
	lane  store.Lane
}

type typeKey struct {
	queue string
	lane  store.Lane
	typ   string
}

type outboxEntry struct {
	seq    uint64
	topic  string
	id     string
	hidden store.Millis // server time until which other readers do not see it
}

var (
	_ store.Store     = (*Store)(nil)
	_ store.Describer = (*Store)(nil)
	_ store.Clocker   = (*Store)(nil)
)

// New returns an empty store.
func New() *Store {
	s := &Store{
		cmds: map[string]*store.Command{}, workers: map[string]*store.Worker{}, nonces: map[string]string{},
		limitBuckets: map[store.LimitKey]rule.Bucket{}, filed: map[store.LimitKey]*filed{}, passed: map[string]int{},
		virtual: map[laneKey]float64{}, lastStart: map[groupKey]float64{},
		buckets: map[laneKey]rule.Bucket{}, throttles: map[typeKey]rule.Throttle{}, watchers: map[*watcher]struct{}{},
	}
	s.clocks = rule.Start(store.At(time.Now()))
	return s
}

// SetClock implements [store.Clocker].
func (s *Store) SetClock(_ context.Context, t store.Millis) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t != 0 && s.fixed == 0 && len(s.cmds) == 0 && len(s.workers) == 0 {
		s.clocks = rule.Start(t) // nothing has happened yet: the namespace begins now
	}
	s.fixed = t
	return nil
}

// Describe implements [store.Describer].
func (s *Store) Describe(context.Context) (store.Description, error) {
	return store.Description{
		Kind: "memory", Durability: "none: everything ends with the process",
		Warnings: []string{"commands in memory are lost with the process; use a file or a server for work that matters"},
	}, nil
}

// Close implements [store.Store].
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	ws := make([]*watcher, 0, len(s.watchers))
	for w := range s.watchers {
		ws = append(ws, w)
	}
	s.mu.Unlock()
	for _, w := range ws {
		_ = w.Close() // never fails
	}
	return nil
}

// begin locks the store for one step; the caller must call s.mu.Unlock if the error is nil.
func (s *Store) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return store.ErrClosed
	}
	return nil
}

// server is the server time.
func (s *Store) server() store.Millis {
	if s.fixed != 0 {
		return s.fixed
	}
	return store.At(time.Now())
}

// peek is the present moment for calls that write and do not advance the clocks.
func (s *Store) peek() rule.Now { return s.clocks.Peek(s.server(), s.cfg.V()) }

// look is the present moment for calls that only read.
func (s *Store) look() rule.Now { return s.clocks.Advance(s.server(), s.cfg.V()).Now() }

// advance moves the clocks, as Claim, Renew and Maintain do.
func (s *Store) advance() rule.Now {
	s.clocks = s.clocks.Advance(s.server(), s.cfg.V())
	return s.clocks.Now()
}

// change lets f change a command in one step and does what follows from it: an end fills the outbox and strips what is not to be kept, and
// whoever waits is woken.
func (s *Store) change(now rule.Now, c *store.Command, f func(q store.QueueConfig)) {
	before := *c
	f(s.cfg.Queue(c.Queue))
	s.follow(now, &before, c)
}

func (s *Store) follow(now rule.Now, before, c *store.Command) {
	s.left(now, before.Holds, c)
	if c.Status.Terminal() {
		if !before.Status.Terminal() {
			s.ended(c)
		}
		return
	}
	if before.CancelAsked == 0 && c.CancelAsked != 0 && c.Place == store.Leased {
		s.wake(store.Wake{Kind: store.WakeCancel, ID: c.ID})
	}
	if !mutant.On(mutant.DropWakeUp) && rule.Claimable(now, c) && (before.Place != store.InLine || before.Queue != c.Queue || before.Due != c.Due) {
		s.wake(store.Wake{Kind: store.WakeWork, Queue: c.Queue, Lane: c.Lane()})
	}
}

func (s *Store) ended(c *store.Command) {
	q := s.cfg.Queue(c.Queue)
	if c.Notify != "" {
		s.entry++
		s.outbox = append(s.outbox, outboxEntry{seq: s.entry, topic: c.Notify, id: c.ID})
		s.wake(store.Wake{Kind: store.WakeOutbox, ID: c.Notify})
	} else if rule.StripAtEnd(c, q) {
		rule.Strip(c)
	}
	if mutant.On(mutant.DropEndWakeUp) {
		return
	}
	s.wake(store.Wake{Kind: store.WakeEnd, ID: c.ID})
	if c.Group != "" && s.groupLive(c.Group) == 0 {
		s.wake(store.Wake{Kind: store.WakeGroup, ID: c.Group})
	}
}

// expire ends a command for which rule.Ended holds.
func (s *Store) expire(now rule.Now, c *store.Command) {
	s.change(now, c, func(q store.QueueConfig) { rule.Expire(now, c, q) })
}

// live calls f for each live command.
func (s *Store) live(f func(*store.Command)) {
	for _, c := range s.cmds {
		if !c.Status.Terminal() {
			f(c)
		}
	}
}

func (s *Store) groupLive(group string) int {
	n := 0
	s.live(func(c *store.Command) {
		if c.Group == group {
			n++
		}
	})
	return n
}

// uniqueHolder is the live command that holds a unique key, or nil. One that time has ended holds nothing.
func (s *Store) uniqueHolder(now rule.Now, key string) *store.Command {
	var holder *store.Command
	if key != "" {
		s.live(func(c *store.Command) {
			if c.UniqueKey == key {
				holder = c
			}
		})
	}
	if holder != nil && rule.Ended(now, holder) {
		if s.expire(now, holder); holder.Status.Terminal() {
			return nil
		}
	}
	return holder
}

// beat is when a worker's own heartbeat runs out; zero for one that is not known.
func (s *Store) beat(id string) store.Millis {
	if w := s.workers[id]; w != nil {
		return w.Expires
	}
	return 0
}

// ownerLives reports whether a worker's own heartbeat is current.
func (s *Store) ownerLives(now rule.Now, id string) bool { return s.beat(id) > now.Lease }
