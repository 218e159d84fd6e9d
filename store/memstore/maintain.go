package memstore

import (
	"context"
	"sort"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// bound is how many items of each kind one step of maintenance takes.
const bound = 100

// Maintain implements [store.Store].
func (s *Store) Maintain(ctx context.Context) (store.MaintainReply, error) {
	if err := s.begin(ctx); err != nil {
		return store.MaintainReply{}, err
	}
	defer s.mu.Unlock()
	return s.maintain(s.advance()), nil
}

func (s *Store) maintain(now rule.Now) store.MaintainReply {
	rep := store.MaintainReply{Now: now.Wall, ConfigVersion: s.cfg.Version, Visibility: s.cfg.V()}
	take := func(which func(*store.Command) bool, key func(*store.Command) store.Millis) []*store.Command {
		var cs []*store.Command
		for _, c := range s.cmds {
			if which(c) {
				cs = append(cs, c)
			}
		}
		sort.Slice(cs, func(i, j int) bool {
			if key(cs[i]) != key(cs[j]) {
				return key(cs[i]) < key(cs[j])
			}
			return cs[i].ID < cs[j].ID
		})
		if len(cs) > bound {
			rep.More = true
			cs = cs[:bound]
		}
		return cs
	}
	for _, c := range take(func(c *store.Command) bool { return rule.Expired(now, c) }, func(c *store.Command) store.Millis { return c.LeaseUntil }) {
		beat := s.beat(c.Owner)
		if until := rule.Doubt(now, beat, s.cfg.V()); until != 0 {
			c.LeaseUntil = until
			continue
		}
		lives := beat > now.Lease
		s.change(now, c, func(q store.QueueConfig) { rule.Reap(now, c, lives, q, s.cfg.V()) })
		rep.Reaped++
		if lives {
			rep.ClaimLost++
		} else {
			rep.Lost++
		}
	}
	for _, c := range take(func(c *store.Command) bool { return rule.Ended(now, c) }, rule.EndsAt) {
		s.expire(now, c)
		rep.Expired++
	}
	for _, c := range take(func(c *store.Command) bool { return rule.VisitOver(now, c) }, func(c *store.Command) store.Millis { return c.CancelUntil }) {
		s.change(now, c, func(q store.QueueConfig) { rule.EndVisit(now, c, q) })
		rep.Expired++
	}
	for _, c := range take(func(c *store.Command) bool { return rule.Due(now, c) }, dueKey) {
		s.seq++
		s.change(now, c, func(store.QueueConfig) { rule.Promote(now, s.seq, c) })
		rep.Promoted++
	}
	s.purge(now, &rep, take)
	for id := range s.workers {
		if !s.ownerLives(now, id) {
			delete(s.workers, id)
		}
	}
	for k, t := range s.throttles {
		if t.Gone(now.Run) {
			delete(s.throttles, k)
		}
	}
	s.retest(now)
	rep.Next = s.next(now)
	return rep
}

func dueKey(c *store.Command) store.Millis { return max(c.Due, c.NotBefore) }

func purgeable(now rule.Now, c *store.Command) bool {
	return c.Status.Terminal() && c.PurgeAt != 0 && now.Wall >= c.PurgeAt
}

// purge removes what is past its retention, and from queues with more finished records than they keep, the oldest: to their tombstones at first.
func (s *Store) purge(now rule.Now, rep *store.MaintainReply, take func(func(*store.Command) bool, func(*store.Command) store.Millis) []*store.Command) {
	for _, c := range take(func(c *store.Command) bool { return purgeable(now, c) }, func(c *store.Command) store.Millis { return c.PurgeAt }) {
		delete(s.cmds, c.ID)
		rep.Purged++
	}
	kept := map[string]int{}
	for _, c := range s.cmds {
		if finished(c) {
			kept[c.Queue]++
		}
	}
	for queue, n := range kept {
		over := n - s.cfg.Queue(queue).Keep
		if over <= 0 {
			continue
		}
		old := take(func(c *store.Command) bool { return c.Queue == queue && finished(c) && c.PurgeAt != 0 }, func(c *store.Command) store.Millis { return c.Ended })
		for _, c := range old[:min(over, len(old))] {
			rule.Strip(c)
			if purgeable(now, c) {
				delete(s.cmds, c.ID)
			}
			rep.Purged++
		}
	}
}

// finished reports whether c is a record that lists and counts show as ended.
func finished(c *store.Command) bool { return c.Status.Terminal() && !c.Tombstone }

// next is how long until time alone may change something.
func (s *Store) next(now rule.Now) time.Duration {
	var d time.Duration
	at := func(t, now store.Millis) {
		if t != 0 {
			d = sooner(d, max(time.Millisecond, t.Sub(now)))
		}
	}
	s.live(func(c *store.Command) {
		switch c.Place {
		case store.Leased:
			at(c.LeaseUntil, now.Lease)
			return
		case store.Scheduled:
			if c.Due > now.Run {
				at(c.Due, now.Run)
			}
			if c.NotBefore > now.Wall {
				at(c.NotBefore, now.Wall)
			}
		case store.InLine:
			if c.Status == store.Processing && c.Due > now.Run {
				at(c.Due, now.Run)
			}
			if c.CancelUntil != 0 {
				at(c.CancelUntil, now.Wall)
			}
		}
		if c.CancelAsked == 0 {
			at(rule.EndsAt(c), now.Wall)
		}
	})
	for _, fs := range s.filed {
		for _, f := range fs.lines {
			at(f.retest, now.Run)
		}
	}
	return d
}
