package twolane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// Limit is an exact cap, kept in the store: how many commands may be active at once, or with a Rate how many handlers may start per time. Its fields
// are documented at [store.Limit].
type Limit = store.Limit

// By says which commands a limit counts together.
type By = store.By

// What a limit counts together.
const (
	ByAll   = store.ByAll
	ByQueue = store.ByQueue
	ByType  = store.ByType
	ByGroup = store.ByGroup
	ByKey   = store.ByKey // those with one value of the key that Limit.Key names
)

// Scope says from when to when a command counts.
type Scope = store.Scope

// Scopes of a limit.
const (
	ScopeInvocation = store.ScopeInvocation // while a worker has it
	ScopeCommand    = store.ScopeCommand    // from its first start until it ends, or its handler returns and leaves it PENDING
)

// SetLimit adds a limit to the configuration, or replaces the one of its name. It holds from the next claim on; what it lowers evicts nobody. A limit
// with neither a Max nor a Rate closes what it covers. A store that keeps no limits refuses it.
func (c *Client) SetLimit(ctx context.Context, l Limit) error {
	_, err := c.configure(ctx, func(cfg *Config) error {
		if i := slices.IndexFunc(cfg.Limits, func(o Limit) bool { return o.Name == l.Name }); i >= 0 {
			cfg.Limits[i] = l
		} else {
			cfg.Limits = append(cfg.Limits, l)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("limit %s: %w", l.Name, err)
	}
	return nil
}

// RemoveLimit takes a limit out of the configuration; what waited for it runs within a second or so. Removing one that is not there is no error.
func (c *Client) RemoveLimit(ctx context.Context, name string) error {
	_, err := c.configure(ctx, func(cfg *Config) error {
		cfg.Limits = slices.DeleteFunc(cfg.Limits, func(l Limit) bool { return l.Name == name })
		if len(cfg.Limits) == 0 {
			cfg.Limits = nil
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("limit %s: %w", name, err)
	}
	return nil
}

// Limits reads the limits of the namespace.
func (c *Client) Limits(ctx context.Context) ([]Limit, error) {
	cfg, err := c.Config(ctx)
	return cfg.Limits, err
}

// Limit reads how one counted value of a limit stands. The value of a limit [ByAll] is empty. [ErrNotFound] says that no such limit is in force.
func (c *Client) Limit(ctx context.Context, name, value string) (store.LimitState, error) {
	st, err := c.limit(ctx, store.LimitKey{Limit: name, Value: value})
	if errors.Is(err, ErrNotFound) {
		err = errNoLimit
	}
	if err != nil {
		return st, fmt.Errorf("limit %s: %w", name, err)
	}
	return st, nil
}

func (c *Client) limit(ctx context.Context, k store.LimitKey) (st store.LimitState, err error) {
	err = c.call(ctx, func(ctx context.Context, _ int) (err error) {
		st, err = c.store.Limit(ctx, k)
		return err
	})
	return st, err
}

// LimitWait is the limit that a command waits for.
type LimitWait struct {
	Limit, Value string
	Rate         bool // a rate: it has no Max, Members and Holders
	Max, Members int
	Holders      []string // ids of members, at most 1000
	// Lines wait for it, and Position is the place among them of the command's line, from 1; 0 if it is not among the first hundred, or the
	// next claim would be the first to be stopped.
	Lines, Position int
	// Passed is how often its line let room stand, for want of a worker or for another limit, and lost its place.
	Passed int
	// Never says that the command costs more than the limit admits at all.
	Never bool
	// Next is until time alone may give room: the next token of a rate, or the end of the limit. 0 is unknown.
	Next time.Duration
}

// findLimit finds the limit that stops x.r, if one does, as a claim would: the one that its line is filed under, or the first without room.
func (c *Client) findLimit(ctx context.Context, cfg *Config, x *explainer) error {
	line := rule.Line(x.r)
	for _, a := range rule.Limits(x.now, cfg, x.r) {
		if !rule.Waits(x.r, &a) {
			continue
		}
		st, err := c.limit(ctx, a.LimitKey)
		if errors.Is(err, ErrNotFound) { // it has ended meanwhile
			continue
		}
		if err != nil {
			return err
		}
		w := limitWait(&st, a.Limit.Rate > 0)
		w.Never = rule.Never(a.Limit, a.Value, x.r.Cost)
		if i := slices.IndexFunc(st.Filed, func(f store.FiledLine) bool { return f.Line == line }); i >= 0 {
			w.Position, w.Passed = i+1, st.Filed[i].Passed
			x.Limit = w
			return nil
		}
		full := w.Rate && st.Next > 0 || !w.Rate && st.Members+x.r.Cost > st.Max
		if x.Limit == nil && full {
			x.Limit = w
		}
	}
	return nil
}

func limitWait(st *store.LimitState, rate bool) *LimitWait {
	return &LimitWait{
		Limit: st.Key.Limit, Value: st.Key.Value, Rate: rate, Max: st.Max, Members: st.Members, Holders: st.Holders, Lines: st.Lines, Next: st.Next,
	}
}

// args are its numbers for a log line.
func (w *LimitWait) args() []any {
	a := []any{"limit", w.Limit}
	if w.Value != "" {
		a = append(a, "value", w.Value)
	}
	if !w.Rate {
		a = append(a, "members", w.Members, "max", w.Max, "holders", w.Holders[:min(len(w.Holders), 5)])
	}
	if a = append(a, "lines", w.Lines); w.Next > 0 {
		a = append(a, "opens_in", w.Next)
	}
	return a
}

// text says it for people, to go after "but".
func (w *LimitWait) text() string {
	name := store.LimitKey{Limit: w.Limit, Value: w.Value}.String()
	s := fmt.Sprintf("limit %s is full (%d of %d", name, w.Members, w.Max)
	switch {
	case w.Never:
		s = fmt.Sprintf("limit %s admits %d and the command costs more (%d are taken", name, w.Max, w.Members)
	case w.Rate:
		s = fmt.Sprintf("the rate limit %s has no token", name)
	}
	if n := len(w.Holders); n > 0 && !w.Rate {
		s += ", held by " + w.Holders[0]
		if n > 1 {
			s += fmt.Sprintf(" and %d others", n-1)
		}
	}
	if !w.Rate {
		s += ")"
	}
	if w.Position > 0 {
		s += fmt.Sprintf("; its line is number %d of %d that wait", w.Position, w.Lines)
	} else if w.Lines > 0 {
		s += fmt.Sprintf("; %d lines wait", w.Lines)
	}
	if w.Passed > 0 {
		s += fmt.Sprintf(" and has let room stand %d times", w.Passed)
	}
	if w.Next > 0 {
		s += fmt.Sprintf("; there may be room in %v", w.Next.Round(time.Millisecond))
	}
	return s
}
