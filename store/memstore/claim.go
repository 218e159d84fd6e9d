package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/twolane/twolane/internal/mutant"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// Claim implements [store.Store].
func (s *Store) Claim(ctx context.Context, req store.ClaimRequest) (store.ClaimReply, error) {
	if err := rule.ValidClaim(&req); err != nil {
		return store.ClaimReply{}, err
	}
	if err := s.begin(ctx); err != nil {
		return store.ClaimReply{}, err
	}
	defer s.mu.Unlock()
	now := s.advance()
	rep := store.ClaimReply{MaintainReply: s.maintain(now), Wants: make([]store.WantReport, len(req.Wants))}
	if s.nonces[req.Worker] == gone {
		return rep, nil
	}
	if s.nonces[req.Worker] == req.Nonce && !mutant.On(mutant.ForgetNonce) {
		rep.Grants = s.repeat(req)
		return rep, nil
	}
	s.nonces[req.Worker] = req.Nonce
	cl := &claim{s: s, now: now, req: &req, left: req.Free, rooms: rule.RoomsOf(&req), bytes: req.MaxBytes}
	if cl.bytes <= 0 {
		cl.bytes = 4 << 20
	}
	for i := range req.Wants {
		if w := &req.Wants[i]; req.Ordered && cl.more[w.Lane&1] {
			rep.Wants[i].Why = store.WhyMore
			continue
		}
		rep.Wants[i] = cl.want(&req.Wants[i])
		cl.more[req.Wants[i].Lane&1] = cl.more[req.Wants[i].Lane&1] || rep.Wants[i].Why == store.WhyMore
		rep.More = rep.More || rep.Wants[i].Why == store.WhyMore
		if n := rep.Wants[i].Next; n > 0 && (rep.Next == 0 || n < rep.Next) {
			rep.Next = n
		}
	}
	rep.Grants = cl.grants
	return rep, nil
}

// repeat answers a claim that was made before: those of its leases that are still current.
func (s *Store) repeat(req store.ClaimRequest) []store.Grant {
	var held []*store.Command
	s.live(func(c *store.Command) {
		if c.Place == store.Leased && c.Owner == req.Worker && c.Lease.Nonce == req.Nonce {
			held = append(held, c)
		}
	})
	sort.Slice(held, func(i, j int) bool { return held[i].Lease.Token < held[j].Lease.Token })
	var grants []store.Grant
	for _, c := range held {
		class, n := rule.Class(c), len(grants)-1
		size := batchOf(req.Wants, c)
		if n >= 0 && len(grants[n].Items) < size && !class.Suspect() && rule.Line(grants[n].Items[0]) == rule.Line(c) {
			grants[n].Items = append(grants[n].Items, c.Clone())
			continue
		}
		grants = append(grants, store.Grant{Lane: c.Lane(), Class: class, Items: []*store.Command{c.Clone()}})
	}
	return grants
}

func batchOf(wants []store.Want, c *store.Command) int {
	for _, w := range wants {
		if w.Queue == c.Queue && w.Lane == c.Lane() {
			for _, t := range w.Types {
				if t.Type == c.Type {
					return max(1, t.Batch)
				}
			}
		}
	}
	return 1
}

// claim is one claim call under way.
type claim struct {
	s       *Store
	now     rule.Now
	req     *store.ClaimRequest
	left    [2]int
	rooms   rule.Rooms
	more    [2]bool // a want of the lane could be given more at once
	bytes   int
	grants  []store.Grant
	refused map[string]bool // lines that limits have stopped since the last grant
	// suspect is set when this call has granted one: no second.
	suspect bool
}

// want serves one want with one invocation after another.
func (cl *claim) want(w *store.Want) store.WantReport {
	var rep store.WantReport
	lane := w.Lane & 1
	types := map[string]*store.TypeWant{}
	for i := range w.Types {
		types[w.Types[i].Type] = &w.Types[i]
	}
	q := cl.s.cfg.Queue(w.Queue)
	paused := q.Paused(cl.now.Wall)
	stopped := w.Visits || paused == store.PauseAll || paused == store.PauseIntake && lane == store.Intake
	skip := map[string]bool{} // types that have no room, or are throttled
	throttled := false
	cl.refused = map[string]bool{}
	by := cl.candidates(w, types, skip)
	for rep.Granted < w.Max && cl.left[lane] > 0 {
		class, ok := cl.next(w, by, stopped, rep.Granted)
		if !ok {
			break
		}
		head := by[class][0]
		if cl.rooms.Full(types[head.Type], class) {
			skip[head.Type] = true
			by = cl.candidates(w, types, skip)
			continue
		}
		if len(cl.grants) > 0 && cl.bytes < size(head) {
			rep.Why = store.WhyMore
			return rep
		}
		as := rule.Limits(cl.now, &cl.s.cfg, head)
		if key, stopped, wait := cl.s.stopper(cl.now, head, as); stopped { // its line is filed; others may go on
			cl.s.file(cl.now, key, head, wait)
			cl.refused[rule.Line(head)] = true
			by = cl.candidates(w, types, skip)
			continue
		}
		why, wait := cl.token(head, class)
		switch why {
		case store.WhyThrottled: // other types may go on
			throttled, skip[head.Type] = true, true
			rep.Next = sooner(rep.Next, wait)
			by = cl.candidates(w, types, skip)
			continue
		case store.WhyRate:
			rep.Why, rep.Detail, rep.Next = why, w.Queue+"/"+lane.String(), sooner(rep.Next, wait)
			return rep
		}
		batch := max(1, types[head.Type].Batch)
		if class.Suspect() {
			batch, cl.suspect = 1, true
		}
		by[class] = cl.grant(class, by[class], batch, as)
		clear(cl.refused)
		cl.rooms.Take(types[head.Type], class)
		rep.Granted++
		cl.left[lane]--
		if q.Fair && !mutant.On(mutant.ForgetTurn) {
			cl.s.served(groupKey{w.Queue, lane, head.Group}, q)
		}
		if len(as) > 0 || q.Fair {
			by = cl.candidates(w, types, skip)
		}
	}
	switch {
	case rep.Granted >= w.Max || cl.left[lane] <= 0:
	case w.Visits:
		rep.Why = store.WhyEmpty
	case stopped:
		rep.Why = store.WhyPaused
		if until := q.PauseUntil; until != 0 {
			rep.Next = sooner(rep.Next, until.Sub(cl.now.Wall))
		}
	case throttled:
		rep.Why = store.WhyThrottled
	default:
		rep.Why = store.WhyEmpty
		if k, next, ok := cl.s.filedFor(cl.now, w, types); ok {
			rep.Why, rep.Detail, rep.Next = store.WhyLimit, k.String(), sooner(rep.Next, next)
		}
	}
	return rep
}

// candidates are the claimable commands of a want by class, each in order.
func (cl *claim) candidates(w *store.Want, types map[string]*store.TypeWant, skip map[string]bool) map[store.Class][]*store.Command {
	m := map[store.Class][]*store.Command{}
	closed := cl.s.closedLines()
	maps.Copy(closed, cl.refused)
	cl.s.live(func(c *store.Command) {
		if c.Queue == w.Queue && c.Lane() == w.Lane && types[c.Type] != nil && !skip[c.Type] && rule.Claimable(cl.now, c) && (len(closed) == 0 || !closed[rule.Line(c)]) {
			m[rule.Class(c)] = append(m[rule.Class(c)], c)
		}
	})
	q := cl.s.cfg.Queue(w.Queue)
	order := q.Order
	for _, cs := range m {
		slices.SortFunc(cs, func(a, b *store.Command) int {
			if q.Fair {
				if d := cl.s.start(groupKey{w.Queue, w.Lane, a.Group}) - cl.s.start(groupKey{w.Queue, w.Lane, b.Group}); d != 0 {
					return cmp.Compare(d, 0)
				}
			}
			if d := rule.Score(order, a) - rule.Score(order, b); d != 0 {
				return int(max(-1, min(1, d)))
			}
			if a.ID < b.ID {
				return -1
			}
			return 1
		})
	}
	return m
}

// next says which class has the next turn.
func (cl *claim) next(w *store.Want, by map[store.Class][]*store.Command, stopped bool, granted int) (store.Class, bool) {
	switch {
	case len(by[store.ClassCancel]) > 0:
		return store.ClassCancel, true
	case len(by[store.ClassSuspectVisit]) > 0 && w.Suspect && !cl.suspect:
		return store.ClassSuspectVisit, true
	case stopped:
		return 0, false
	case len(by[store.ClassSuspect]) > 0 && w.Suspect && !cl.suspect:
		return store.ClassSuspect, true
	case len(by[store.ClassHolder]) > 0: // what it holds is idle until it runs again
		return store.ClassHolder, true
	case len(by[store.ClassRerun]) > 0 && (len(by[store.ClassFirst]) == 0 || rule.PreferRerun(w.Turn+granted)):
		return store.ClassRerun, true
	case len(by[store.ClassFirst]) > 0:
		return store.ClassFirst, true
	}
	return 0, false
}

// token takes a token of the type's throttle and of the lane's rate, both or none; a cancel visit takes them without waiting.
func (cl *claim) token(c *store.Command, class store.Class) (store.WhyNot, time.Duration) {
	lk, tk := laneKey{c.Queue, c.Lane()}, typeKey{c.Queue, c.Lane(), c.Type}
	rate := cl.s.cfg.Queue(c.Queue).Rates[c.Lane()]
	b, t := cl.s.buckets[lk], cl.s.throttles[tk]
	if class.Visit() {
		cl.s.setThrottle(tk, t.Force(cl.now.Run))
		cl.s.buckets[lk] = b.Force(rate, cl.now.Run)
		return "", 0
	}
	t, got, wait := t.Take(cl.now.Run, 1)
	if got == 0 {
		cl.s.setThrottle(tk, t)
		return store.WhyThrottled, wait
	}
	b, got, wait = b.Take(rate, cl.now.Run, 1)
	if got == 0 {
		cl.s.buckets[lk] = b
		return store.WhyRate, wait
	}
	cl.s.buckets[lk] = b
	cl.s.setThrottle(tk, t)
	return "", 0
}

// grant leases the first of cs, and with it others of its line up to batch; it returns the rest.
func (cl *claim) grant(class store.Class, cs []*store.Command, batch int, as []rule.Applied) []*store.Command {
	line := rule.Line(cs[0])
	g := store.Grant{Lane: cs[0].Lane(), Class: class}
	var rest []*store.Command
	for i, c := range cs {
		if len(g.Items) >= batch {
			rest = append(rest, cs[i:]...)
			break
		}
		if rule.Line(c) != line || len(g.Items) > 0 && (cl.bytes < size(c) || !cl.fits(c, as)) {
			rest = append(rest, c)
			continue
		}
		cl.s.token++
		cl.bytes -= size(c)
		rule.Grant(cl.now, c, store.LeaseName{Token: cl.s.token, Nonce: cl.req.Nonce}, cl.req.Worker, cl.s.cfg.V())
		cl.taken(c, as, len(g.Items) == 0)
		g.Items = append(g.Items, c.Clone())
	}
	cl.grants = append(cl.grants, g)
	return rest
}

func (s *Store) setThrottle(k typeKey, t rule.Throttle) {
	if t.Rate <= 0 {
		delete(s.throttles, k)
		return
	}
	s.throttles[k] = t
}

func size(c *store.Command) int { return len(c.Params) + len(c.State) + 256 }

// fits reports whether another command of a granted line has room under its limits; rates count invocations and were asked before.
func (cl *claim) fits(c *store.Command, as []rule.Applied) bool {
	rates := func(a rule.Applied) bool { return a.Limit.Rate > 0 }
	_, stopped, _ := cl.s.stopper(cl.now, c, slices.DeleteFunc(slices.Clone(as), rates))
	return !stopped || mutant.On(mutant.BatchTestsOnce)
}

// sooner is the smaller of two durations of which 0 means unknown.
func sooner(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}
