package redisstore

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

const (
	maxFiled   = 100 // lines that are told of one lane or key
	maxValues  = 100 // values that are told of one limit
	statLimits = 8   // limits that one script call looks at
)

// Limit implements [store.Store]. Of more than MaxItems holders it tells some.
func (s *Store) Limit(ctx context.Context, k store.LimitKey) (store.LimitState, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return store.LimitState{}, err
	}
	defer done()
	m, err := s.eval(ctx, &s.main, scriptLimit, []string{limitKey(k)})
	if err != nil {
		return store.LimitState{}, err
	}
	p, err := m.ToArray()
	if err != nil {
		return store.LimitState{}, badReply("limit", err)
	}
	if len(p) == 0 {
		return store.LimitState{}, store.ErrNotFound
	}
	if len(p) != 16 {
		return store.LimitState{}, badReply("limit", nil)
	}
	now, err := readMoment(p[0])
	if err != nil {
		return store.LimitState{}, err
	}
	var n [6]int64 // max, until, burst, closed, members, lines
	for i, at := range [...]int{1, 2, 4, 5, 6, 8} {
		if n[i], err = p[at].AsInt64(); err != nil {
			return store.LimitState{}, badReply("limit", err)
		}
	}
	st := store.LimitState{Key: k, Max: int(n[0]), Members: int(n[4]), Lines: int(n[5])}
	if st.Holders, err = p[7].AsStrSlice(); err != nil {
		return st, badReply("limit", err)
	}
	slices.Sort(st.Holders)
	st.Holders = st.Holders[:min(len(st.Holders), store.MaxItems)]
	if until := store.Millis(n[1]); until != 0 {
		st.Next = max(time.Millisecond, until.Sub(now.Wall))
	}
	rate, err := p[3].AsStrSlice()
	if err != nil || len(rate) != 2 {
		return st, badReply("limit", err)
	}
	if r := (store.Rate{Limit: parseFloat(rate[0]), Burst: int(n[2])}); r.Limit > 0 && n[3] == 0 {
		_, got, next := rule.Bucket(parseFloat(rate[1])).Take(r, now.Run, 1)
		if got == 0 && (st.Next == 0 || next < st.Next) {
			_, _, st.Next = rule.Bucket(parseFloat(rate[1])).Take(r, now.Run, r.Burst+1)
		}
	}
	st.Filed, err = s.readFiled(p[9:])
	return st, err
}

func parseFloat(s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return f
}

// readFiled reads filed lines: names, filings, how often passed over, commands, definitions, whether they are open, since when they are filed.
func (s *Store) readFiled(p []rueidis.RedisMessage) ([]store.FiledLine, error) {
	var text [3][]string
	for i, at := range [...]int{0, 1, 4} {
		var err error
		if text[i], err = p[at].AsStrSlice(); err != nil {
			return nil, badReply("limit", err)
		}
	}
	passed, err := p[2].AsIntSlice()
	if err != nil {
		return nil, badReply("limit", err)
	}
	waiting, err := p[3].AsIntSlice()
	if err != nil {
		return nil, badReply("limit", err)
	}
	open, err := p[5].AsIntSlice()
	since, err2 := p[6].AsStrSlice()
	if err2 != nil || len(since) != len(open) {
		return nil, badReply("limit", err2)
	}
	names, filings, defs := text[0], text[1], text[2]
	if err != nil || len(filings) != len(names) || len(passed) != len(names) || len(waiting) != len(names) || len(defs) != len(names) || len(open) != len(names) {
		return nil, badReply("limit", err)
	}
	var lines []store.FiledLine
	for i, name := range names {
		d, ok := s.lines.get(defs[i])
		f, ok2 := parseFiling(filings[i])
		if !ok || !ok2 || len(name) != baseLen+2 {
			continue
		}
		lane, class, holder := lineKind(name)
		lines = append(lines, store.FiledLine{
			Line: rule.LineName(d.command(), lane, class, holder), Queue: d.queue, Lane: lane, Type: d.typ, Group: d.group, Waiting: int(waiting[i]),
			Since: store.Millis(atoi(since[i])), Passed: int(passed[i]), Opened: open[i] == 1, Never: f.never,
		})
	}
	return lines, nil
}

// command has what the commands of the line have in common.
func (d *lineDef) command() *store.Command {
	return &store.Command{Queue: d.queue, Type: d.typ, Group: d.group, BatchKey: d.batch, Cost: d.cost, Keys: d.keys}
}

// lineKind reads the letters behind the base of a line: its lane and class. holder says that it is one of PENDING suspects that hold a slot.
func lineKind(line string) (lane store.Lane, class store.Class, holder bool) {
	if line[baseLen] == laneArg[store.Repoll][0] {
		lane = store.Repoll
	}
	if class = store.Class(line[baseLen+1] - '0'); class == 6 {
		return lane, store.ClassSuspect, true
	}
	return lane, class, false
}

// filing is what the hash of filed lines holds for one line, see unpackline in script/filed/line.lua.
type filing struct {
	never      bool
	cost       int
	key, queue string
	typ        string
}

func parseFiling(text string) (filing, bool) {
	r := reader{s: text}
	flags := r.uint(1)
	f := filing{never: flags&2 != 0}
	r.uint(6)
	f.cost = int(r.uint(1))
	r.uint(4)
	f.key = r.str(int(r.uint(2)))
	f.queue = r.str(int(r.uint(1)))
	f.typ = r.str(int(r.uint(1)))
	return f, !r.bad
}

// limitStats are the numbers of every limit in force.
func (s *Store) limitStats(ctx context.Context, cfg *store.Config, wall store.Millis) ([]store.LimitStats, error) {
	var in []*store.Limit
	for i := range cfg.Limits {
		if cfg.Limits[i].At(wall) {
			in = append(in, &cfg.Limits[i])
		}
	}
	var all []store.LimitStats
	for part := range slices.Chunk(in, statLimits) {
		names := make([]string, len(part))
		for i, l := range part {
			names[i] = l.Name
		}
		m, err := s.eval(ctx, &s.main, scriptLimits, names)
		if err != nil {
			return nil, err
		}
		p, err := m.ToArray()
		if err != nil || len(p) != len(part) {
			return nil, badReply("limits", err)
		}
		for i, l := range part {
			st, err := readLimitStats(l, p[i])
			if err != nil {
				return nil, err
			}
			all = append(all, st)
		}
	}
	return all, nil
}

func readLimitStats(l *store.Limit, m rueidis.RedisMessage) (store.LimitStats, error) {
	st := store.LimitStats{Name: l.Name, Max: l.Max, Rate: l.Rate > 0}
	p, err := m.ToArray()
	if err != nil || len(p) != 5 {
		return st, badReply("limits", err)
	}
	values, err := p[0].AsStrSlice()
	if err != nil {
		return st, badReply("limits", err)
	}
	members, err := p[1].AsIntSlice()
	if err != nil {
		return st, badReply("limits", err)
	}
	lines, err := p[2].AsIntSlice()
	if err != nil || len(members) != len(values) || len(lines) != len(values) {
		return st, badReply("limits", err)
	}
	never, err := p[4].AsIntSlice()
	if err != nil || len(never) != len(values) {
		return st, badReply("limits", err)
	}
	more, err := p[3].AsInt64()
	if err != nil {
		return st, badReply("limits", err)
	}
	for i, v := range values {
		st.Values = append(st.Values, store.LimitValue{Value: v, Max: l.MaxOf(v), Members: int(members[i]), Lines: int(lines[i]), Never: int(never[i])})
	}
	slices.SortFunc(st.Values, func(a, b store.LimitValue) int { return strings.Compare(a.Value, b.Value) })
	st.AtLeast = more != 0 || len(st.Values) > maxValues
	st.Values = st.Values[:min(len(st.Values), maxValues)]
	for _, v := range st.Values {
		st.Members += v.Members
		st.Lines += v.Lines
		st.Never += v.Never
	}
	return st, nil
}
