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
	rep.Violations = append(rep.Violations, s.auditFiled()...)
	for id := range pending {
		rep.Violations = append(rep.Violations, id+": has an outbox entry but no record that waits for it")
	}
	return rep, nil
}

// auditFiled says what is wrong with the lines that wait for limits, as of the last step that moved the clocks.
func (s *Store) auditFiled() (bad []string) {
	now, under := s.clocks.Now(), map[string]store.LimitKey{}
	for _, k := range s.filedKeys() {
		fs := s.filed[k]
		for _, f := range fs.lines {
			say := func(what string) { bad = append(bad, fmt.Sprintf("%s: line %q %s", k, f.line, what)) }
			if other, ok := under[f.line]; ok {
				say("is filed under " + other.String() + " too")
			}
			under[f.line] = k
			room, _ := s.room(now, k, f.like.Cost)
			switch {
			case f.retest+rule.Retest < now.Run:
				say("is not tested again")
			case room && !f.opened && !f.never && fs.stood != 0 && fs.stood+2*rule.Retest < now.Run && s.claimable(now, f) && !s.pausedLine(now, f):
				say("stands filed though the key has had room for two seconds")
			}
		}
	}
	return bad
}
