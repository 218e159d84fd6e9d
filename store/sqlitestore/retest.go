package sqlitestore

import (
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// Who makes room opens the oldest line that waits for it, in the same transaction. Nothing depends on that: maintenance looks at a key when time alone
// may have changed something (a token, the end of a limit, room that stands), and in a round of a second at every key that lines wait for. What
// such a round finds as it should be it does not write, so that lines that wait for long cost next to nothing.

const (
	maxSwept = 500 // keys that one step looks at
	maxAsked = 200 // lines of one key that one step asks whether they still wait
)

// filed looks at the keys for which lines wait.
func (u *upkeep) filed() error {
	w := u.w
	if w.st.ns.filed == 0 {
		return nil
	}
	if err := w.st.flushLines(); err != nil {
		return err
	}
	if err := w.hints(u.now); err != nil {
		return err
	}
	if err := w.st.flushRooms(); err != nil {
		return err
	}
	due, err := u.rooms(w.q(selectRoom + "at<=? ORDER BY at LIMIT 101").Int(int64(u.now.Run)))
	if err != nil {
		return err
	}
	for i, rm := range due {
		if i == bound || u.late(i) {
			u.rep.More = true
			break
		}
		if err := w.look1(u.now, rm); err != nil {
			return err
		}
	}
	return u.sweep()
}

// late reports whether the step has taken long enough, n items of the present kind after its begin.
func (u *upkeep) late(n int) bool { return n > 0 && time.Since(u.start) > bulkTime }

func (u *upkeep) rooms(st stmt) (all []*roomRow, err error) {
	for {
		ok, err := st.Step()
		if err != nil || !ok {
			return all, err
		}
		all = append(all, u.w.st.scanRoom(st))
	}
}

// sweep goes on with the round over all keys for which lines wait, once a second.
func (u *upkeep) sweep() error {
	ns := &u.w.st.ns
	if ns.sweep == 0 {
		if u.now.Run-ns.swept < rule.Retest {
			return nil
		}
		ns.swept = u.now.Run
	}
	keys, err := u.rooms(u.w.q(selectRoom + "lines>0 AND r>? ORDER BY r LIMIT ?").Int(ns.sweep).Int(maxSwept))
	if err != nil {
		return err
	}
	epoch := u.w.st.epoch(u.now)
	for i, rm := range keys {
		if u.late(i) {
			u.rep.More = true
			return nil
		}
		if u.w.st.odd(u.now, rm, epoch) {
			if err := u.w.look1(u.now, rm); err != nil {
				return err
			}
		}
		ns.sweep = rm.r
	}
	if len(keys) < maxSwept {
		ns.sweep = 0
	} else {
		u.rep.More = true
	}
	return nil
}

// odd reports whether a key may be in need of a look that nothing else makes soon.
func (s *state) odd(now rule.Now, rm *roomRow, epoch int64) bool {
	if rm.epoch != epoch || rm.asked != 0 {
		return true
	}
	if rm.at != 0 && rm.at <= now.Run+rule.Retest {
		return false // it is looked at then
	}
	ok, _ := s.fits(now, rm, 1)
	return ok
}

// look1 looks at one key.
func (w *writer) look1(now rule.Now, rm *roomRow) error {
	epoch, before := w.st.epoch(now), *rm
	defer func() {
		if before.at != rm.at || before.epoch != rm.epoch || before.asked != rm.asked || before.stood != rm.stood {
			w.st.touchRoom(rm)
		}
	}()
	rm.at = 0
	if rm.asked != 0 && rm.epoch != epoch && rm.epoch != 0 {
		rm.asked = 0 // the limits have changed since it began
	}
	if rm.asked == 0 && (rm.epoch != epoch || rm.anybodys(now)) {
		rm.asked, rm.epoch = 1, epoch
	}
	if rm.asked != 0 {
		over, err := w.ask(now, rm)
		if err != nil {
			return err
		}
		if !over {
			rm.at = now.Run // at once
			return nil
		}
		rm.asked = 0
	}
	for _, l := range rm.oldest {
		if ok, _ := w.st.fits(now, rm, l.like().Cost); !ok {
			w.shutLine(l)
		}
	}
	if err := w.hint(now, rm); err != nil {
		return err
	}
	if rm.lines > 0 && rm.stood != 0 {
		rm.comeAt(now, max(retest-now.Run.Sub(rm.stood), time.Millisecond))
		if rm.anybodys(now) {
			rm.at = now.Run + rule.Retest
		}
	}
	return nil
}

// ask asks lines of a key whether they still wait for it, and lets those who stand behind one that does not use its room have it. It reports
// whether all were asked.
func (w *writer) ask(now rule.Now, rm *roomRow) (bool, error) {
	st := w.q("SELECT ln, ord FROM line WHERE room=? AND ord>=? ORDER BY ord LIMIT ?").Int(rm.r).Int(rm.asked).Int(maxAsked)
	var lns [maxAsked]int64
	n := 0
	for {
		ok, err := st.Step()
		if err != nil {
			return false, err
		}
		if !ok {
			break
		}
		lns[n], rm.asked = st.ColInt(0), st.ColInt(1)+1
		n++
	}
	for _, ln := range lns[:n] {
		l, err := w.st.lineBy(ln)
		if err != nil {
			return false, err
		}
		if l == nil || l.room != rm {
			continue
		}
		w.retest(now, rm, l)
		if l.room == rm && l.opened != 0 {
			rm.epoch = 0 // all are asked again next time
		}
	}
	return n < maxAsked, nil
}

// retest asks one line.
func (w *writer) retest(now rule.Now, rm *roomRow, l *lineRow) {
	room, _ := w.st.fits(now, rm, l.like().Cost)
	switch {
	case !rule.WaitsFor(now, &w.st.cfg, l.like(), rm.key) || l.unfit() && !w.st.neverFits(now, rm, l):
		w.st.takeOff(l) // what has stopped it is gone
		w.wakeLine(l)
	case l.unfit():
	case !room:
		w.shutLine(l)
	case l.opened != 0 && rm.anybodys(now) && now.Run-l.opened >= rule.Retest:
		l.passed++ // it let room stand: it loses its place, and comes to the tail when it is next refused
		w.st.takeOff(l)
		w.wakeLine(l)
	case l.opened == 0 && rm.anybodys(now): // the oldest did not use it: whoever waits may
		w.openLine(now, l)
	}
}

// unused forgets counted values that nothing depends on any more, a few at a time.
func (u *upkeep) unused() error {
	w := u.w
	if w.st.ns.rooms == 0 || w.steps%8 != 0 {
		return nil
	}
	rooms, err := u.rooms(w.q(selectRoom + "r>? ORDER BY r LIMIT 32").Int(w.numbers.roomAfter))
	if err != nil {
		return err
	}
	w.numbers.roomAfter = 0
	for _, rm := range rooms {
		if len(rooms) == 32 {
			w.numbers.roomAfter = rm.r
		}
		if rm.members != 0 || rm.lines != 0 || rm.dirty || store.Millis(rm.tat) > u.now.Run && w.st.limit(u.now, rm.key) != nil || w.steps-rm.used < 1000 {
			continue
		}
		if err := w.q("DELETE FROM room WHERE r=?").Int(rm.r).Run(); err != nil {
			return err
		}
		w.st.ns.rooms--
		rm.fresh, rm.tat = true, 0 // lines may know it: it comes back if it is used again
	}
	return nil
}
