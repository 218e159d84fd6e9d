package sqlitestore

import (
	"context"
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
		last, got, err := w.lastClaim(req.Worker)
		if err != nil || last == gone {
			return err
		}
		if last == req.Nonce {
			rep.Grants, err = w.repeat(&req, got)
			return err
		}
		cl := &claim{w: w, now: now, req: &req, left: req.Free, rooms: rule.RoomsOf(&req), bytes: req.MaxBytes, streams: map[streamKey]source{}}
		if cl.bytes <= 0 {
			cl.bytes = 4 << 20
		}
		if err := cl.serve(&rep); err != nil {
			return err
		}
		return w.noteClaim(req.Worker, req.Nonce, now, cl.got)
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
	rooms   rule.Rooms
	more    [2]bool // a want of the lane could be given more at once
	bytes   int
	streams map[streamKey]source
	grants  []store.Grant
	got     []byte // numbers of the commands granted
	suspect bool   // this call has granted one: no second
	limiting
}

// source gives the claimable commands of one type, lane and class in order.
type source interface {
	// peek returns the next command, in which stream of lines and which line it is first, and the virtual start of its group's turn; nil if there
	// is none.
	peek() (*stream, *reading, float64, error)
	// admit looks at a line that has come open since the source was opened.
	admit(l *lineRow) error
	// skipped is how many commands were found to have ended, or to be unreadable.
	skipped() int
	close()
}

type streamKey struct {
	k     int64
	lane  store.Lane
	class store.Class
}

func (cl *claim) serve(rep *store.ClaimReply) error {
	if err := cl.begin(); err != nil {
		return err
	}
	defer cl.end()
	for i := range cl.req.Wants {
		lane := cl.req.Wants[i].Lane & 1
		if cl.req.Ordered && cl.more[lane] {
			rep.Wants[i].Why = store.WhyMore
			continue
		}
		var err error
		if rep.Wants[i], err = cl.want(&cl.req.Wants[i]); err != nil {
			return err
		}
		cl.more[lane] = cl.more[lane] || rep.Wants[i].Why == store.WhyMore
		rep.More = rep.More || cl.more[lane]
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
	k    *kindRow
	want *store.TypeWant
	out  [6]bool // classes in which it is not looked at any more
}

// want serves one want with one invocation after another.
func (cl *claim) want(w *store.Want) (store.WantReport, error) {
	var rep store.WantReport
	lane := w.Lane & 1
	cl.newWant()
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
		if cl.rooms.Full(p.c.want, p.s.class) {
			p.c.out[p.s.class] = true
			continue
		}
		if len(cl.grants) > 0 && cl.bytes < p.rd.rows[0].size() || cl.stops >= maxStops {
			rep.Why = store.WhyMore
			return rep, nil
		}
		as, refused, err := cl.ask(p)
		if err != nil {
			return rep, err
		}
		if refused { // others may go on
			continue
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
		ok, err := cl.grant(p, as)
		if err != nil {
			return rep, err
		}
		if !ok {
			continue
		}
		if err := cl.granted(); err != nil {
			return rep, err
		}
		cl.rooms.Take(p.c.want, p.s.class)
		rep.Granted++
		cl.left[lane]--
		if p.turn != nil {
			cl.w.st.served(p.turn)
		}
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
		rm, err := cl.waitsFor(choices, lane)
		if err != nil {
			return rep, err
		}
		if rm != nil {
			rep.Why, rep.Detail, rep.Next = store.WhyLimit, rm.key.String(), sooner(rep.Next, rm.next(cl.now))
		}
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
	c     *choice
	s     *stream
	rd    *reading
	start float64
	turn  *turnRow // of its group, if the queue is fair
}

// next says whose turn it is: cancel visits, then one suspect, then who holds what is idle until it runs again, then first runs and re-runs 3:1.
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
	if cl.w.st.ns.held > 0 {
		if p, err = cl.first(w, choices, store.ClassHolder); err != nil || p.s != nil {
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
	if class.Visit() && lane == store.Intake || (class == store.ClassRerun || class == store.ClassHolder) && lane == store.Repoll {
		return pick{}, nil // no such lines
	}
	var best pick
	for _, c := range choices {
		if c.out[class] {
			continue
		}
		src, err := cl.source(c, lane, class, min(w.Max, cl.left[lane]))
		if err != nil {
			return pick{}, err
		}
		s, rd, start, err := src.peek()
		if err != nil {
			return pick{}, err
		}
		if rd != nil && (best.s == nil || start < best.start || start == best.start && rd.rows[0].cols.score < best.rd.rows[0].cols.score) {
			best = pick{c, s, rd, start, s.turn}
		}
	}
	return best, nil
}

// source is where the commands of a type, lane and class come from.
func (cl *claim) source(c *choice, lane store.Lane, class store.Class, most int) (source, error) {
	key := streamKey{c.k.k, lane, class}
	if s := cl.streams[key]; s != nil {
		return s, nil
	}
	s := cl.stream(c, lane, class, most*max(1, c.want.Batch))
	var src source = s
	if q := c.k.q; q.cfg.Fair && q.fair == groupsAll {
		src = &turns{base: s, groups: map[string]*stream{}, lastTurn: -1}
	}
	cl.streams[key] = src
	return src, cl.opened(key, src)
}

// skipped reports whether a stream has stopped because too much at the heads of its lines had ended.
func (cl *claim) skipped(choices []*choice, lane store.Lane) bool {
	for _, c := range choices {
		for class := range c.out {
			if s := cl.streams[streamKey{c.k.k, lane, store.Class(class)}]; s != nil && s.skipped() >= maxSkips {
				return true
			}
		}
	}
	return false
}

// sooner is the smaller of two durations of which 0 means unknown.
func sooner(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}
