package redisstore

import (
	"context"
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

var laneArg = [2]string{"i", "k"}

var whys = [...]store.WhyNot{store.WhyFull, store.WhyEmpty, store.WhyPaused, store.WhyRate, store.WhyThrottled, store.WhyMore, store.WhyLimit}

// Claim implements [store.Store].
func (s *Store) Claim(ctx context.Context, req store.ClaimRequest) (store.ClaimReply, error) {
	if err := rule.ValidClaim(&req); err != nil {
		return store.ClaimReply{}, err
	}
	done, err := s.begin(ctx)
	if err != nil {
		return store.ClaimReply{}, err
	}
	defer done()
	m, err := s.eval(ctx, &s.main, scriptClaim, claimArgs(&req))
	if err != nil {
		return store.ClaimReply{}, err
	}
	p, err := m.ToArray()
	if err != nil || len(p) < 7 {
		return store.ClaimReply{}, badReply("claim", err)
	}
	var rep store.ClaimReply
	var lease store.Millis
	if rep.MaintainReply, lease, err = readMaintain(p[0]); err != nil {
		return rep, err
	}
	var tails []string
	if len(p) == 8 {
		if tails, err = p[7].AsStrSlice(); err != nil || len(tails) < 2 {
			return rep, badReply("claim", err)
		}
	}
	if rep.Wants, err = readWants(&req, p[1], tails); err != nil {
		return rep, err
	}
	c := claimed{store: s, req: &req, now: lease, until: lease.Add(rep.Visibility)}
	if err := c.read(p, tails); err != nil {
		return rep, err
	}
	if err := c.fetch(ctx); err != nil {
		return rep, err
	}
	rep.Grants = c.grants
	return rep, nil
}

func claimArgs(req *store.ClaimRequest) []string {
	bytes := req.MaxBytes
	if bytes <= 0 {
		bytes = 4 << 20
	}
	rooms := ints(req.Rooms, 0)
	if req.Ordered {
		rooms = "!" + rooms
	}
	args := make([]string, 0, 16)
	args = append(args, req.Worker, req.Nonce, itoa(int64(req.Free[0])), itoa(int64(req.Free[1])), itoa(int64(bytes)), rooms, itoa(int64(len(req.Wants))))
	for i := range req.Wants {
		w := &req.Wants[i]
		turn := int64(w.Turn)
		if w.Visits {
			turn = -1
		}
		args = append(args, w.Queue, laneArg[w.Lane&1], itoa(int64(w.Max)), itoa(turn), boolArg(w.Suspect), itoa(int64(len(w.Types))))
		for _, t := range w.Types {
			args = append(args, t.Type, itoa(int64(max(1, t.Batch))), ints(t.Rooms, 1))
		}
	}
	return args
}

// ints lists numbers, each with plus added, by blanks.
func ints(ns []int, plus int) string {
	var b []byte
	for i, n := range ns {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(b, int64(n+plus), 10)
	}
	return string(b)
}

func readWants(req *store.ClaimRequest, m rueidis.RedisMessage, tails []string) ([]store.WantReport, error) {
	n, err := m.AsIntSlice()
	if err != nil || len(n) != 0 && len(n) != 3*len(req.Wants) {
		return nil, badReply("claim", err)
	}
	reps := make([]store.WantReport, len(req.Wants))
	var keys []string
	if len(tails) > 0 {
		keys = strings.Split(tails[0], " ")
	}
	for i := 0; i+2 < len(n); i += 3 {
		if n[i+1] < 0 || int(n[i+1]) >= len(whys) {
			return nil, badReply("claim", nil)
		}
		r := &reps[i/3]
		r.Granted, r.Why, r.Next = int(n[i]), whys[n[i+1]], time.Duration(n[i+2])*time.Millisecond
		if r.Why == store.WhyRate {
			r.Detail = req.Wants[i/3].Queue + "/" + req.Wants[i/3].Lane.String()
		}
		if r.Why == store.WhyLimit && i/3 < len(keys) {
			r.Detail = parseLimitKey(keys[i/3]).String()
		}
	}
	return reps, nil
}

// claimed turns the reply of a claim into grants.
type claimed struct {
	store      *Store
	req        *store.ClaimRequest
	now, until store.Millis // lease clock
	grants     []store.Grant
	blobs      []blobWanted
	unreadable []string // id and lease name in turn
}

// blobWanted is a blob in a key of its own.
type blobWanted struct {
	kind string
	c    *store.Command
}

func (c *claimed) read(p []rueidis.RedisMessage, tails []string) error {
	first, err := p[2].AsInt64()
	if err != nil {
		return badReply("claim", err)
	}
	grants, err := p[3].ToString()
	if err != nil || len(grants)%8 != 0 {
		return badReply("claim", err)
	}
	ids, err := p[4].ToArray()
	if err != nil {
		return badReply("claim", err)
	}
	recs, err := p[5].ToArray()
	if err != nil || len(recs) != len(ids) {
		return badReply("claim", err)
	}
	texts, err := p[6].ToArray()
	if err != nil {
		return badReply("claim", err)
	}
	var values, ends []rueidis.RedisMessage // of a repeated claim
	if len(p) == 9 {
		if values, err = p[7].ToArray(); err != nil || len(values) != len(ids) {
			return badReply("claim", err)
		}
		if ends, err = p[8].ToArray(); err != nil || len(ends) != len(ids) {
			return badReply("claim", err)
		}
	}
	which, err := readTails(tails, len(texts))
	if err != nil {
		return err
	}
	defs := make([]*lineDef, len(texts))
	for i := range texts {
		if text, err := texts[i].ToString(); err == nil { // nil: the line is not known, its records cannot be read
			defs[i], _ = c.store.lines.get(text)
		}
	}
	at := 0
	c.grants = make([]store.Grant, 0, len(ids))
	items := make([]*store.Command, 0, len(ids))
	for g := []byte(grants); len(g) > 0; g = g[8:] {
		batch, n, line := int(binary.LittleEndian.Uint16(g[2:])), int(binary.LittleEndian.Uint16(g[4:])), int(binary.LittleEndian.Uint16(g[6:]))
		if line < 1 || line > len(defs) || at+n > len(ids) || batch < 1 {
			return badReply("claim", nil)
		}
		for ; n > 0; n -= batch {
			start := len(items)
			for range min(n, batch) {
				lease := heldLease{name: store.LeaseName{Token: uint64(first) + uint64(at) + 1, Nonce: c.req.Nonce}, owner: c.req.Worker, at: c.now}
				until := c.until
				lease.tail = which.of(at, line-1)
				if values != nil {
					v, _ := values[at].ToString()
					lease, _ = parseLease(v) // the script has compared its name
					t, _ := ends[at].AsInt64()
					until = store.Millis(t)
				}
				if cmd := c.command(&ids[at], &recs[at], defs[line-1], lease, until); cmd != nil {
					items = append(items, cmd)
				}
				at++
			}
			if len(items) > start {
				c.grants = append(c.grants, store.Grant{Lane: store.Lane(g[0]), Class: store.Class(g[1]), Items: items[start:len(items):len(items)]})
			}
		}
	}
	return nil
}

// leaseTails is what leases say of memberships: by line, but for some grants.
type leaseTails struct {
	lines []string
	odd   map[int]string
}

func readTails(tails []string, lines int) (t leaseTails, err error) {
	if len(tails) == 0 {
		return t, nil
	}
	if len(tails) < 2+lines {
		return t, badReply("claim", nil)
	}
	t.lines = tails[2 : 2+lines]
	for i, s := range t.lines {
		t.lines[i] = strings.TrimPrefix(s, " ")
	}
	texts := tails[2+lines:]
	for which := []byte(tails[1]); len(which) >= 4; which = which[4:] {
		if t.odd == nil {
			t.odd = map[int]string{}
		}
		text, n := "", int(binary.LittleEndian.Uint16(which[2:]))
		if n > 0 && n <= len(texts) {
			text = texts[n-1]
		}
		t.odd[int(binary.LittleEndian.Uint16(which))-1] = text
	}
	return t, nil
}

// of is what the lease of a grant says, which has that line.
func (t *leaseTails) of(grant, line int) string {
	if text, ok := t.odd[grant]; ok || len(t.lines) == 0 {
		return text
	}
	return t.lines[line]
}

// command decodes one record; nil if it cannot be read.
func (c *claimed) command(id, rec *rueidis.RedisMessage, d *lineDef, lease heldLease, until store.Millis) *store.Command {
	name, _ := id.ToString()
	text, _ := rec.ToString()
	cmd, err := decodeRecord(name, text, d, nil, false)
	if err != nil {
		c.unreadable = append(c.unreadable, name, lease.name.String())
		return nil
	}
	if !lease.put(cmd, until) {
		c.unreadable = append(c.unreadable, name, lease.name.String())
		return nil
	}
	c.wanted(cmd, text)
	return cmd
}

// wanted notes which blobs of a record are in keys of their own.
func (c *claimed) wanted(cmd *store.Command, rec string) {
	flags := uint32(rec[15]) | uint32(rec[17])<<16
	if flags&(flagXParams|flagXState|flagXError) == 0 {
		return
	}
	for _, x := range [...]struct {
		flag uint32
		kind string
	}{{flagXParams, "p"}, {flagXState, "s"}, {flagXError, "e"}} {
		if flags&x.flag != 0 {
			c.blobs = append(c.blobs, blobWanted{x.kind, cmd})
		}
	}
}

// fetch reads the blobs that are in keys of their own, and sets aside what cannot be read.
func (c *claimed) fetch(ctx context.Context) error {
	gone := map[*store.Command]bool{}
	for len(c.blobs) > 0 {
		part := c.blobs[:min(len(c.blobs), 200)]
		c.blobs = c.blobs[len(part):]
		args := make([]string, 0, 3*len(part))
		for _, b := range part {
			args = append(args, b.kind, b.c.ID, b.c.Lease.String())
		}
		m, err := c.store.eval(ctx, &c.store.main, scriptBlobs, args)
		if err != nil {
			return err
		}
		vals, err := m.ToArray()
		if err != nil || len(vals) != len(part) {
			return badReply("blobs", err)
		}
		for i, b := range part {
			v, err := vals[i].ToString()
			switch {
			case err != nil: // the lease is no longer current, or the blob is gone
				gone[b.c] = true
				c.unreadable = append(c.unreadable, b.c.ID, b.c.Lease.String())
			case b.kind == "p":
				b.c.Params = bytesOf(v)
			case b.kind == "s":
				b.c.State = bytesOf(v)
			default:
				b.c.Error = v
			}
		}
	}
	if len(gone) > 0 {
		kept := c.grants[:0]
		for _, g := range c.grants {
			items := g.Items[:0]
			for _, cmd := range g.Items {
				if !gone[cmd] {
					items = append(items, cmd)
				}
			}
			if g.Items = items; len(items) > 0 {
				kept = append(kept, g)
			}
		}
		c.grants = kept
	}
	if len(c.unreadable) > 0 {
		_, err := c.store.eval(ctx, &c.store.main, scriptSetAside, c.unreadable)
		return err
	}
	return nil
}

// heldLease is what the hash of leases holds for one id: "token.nonce owner leased-at", and behind it what there is to say of memberships.
type heldLease struct {
	name  store.LeaseName
	owner string
	at    store.Millis
	tail  string
}

func parseLease(v string) (heldLease, bool) {
	name, rest, ok := strings.Cut(v, " ")
	owner, at, ok2 := strings.Cut(rest, " ")
	at, tail, _ := strings.Cut(at, " ")
	n, err := store.ParseLeaseName(name)
	var t int64
	for _, b := range []byte(at) {
		if b < '0' || b > '9' {
			return heldLease{}, false
		}
		t = t*10 + int64(b-'0')
	}
	return heldLease{name: n, owner: owner, at: store.Millis(t), tail: tail}, ok && ok2 && err == nil && n.Token != 0 && owner != ""
}

// put marks a decoded record as leased. It reports false if what the lease says of memberships cannot be read.
func (l heldLease) put(c *store.Command, until store.Millis) bool {
	c.Place, c.Lease, c.Owner, c.LeasedAt, c.LeaseUntil = store.Leased, l.name, l.owner, l.at, until
	c.Starts++
	var ok bool
	c.Holds, c.Overflow, ok = parseHolds(l.tail)
	return ok
}
