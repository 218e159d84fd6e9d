package memstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// Get implements [store.Store].
func (s *Store) Get(ctx context.Context, ids []string, opt store.GetOptions) ([]*store.Command, error) {
	if err := tooMany(len(ids)); err != nil {
		return nil, err
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := s.look()
	cs := make([]*store.Command, len(ids))
	for i, id := range ids {
		c := s.cmds[id]
		if c == nil || purgeable(now, c) {
			continue
		}
		cs[i] = rule.AsRead(now, c, s.cfg.Queue(c.Queue))
		if opt.NoBlobs {
			noBlobs(cs[i])
		}
	}
	return cs, nil
}

func noBlobs(c *store.Command) {
	c.Params, c.State, c.Result, c.Progress, c.Metadata, c.Events = nil, nil, nil, nil, nil, nil
}

// List implements [store.Store].
func (s *Store) List(ctx context.Context, req store.ListRequest) (store.ListPage, error) {
	if req.Filter.Queue == "" || req.Filter.Status == 0 {
		return store.ListPage{}, &store.InvalidError{Field: "filter", Detail: "needs a queue and a status"}
	}
	if req.Limit < 0 || req.Limit > store.MaxItems {
		return store.ListPage{}, &store.InvalidError{Field: "limit", Detail: fmt.Sprintf("%d is not between 0 and %d", req.Limit, store.MaxItems)}
	}
	if err := s.begin(ctx); err != nil {
		return store.ListPage{}, err
	}
	defer s.mu.Unlock()
	now := s.look()
	var cs []*store.Command
	for _, c := range s.cmds {
		if matches(now, c, &req.Filter) && (req.Place == store.Nowhere || c.Place == req.Place) && (req.Cursor == "" || listKey(c) > req.Cursor) {
			cs = append(cs, c)
		}
	}
	sort.Slice(cs, func(i, j int) bool { return listKey(cs[i]) < listKey(cs[j]) })
	limit := req.Limit
	if limit == 0 {
		limit = 100
	}
	var page store.ListPage
	if len(cs) > limit {
		cs = cs[:limit]
		page.Cursor = listKey(cs[limit-1])
	}
	for _, c := range cs {
		d := rule.AsRead(now, c, s.cfg.Queue(c.Queue))
		noBlobs(d)
		page.Commands = append(page.Commands, d)
	}
	return page, nil
}

// listKey orders live commands by arrival and finished ones by their end, newest first.
func listKey(c *store.Command) string {
	if c.Status.Terminal() {
		return fmt.Sprintf("%020d %020d %s", uint64(1<<62)-uint64(c.Ended), uint64(1<<62)-c.Seq, c.ID)
	}
	return fmt.Sprintf("%020d %s", c.Seq, c.ID)
}

// Stats implements [store.Store].
func (s *Store) Stats(ctx context.Context, req store.StatsRequest) (store.Stats, error) {
	if err := s.begin(ctx); err != nil {
		return store.Stats{}, err
	}
	defer s.mu.Unlock()
	now := s.look()
	st := store.Stats{AsOf: now.Wall, Run: now.Run, LeaseAt: now.Lease, Config: s.cfg.Version, Outbox: map[string]int{}, Groups: map[string]int{}}
	for _, e := range s.outbox {
		st.Outbox[e.topic]++
	}
	for _, g := range req.Groups {
		st.Groups[g] = s.groupLive(g)
	}
	if !req.Overview {
		for _, id := range slices.Sorted(maps.Keys(s.workers)) {
			if s.ownerLives(now, id) {
				st.Workers = append(st.Workers, *s.workers[id])
			}
		}
	}
	st.Limits = s.limitStats(now)
	for _, queue := range s.queues(req.Queues) {
		st.Queues = append(st.Queues, s.queueStats(now, queue, !req.Overview))
	}
	return st, nil
}

// queues are those asked for, or all that are configured or have a record.
func (s *Store) queues(asked []string) []string {
	if len(asked) > 0 {
		return asked
	}
	known := map[string]bool{}
	for q := range s.cfg.Queues {
		known[q] = true
	}
	for _, c := range s.cmds {
		if !c.Tombstone {
			known[c.Queue] = true
		}
	}
	return slices.Sorted(maps.Keys(known))
}

func (s *Store) queueStats(now rule.Now, queue string, withTypes bool) store.QueueStats {
	qs := store.QueueStats{Queue: queue, Pause: s.cfg.Queue(queue).Paused(now.Wall), Reasons: map[store.Reason]int{}}
	types := map[typeKey]*store.TypeStats{}
	for _, c := range s.cmds {
		if c.Queue != queue || c.Tombstone {
			continue
		}
		switch c.Status {
		case store.Succeeded:
			qs.Succeeded++
			continue
		case store.Failed:
			qs.Failed++
			qs.Reasons[c.Reason]++
			continue
		case store.Cancelled:
			qs.Cancelled++
			continue
		}
		l := &qs.Lanes[c.Lane()]
		k := typeKey{queue, c.Lane(), c.Type}
		if types[k] == nil {
			types[k] = &store.TypeStats{Type: c.Type, Lane: c.Lane()}
		}
		eligible, since := false, store.Millis(0)
		switch c.Place {
		case store.InLine:
			l.InLine++
			types[k].InLine++
			if eligible = rule.Claimable(now, c); eligible {
				since = rule.WaitsSince(now, c)
			} else if c.Status == store.Processing && (l.NextDue == 0 || c.Due < l.NextDue) {
				l.NextDue = c.Due
			}
		case store.Scheduled:
			qs.Scheduled++
			if eligible = rule.Due(now, c) && !rule.Ended(now, c); eligible {
				since = max(c.NotBefore, now.Wall-(now.Run-c.Due))
				if c.Due == 0 {
					since = c.NotBefore
				}
			} else if due := max(c.NotBefore, c.Due); qs.NextDue == 0 || due < qs.NextDue {
				qs.NextDue = due
			}
		case store.Leased:
			l.Leased++
			types[k].Leased++
			if c.Overdue {
				l.Overdue++
			}
			if eligible = rule.Expired(now, c); eligible {
				l.Expired++
				since = now.Wall - (now.Lease - c.LeaseUntil)
			}
		}
		if eligible {
			l.Eligible++
			if l.OldestEligible == 0 || since < l.OldestEligible {
				l.OldestEligible = since
			}
		}
	}
	for l := range store.Lanes {
		r := s.cfg.Queue(queue).Rates[l]
		qs.Lanes[l].Rate = r
		qs.Lanes[l].Filed = s.filedIn(queue, store.Lane(l))
		_, _, qs.Lanes[l].Token = s.buckets[laneKey{queue, store.Lane(l)}].Take(r, now.Run, 1)
	}
	if withTypes {
		for k, t := range types {
			if th := s.throttles[k]; th.Rate > 0 && !th.Gone(now.Run) {
				t.Throttled = th.Now(now.Run)
				_, _, t.Token = th.Take(now.Run, 1)
			}
			for id, w := range s.workers {
				if s.ownerLives(now, id) && !w.Draining && slices.Contains(w.Queues, queue) && slices.Contains(w.Types[k.lane], k.typ) {
					t.Workers++
				}
			}
			qs.Types = append(qs.Types, *t)
		}
		slices.SortFunc(qs.Types, func(a, b store.TypeStats) int {
			if a.Type != b.Type {
				return strings.Compare(a.Type, b.Type)
			}
			return int(a.Lane) - int(b.Lane)
		})
	}
	return qs
}

// Config implements [store.Store].
func (s *Store) Config(ctx context.Context) (store.Config, error) {
	if err := s.begin(ctx); err != nil {
		return store.Config{}, err
	}
	defer s.mu.Unlock()
	return s.cfg.Clone(), nil
}

// Configure implements [store.Store].
func (s *Store) Configure(ctx context.Context, expect uint64, cfg store.Config) (store.Config, error) {
	if err := cfg.Validate(); err != nil {
		return store.Config{}, err
	}
	if err := s.begin(ctx); err != nil {
		return store.Config{}, err
	}
	defer s.mu.Unlock()
	if s.cfg.Version != expect {
		return s.cfg.Clone(), store.ErrConfigConflict
	}
	s.cfg = cfg.Clone()
	s.cfg.Version = expect + 1
	now := s.look()
	for _, k := range s.filedKeys() { // what was raised opens now, what was removed with the next re-test
		s.hint(now, k)
	}
	for k := range s.limitBuckets {
		if s.limit(now, k) == nil {
			delete(s.limitBuckets, k)
		}
	}
	s.wake(store.Wake{Kind: store.WakeConfig})
	return s.cfg.Clone(), nil
}

// Outbox implements [store.Store].
func (s *Store) Outbox(ctx context.Context, req store.OutboxRequest) ([]store.OutboxEntry, error) {
	if err := tooMany(max(req.Max, len(req.Ack))); err != nil {
		return nil, err
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := s.look()
	s.outbox = slices.DeleteFunc(s.outbox, func(e outboxEntry) bool {
		if e.topic != req.Topic || !slices.Contains(req.Ack, e.seq) {
			return false
		}
		c := s.cmds[e.id]
		q := s.cfg.Queue(c.Queue)
		c.PurgeAt = rule.PurgeAt(c, q)
		if rule.StripAtEnd(c, q) {
			rule.Strip(c)
		}
		return true
	})
	var out []store.OutboxEntry
	for i := range s.outbox {
		e := &s.outbox[i]
		if e.topic != req.Topic || e.hidden > now.Wall || len(out) >= req.Max {
			continue
		}
		if req.HideFor > 0 {
			e.hidden = now.Wall + req.HideFor
		}
		out = append(out, store.OutboxEntry{Seq: e.seq, Command: s.cmds[e.id].Clone()})
	}
	return out, nil
}
