package store

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Config is the configuration of a namespace. It lives in the store, is replaced whole by compare-and-set, and is never written
// by a worker. The zero value is usable.
type Config struct {
	Version    uint64
	Visibility time.Duration          // 0 means DefaultV; at least 200 ms
	Queues     map[string]QueueConfig // queues that are not named have the zero QueueConfig
	Limits     []Limit                // see Limit; names are distinct
}

// Clone returns a copy that shares nothing with c.
func (c *Config) Clone() Config {
	d := *c
	d.Queues = maps.Clone(c.Queues)
	for name, q := range d.Queues {
		q.Weights = maps.Clone(q.Weights)
		d.Queues[name] = q
	}
	d.Limits = slices.Clone(c.Limits)
	for i := range d.Limits {
		l := &d.Limits[i]
		l.Queues, l.Values = slices.Clone(l.Queues), maps.Clone(l.Values)
	}
	return d
}

// V returns the visibility timeout in force.
func (c *Config) V() time.Duration {
	if c.Visibility > 0 {
		return c.Visibility
	}
	return DefaultV
}

// Queue returns the configuration of a queue with its defaults filled in.
func (c *Config) Queue(name string) QueueConfig { return c.Queues[name].WithDefaults() }

// PauseMode is what a pause stops.
type PauseMode uint8

const (
	PauseNone   PauseMode = iota
	PauseIntake           // no Execute starts
	PauseAll              // no Execute or Check starts; cancel visits pass
)

func (p PauseMode) String() string { return [...]string{"none", "intake", "all"}[min(int(p), 2)] }

// ParsePauseMode is the inverse of [PauseMode.String].
func ParsePauseMode(s string) (PauseMode, error) {
	for i, n := range [...]string{"none", "intake", "all"} {
		if strings.EqualFold(n, s) {
			return PauseMode(i), nil
		}
	}
	return 0, fmt.Errorf("%w: unknown pause mode %q", ErrInvalid, s)
}

// Order is in which order a queue's intake starts.
type Order uint8

const (
	ByPriority Order = iota // priority, then arrival; with equal priorities first in first out
	ByDeadline              // earliest deadline first, those without one last; equal ones in any order
)

// Rate bounds claims to Limit x t + Burst in any window of t seconds, on the run clock, across all workers of the namespace.
type Rate struct {
	Limit float64 // invocations per second; 0 means no rate
	Burst int     // 0 means max(1, Limit/10)
}

// QueueConfig is the configuration of one queue. Its zero value is usable.
type QueueConfig struct {
	Pause      PauseMode
	PauseUntil Millis  // server time; 0 means until it is taken back
	Rates      [2]Rate // by lane
	Order      Order   // commands that wait keep the order they came in under
	MaxReady   int     // PENDING commands in line or scheduled at which Submit is refused; 0 for no cap. Follow-ups of a Done pass it
	// Retention is how long records of finished commands are kept that do not say it themselves; 0 means DefaultRetention, a day; below zero only a
	// tombstone is kept.
	Retention time.Duration
	Keep      int           // finished records, of which the oldest go first; 0 means DefaultKeep, 100,000
	MaxLosses int           // in a row, that end a command; 0 means DefaultLosses, 5
	CancelFor time.Duration // how long cancel visits are tried, from the first rest after the request; 0 means DefaultCancelFor, 10 minutes
	// Fair serves the groups of the queue in turn, before priority and deadline, in both lanes.
	Fair    bool
	Weights map[string]float64 // turns of a group relative to the others'; 1 if it is not named
}

// WithDefaults fills in what is zero.
func (q QueueConfig) WithDefaults() QueueConfig {
	if q.Retention == 0 {
		q.Retention = DefaultRetention
	}
	if q.Keep == 0 {
		q.Keep = DefaultKeep
	}
	if q.MaxLosses == 0 {
		q.MaxLosses = DefaultLosses
	}
	if q.CancelFor == 0 {
		q.CancelFor = DefaultCancelFor
	}
	for i, r := range q.Rates {
		if r.Limit > 0 && r.Burst == 0 {
			q.Rates[i].Burst = max(1, int(r.Limit/10))
		}
	}
	return q
}

// Paused returns the pause in force at server time now.
func (q QueueConfig) Paused(now Millis) PauseMode {
	if q.PauseUntil != 0 && now >= q.PauseUntil {
		return PauseNone
	}
	return q.Pause
}

// Validate names the first field that contradicts itself or another.
func (c *Config) Validate() error {
	bad := func(field, detail string, a ...any) error {
		return &InvalidError{Field: field, Detail: fmt.Sprintf(detail, a...)}
	}
	if c.Visibility != 0 && (c.Visibility < 200*time.Millisecond || c.Visibility > 24*time.Hour) {
		return bad("visibility", "%v is not between 200ms and 24h", c.Visibility)
	}
	for name, q := range c.Queues {
		if err := ValidName("queues", name); err != nil {
			return err
		}
		f := "queues." + name + "."
		for i, r := range q.Rates {
			switch {
			case r.Limit < 0 || r.Limit != r.Limit || r.Limit > 1e6:
				return bad(f+"rates."+Lane(i).String()+".limit", "%v is not between 0 and 1000000 per second", r.Limit)
			case r.Limit > 0 && r.Limit < 1e-5:
				return bad(f+"rates."+Lane(i).String()+".limit", "%v is less than one a day; pause the queue instead", r.Limit)
			case r.Burst < 0 || r.Burst > 1e6:
				return bad(f+"rates."+Lane(i).String()+".burst", "%d is not between 0 and 1000000", r.Burst)
			case r.Limit == 0 && r.Burst > 0:
				return bad(f+"rates."+Lane(i).String()+".burst", "is set without a limit")
			}
		}
		switch {
		case q.Pause > PauseAll:
			return bad(f+"pause", "unknown mode %d", q.Pause)
		case q.Pause == PauseNone && q.PauseUntil != 0:
			return bad(f+"pause_until", "is set without a pause")
		case q.Order > ByDeadline:
			return bad(f+"order", "unknown order %d", q.Order)
		case q.MaxReady < 0:
			return bad(f+"max_ready", "is negative")
		case q.Keep < 0:
			return bad(f+"keep", "is negative")
		case q.MaxLosses < 0 || q.MaxLosses == 1 || q.MaxLosses > 1000:
			return bad(f+"max_losses", "%d is not between 2 and 1000: one loss must never end a command", q.MaxLosses)
		case q.CancelFor < 0:
			return bad(f+"cancel_for", "is negative")
		case !q.Fair && len(q.Weights) > 0:
			return bad(f+"weights", "are set without fair")
		}
		for g, w := range q.Weights {
			if !(w >= 0.001 && w <= 1000) {
				return bad(f+"weights."+g, "%v is not between 0.001 and 1000", w)
			}
		}
	}
	return c.validLimits()
}
