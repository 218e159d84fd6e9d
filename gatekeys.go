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
	closePause   = 100 * time.Millisecond // between two writes
)

// closing is one key that a gate of this worker wants closed.
type closing struct {
	gate  string
	key   gate.Key
	scope Scope
	d     time.Duration
}

// keyCloser writes limits of max 0 that end by themselves, so that what a gate would send back waits in the store, for all workers, and blocks
// nobody. It gathers while a write is under way and makes ten writes in a second at most.
type keyCloser struct {
	client *Client
	log    *slog.Logger
	mu     sync.Mutex
	due    map[string]closing // by name of the limit
	poke   chan struct{}
	closed func() // tells the loop
}

func newKeyCloser(c *Client, log *slog.Logger, closed func()) *keyCloser {
	return &keyCloser{client: c, log: log, closed: closed, due: map[string]closing{}, poke: make(chan struct{}, 1)}
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

// name is that of the limit: it tells people the gate and the value, and is shortened to what a name may be.
func (c *closing) name() string {
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
	return Limit{
		Name: c.name(), By: c.key.By, Key: c.key.Name, Max: store.MaxMembers, Scope: c.scope, Values: map[string]int{c.key.Value: 0}, Until: now.Add(c.d),
	}
}

// run writes until ctx ends.
func (k *keyCloser) run(ctx context.Context) {
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.poke:
		}
		k.mu.Lock()
		due := k.due
		k.due = map[string]closing{}
		k.mu.Unlock()
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
		k.closed()
		if !sleep(ctx, closePause) {
			return
		}
	}
}

var errTooManyKeys = errors.New("too many keys are closed by gates")

// write adds or prolongs the limits of some closings, and takes those away that are over.
func (k *keyCloser) write(ctx context.Context, due map[string]closing) error {
	if len(due) == 0 {
		return nil
	}
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
