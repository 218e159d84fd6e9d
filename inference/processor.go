package inference

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/inference/config"
	"github.com/twolane/twolane/internal/openstore"
	"github.com/twolane/twolane/store"
)

// Options are what a [Processor] is given beside its configuration.
type Options struct {
	// Store is where requests are kept. The caller closes it after Run has returned.
	Store store.Store
	// Logger gets what a person should know; nil means slog.Default().
	Logger *slog.Logger
	// Metrics gets what the workers measure; nil means none.
	Metrics twolane.Metrics
	// Queues reads the queues again, for reloads; nil means that they never change.
	Queues func() ([]config.Queue, error)
	// Name and Version are for people.
	Name, Version string
}

// Processor takes requests from their sets, sends them, and delivers what was answered. Make one with [New] and call Run once.
type Processor struct {
	cfg    *config.Config
	opt    Options
	log    *slog.Logger
	client *twolane.Client
	st     *pushing
	redis  rueidis.Client
	single bool // the producers' Redis is no cluster

	queues  atomic.Pointer[map[string]*queue] // by id
	sender  *sender
	flights *flights
	mover   *mover
	numbers *numbers
	pools   []*pool

	mu       sync.Mutex
	change   chan struct{}       // closed when the queues have changed
	breakers map[string]*breaker // by id of the queue

	oneStep  bool        // results can be pushed in the step of the settle
	told     atomic.Bool // the producers' Redis tells of changes
	session  session
	backlog  backlog
	ready    atomic.Bool // it has started and does not drain
	draining atomic.Bool
}

// New connects to the producers' Redis and prepares a processor. cfg must be complete.
func New(cfg *config.Config, opt Options) (*Processor, error) {
	p, err := prepare(cfg, opt)
	if err != nil {
		return nil, err
	}
	cluster := false
	if p.redis, cluster, err = connect(cfg.Redis); err != nil {
		return nil, fmt.Errorf("the producers' Redis: %w", err)
	}
	p.single = !cluster
	p.st = &pushing{Store: opt.Store}
	p.client = twolane.NewClient(p.st, &twolane.Options{Logger: p.log})
	p.flights = newFlights(p)
	p.mover = newMover(p.client)
	return p, nil
}

// Check refuses what New would refuse about a complete configuration, and warns of what it would do without. It connects to nothing.
func Check(cfg *config.Config) (warnings []string, err error) {
	if _, warnings, err = RedisURL(cfg.Redis); err != nil {
		return nil, err
	}
	if _, err := redisOptions(cfg.Redis); err != nil {
		return nil, err
	}
	url, err := StoreURL(cfg)
	if err != nil {
		return nil, err
	}
	if openstore.Kind(url) == "" {
		return nil, fmt.Errorf("store.url: %q is none of %s", openstore.Redacted(url), openstore.Forms)
	}
	p, err := prepare(cfg, Options{})
	if err != nil {
		return nil, err
	}
	defer p.sender.close()
	if len(cfg.Queues) == 0 {
		warnings = append(warnings, "there is no queue: nothing will be taken")
	}
	_, differ := limits(p.all())
	for _, name := range differ {
		warnings = append(warnings, fmt.Sprintf("queues have the quota %s with different numbers; they share the count, and the smaller number holds for all", name))
	}
	return warnings, nil
}

// prepare makes of a processor what needs no connection.
func prepare(cfg *config.Config, opt Options) (*Processor, error) {
	if opt.Logger == nil {
		opt.Logger = slog.Default()
	}
	p := &Processor{cfg: cfg, opt: opt, log: opt.Logger, numbers: newNumbers(), change: make(chan struct{})}
	byID, err := p.newQueues(cfg.Queues)
	if err != nil {
		return nil, err
	}
	p.queues.Store(&byID)
	if err := p.makePools(); err != nil {
		return nil, err
	}
	if p.sender, err = newSender(cfg); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Processor) newQueues(cs []config.Queue) (map[string]*queue, error) {
	byID := make(map[string]*queue, len(cs))
	for _, c := range cs {
		q, err := p.newQueue(c)
		if err != nil {
			return nil, err
		}
		byID[c.ID] = q
	}
	return byID, nil
}

// all are the queues in force, by id.
func (p *Processor) all() []*queue {
	m := *p.queues.Load()
	out := make([]*queue, 0, len(m))
	for _, id := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[id])
	}
	return out
}

func (p *Processor) queue(id string) *queue { return (*p.queues.Load())[id] }

// breaker is that of the gateway of a queue. It outlives reloads.
func (p *Processor) breaker(id string) *breaker {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.breakers == nil {
		p.breakers = map[string]*breaker{}
	}
	b := p.breakers[id]
	if b == nil {
		b = &breaker{}
		p.breakers[id] = b
	}
	return b
}

// Client is the client of the store that the processor works with. It is closed by Close.
func (p *Processor) Client() *twolane.Client { return p.client }

// Close releases what New made. Call it after Run.
func (p *Processor) Close() error {
	err := p.client.Close()
	p.redis.Close()
	p.sender.close()
	return err
}

// Run works until ctx ends, or a worker fails, and then drains: it takes no more requests, lets those in flight end for as long as the configuration says, gives the others
// back for another processor to send, and delivers the results that there are.
func (p *Processor) Run(ctx context.Context) error {
	if err := p.configure(ctx); err != nil {
		return err
	}
	var deliverer sync.WaitGroup
	after, stopAfter := context.WithCancel(context.WithoutCancel(ctx))
	defer stopAfter()
	d, err := newDeliverer(after, p)
	if err != nil {
		return err
	}
	p.oneStep = d.pusher != nil
	deliverer.Go(func() { d.run(after) })
	deliverer.Go(func() { p.flights.watch(after) })
	deliverer.Go(func() { p.mover.run(after) })

	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	wg.Go(func() { p.intake(ctx) })
	wg.Go(func() { p.reload(ctx) })
	wg.Go(func() { p.watchBacklog(ctx) })
	errs := make([]error, len(p.pools))
	for i, pool := range p.pools {
		wg.Go(func() {
			if errs[i] = pool.run(ctx); errs[i] != nil { // a pool that takes nothing is noticed by who starts us again
				stop()
			}
		})
	}
	p.ready.Store(true)
	<-ctx.Done()
	p.draining.Store(true)
	p.ready.Store(false)
	wg.Wait()
	d.last(10 * time.Second)
	stopAfter()
	deliverer.Wait()
	return errors.Join(errs...)
}

// configure writes into the store what the configuration says about it: the order of its queues, how long records are kept, and quotas. Every processor
// of a namespace should say the same.
func (p *Processor) configure(ctx context.Context) error {
	ls, _ := limits(p.all()) // Check warns of those that differ
	_, err := p.client.Configure(ctx, func(cfg *twolane.Config) error {
		if p.cfg.Store.Visibility > 0 {
			cfg.Visibility = p.cfg.Store.Visibility
		}
		for _, pool := range p.cfg.Pools {
			for _, lane := range p.lanes() {
				q := cfg.Queues[queueName(pool.ID, lane)]
				q.Order, q.Retention, q.Keep = store.ByDeadline, keep(p.cfg.Store.Keep), p.cfg.Store.KeepCount
				q.Fair = lane >= 0 || p.cfg.Dispatch.Fair
				cfg.Queues[queueName(pool.ID, lane)] = q
			}
		}
		dead := cfg.Queues[deadName]
		dead.Retention = keep(p.cfg.Store.KeepDead)
		cfg.Queues[deadName] = dead
		for _, l := range ls {
			if i := slices.IndexFunc(cfg.Limits, func(o store.Limit) bool { return o.Name == l.Name }); i >= 0 {
				cfg.Limits[i] = l
			} else {
				cfg.Limits = append(cfg.Limits, l)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("configure the store: %w", err)
	}
	return nil
}

// keep is a retention: none is said by less than 0.
func keep(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// lanes are the lanes of a pool; -1 is one without lanes.
func (p *Processor) lanes() []int {
	if p.cfg.Dispatch.Policy != config.TierPriority {
		return []int{-1}
	}
	return []int{0, 1, 2, 3, 4, 5}
}
