package redisstore

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// getItems bounds one script call.
const getItems = 100

// Get implements [store.Store].
func (s *Store) Get(ctx context.Context, ids []string, opt store.GetOptions) ([]*store.Command, error) {
	if err := tooMany(len(ids)); err != nil {
		return nil, err
	}
	done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	out := make([]*store.Command, 0, len(ids))
	for len(ids) > 0 {
		part := ids[:min(len(ids), getItems)]
		ids = ids[len(part):]
		m, err := s.eval(ctx, &s.main, scriptGet, append([]string{boolArg(opt.NoBlobs)}, part...))
		if err != nil {
			return nil, err
		}
		p, err := m.ToArray()
		if err != nil || len(p) != 2 {
			return nil, badReply("get", err)
		}
		now, err := readMoment(p[0])
		if err != nil {
			return nil, err
		}
		cs, err := s.readCommands(p[1], part, opt.NoBlobs)
		if err != nil {
			return nil, err
		}
		v := view{store: s, now: now}
		for i, c := range cs {
			if cs[i], err = v.see(ctx, c); err != nil {
				return nil, err
			}
			if cs[i] != nil && opt.NoBlobs {
				cs[i].Events = nil // the end that a reader sees before it is written
			}
		}
		out = append(out, cs...)
	}
	return out, nil
}

// readCommands reads what script/read.lua answers. What cannot be read is nil.
func (s *Store) readCommands(m rueidis.RedisMessage, ids []string, noBlobs bool) ([]*store.Command, error) {
	p, err := m.ToArray()
	if err != nil || len(p) != 5 {
		return nil, badReply("read", err)
	}
	var a [4][]rueidis.RedisMessage
	for i := range a {
		if a[i], err = p[i].ToArray(); err != nil {
			return nil, badReply("read", err)
		}
	}
	recs, leases, ends, vals := a[0], a[1], a[2], a[3]
	texts, err := p[4].AsStrSlice()
	if err != nil || len(recs) != len(ids) || len(leases) != len(ids) || len(ends) != len(ids) || len(texts)%2 != 0 {
		return nil, badReply("read", err)
	}
	defs := make(map[string]*lineDef, len(texts)/2)
	for i := 0; i < len(texts); i += 2 {
		if d, ok := s.lines.get(texts[i+1]); ok {
			defs[texts[i]] = d
		}
	}
	x := &ext{vals: make([]string, len(vals))}
	for i := range vals {
		x.vals[i], _ = vals[i].ToString() // a missing one is empty
	}
	cs := make([]*store.Command, len(ids))
	for i := range ids {
		rec, err := recs[i].ToString()
		if err != nil || len(rec) < headLen {
			continue // there is none
		}
		mine := ownBlobs(rec, noBlobs)
		sub := &ext{vals: x.vals[:min(mine, len(x.vals))]}
		x.vals = x.vals[len(sub.vals):]
		c, err := decodeRecord(ids[i], rec, defs[rec[20:36]], sub, noBlobs)
		if err != nil {
			continue // it is set aside, or will be when somebody meets it
		}
		if v, err := leases[i].ToString(); err == nil && !c.Status.Terminal() {
			if l, ok := parseLease(v); ok {
				n, _ := ends[i].AsInt64()
				l.put(c, store.Millis(n))
			}
		}
		cs[i] = c
	}
	return cs, nil
}

// ownBlobs is how many blobs of a record are in keys of their own, as script/read.lua reads them.
func ownBlobs(rec string, noBlobs bool) int {
	flags := uint32(rec[15]) | uint32(rec[16])<<8 | uint32(rec[17])<<16
	n := 0
	for _, f := range [...]struct {
		own, there uint32
		always     bool
	}{{flagXState, flagState, false}, {flagXError, flagError, true}, {flagXResult, flagResult, false}} {
		if flags&f.own != 0 && flags&f.there != 0 && (f.always || !noBlobs) {
			n++
		}
	}
	if flags&flagXParams != 0 && flags&flagTomb == 0 && !noBlobs {
		n++
	}
	return n
}

// view shows commands as a reader sees them at one moment: what time has ended reads as ended, what should be purged is not there.
type view struct {
	store *Store
	now   moment
	cfg   *store.Config
}

func (v *view) see(ctx context.Context, c *store.Command) (*store.Command, error) {
	if c == nil || v.now.purgeable(c) {
		return nil, nil
	}
	if !rule.Ended(v.now.Now, c) {
		return c, nil
	}
	if v.cfg == nil {
		cfg, err := v.store.config(ctx)
		if err != nil {
			return nil, err
		}
		v.cfg = &cfg
	}
	return rule.AsRead(v.now.Now, c, v.cfg.Queue(c.Queue)), nil
}
