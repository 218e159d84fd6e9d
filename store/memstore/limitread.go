package memstore

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// maxFiled and maxValues bound what is told of lines and of values.
const (
	maxFiled  = 100
	maxValues = 100
)

// Limit implements [store.Store].
func (s *Store) Limit(ctx context.Context, k store.LimitKey) (store.LimitState, error) {
	if err := s.begin(ctx); err != nil {
		return store.LimitState{}, err
	}
	defer s.mu.Unlock()
	now := s.look()
	l := s.limit(now, k)
	if l == nil {
		return store.LimitState{}, store.ErrNotFound
	}
	st := store.LimitState{Key: k, Max: l.MaxOf(k.Value), Members: s.members(k)}
	s.live(func(c *store.Command) {
		if rule.Holds(c, k) {
			st.Holders = append(st.Holders, c.ID)
		}
	})
	slices.Sort(st.Holders)
	st.Holders = st.Holders[:min(len(st.Holders), store.MaxItems)]
	if l.Until != 0 {
		st.Next = max(time.Millisecond, l.Until.Sub(now.Wall))
	}
	if r, closed := l.RateOf(k.Value); l.Rate > 0 && !closed {
		_, _, next := s.limitBuckets[k].Take(r, now.Run, r.Burst+1)
		if _, got, _ := s.limitBuckets[k].Take(r, now.Run, 1); got == 0 {
			st.Next = sooner(st.Next, next)
		}
	}
	for _, fl := range s.filedLines(k) {
		st.Lines++
		if len(st.Filed) < maxFiled {
			st.Filed = append(st.Filed, fl)
		}
	}
	return st, nil
}

// filedLines are the lines with commands filed under a key, those that never fit last.
func (s *Store) filedLines(k store.LimitKey) []store.FiledLine {
	var in, never []store.FiledLine
	fs := s.filed[k]
	if fs == nil {
		return nil
	}
	for _, f := range fs.lines {
		fl := store.FiledLine{
			Line: f.line, Queue: f.like.Queue, Lane: f.like.Lane(), Type: f.like.Type, Group: f.like.Group,
			Since: f.since, Passed: s.passed[f.line], Opened: f.opened, Never: f.never,
		}
		s.live(func(c *store.Command) {
			if f.has(c) {
				fl.Waiting++
			}
		})
		switch {
		case fl.Waiting == 0:
		case fl.Never:
			never = append(never, fl)
		default:
			in = append(in, fl)
		}
	}
	return append(in, never...)
}

// limitStats are the numbers of every limit in force.
func (s *Store) limitStats(now rule.Now) []store.LimitStats {
	var all []store.LimitStats
	for i := range s.cfg.Limits {
		l := &s.cfg.Limits[i]
		if !l.At(now.Wall) {
			continue
		}
		values := map[string]*store.LimitValue{}
		at := func(k store.LimitKey) *store.LimitValue {
			if values[k.Value] == nil {
				values[k.Value] = &store.LimitValue{Value: k.Value, Max: l.MaxOf(k.Value)}
			}
			return values[k.Value]
		}
		s.live(func(c *store.Command) {
			for _, h := range c.Holds {
				if h.Limit == l.Name {
					at(h.LimitKey).Members += c.Cost
				}
			}
		})
		for _, k := range s.filedKeys() {
			if k.Limit != l.Name {
				continue
			}
			for _, f := range s.filedLines(k) {
				v := at(k)
				if v.Lines++; f.Never {
					v.Never++
				}
			}
		}
		st := store.LimitStats{Name: l.Name, Max: l.Max, Rate: l.Rate > 0}
		for _, v := range slices.Sorted(maps.Keys(values)) {
			if len(st.Values) == maxValues {
				st.AtLeast = true
				break
			}
			st.Values = append(st.Values, *values[v])
			st.Members += values[v].Members
			st.Lines += values[v].Lines
			st.Never += values[v].Never
		}
		all = append(all, st)
	}
	return all
}

// filedIn counts the lines of a queue and lane that wait for a limit.
func (s *Store) filedIn(queue string, lane store.Lane) int {
	n := 0
	for _, k := range s.filedKeys() {
		for _, l := range s.filedLines(k) {
			if l.Queue == queue && l.Lane == lane {
				n++
			}
		}
	}
	return min(n, maxFiled)
}
