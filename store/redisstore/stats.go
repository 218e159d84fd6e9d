package redisstore

import (
	"context"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// statsQueues bounds one script call.
const statsQueues = 4

// Stats implements [store.Store]. The numbers of a queue come from its lines and from numbers that every step keeps; each script call looks at
// a bounded number of lines, leases and records.
func (s *Store) Stats(ctx context.Context, req store.StatsRequest) (store.Stats, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return store.Stats{}, err
	}
	defer done()
	cfg, err := s.config(ctx)
	if err != nil {
		return store.Stats{}, err
	}
	st := store.Stats{Config: cfg.Version, Outbox: map[string]int{}, Groups: map[string]int{}}
	known, workers, err := s.overview(ctx, &req, &st)
	if err != nil {
		return st, err
	}
	if !req.Overview {
		st.Workers = workers
	}
	if st.Limits, err = s.limitStats(ctx, &cfg, st.AsOf); err != nil {
		return st, err
	}
	queues := req.Queues
	if len(queues) == 0 {
		set := map[string]bool{}
		for _, q := range known {
			set[q] = true
		}
		for q := range cfg.Queues {
			set[q] = true
		}
		queues = slices.Sorted(maps.Keys(set))
	}
	for len(queues) > 0 {
		part := queues[:min(len(queues), statsQueues)]
		queues = queues[len(part):]
		if err := s.queueStats(ctx, part, &cfg, &req, &st); err != nil {
			return st, err
		}
	}
	return st, nil
}

// overview reads the numbers of the namespace, its queues and its live workers.
func (s *Store) overview(ctx context.Context, req *store.StatsRequest, st *store.Stats) ([]string, []store.Worker, error) {
	m, err := s.eval(ctx, &s.main, scriptOverview, append([]string{boolArg(!req.Overview)}, req.Groups...))
	if err != nil {
		return nil, nil, err
	}
	p, err := m.ToArray()
	if err != nil || len(p) != 6 {
		return nil, nil, badReply("overview", err)
	}
	now, err := readMoment(p[0])
	if err != nil {
		return nil, nil, err
	}
	st.AsOf, st.Run, st.LeaseAt = now.Wall, now.Run, now.Lease
	queues, err := p[1].AsStrSlice()
	if err != nil {
		return nil, nil, badReply("overview", err)
	}
	regs, err := p[2].AsStrSlice()
	if err != nil || len(regs)%2 != 0 {
		return nil, nil, badReply("overview", err)
	}
	var workers []store.Worker
	for i := 0; i < len(regs); i += 2 {
		w, ok := parseWorker(regs[i+1])
		if !ok {
			w = store.Worker{ID: regs[i]} // somebody lives there, whatever it says about itself
		}
		workers = append(workers, w)
	}
	slices.SortFunc(workers, func(a, b store.Worker) int { return strings.Compare(a.ID, b.ID) })
	groups, err := p[3].AsIntSlice()
	if err != nil || len(groups) != len(req.Groups) {
		return nil, nil, badReply("overview", err)
	}
	for i, g := range req.Groups {
		st.Groups[g] = int(groups[i])
	}
	lost, err := p[4].AsInt64()
	if err != nil {
		return nil, nil, badReply("overview", err)
	}
	st.Lost = int(lost)
	topics, err := p[5].ToArray()
	if err != nil || len(topics)%2 != 0 {
		return nil, nil, badReply("overview", err)
	}
	for i := 0; i < len(topics); i += 2 {
		name, _ := topics[i].ToString()
		n, _ := topics[i+1].AsInt64()
		if n > 0 {
			st.Outbox[name] = int(n)
		}
	}
	return queues, workers, nil
}

// sample are some commands that one step looked at.
type sample []*store.Command

// queueStats adds the numbers of some queues.
func (s *Store) queueStats(ctx context.Context, queues []string, cfg *store.Config, req *store.StatsRequest, st *store.Stats) error {
	m, err := s.eval(ctx, &s.main, scriptStats, queues)
	if err != nil {
		return err
	}
	p, err := m.ToArray()
	if err != nil || len(p) != len(queues)+5 {
		return badReply("stats", err)
	}
	now, err := readMoment(p[0])
	if err != nil {
		return err
	}
	var samples [4]sample // leases that are over, scheduled ones, past their time, overdue
	for i := range samples {
		q, err := p[len(queues)+1+i].ToArray()
		if err != nil || len(q) != 2 {
			return badReply("stats", err)
		}
		ids, err := q[0].AsStrSlice()
		if err != nil {
			return badReply("stats", err)
		}
		if samples[i], err = s.readCommands(q[1], ids, true); err != nil {
			return err
		}
	}
	for i, name := range queues {
		qs := store.QueueStats{Queue: name, Pause: cfg.Queue(name).Paused(now.Wall), Reasons: map[store.Reason]int{}}
		t := &tally{now: now.Now, stats: &qs, types: map[typeLane]*store.TypeStats{}}
		if err := t.counts(s, p[1+i], cfg.Queue(name)); err != nil {
			return err
		}
		t.samples(&samples)
		if !req.Overview {
			t.withTypes(st.Workers)
		}
		st.Queues = append(st.Queues, qs)
	}
	return nil
}

type typeLane struct {
	typ  string
	lane store.Lane
}

// tally puts the numbers of one queue together.
type tally struct {
	now   rule.Now
	stats *store.QueueStats
	types map[typeLane]*store.TypeStats
}

func (t *tally) typeStats(typ string, lane store.Lane) *store.TypeStats {
	k := typeLane{typ, lane}
	if t.types[k] == nil {
		t.types[k] = &store.TypeStats{Type: typ, Lane: lane}
	}
	return t.types[k]
}

// counts reads the kept numbers and what stands in line.
func (t *tally) counts(s *Store, m rueidis.RedisMessage, cfg store.QueueConfig) error {
	p, err := m.ToArray()
	if err != nil || len(p) != 10 {
		return badReply("stats", err)
	}
	fields, err := p[0].ToArray()
	if err != nil || len(fields)%2 != 0 {
		return badReply("stats", err)
	}
	for i := 0; i < len(fields); i += 2 {
		f, _ := fields[i].ToString()
		v, _ := fields[i+1].AsInt64()
		n := int(v)
		switch {
		case f == "s":
			t.stats.Scheduled = n
		case len(f) < 2:
		case f[0] == 'i' || f[0] == 'k':
			lane := store.Lane(strings.IndexByte("ik", f[0]))
			t.stats.Lanes[lane].InLine += n
			t.typeStats(f[1:], lane).InLine = n
		case f[0] == 'I' || f[0] == 'K':
			lane := store.Lane(strings.IndexByte("IK", f[0]))
			t.stats.Lanes[lane].Leased += n
			t.typeStats(f[1:], lane).Leased = n
		}
	}
	var n [4]int64
	for i := range n {
		if n[i], err = p[1+i].AsInt64(); err != nil {
			return badReply("stats", err)
		}
	}
	in, re := &t.stats.Lanes[store.Intake], &t.stats.Lanes[store.Repoll]
	in.Eligible, re.Eligible = in.InLine, int(n[0])
	in.AtLeast, re.AtLeast = n[1] != 0, n[1] != 0
	re.NextDue = store.Millis(n[2])
	if due := store.Millis(n[3]); due != 0 {
		t.older(re, t.now.Wall-(t.now.Run-due))
	}
	fin, err := p[5].AsIntSlice()
	if err != nil || len(fin) != 2+len(store.Reasons) {
		return badReply("stats", err)
	}
	t.stats.Succeeded, t.stats.Cancelled = int(fin[0]), int(fin[1])
	for i, r := range store.Reasons {
		if k := int(fin[2+i]); k > 0 {
			t.stats.Reasons[r] = k
			t.stats.Failed += k
		}
	}
	if err := t.rates(p[7:], cfg); err != nil {
		return err
	}
	return t.heads(s, p[6])
}

// rates says how rates stand, and how many lines wait for limits: for each lane filed lines and token bucket; throttled rates by lane and type.
func (t *tally) rates(p []rueidis.RedisMessage, cfg store.QueueConfig) error {
	filed, err := p[0].AsIntSlice()
	if err != nil || len(filed) != 2 {
		return badReply("stats", err)
	}
	buckets, err := p[1].AsStrSlice()
	if err != nil || len(buckets) != 2 {
		return badReply("stats", err)
	}
	for l := range store.Lanes {
		lane := &t.stats.Lanes[l]
		lane.Filed, lane.Rate = min(int(filed[l]), maxFiled), cfg.Rates[l]
		_, _, lane.Token = rule.Bucket(parseFloat(buckets[l])).Take(lane.Rate, t.now.Run, 1)
	}
	throttled, err := p[2].AsStrSlice()
	if err != nil || len(throttled)%2 != 0 {
		return badReply("stats", err)
	}
	for i := 0; i < len(throttled); i += 2 {
		lane, typ, _ := strings.Cut(throttled[i], "|")
		th, ok := parseThrottle(throttled[i+1])
		if l := strings.Index("ik", lane); ok && l >= 0 && !th.Gone(t.now.Run) {
			ts := t.typeStats(typ, store.Lane(l))
			ts.Throttled = th.Now(t.now.Run)
			_, _, ts.Token = th.Take(t.now.Run, 1)
		}
	}
	return nil
}

// parseThrottle reads a throttled rate, see packthrottle in script/rate.lua.
func parseThrottle(s string) (rule.Throttle, bool) {
	if len(s) != 40 {
		return rule.Throttle{}, false
	}
	var f [5]float64
	for i := range f {
		f[i] = math.Float64frombits(binary.LittleEndian.Uint64([]byte(s[8*i:])))
	}
	return rule.Throttle{Rate: f[0], Ceil: f[1], At: store.Millis(f[2]), Halved: store.Millis(f[3]), Bucket: rule.Bucket(f[4])}, f[0] > 0
}

// heads looks at the first commands of the intake lines for the one that has waited longest.
func (t *tally) heads(s *Store, m rueidis.RedisMessage) error {
	p, err := m.ToArray()
	if err != nil || len(p) != 5 {
		return badReply("stats", err)
	}
	recs, err := p[0].ToArray()
	if err != nil {
		return badReply("stats", err)
	}
	cs, err := s.readCommands(m, make([]string, len(recs)), true)
	if err != nil {
		return err
	}
	for _, c := range cs {
		if c != nil && rule.Claimable(t.now, c) {
			t.older(&t.stats.Lanes[store.Intake], rule.WaitsSince(t.now, c))
		}
	}
	return nil
}

func (t *tally) older(l *store.LaneStats, since store.Millis) {
	if l.OldestEligible == 0 || since < l.OldestEligible {
		l.OldestEligible = since
	}
}

// samples corrects the numbers by what nobody has done yet: expired leases and due commands are eligible, ended ones are not.
func (t *tally) samples(samples *[4]sample) {
	mine := func(i int) func(yield func(*store.Command) bool) {
		return func(yield func(*store.Command) bool) {
			for _, c := range samples[i] {
				if c != nil && c.Queue == t.stats.Queue && !yield(c) {
					return
				}
			}
		}
	}
	for i := range samples {
		if len(samples[i]) >= 300 {
			t.stats.Lanes[0].AtLeast, t.stats.Lanes[1].AtLeast = true, true
		}
	}
	for c := range mine(0) {
		if rule.Expired(t.now, c) {
			l := &t.stats.Lanes[c.Lane()]
			l.Expired++
			l.Eligible++
			t.older(l, t.now.Wall-(t.now.Lease-c.LeaseUntil))
		}
	}
	for c := range mine(1) {
		if c.Place != store.Scheduled {
			continue
		}
		if rule.Due(t.now, c) && !rule.Ended(t.now, c) {
			l := &t.stats.Lanes[store.Intake]
			l.Eligible++
			since := c.NotBefore
			if c.Due != 0 {
				since = max(since, t.now.Wall-(t.now.Run-c.Due))
			}
			t.older(l, since)
		} else if due := max(c.NotBefore, c.Due); t.stats.NextDue == 0 || due < t.stats.NextDue {
			t.stats.NextDue = due
		}
	}
	for c := range mine(2) {
		if c.Place == store.InLine && rule.Ended(t.now, c) && (c.Status == store.Pending || c.Due <= t.now.Run) {
			l := &t.stats.Lanes[c.Lane()]
			l.Eligible = max(0, l.Eligible-1)
		}
	}
	for c := range mine(3) {
		if c.Place == store.Leased {
			t.stats.Lanes[c.Lane()].Overdue++
		}
	}
}

// withTypes adds the numbers by type, with who can run them.
func (t *tally) withTypes(workers []store.Worker) {
	for k, ts := range t.types {
		for i := range workers {
			w := &workers[i]
			if !w.Draining && slices.Contains(w.Queues, t.stats.Queue) && slices.Contains(w.Types[k.lane], k.typ) {
				ts.Workers++
			}
		}
		if ts.InLine == 0 && ts.Leased == 0 {
			continue
		}
		t.stats.Types = append(t.stats.Types, *ts)
	}
	slices.SortFunc(t.stats.Types, func(a, b store.TypeStats) int {
		if a.Type != b.Type {
			return strings.Compare(a.Type, b.Type)
		}
		return int(a.Lane) - int(b.Lane)
	})
}
