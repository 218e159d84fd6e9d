package sqlitestore

import (
	"slices"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// maxStops bounds how many lines one claim files.
const maxStops = 200

// limiting is the part of a claim that limits have.
type limiting struct {
	limited bool  // there are limits, or lines that wait for one
	epoch   int64 // of the limits in force
	stops   int   // lines that limits have stopped
	// refused are the lines that were stopped in the present want since its last grant: they are not tried again before the next one. late are those of
	// them that have come open.
	refused map[*lineRow]bool
	late    []*lineRow
	waiting *roomRow // where the first of them waits
	// unread are lines that came open, of sources that nobody has asked yet.
	unread map[streamKey][]*lineRow
}

// applied is a limit that applies to the commands of a line.
type applied struct {
	rule.Applied
	rm    *roomRow
	waits bool // they wait for room under it
}

// applied returns the limits that apply to the commands of a line, in the order in which they are tested.
func (s *state) applied(now rule.Now, epoch int64, l *lineRow) ([]applied, error) {
	if len(s.cfg.Limits) == 0 {
		return nil, nil
	}
	if l.epoch == epoch {
		return l.limits, nil
	}
	var all []applied
	for _, a := range rule.Limits(now, &s.cfg, l.like()) {
		rm, err := s.room(a.LimitKey)
		if err != nil {
			return nil, err
		}
		all = append(all, applied{a, rm, rule.Waits(l.like(), &a)})
	}
	l.limits, l.epoch = all, epoch
	return all, nil
}

// begin makes the claim ready to read lines: all that is known of them is in the tables.
func (cl *claim) begin() error {
	s := cl.w.st
	if err := s.flushLines(); err != nil {
		return err
	}
	for len(s.lefts) > 0 {
		if err := cl.w.hints(cl.now); err != nil {
			return err
		}
		if err := s.flushLines(); err != nil {
			return err
		}
	}
	if err := s.flushTurns(); err != nil {
		return err
	}
	if cl.limited = len(s.cfg.Limits) > 0 || s.ns.filed > 0; cl.limited {
		cl.epoch, cl.unread = s.epoch(cl.now), map[streamKey][]*lineRow{}
		s.claiming, s.free = true, nil
	}
	return nil
}

func (cl *claim) end() { cl.w.st.claiming, cl.w.st.free = false, nil }

// newWant begins the next want.
func (cl *claim) newWant() {
	cl.refused, cl.waiting = nil, nil
	if len(cl.late) > 0 {
		cl.w.st.free = append(cl.w.st.free, cl.late...)
		cl.late = nil
	}
}

// stop is what stops the commands of a line.
type stop struct {
	rm   *roomRow // nil: nothing
	full bool     // it has no room; else older lines are in front
	wait time.Duration
}

// stopper says which of its limits stops a line, if one does. Nothing is taken: all or none.
func (cl *claim) stopper(l *lineRow, as []applied, rates bool) (stop, error) {
	for i := range as {
		a := &as[i]
		if !a.waits || a.Limit.Rate > 0 && !rates {
			continue
		}
		if ok, wait := cl.w.st.fits(cl.now, a.rm, l.like().Cost); !ok {
			return stop{a.rm, true, wait}, nil
		}
		behind, err := cl.w.behind(cl.now, a.rm, l)
		if err != nil {
			return stop{}, err
		}
		if behind {
			return stop{rm: a.rm}, nil
		}
	}
	return stop{}, nil
}

// ask returns the limits that apply to a pick, and files its line under the first that stops it.
func (cl *claim) ask(p pick) (as []applied, refused bool, err error) {
	if !cl.limited {
		return nil, false, nil
	}
	l := p.rd.l
	if as, err = cl.w.st.applied(cl.now, cl.epoch, l); err != nil {
		return nil, false, err
	}
	st, err := cl.stopper(l, as, true)
	if err != nil || st.rm == nil {
		return as, false, err
	}
	p.s.refuse(p.rd)
	if cl.refused == nil {
		cl.refused = map[*lineRow]bool{}
	}
	cl.refused[l] = true
	cl.stops++
	if cl.waiting == nil {
		cl.waiting = st.rm
	}
	if err := cl.w.file(cl.now, st.rm, l, st.full, st.wait); err != nil {
		return nil, false, err
	}
	return nil, true, cl.admit()
}

// admit lets the sources look at lines that have come open.
func (cl *claim) admit() error {
	s := cl.w.st
	for len(s.free) > 0 {
		free := s.free
		s.free = nil
		for _, l := range free {
			key := streamKey{l.k.k, l.lane, l.class}
			switch src := cl.streams[key]; {
			case l.shut():
			case cl.refused[l]:
				cl.late = append(cl.late, l)
			case src == nil:
				cl.unread[key] = append(cl.unread[key], l)
			default:
				if err := src.admit(l); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// opened lets a new source look at lines that have come open before.
func (cl *claim) opened(key streamKey, src source) error {
	for _, l := range cl.unread[key] {
		if l.shut() {
			continue
		}
		if err := src.admit(l); err != nil {
			return err
		}
	}
	delete(cl.unread, key)
	return nil
}

// granted ends the wait of lines that were refused before a grant.
func (cl *claim) granted() error {
	if !cl.limited {
		return nil
	}
	cl.newWant()
	return cl.admit()
}

// join makes the memberships of a command that is being granted, and takes the tokens of its rates.
func (cl *claim) join(c *store.Command, as []applied, first bool) {
	rules := make([]rule.Applied, 0, len(as))
	for i := range as {
		a := &as[i]
		if a.Limit.Rate > 0 && first {
			cl.w.st.takeToken(cl.now, a.rm, a.Limit)
		}
		rules = append(rules, a.Applied)
	}
	joins, over := rule.Reserve(c, rules, func(k store.LimitKey) int {
		return as[slices.IndexFunc(as, func(a applied) bool { return a.LimitKey == k })].rm.members
	})
	rule.Join(c, joins, over)
}

// taken opens what is left of the line of a granted command, which queues anew, and gives what room is left to who is next.
func (cl *claim) taken(c *store.Command, l *lineRow, as []applied) error {
	w := cl.w
	if l.passed != 0 {
		l.passed = 0
		w.st.moveLine(l)
	}
	if rm := l.room; rm != nil {
		w.st.takeOff(l)
		if err := w.hint(cl.now, rm); err != nil {
			return err
		}
	}
	for i := range as {
		a := &as[i]
		if a.rm.lines == 0 || a.Limit.Rate == 0 && !rule.Holds(c, a.LimitKey) {
			continue
		}
		if a.rm.stood != 0 {
			a.rm.stood = 0
			w.st.touchRoom(a.rm)
		}
		if err := w.hint(cl.now, a.rm); err != nil {
			return err
		}
	}
	return w.hints(cl.now)
}

// budget is about how many commands of a line may have room now.
func (cl *claim) budget(l *lineRow, batch int) (int, error) {
	as, err := cl.w.st.applied(cl.now, cl.epoch, l)
	if err != nil {
		return 0, err
	}
	n := rowsAtOnce
	for i := range as {
		a := &as[i]
		if !a.waits {
			continue
		}
		free := (a.Max - a.rm.members) / max(1, l.like().Cost)
		if a.Limit.Rate > 0 {
			r, _ := a.Limit.RateOf(a.Value)
			_, free, _ = a.rm.tat.Take(r, cl.now.Run, rowsAtOnce)
			free *= batch
		}
		if a.rm.lines > 0 { // it queues anew after each grant
			free = max(free/(a.rm.lines+1), min(free, batch))
		}
		n = min(n, free)
	}
	return max(n, 0), nil
}

// waitsFor is a key for which a line that the want could be given waits, or nil.
func (cl *claim) waitsFor(choices []*choice, lane store.Lane) (*roomRow, error) {
	s := cl.w.st
	if s.ns.filed == 0 {
		return nil, nil
	}
	if cl.waiting != nil {
		return cl.waiting, nil
	}
	most := int64(never)
	if lane == store.Repoll {
		most = int64(cl.now.Run)
	}
	for _, c := range choices {
		var lns []int64
		st := cl.w.q("SELECT ln FROM line WHERE k=? AND lane=? AND shut=1 AND head IS NOT NULL AND head<=? LIMIT 16").Int(c.k.k).Int(int64(lane)).Int(most)
		for {
			ok, err := st.Step()
			if err != nil {
				return nil, err
			}
			if !ok {
				break
			}
			lns = append(lns, st.ColInt(0))
		}
		for _, ln := range lns {
			l, err := s.lineBy(ln)
			if err != nil {
				return nil, err
			}
			if l != nil && l.some && l.shut() {
				return l.room, nil
			}
		}
	}
	return nil, nil
}

// next is how long until the key is looked at again.
func (rm *roomRow) next(now rule.Now) time.Duration {
	if rm.at == 0 {
		return retest
	}
	return min(retest, max(time.Millisecond, rm.at.Sub(now.Run)))
}
