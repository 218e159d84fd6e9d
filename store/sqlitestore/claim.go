package sqlitestore

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// Claim implements [store.Store].
func (s *Store) Claim(ctx context.Context, req store.ClaimRequest) (store.ClaimReply, error) {
	if err := rule.ValidClaim(&req); err != nil {
		return store.ClaimReply{}, err
	}
	var rep store.ClaimReply
	err := s.do(ctx, normal, false, func(w *writer) error {
		now := w.advance()
		rep = store.ClaimReply{Wants: make([]store.WantReport, len(req.Wants))}
		var err error
		if rep.MaintainReply, err = w.maintain(now); err != nil {
			return err
		}
		known, got, err := w.lastClaim(req.Worker, req.Nonce)
		if err != nil {
			return err
		}
		if known {
			rep.Grants, err = w.repeat(&req, got)
			return err
		}
		cl := &claim{w: w, now: now, req: &req, left: req.Free, bytes: req.MaxBytes, streams: map[streamKey]*stream{}}
		if cl.bytes <= 0 {
			cl.bytes = 4 << 20
		}
		if err := cl.serve(&rep); err != nil {
			return err
		}
		return w.noteClaim(&req, now, cl.got)
	})
	if err != nil {
		return store.ClaimReply{}, err
	}
	return rep, nil
}

// claim is one claim call under way.
type claim struct {
	w       *writer
	now     rule.Now
	req     *store.ClaimRequest
	left    [2]int
	bytes   int
	streams map[streamKey]*stream
	grants  []store.Grant
	got     []byte // numbers of the commands granted
	suspect bool   // this call has granted one: no second
}

type streamKey struct {
	k     int64
	lane  store.Lane
	class store.Class
}

func (cl *claim) serve(rep *store.ClaimReply) error {
	if err := cl.w.st.flushLines(); err != nil {
		return err
	}
	for i := range cl.req.Wants {
		var err error
		if rep.Wants[i], err = cl.want(&cl.req.Wants[i]); err != nil {
			return err
		}
		rep.More = rep.More || rep.Wants[i].Why == store.WhyMore
		rep.Next = sooner(rep.Next, rep.Wants[i].Next)
	}
	for _, s := range cl.streams {
		s.close()
	}
	rep.Grants = cl.grants
	// Polls that were granted have uncovered those behind them: maintenance could not see when these are due.
	if err := cl.w.st.flushLines(); err != nil {
		return err
	}
	due, err := cl.w.nextPoll(cl.now)
	rep.Next = sooner(rep.Next, due)
	return err
}

// choice is a type of a want that may still be granted.
type choice struct {
	k     *kindRow
	want  *store.TypeWant
	given int
	out   [6]bool // classes in which it is not looked at any more
}

// want serves one want with one invocation after another.
func (cl *claim) want(w *store.Want) (store.WantReport, error) {
	var rep store.WantReport
	lane := w.Lane & 1
	cfg := cl.w.st.cfg.Queue(w.Queue)
	paused := cfg.Paused(cl.now.Wall)
	stopped := w.Visits || paused == store.PauseAll || paused == store.PauseIntake && lane == store.Intake
	choices, err := cl.choices(w)
	if err != nil {
		return rep, err
	}
	throttled := false
	for rep.Granted < w.Max && cl.left[lane] > 0 {
		p, err := cl.next(w, choices, stopped, rep.Granted)
		if err != nil {
			return rep, err
		}
		if p.s == nil {
			break
		}
		if tw := p.c.want; tw.Max > 0 && p.c.given >= tw.Max {
			p.c.out[p.s.class] = true
			continue
		}
		if len(cl.grants) > 0 && cl.bytes < p.rd.rows[0].size() {
			rep.Why = store.WhyMore
			return rep, nil
		}
		why, wait, err := cl.w.token(cl.now, p.c.k, lane, p.s.class)
		if err != nil {
			return rep, err
		}
		switch why {
		case store.WhyThrottled: // other types may go on
			throttled = true
			rep.Next = sooner(rep.Next, wait)
			p.c.out[p.s.class] = true
			continue
		case store.WhyRate:
			rep.Why, rep.Detail, rep.Next = why, w.Queue+"/"+lane.String(), sooner(rep.Next, wait)
			return rep, nil
		}
		ok, err := cl.grant(p)
		if err != nil {
			return rep, err
		}
		if !ok {
			continue
		}
		p.c.given++
		rep.Granted++
		cl.left[lane]--
	}
	switch {
	case rep.Granted >= w.Max || cl.left[lane] <= 0:
	case cl.skipped(choices, lane):
		rep.Why = store.WhyMore
	case w.Visits:
		rep.Why = store.WhyEmpty
	case stopped:
		rep.Why = store.WhyPaused
		if until := cfg.PauseUntil; until != 0 {
			rep.Next = sooner(rep.Next, until.Sub(cl.now.Wall))
		}
	case throttled:
		rep.Why = store.WhyThrottled
	default:
		rep.Why = store.WhyEmpty
	}
	return rep, nil
}

// choices are the types of a want that have commands in line.
func (cl *claim) choices(w *store.Want) ([]*choice, error) {
	q := cl.w.st.queues[w.Queue]
	if q == nil {
		return nil, nil
	}
	var all []*choice
	for i := range w.Types {
		k, err := cl.w.st.kind(q, w.Types[i].Type, false)
		if err != nil {
			return nil, err
		}
		if k != nil && k.inline[w.Lane&1] > 0 {
			all = append(all, &choice{k: k, want: &w.Types[i]})
		}
	}
	return all, nil
}

// pick is the next invocation: from which stream, and which of its lines is first.
type pick struct {
	c  *choice
	s  *stream
	rd *reading
}

// next says whose turn it is: cancel visits, then one suspect, then first runs and re-runs 3:1.
func (cl *claim) next(w *store.Want, choices []*choice, stopped bool, granted int) (pick, error) {
	p, err := cl.first(w, choices, store.ClassCancel)
	if err != nil || p.s != nil {
		return p, err
	}
	suspects := w.Suspect && !cl.suspect
	if suspects {
		if p, err = cl.first(w, choices, store.ClassSuspectVisit); err != nil || p.s != nil {
			return p, err
		}
	}
	if stopped {
		return pick{}, nil
	}
	if suspects {
		if p, err = cl.first(w, choices, store.ClassSuspect); err != nil || p.s != nil {
			return p, err
		}
	}
	rerun, err := cl.first(w, choices, store.ClassRerun)
	if err != nil || rerun.s != nil && rule.PreferRerun(w.Turn+granted) {
		return rerun, err
	}
	if p, err = cl.first(w, choices, store.ClassFirst); err != nil || p.s != nil {
		return p, err
	}
	return rerun, nil
}

// first is the first of a class over all types.
func (cl *claim) first(w *store.Want, choices []*choice, class store.Class) (pick, error) {
	lane := w.Lane & 1
	if class.Visit() && lane == store.Intake || class == store.ClassRerun && lane == store.Repoll {
		return pick{}, nil // no such lines
	}
	var best pick
	for _, c := range choices {
		if c.out[class] {
			continue
		}
		key := streamKey{c.k.k, lane, class}
		s := cl.streams[key]
		if s == nil {
			s = cl.w.stream(cl.now, c.k, lane, class, min(w.Max, cl.left[lane])*max(1, c.want.Batch))
			cl.streams[key] = s
		}
		rd, err := s.peek()
		if err != nil {
			return pick{}, err
		}
		if rd != nil && (best.s == nil || rd.rows[0].cols.score < best.rd.rows[0].cols.score) {
			best = pick{c, s, rd}
		}
	}
	return best, nil
}

// skipped reports whether a stream has stopped because too much at the heads of its lines had ended.
func (cl *claim) skipped(choices []*choice, lane store.Lane) bool {
	for _, c := range choices {
		for class := range c.out {
			if s := cl.streams[streamKey{c.k.k, lane, store.Class(class)}]; s != nil && s.skips >= maxSkips {
				return true
			}
		}
	}
	return false
}

// grant leases the first command of a line, and with it those behind it that one invocation takes. It answers false if none of them could be
// read.
func (cl *claim) grant(p pick) (bool, error) {
	g := store.Grant{Lane: p.s.lane, Class: p.s.class}
	batch := max(1, p.c.want.Batch)
	if p.s.class.Suspect() {
		batch = 1
	}
	rd := p.rd
	for {
		r := p.s.take(rd)
		if err := cl.lease(&r); err != nil {
			return false, err
		}
		if r != nil {
			g.Items = append(g.Items, r.c)
		}
		if len(g.Items) >= batch {
			break
		}
		if err := p.s.more(rd); err != nil {
			return false, err
		}
		if len(rd.rows) == 0 || !rule.Claimable(cl.now, rd.rows[0].c) || cl.bytes < rd.rows[0].size() {
			break
		}
	}
	if len(g.Items) == 0 {
		return false, nil
	}
	cl.suspect = cl.suspect || g.Class.Suspect()
	cl.grants = append(cl.grants, g)
	return true, nil
}

// lease makes the mark. The row becomes nil if one of its values cannot be read.
func (cl *claim) lease(r **row) error {
	w, c := cl.w, (*r).c
	err := (*r).fill(w, valError, valEvents, valParams, valState, valProgress, valMetadata)
	if err = w.readable(r, err); err != nil || *r == nil {
		return err
	}
	ns := w.st.change()
	ns.token++
	rule.Grant(cl.now, c, store.LeaseName{Token: ns.token, Nonce: cl.req.Nonce}, cl.req.Worker, w.st.cfg.V())
	if err := w.save(*r); err != nil {
		return err
	}
	w.numbers.note(c.ID, (*r).n)
	cl.bytes -= (*r).size()
	cl.got = binary.LittleEndian.AppendUint64(cl.got, uint64((*r).n))
	return (*r).unfold()
}

// size is what a command counts for in a reply.
func (r *row) size() int { return r.vals[valParams].size + r.vals[valState].size + 256 }

// lastClaim reports whether the worker's last claim had this nonce, and what it got.
func (w *writer) lastClaim(worker, nonce string) (bool, []byte, error) {
	st := w.q("SELECT nonce, got FROM claimed WHERE worker=?").Text(worker)
	ok, err := st.Step()
	if err != nil || !ok {
		return false, nil, err
	}
	known := st.ColText(0) == nonce
	var got []byte
	if known {
		got = st.ColBlob(1)
	}
	st.Reset()
	return known, got, nil
}

func (w *writer) noteClaim(req *store.ClaimRequest, now rule.Now, got []byte) error {
	return w.q("INSERT INTO claimed (worker, nonce, at, got) VALUES (?1,?2,?3,?4) ON CONFLICT DO UPDATE SET nonce=?2, at=?3, got=?4").
		Text(req.Worker).Text(req.Nonce).Int(int64(now.Lease)).Blob(got).Run()
}

// repeat answers a claim that was made before: those of its leases that are still current.
func (w *writer) repeat(req *store.ClaimRequest, got []byte) ([]store.Grant, error) {
	var grants []store.Grant
	for ; len(got) >= 8; got = got[8:] {
		r, err := w.byNumber(int64(binary.LittleEndian.Uint64(got)))
		if err != nil {
			return nil, err
		}
		if r == nil || r.c.Place != store.Leased || r.c.Owner != req.Worker || r.c.Lease.Nonce != req.Nonce {
			continue
		}
		err = r.fill(w, valParams, valState, valProgress, valMetadata)
		if err == nil {
			err = r.unfold()
		}
		if err = w.readable(&r, err); err != nil {
			return nil, err
		}
		if r == nil {
			continue
		}
		c, class, n := r.c, rule.Class(r.c), len(grants)-1
		if n >= 0 && len(grants[n].Items) < batchOf(req.Wants, c) && !class.Suspect() && rule.Line(grants[n].Items[0]) == rule.Line(c) {
			grants[n].Items = append(grants[n].Items, c)
			continue
		}
		grants = append(grants, store.Grant{Lane: c.Lane(), Class: class, Items: []*store.Command{c}})
	}
	return grants, nil
}

func batchOf(wants []store.Want, c *store.Command) int {
	for _, w := range wants {
		if w.Queue != c.Queue || w.Lane != c.Lane() {
			continue
		}
		if i := slices.IndexFunc(w.Types, func(t store.TypeWant) bool { return t.Type == c.Type }); i >= 0 {
			return max(1, w.Types[i].Batch)
		}
	}
	return 1
}

// sooner is the smaller of two durations of which 0 means unknown.
func sooner(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}
