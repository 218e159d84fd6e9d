package redisstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/store"
)

// Audit implements [store.Store]. It scans the keys of the namespace, and with them the members of every index. What belongs to one id is
// read and compared in one step, so it is exact on a live store too. What concerns whole sets (numbers, counts of lines and groups) is compared
// only if nothing changed meanwhile, and reported only if it stands after two more looks.
func (s *Store) Audit(ctx context.Context) (store.AuditReport, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return store.AuditReport{}, err
	}
	defer done()
	var rep store.AuditReport
	for try := range 3 {
		a := newAudit(s)
		if err := a.run(ctx); err != nil {
			return rep, err
		}
		rep = store.AuditReport{Commands: a.commands, Leased: a.leased, Violations: a.violations()}
		if len(rep.Violations) == 0 || try == 2 {
			break
		}
	}
	return rep, nil
}

// audit is one look at a namespace.
type audit struct {
	s        *Store
	commands int
	leased   int
	bad      map[string]bool // by text, so that nothing is said twice
	ifQuiet  map[string]bool // counts only if nothing has changed meanwhile

	ids     map[string]bool
	members map[string]map[string]string // key -> member or field -> score or value
	keys    map[string]bool
	counts  counts
	tokens  map[uint64]string
	meta    map[string]string
}

func newAudit(s *Store) *audit {
	return &audit{
		s: s, bad: map[string]bool{}, ifQuiet: map[string]bool{}, ids: map[string]bool{}, members: map[string]map[string]string{}, keys: map[string]bool{},
		counts: newCounts(), tokens: map[uint64]string{},
	}
}

func (a *audit) say(format string, args ...any) { a.bad[fmt.Sprintf(format, args...)] = true }

func (a *audit) sayIfQuiet(format string, args ...any) {
	a.ifQuiet[fmt.Sprintf(format, args...)] = true
}

func (a *audit) violations() []string { return slices.Sorted(maps.Keys(a.bad)) }

func (a *audit) run(ctx context.Context) error {
	if err := a.scan(ctx); err != nil {
		return err
	}
	before, err := a.sums(ctx)
	if err != nil {
		return err
	}
	if err := a.readIndexes(ctx); err != nil {
		return err
	}
	if err := a.checkIDs(ctx, slices.Sorted(maps.Keys(a.ids))); err != nil {
		return err
	}
	if err := a.checkStrays(ctx); err != nil {
		return err
	}
	if err := a.checkLines(ctx); err != nil {
		return err
	}
	if err := a.checkValues(ctx); err != nil {
		return err
	}
	after, err := a.sums(ctx)
	if err != nil {
		return err
	}
	if after == before {
		a.checkCounts()
	}
	return nil
}

func (a *audit) eval(ctx context.Context, args ...string) ([]rueidis.RedisMessage, error) {
	m, err := a.s.eval(ctx, &a.s.main, scriptAudit, args)
	if err != nil {
		return nil, err
	}
	p, err := m.ToArray()
	if err != nil {
		return nil, badReply("audit", err)
	}
	return p, nil
}

// scan collects the keys of the namespace.
func (a *audit) scan(ctx context.Context) error {
	cursor := "0"
	for {
		p, err := a.eval(ctx, "scan", cursor)
		if err != nil {
			return err
		}
		if len(p) != 2 {
			return badReply("audit", nil)
		}
		keys, err := p[1].AsStrSlice()
		if err != nil {
			return badReply("audit", err)
		}
		for _, k := range keys {
			a.key(strings.TrimPrefix(k, a.s.key.prefix))
		}
		if cursor, _ = p[0].ToString(); cursor == "0" || cursor == "" {
			return nil
		}
	}
}

// blobKinds are the kinds of keys that are named after one id.
var blobKinds = []string{"c", "p", "s", "e", "r"}

func (a *audit) key(k string) {
	kind, rest, named := strings.Cut(k, "|")
	if named && slices.Contains(blobKinds, kind) {
		a.ids[rest] = true
		return
	}
	if named {
		kind += "|"
	}
	for _, known := range keyKinds {
		if known.kind == kind && known.typ != "channel" {
			a.keys[k] = true
			return
		}
	}
	a.say("%s: is a key of no known kind", k)
}

// idIndexes are the indexes whose members are ids.
var idIndexes = map[string]bool{
	"l|": true, "sr": true, "sn": true, "x": true, "L": true, "T": true, "xl": true, "cx": true, "od": true, "f|": true, "z": true, "lost": true,
}

// readIndexes reads every index but the records.
func (a *audit) readIndexes(ctx context.Context) error {
	for k := range a.keys {
		kind, _, named := strings.Cut(k, "|")
		if named {
			kind += "|"
		}
		typ := ""
		for _, known := range keyKinds {
			if known.kind == kind {
				typ = known.typ
			}
		}
		if typ == "string" || kind == "meta" || kind == "cfg" || kind == "wr" || kind == "W" || kind == "aw" || kind == "ag" {
			continue
		}
		m := map[string]string{}
		for cursor := "0"; ; {
			p, err := a.eval(ctx, "members", k, typ, cursor)
			if err != nil {
				return err
			}
			if len(p) != 3 {
				return badReply("audit", nil)
			}
			names, err := p[1].AsStrSlice()
			if err != nil {
				return badReply("audit", err)
			}
			values, err := p[2].AsStrSlice()
			if err != nil {
				return badReply("audit", err)
			}
			for i, n := range names {
				m[n] = ""
				if i < len(values) {
					m[n] = values[i]
				}
				if idIndexes[kind] {
					a.ids[n] = true
				}
				if _, id := memberOf(n); kind == "m|" {
					a.ids[id] = true
				}
			}
			if cursor, _ = p[0].ToString(); cursor == "0" || cursor == "" {
				break
			}
		}
		a.members[k] = m
		switch {
		case kind == "u":
			for _, id := range m {
				a.ids[id] = true
			}
		case kind == "oi|":
			for _, v := range m {
				id, _, _ := strings.Cut(v, " ")
				a.ids[id] = true
			}
		}
	}
	return nil
}

// sums reads counters and the numbers of queues; the text says whether anything has changed, since every step that changes a place changes one.
func (a *audit) sums(ctx context.Context) (string, error) {
	args := []string{"sums"}
	for _, k := range slices.Sorted(maps.Keys(a.keys)) {
		if strings.HasPrefix(k, "n|") || strings.HasPrefix(k, "lf|") || k == "fn" {
			args = append(args, k)
		}
	}
	p, err := a.eval(ctx, args...)
	if err != nil {
		return "", err
	}
	if len(p) != len(args) {
		return "", badReply("audit", nil)
	}
	var b strings.Builder
	for i := range p {
		m, err := p[i].AsStrMap()
		if err != nil {
			return "", badReply("audit", err)
		}
		if i == 0 {
			a.meta = m
			for _, f := range []string{"seq", "tok", "oseq", "cv"} {
				fmt.Fprintf(&b, "%s=%s ", f, m[f])
			}
			continue
		}
		fmt.Fprintf(&b, "%s:", args[i])
		for _, f := range slices.Sorted(maps.Keys(m)) {
			fmt.Fprintf(&b, "%s=%s ", f, m[f])
		}
		a.members[args[i]] = m
	}
	return b.String(), nil
}

func atoi(s string) int64 {
	n, err := strconv.ParseFloat(s, 64) // scores may have an exponent
	if err != nil {
		return 0
	}
	return int64(n)
}
