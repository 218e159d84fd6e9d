package sqlitestore

import (
	"cmp"
	"maps"
	"slices"

	"github.com/twolane/twolane/store"
)

// flush writes everything that has changed here.
func (s *state) flush() error {
	if err := s.flushLines(); err != nil {
		return err
	}
	for len(s.lefts) > 0 {
		if err := s.w.hints(s.w.look()); err != nil {
			return err
		}
		if err := s.flushLines(); err != nil {
			return err
		}
	}
	if err := s.flushRooms(); err != nil {
		return err
	}
	if err := s.flushTurns(); err != nil {
		return err
	}
	for _, q := range s.dirtyQueues {
		q.dirty = false
		if q.turned {
			q.turned = false
			if err := s.w.q("UPDATE queue SET v0=?, v1=?, fair=? WHERE q=?").Float(q.v[0]).Float(q.v[1]).Int(q.fair).Int(q.q).Run(); err != nil {
				return err
			}
		}
		if err := s.w.q("UPDATE queue SET ready=?, succeeded=?, failed=?, cancelled=?, arrived0=?, arrived1=?, scheduled=? WHERE q=?").
			Int(q.ready).Int(q.succeeded).Int(q.failed).Int(q.cancelled).Int(q.arrived[0]).Int(q.arrived[1]).Int(q.scheduled).Int(q.q).Run(); err != nil {
			return err
		}
	}
	s.dirtyQueues = s.dirtyQueues[:0]
	for _, k := range s.dirtyKinds {
		k.dirty = false
		if err := s.w.q("UPDATE kind SET inline0=?, inline1=?, leased0=?, leased1=?, scheduled=? WHERE k=?").
			Int(k.inline[0]).Int(k.inline[1]).Int(k.leased[0]).Int(k.leased[1]).Int(k.scheduled).Int(k.k).Run(); err != nil {
			return err
		}
	}
	s.dirtyKinds = s.dirtyKinds[:0]
	if err := s.flushRates(); err != nil {
		return err
	}
	if err := s.flushTallies(); err != nil {
		return err
	}
	ns, counts := &s.ns, s.counted != s.ns.limitCounts
	if !s.nsDirty && !counts {
		return nil
	}
	s.nsDirty, s.counted = false, ns.limitCounts
	sql := "UPDATE ns SET last=?, run=?, lease=?, shift=?, fixed=?, seq=?, token=?, entry=?, version=?"
	if counts {
		sql = "UPDATE ns SET last=?, run=?, lease=?, shift=?, fixed=?, seq=?, token=?, entry=?, version=?, held=?, rooms=?, filed=?, filings=?, swept=?, sweep=?"
	}
	st := s.w.q(sql).Int(int64(ns.clocks.Last)).Int(int64(ns.clocks.Run)).Int(int64(ns.clocks.Lease)).Int(int64(ns.shift)).Int(int64(ns.fixed)).
		Int(int64(ns.seq)).Int(int64(ns.token)).Int(int64(ns.entry)).Int(int64(ns.version))
	if counts {
		st.Int(ns.held).Int(ns.rooms).Int(ns.filed).Int(ns.filings).Int(int64(ns.swept)).Int(ns.sweep)
	}
	return st.Run()
}

// flushTallies writes what is only ever added up: live commands by group, outbox entries by topic, failures by reason.
func (s *state) flushTallies() error {
	for _, name := range slices.Sorted(maps.Keys(s.groups)) {
		d := s.groups[name]
		if d == 0 {
			continue
		}
		live, err := s.tally(s.w.q("INSERT INTO grp (name, live) VALUES (?1,?2) ON CONFLICT DO UPDATE SET live=live+?2 RETURNING live").Text(name).Int(d))
		if err != nil {
			return err
		}
		if live <= 0 {
			if err := s.w.q("DELETE FROM grp WHERE name=?").Text(name).Run(); err != nil {
				return err
			}
			s.w.wakes = append(s.w.wakes, store.Wake{Kind: store.WakeGroup, ID: name})
		}
	}
	clear(s.groups)
	for _, name := range slices.Sorted(maps.Keys(s.topics)) {
		n, err := s.tally(s.w.q("INSERT INTO topic (name, n) VALUES (?1,?2) ON CONFLICT DO UPDATE SET n=n+?2 RETURNING n").Text(name).Int(s.topics[name]))
		if err != nil {
			return err
		}
		if n <= 0 {
			if err := s.w.q("DELETE FROM topic WHERE name=?").Text(name).Run(); err != nil {
				return err
			}
		}
	}
	clear(s.topics)
	for _, k := range slices.SortedFunc(maps.Keys(s.reasons), func(a, b reasonKey) int { return cmp.Or(cmp.Compare(a.q, b.q), cmp.Compare(a.name, b.name)) }) {
		if _, err := s.tally(s.w.q("INSERT INTO reason (q, name, n) VALUES (?1,?2,?3) ON CONFLICT DO UPDATE SET n=n+?3 RETURNING n").
			Int(k.q).Text(string(k.name)).Int(s.reasons[k])); err != nil {
			return err
		}
	}
	clear(s.reasons)
	return nil
}

func (s *state) tally(st stmt) (int64, error) {
	ok, err := st.Step()
	if err != nil || !ok {
		return 0, err
	}
	n := st.ColInt(0)
	for ok {
		if ok, err = st.Step(); err != nil {
			return 0, err
		}
	}
	return n, nil
}
