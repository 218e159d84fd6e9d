package redisstore

import (
	"context"
	"strings"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// row is what the store knows about one id, read in one step. An empty string is: not there.
type row struct {
	rec, lease, until               string
	sr, sn, x, xl, z, lost          string
	cancel, overdue                 bool
	line, lineScore, fin, holder    string
	params, state, errtext, results bool
	uncounted                       string
}

func readRow(m rueidis.RedisMessage) (row, error) {
	p, err := m.ToArray()
	if err != nil || len(p) != 20 {
		return row{}, badReply("audit", err)
	}
	str := func(i int) string { s, _ := p[i].ToString(); return s }
	yes := func(i int) bool { n, _ := p[i].AsInt64(); return n != 0 }
	return row{
		rec: str(0), lease: str(1), until: str(2), sr: str(3), sn: str(4), x: str(5), xl: str(6), z: str(7), lost: str(8),
		cancel: yes(9), overdue: yes(10), line: str(11), lineScore: str(12), fin: str(13), holder: str(14),
		params: yes(15), state: yes(16), errtext: yes(17), results: yes(18),
		uncounted: str(19),
	}, nil
}

// checkIDs compares every id with what its record says.
func (a *audit) checkIDs(ctx context.Context, ids []string) error {
	cfg, err := a.s.config(ctx)
	if err != nil {
		return err
	}
	for len(ids) > 0 {
		part := ids[:min(len(ids), 50)]
		ids = ids[len(part):]
		p, err := a.eval(ctx, append([]string{"ids"}, part...)...)
		if err != nil {
			return err
		}
		if len(p) != 3 {
			return badReply("audit", nil)
		}
		now, err := readMoment(p[0])
		if err != nil {
			return err
		}
		rows, err := p[1].ToArray()
		if err != nil || len(rows) != len(part) {
			return badReply("audit", err)
		}
		texts, err := p[2].AsStrSlice()
		if err != nil {
			return badReply("audit", err)
		}
		defs := map[string]*lineDef{}
		for i := 0; i+1 < len(texts); i += 2 {
			if d, ok := a.s.lines.get(texts[i+1]); ok {
				defs[texts[i]] = d
			}
		}
		for i, id := range part {
			r, err := readRow(rows[i])
			if err != nil {
				return err
			}
			a.checkID(now, id, &r, defs, &cfg)
		}
	}
	return nil
}

func (a *audit) checkID(now moment, id string, r *row, defs map[string]*lineDef, cfg *store.Config) {
	if r.lost != "" {
		a.say("%s: was set aside, since its record cannot be read", id)
	}
	if r.rec == "" {
		for what, there := range map[string]bool{
			"a lease": r.lease != "", "the end of a lease": r.until != "", "a due time": r.sr != "", "a not_before": r.sn != "", "a time to end": r.x != "",
			"a deadline of a lease": r.xl != "", "a time to purge": r.z != "", "a request to cancel": r.cancel, "an overdue mark": r.overdue,
			"params": r.params, "a state": r.state, "an error": r.errtext, "a result": r.results,
		} {
			if there {
				a.say("%s: has %s but no record", id, what)
			}
		}
		return
	}
	var base string
	if len(r.rec) >= headLen {
		base = r.rec[20:36]
	}
	c, err := decodeRecord(id, r.rec, defs[base], nil, false)
	if err != nil {
		if r.lost == "" {
			a.say("%s: its record cannot be read", id)
		}
		return
	}
	a.commands++
	if r.lease != "" && !c.Status.Terminal() {
		l, ok := parseLease(r.lease)
		if !ok {
			a.say("%s: its lease %q cannot be read", id, r.lease)
			return
		}
		if !l.put(c, store.Millis(atoi(r.until))) {
			a.say("%s: what its lease %q says of memberships cannot be read", id, r.lease)
		}
		a.leased++
		if other, ok := a.tokens[l.name.Token]; ok && other != id {
			a.say("%s: has the lease token %d of %s", id, l.name.Token, other)
		}
		a.tokens[l.name.Token] = id
		a.counts.maxToken = max(a.counts.maxToken, l.name.Token)
	}
	for _, v := range rule.Check(c) {
		a.say("%s: %s", id, v)
	}
	a.counts.maxSeq = max(a.counts.maxSeq, c.Seq)
	a.checkPlace(now, id, c, r, cfg)
	a.checkBlobs(id, r)
	if r.uncounted != "" {
		a.say("%s: is a member of %s, which do not count it", id, r.uncounted)
	}
	a.counts.add(c, r)
}

// checkPlace compares the indexes with the record: it must be in those that follow from it, and in no other.
func (a *audit) checkPlace(now moment, id string, c *store.Command, r *row, cfg *store.Config) {
	leased, line := c.Place == store.Leased, c.Place == store.InLine
	want := func(what, got string, should bool, score int64) {
		switch {
		case should && got == "":
			a.say("%s: is not in %s", id, what)
		case !should && got != "":
			a.say("%s: is in %s, being %s in place %s", id, what, c.Status, c.Place)
		case should && score >= 0 && atoi(got) != score:
			a.say("%s: stands in %s at %d, not %d", id, what, atoi(got), score)
		}
	}
	want("the leases", r.lease, leased, -1)
	want("the ends of leases", r.until, leased, -1)
	score := int64(-1)
	if c.Status == store.Processing {
		score = int64(c.Due) // a PENDING one keeps the order that it came in under
	}
	want("its line", r.lineScore, line, score)
	scheduled := c.Place == store.Scheduled
	if scheduled && r.sr == "" && r.sn == "" || r.sr != "" && r.sn != "" {
		a.say("%s: waits in %q and %q", id, r.sr, r.sn)
	}
	want("the due times", r.sr, scheduled && r.sr != "", int64(c.Due))
	want("the not_before times", r.sn, scheduled && r.sn != "", int64(c.NotBefore))
	at := store.Millis(0)
	if line || scheduled {
		if at = rule.EndsAt(c); c.Status == store.Processing && c.CancelAsked != 0 {
			at = c.CancelUntil
		}
	}
	want("the times to end", r.x, at != 0, int64(at))
	want("the deadlines of leases", r.xl, leased && c.Deadline != 0, int64(c.Deadline))
	if asked := leased && c.CancelAsked != 0; asked != r.cancel {
		a.say("%s: cancel asked is %v in the record and %v in the set", id, asked, r.cancel)
	}
	if over := leased && c.Overdue; over != r.overdue {
		a.say("%s: overdue is %v in the record and %v in the set", id, over, r.overdue)
	}
	ended := c.Status.Terminal()
	want("its finished list", r.fin, ended && !c.Tombstone, int64(c.Ended))
	want("the times to purge", r.z, ended && !c.Tombstone && c.PurgeAt != 0, int64(c.PurgeAt))
	if c.Tombstone {
		a.counts.tombs[id] = "y|" + itoa(int64(c.PurgeAt))
	}
	if c.UniqueKey != "" {
		switch {
		case !ended && r.holder != id:
			a.say("%s: its unique key %q is held by %q", id, c.UniqueKey, r.holder)
		case ended && r.holder == id:
			a.say("%s: has ended and holds the unique key %q", id, c.UniqueKey)
		}
	}
}

// checkBlobs compares the blobs in keys of their own with what the record says.
func (a *audit) checkBlobs(id string, r *row) {
	flags := uint32(r.rec[15]) | uint32(r.rec[16])<<8 | uint32(r.rec[17])<<16
	for _, x := range [...]struct {
		what  string
		flag  uint32
		there bool
	}{{"params", flagXParams, r.params}, {"state", flagXState, r.state}, {"error", flagXError, r.errtext}, {"result", flagXResult, r.results}} {
		if want := flags&x.flag != 0 && flags&flagTomb == 0; want != x.there {
			a.say("%s: %s in a key of its own: the record says %v, there is %v", id, x.what, want, x.there)
		}
	}
}

// checkStrays looks for ids in lines, finished lists and unique keys that are not theirs.
func (a *audit) checkStrays(ctx context.Context) error {
	type pair struct{ key, id string }
	var strays []pair
	for key, m := range a.members {
		kind, rest, _ := strings.Cut(key, "|")
		switch {
		case kind == "l" && rest != "":
			for id := range m {
				if a.counts.lineOf[id] != rest {
					strays = append(strays, pair{key, id})
				}
			}
		case kind == "f" && rest != "":
			for id := range m {
				if a.counts.finOf[id] != key {
					strays = append(strays, pair{key, id})
				}
			}
		case kind == "m" && rest != "":
			for text := range m {
				if value, id := memberOf(text); !a.counts.holds[holding{id, rest + "|" + value}] {
					strays = append(strays, pair{key, text})
				}
			}
		case key == "u":
			for k, id := range m {
				if a.counts.uniqueOf[id] != k {
					strays = append(strays, pair{key, k})
				}
			}
		}
	}
	for len(strays) > 0 {
		part := strays[:min(len(strays), 100)]
		strays = strays[len(part):]
		args := []string{"at"}
		for _, p := range part {
			args = append(args, p.key, p.id)
		}
		got, err := a.eval(ctx, args...)
		if err != nil {
			return err
		}
		if len(got) != len(part) {
			return badReply("audit", nil)
		}
		for i, p := range part {
			if v, _ := got[i].ToString(); v != "nil" && v != "0" {
				a.say("%s: is in %s without belonging there", p.id, p.key)
			}
		}
	}
	return nil
}
