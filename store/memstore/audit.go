package memstore

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// Audit implements [store.Store].
func (s *Store) Audit(ctx context.Context) (store.AuditReport, error) {
	if err := s.begin(ctx); err != nil {
		return store.AuditReport{}, err
	}
	defer s.mu.Unlock()
	var rep store.AuditReport
	unique := map[string]string{}
	tokens := map[uint64]string{}
	pending := map[string]int{}
	for _, e := range s.outbox {
		pending[e.id]++
	}
	for _, id := range slices.Sorted(maps.Keys(s.cmds)) {
		c := s.cmds[id]
		rep.Commands++
		bad := func(format string, a ...any) {
			rep.Violations = append(rep.Violations, id+": "+fmt.Sprintf(format, a...))
		}
		for _, v := range rule.Check(c) {
			bad("%s", v)
		}
		if c.ID != id {
			bad("is kept under another id than its own, %q", c.ID)
		}
		if c.Seq > s.seq {
			bad("arrived as number %d, but only %d have", c.Seq, s.seq)
		}
		if want := c.Notify != "" && c.Status.Terminal() && c.PurgeAt == 0; want != (pending[id] == 1) {
			bad("has %d outbox entries, status %s, topic %q", pending[id], c.Status, c.Notify)
		}
		delete(pending, id)
		if c.Place == store.Leased {
			rep.Leased++
			if other, ok := tokens[c.Lease.Token]; ok {
				bad("has the lease token %d of %s", c.Lease.Token, other)
			}
			tokens[c.Lease.Token] = id
			if c.Lease.Token > s.token {
				bad("has lease token %d, but only %d were given", c.Lease.Token, s.token)
			}
		}
		if c.UniqueKey != "" && !c.Status.Terminal() {
			if other, ok := unique[c.UniqueKey]; ok {
				bad("holds the unique key %q of %s", c.UniqueKey, other)
			}
			unique[c.UniqueKey] = id
		}
	}
	now := s.look()
	for _, k := range s.filedKeys() {
		l := s.limit(now, k)
		for _, f := range s.filed[k] {
			h := s.head(f.line)
			if h == nil || f.opened || s.stops(now, f) {
				continue
			}
			if ok, _ := s.room(now, k, l, h.Cost); ok && s.clocks.Run-f.retest > rule.Retest {
				rep.Violations = append(rep.Violations, fmt.Sprintf("%s: line %q stands filed although there is room", k, f.line))
			}
			break
		}
	}
	for id := range pending {
		rep.Violations = append(rep.Violations, id+": has an outbox entry but no record that waits for it")
	}
	return rep, nil
}
