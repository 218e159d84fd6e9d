package sqlitestore

import (
	"cmp"
	"slices"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// Lines that wait for a limit are filed under the key that has stopped them, oldest first. Room belongs to the oldest that can use it, which is
// opened as soon as there is some, in the transaction that makes it; room that stood for a second is anybody's. See rule.Retest.

const (
	// maxOldest is how many of the lines of one key are kept in memory.
	maxOldest = 64
	// maxFronts bounds the look for the line that room belongs to.
	maxFronts = 128
)

// room that has stood for so long that whoever can use it may have it.
func (rm *roomRow) anybodys(now rule.Now) bool {
	return rm.stood != 0 && now.Run-rm.stood >= rule.Retest
}

// front is the line that room of a key belongs to, or nil. What has no command to run, or stands in a paused queue, is filed no more; what never
// fits is passed by.
func (w *writer) front(now rule.Now, rm *roomRow) (*lineRow, error) {
	for range maxFronts {
		if len(rm.oldest) == 0 {
			if err := w.st.readOldest(rm); err != nil || len(rm.oldest) == 0 {
				return nil, err
			}
		}
		l := rm.oldest[0]
		if w.st.neverFits(now, rm, l) {
			w.st.setUnfit(l)
			continue
		}
		if !isPaused(now, l.k.q.cfg, l.lane) {
			if l.sure == now {
				return l, nil
			}
			ok, err := claimable(w, now, l.ln, l.lane)
			if err != nil {
				return nil, err
			}
			if ok {
				l.sure = now
				return l, nil
			}
		}
		w.st.takeOff(l)
	}
	return nil, nil
}

// readOldest reads on in the lines of a key.
func (s *state) readOldest(rm *roomRow) error {
	for len(rm.oldest) == 0 && rm.upTo < never {
		var lns []int64
		last := rm.upTo
		st := s.w.q("SELECT ln, ord FROM line WHERE room=? AND ord>? AND ord<? ORDER BY ord LIMIT ?").Int(rm.r).Int(rm.upTo).Int(neverFits).Int(maxOldest)
		for {
			ok, err := st.Step()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			lns, last = append(lns, st.ColInt(0)), st.ColInt(1)
		}
		if len(lns) < maxOldest {
			last = never
		}
		for _, ln := range lns {
			l, err := s.lineBy(ln)
			if err != nil {
				return err
			}
			if l != nil && l.room == rm && !l.unfit() && l.ord <= last {
				rm.oldest = append(rm.oldest, l)
			}
		}
		for _, l := range s.dirtyLines { // filed in this transaction, not in the table yet
			if l.moved && l.room == rm && l.ord > rm.upTo && l.ord <= last && !l.unfit() && !slices.Contains(rm.oldest, l) {
				rm.oldest = append(rm.oldest, l)
			}
		}
		slices.SortFunc(rm.oldest, func(a, b *lineRow) int { return cmp.Compare(a.ord, b.ord) })
		rm.upTo = last
	}
	return nil
}

func (s *state) neverFits(now rule.Now, rm *roomRow, l *lineRow) bool {
	lim := s.limit(now, rm.key)
	return lim != nil && rule.Never(lim, rm.key.Value, l.like().Cost)
}

// setUnfit puts a filed line behind all that could ever fit.
func (s *state) setUnfit(l *lineRow) {
	l.room.forget(l)
	l.ord += neverFits
	s.moveLine(l)
}

func (rm *roomRow) forget(l *lineRow) {
	rm.oldest = slices.DeleteFunc(rm.oldest, func(o *lineRow) bool { return o == l })
}

func (s *state) moveLine(l *lineRow) {
	l.moved = true
	s.touchLine(l)
}

func isPaused(now rule.Now, q store.QueueConfig, lane store.Lane) bool {
	p := q.Paused(now.Wall)
	return p == store.PauseAll || p == store.PauseIntake && lane == store.Intake
}

// claimable reports whether one of the first commands of a line could run now.
func claimable(q query, now rule.Now, ln int64, lane store.Lane) (bool, error) {
	most := int64(never)
	if lane == store.Repoll {
		most = int64(now.Run)
	}
	st := q.q("SELECT ends FROM cmd WHERE line=? AND score<=? ORDER BY score LIMIT 8").Int(ln).Int(most)
	for {
		ok, err := st.Step()
		if err != nil || !ok {
			return false, err
		}
		if ends := st.ColInt(0); ends == 0 || ends > int64(now.Wall) {
			st.Reset()
			return true, nil
		}
	}
}

// file puts a line under the key that has stopped it: at the tail, or where it stands there already. It leaves any other key. full says that it was
// stopped for want of room, wait until when time alone may change that.
func (w *writer) file(now rule.Now, rm *roomRow, l *lineRow, full bool, wait time.Duration) error {
	s := w.st
	old := l.room
	if old != rm {
		if old != nil {
			s.takeOff(l)
		}
		if rm.lines == 0 {
			rm.epoch, rm.asked, rm.at = s.epoch(now), 0, 0 // what was to be looked at has gone
		}
		if s.ns.filed == 0 {
			s.ns.swept, s.ns.sweep = now.Run, 0
		}
		s.ns.filings++
		s.ns.filed++
		rm.lines++
		l.room, l.ord, l.since = rm, s.ns.filings, now.Run
		switch {
		case rm.upTo == never && len(rm.oldest) < maxOldest:
			rm.oldest = append(rm.oldest, l)
		case rm.upTo == never:
			rm.upTo = rm.oldest[len(rm.oldest)-1].ord
		}
	}
	l.opened = 0
	if !l.unfit() && s.neverFits(now, rm, l) {
		s.setUnfit(l)
	}
	s.moveLine(l)
	if full {
		rm.stood = 0
	}
	s.touchRoom(rm)
	rm.comeAt(now, wait)
	if old != nil && old != rm {
		return w.hint(now, old)
	}
	return nil
}

// comeAt lets maintenance look at the key after a while, if it does not sooner; 0 is no such time.
func (rm *roomRow) comeAt(now rule.Now, wait time.Duration) {
	if wait <= 0 {
		return
	}
	if at := now.Run.Add(wait); rm.at == 0 || at < rm.at {
		rm.at = at
	}
}

// takeOff opens a line: it is filed no more. The caller gives the turn to who stood behind it.
func (s *state) takeOff(l *lineRow) {
	rm := l.room
	rm.forget(l)
	rm.lines--
	s.ns.filed--
	s.touchRoom(rm)
	l.filing = filing{passed: l.passed}
	s.moveLine(l)
	s.freed(l)
}

// emptied takes off a line in which nobody stands any more. It is being written.
func (s *state) emptied(l *lineRow) {
	if rm := l.room; rm != nil {
		rm.forget(l)
		rm.lines--
		s.ns.filed--
		s.touchRoom(rm)
		if rm.lines > 0 && !rm.left {
			rm.left = true
			s.lefts = append(s.lefts, rm)
		}
	}
	l.filing, l.moved = filing{}, true
}

// freed tells the claim under way of a line that may be looked at again.
func (s *state) freed(l *lineRow) {
	if s.claiming {
		s.free = append(s.free, l)
	}
}

// hint opens the oldest line of a key that has room for it.
func (w *writer) hint(now rule.Now, rm *roomRow) error {
	if rm.lines == 0 {
		return nil
	}
	f, err := w.front(now, rm)
	if err != nil || f == nil {
		return err
	}
	ok, wait := w.st.fits(now, rm, f.like().Cost)
	if !ok {
		if rm.stood != 0 {
			rm.stood = 0
			w.st.touchRoom(rm)
		}
		if at := rm.at; wait > 0 {
			if rm.comeAt(now, wait); rm.at != at {
				w.st.touchRoom(rm)
			}
		}
		return nil
	}
	if rm.stood == 0 {
		rm.stood = now.Run
		rm.comeAt(now, retest)
		w.st.touchRoom(rm)
	}
	if f.opened == 0 {
		w.openLine(now, f)
	}
	return nil
}

const retest = time.Duration(rule.Retest) * time.Millisecond

// openLine lets a filed line take room.
func (w *writer) openLine(now rule.Now, l *lineRow) {
	l.opened = max(now.Run, 1)
	w.st.moveLine(l)
	w.st.freed(l)
	w.wakeLine(l)
}

func (w *writer) shutLine(l *lineRow) {
	if l.opened != 0 {
		l.opened = 0
		w.st.moveLine(l)
	}
}

// wakeLine notes that a line has come open.
func (w *writer) wakeLine(l *lineRow) {
	q := l.k.q
	if !q.hit[0] && !q.hit[1] {
		w.hits = append(w.hits, q)
	}
	q.hit[l.lane] = true
	q.arrived[l.lane]++ // other processes see it
	w.st.touchQueue(q)
}

// hints gives their turn to those who wait for what was given up since the last call.
func (w *writer) hints(now rule.Now) error {
	for s := w.st; len(s.lefts) > 0; {
		rm := s.lefts[len(s.lefts)-1]
		s.lefts = s.lefts[:len(s.lefts)-1]
		rm.left = false
		if err := w.hint(now, rm); err != nil {
			return err
		}
	}
	return nil
}

// behind reports whether older lines are filed under the key, to whom its room belongs.
func (w *writer) behind(now rule.Now, rm *roomRow, l *lineRow) (bool, error) {
	if rm.lines == 0 || rm.anybodys(now) {
		return false, nil
	}
	if len(rm.oldest) > 0 && rm.oldest[0] == l { // its command is about to run: it is in front
		return false, nil
	}
	f, err := w.front(now, rm)
	if err != nil || f == nil || f == l {
		return false, err
	}
	return l.room != rm || l.opened == 0, nil
}
