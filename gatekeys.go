package twolane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twolane/twolane/gate"
	"github.com/twolane/twolane/store"
)

// gateLimits begins the names of limits that gates write.
const gateLimits = "gate."

const (
	closeLeast   = time.Second
	closeMost    = 30 * time.Second
	maxGateKeys  = store.MaxLimits / 2 // limits of gates in a configuration
	closeTimeout = 5 * time.Second
	paceGrace    = 20 * time.Second       // that a rate is kept for beyond its lease
	closePause   = 100 * time.Millisecond // between two writes
)

// closing is one key that a gate of this worker wants closed, or the rate that one has a lease of.
type closing struct {
	gate   string
	key    gate.Key
	scope  Scope
	d      time.Duration
	rate   float64
	burst  int
	queues string // joined by blanks
}

// keyCloser writes limits of max 0 that end by themselves, so that what a gate would send back waits in the store, for all workers, and blocks
// nobody. It gathers while a write is under way and makes ten writes in a second at most.
type keyCloser struct {
	client *Client
	log    *slog.Logger
	gates  []gate.Binding
	mu     sync.Mutex
	due    map[string]closing // by name of the limit
	poke   chan struct{}
	closed func() // tells the loop
}

func newKeyCloser(c *Client, log *slog.Logger, gates []gate.Binding, closed func()) *keyCloser {
	return &keyCloser{client: c, log: log, gates: gates, closed: closed, due: map[string]closing{}, poke: make(chan struct{}, 1)}
}

// add never blocks.
func (k *keyCloser) add(b *gate.Binding, key gate.Key, d time.Duration) {
	c := closing{gate: b.Name, key: key, scope: ScopeCommand, d: min(max(d, closeLeast), closeMost)}
	if b.On(Repoll) {
		c.scope = ScopeInvocation
	}
	name := c.name()
	k.mu.Lock()
	if o := k.due[name]; len(k.due) < maxGateKeys || o != (closing{}) {
		c.d = max(c.d, o.d)
		k.due[name] = c
	}
	k.mu.Unlock()
	select {
	case k.poke <- struct{}{}:
	default:
	}
}

// pace notes the rates that gates have a lease of.
func (k *keyCloser) pace() {
	for i := range k.gates {
		b := &k.gates[i]
		p, ok := b.Gate.(gate.Pacer)
		if !ok {
			continue
		}
		now := time.Now()
		pace, ok := p.Pace(now)
		if !ok || !(pace.Rate > 0) {
			continue
		}
		c := closing{gate: b.Name, d: pace.Until.Sub(now), rate: min(pace.Rate, 1e6), burst: min(max(1, pace.Burst), 1_000_000), queues: strings.Join(b.Queues, " ")}
		k.mu.Lock()
		k.due[c.name()] = c
		k.mu.Unlock()
	}
}

// paced tells a gate that the store keeps its rate.
func (k *keyCloser) paced(name string) {
	for i := range k.gates {
		if o, ok := k.gates[i].Gate.(*gate.Override); ok && k.gates[i].Name == name {
			o.Paced()
		}
	}
}

// name is that of the limit: it tells people the gate and the value, and is shortened to what a name may be.
func (c *closing) name() string {
	if c.rate > 0 {
		return gateLimits + c.gate + ".rate"
	}
	s := strings.TrimSuffix(fmt.Sprintf("%s%s.%s.%s", gateLimits, c.gate, cmp.Or(c.key.Name, byNames[min(int(c.key.By), len(byNames)-1)]), c.key.Value), ".")
	if len(s) <= store.MaxName {
		return s
	}
	h := fnv.New64a()
	h.Write([]byte(s))
	return fmt.Sprintf("%s.%016x", s[:store.MaxName-17], h.Sum64())
}

var byNames = [...]string{"all", "queue", "type", "group", "key"}

func (c *closing) limit(now store.Millis) Limit {
	if c.rate > 0 { // it ends by the gate, which closes before the limit is gone
		return Limit{Name: c.name(), Queues: strings.Fields(c.queues), Rate: c.rate, Burst: c.burst, Until: now.Add(c.d + paceGrace)}
	}
	return Limit{
		Name: c.name(), By: c.key.By, Key: c.key.Name, Max: store.MaxMembers, Scope: c.scope, Values: map[string]int{c.key.Value: 0}, Until: now.Add(c.d),
	}
}

// run writes until ctx ends.
func (k *keyCloser) run(ctx context.Context) {
	failing := false
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.poke:
		case <-every.C:
			k.pace()
		}
		k.mu.Lock()
		due := k.due
		k.due = map[string]closing{}
		k.mu.Unlock()
		if len(due) == 0 {
			continue
		}
		err := k.write(ctx, due)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			k.log.Warn("a gate cannot close its keys: their commands are claimed and given back instead", "error", err, "keys", len(due))
		case err == nil && failing:
			k.log.Info("gates can close their keys again")
		}
		failing = err != nil
		for name, c := range due {
			if err == nil && c.rate > 0 {
				k.paced(strings.TrimSuffix(strings.TrimPrefix(name, gateLimits), ".rate"))
			}
		}
		k.closed()
		if !sleep(ctx, closePause) {
			return
		}
	}
}

var errTooManyKeys = errors.New("too many keys are closed by gates")

// write adds or prolongs the limits of some closings, and takes those away that are over.
func (k *keyCloser) write(ctx context.Context, due map[string]closing) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	stats, err := k.client.stats(ctx, store.StatsRequest{Overview: true}) // until is by the store's clock
	if err != nil {
		return err
	}
	now, left := stats.AsOf, 0
	_, err = k.client.Configure(ctx, func(cfg *Config) error {
		left = 0
		cfg.Limits = slices.DeleteFunc(cfg.Limits, func(l Limit) bool { return strings.HasPrefix(l.Name, gateLimits) && !l.At(now) })
		mine := 0
		for i := range cfg.Limits {
			if strings.HasPrefix(cfg.Limits[i].Name, gateLimits) {
				mine++
			}
		}
		for name, c := range due {
			l := c.limit(now)
			i := slices.IndexFunc(cfg.Limits, func(o Limit) bool { return o.Name == name })
			switch {
			case i >= 0 && c.rate > 0:
				if o := &cfg.Limits[i]; o.Rate == l.Rate && o.Burst == l.Burst && slices.Equal(o.Queues, l.Queues) && o.Until >= now.Add(c.d+paceGrace/2) {
					continue // another worker has said so
				}
				cfg.Limits[i] = l
			case i >= 0:
				l.Until = max(l.Until, cfg.Limits[i].Until)
				l.Scope = min(l.Scope, cfg.Limits[i].Scope)
				cfg.Limits[i] = l
			case mine >= maxGateKeys || len(cfg.Limits) >= store.MaxLimits:
				left++
			default:
				cfg.Limits = append(cfg.Limits, l)
				mine++
			}
		}
		return nil
	})
	if err == nil && left > 0 {
		err = fmt.Errorf("%w: %d were left open", errTooManyKeys, left)
	}
	return err
}
