package sqlitestore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// Bounds of what is told about limits.
const (
	maxFiled   = 100     // lines of a key, and of a lane
	maxValues  = 100     // values of a limit
	maxUsed    = 20_000  // values of a limit, used or not, that are looked at for it
	maxWaiting = 100_000 // commands counted in the lines of a key
)

// Limit implements [store.Store].
func (s *Store) Limit(ctx context.Context, key store.LimitKey) (store.LimitState, error) {
	var st store.LimitState
	err := s.read(ctx, func(r *reader) error {
		var err error
		st, err = r.limit(key)
		return err
	})
	return st, err
}

func (r *reader) limit(key store.LimitKey) (store.LimitState, error) {
	i := slices.IndexFunc(r.cfg.Limits, func(l store.Limit) bool { return l.Name == key.Limit && l.At(r.now.Wall) })
	if i < 0 {
		return store.LimitState{}, store.ErrNotFound
	}
	l := &r.cfg.Limits[i]
	st := store.LimitState{Key: key, Max: l.MaxOf(key.Value)}
	if l.Until != 0 {
		st.Next = max(time.Millisecond, l.Until.Sub(r.now.Wall))
	}
	var rm *roomRow
	err := r.rows(r.q(selectRoom+"name=? AND value=?").Text(key.Limit).Text(key.Value), func(st stmt) { rm = roomOf(st) })
	if err != nil || rm == nil {
		return st, err
	}
	st.Members, st.Lines = rm.members, rm.lines
	if rate, closed := l.RateOf(key.Value); l.Rate > 0 && !closed {
		if _, got, next := rm.tat.Take(rate, r.now.Run, 1); got == 0 {
			st.Next = sooner(st.Next, next)
		}
	}
	if st.Holders, err = r.holders(rm.r); err != nil {
		return st, err
	}
	st.Filed, err = r.filedLines(rm.r)
	return st, err
}

// holders are ids of members of a room: those at rest have an index of their own, the leased ones are found among all leases.
func (r *reader) holders(room int64) (ids []string, err error) {
	add := func(st stmt) { ids = append(ids, st.ColText(0)) }
	if err := r.rows(r.q("SELECT id FROM cmd WHERE hold=? LIMIT ?").Int(room).Int(store.MaxItems), add); err != nil {
		return nil, err
	}
	if err := r.rows(r.q("SELECT cmd.id FROM also JOIN cmd ON cmd.n=also.n WHERE also.r=? LIMIT ?").Int(room).Int(store.MaxItems), add); err != nil {
		return nil, err
	}
	var bad error
	if err := r.rows(r.q("SELECT id, holds FROM cmd WHERE waits=1 LIMIT ?").Int(maxLeased), func(st stmt) {
		if st.ColNull(1) {
			return
		}
		_, rooms, err := parseHolds(st.ColText(1))
		if err != nil {
			bad = err
		}
		if slices.Contains(rooms, room) {
			add(st)
		}
	}); err != nil || bad != nil {
		return nil, errors.Join(err, bad)
	}
	slices.Sort(ids)
	return ids[:min(len(ids), store.MaxItems)], nil
}

// filedLines are the lines filed under a room, oldest first and those that never fit last.
func (r *reader) filedLines(room int64) (all []store.FiledLine, err error) {
	var lns []int64
	if err := r.rows(r.q(`SELECT line.ln, line.name, queue.name, line.lane, kind.type, line.since, line.passed, line.opened, line.ord
		FROM line JOIN kind ON kind.k=line.k JOIN queue ON queue.q=kind.q WHERE line.room=? ORDER BY line.ord LIMIT ?`).Int(room).Int(maxFiled), func(st stmt) {
		f := store.FiledLine{
			Line: st.ColText(1), Queue: st.ColText(2), Lane: store.Lane(st.ColInt(3)), Type: st.ColText(4), Since: store.Millis(st.ColInt(5)),
			Passed: int(st.ColInt(6)), Opened: st.ColInt(7) != 0, Never: st.ColInt(8) >= neverFits,
		}
		if c, ok := rule.ParseLine(f.Line); ok {
			f.Group = c.Group
		}
		lns, all = append(lns, st.ColInt(0)), append(all, f)
	}); err != nil {
		return nil, err
	}
	left := int64(maxWaiting)
	for i, ln := range lns {
		if err := r.rows(r.q("SELECT count(*) FROM (SELECT 1 FROM cmd WHERE line=? LIMIT ?)").Int(ln).Int(max(left, 1)), func(st stmt) {
			all[i].Waiting = int(st.ColInt(0))
		}); err != nil {
			return nil, err
		}
		left -= int64(all[i].Waiting)
	}
	return all, nil
}

// limits are the numbers of every limit in force.
func (r *reader) limits() (all []store.LimitStats, err error) {
	for i := range r.cfg.Limits {
		l := &r.cfg.Limits[i]
		if !l.At(r.now.Wall) {
			continue
		}
		ls := store.LimitStats{Name: l.Name, Max: l.Max, Rate: l.Rate > 0}
		looked, rooms := 0, map[int]int64{}
		if err := r.rows(r.q("SELECT value, members, lines, r FROM room WHERE name=? ORDER BY value LIMIT ?").Text(l.Name).Int(maxUsed), func(st stmt) {
			if looked++; looked == maxUsed {
				ls.AtLeast = true
			}
			if st.ColInt(1) == 0 && st.ColInt(2) == 0 { // it was used a while ago
				return
			}
			if len(ls.Values) == maxValues {
				ls.AtLeast = true
				return
			}
			v := store.LimitValue{Value: st.ColText(0), Members: int(st.ColInt(1)), Lines: int(st.ColInt(2))}
			v.Max = l.MaxOf(v.Value)
			if v.Lines > 0 {
				rooms[len(ls.Values)] = st.ColInt(3)
			}
			ls.Values = append(ls.Values, v)
			ls.Members += v.Members
			ls.Lines += v.Lines
		}); err != nil {
			return nil, err
		}
		for i, room := range rooms {
			if err := r.rows(r.q("SELECT count(*) FROM (SELECT 1 FROM line WHERE room=? AND ord>=? LIMIT ?)").Int(room).Int(neverFits).Int(maxFiled), func(st stmt) {
				ls.Values[i].Never = int(st.ColInt(0))
			}); err != nil {
				return nil, err
			}
			ls.Never += ls.Values[i].Never
		}
		all = append(all, ls)
	}
	return all, nil
}

// lane fills in how the rate of a lane stands, and how many of its lines wait for a limit.
func (r *reader) lane(q *queueRow, kinds []int64, lane store.Lane, l *store.LaneStats) error {
	l.Rate = r.cfg.Queue(q.name).Rates[lane]
	if l.Rate.Limit > 0 {
		var b rule.Bucket
		if err := r.rows(r.q("SELECT tat FROM bucket WHERE q=? AND lane=?").Int(q.q).Int(int64(lane)), func(st stmt) { b = rule.Bucket(st.ColFloat(0)) }); err != nil {
			return err
		}
		_, _, l.Token = b.Take(l.Rate, r.now.Run, 1)
	}
	if r.ns.filed == 0 {
		return nil
	}
	for _, k := range kinds {
		if err := r.rows(r.q("SELECT count(*) FROM (SELECT 1 FROM line WHERE k=? AND lane=? AND shut=1 AND head IS NOT NULL LIMIT ?)").
			Int(k).Int(int64(lane)).Int(int64(maxFiled-l.Filed)), func(st stmt) { l.Filed += int(st.ColInt(0)) }); err != nil {
			return err
		}
	}
	return nil
}

// throttled fills in how the lowered rate of a type stands.
func (r *reader) throttled(k int64, t *store.TypeStats) error {
	return r.rows(r.q(selectThrottle).Int(k).Int(int64(t.Lane)), func(st stmt) {
		if th := scanThrottle(st); th.Rate > 0 && !th.Gone(r.now.Run) {
			t.Throttled = th.Now(r.now.Run)
			_, _, t.Token = th.Take(r.now.Run, 1)
		}
	})
}
