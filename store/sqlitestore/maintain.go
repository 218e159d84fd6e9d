package sqlitestore

import (
	"context"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// bound is how many items of each kind one step of maintenance takes.
const bound = 100

// Maintain implements [store.Store].
func (s *Store) Maintain(ctx context.Context) (store.MaintainReply, error) {
	var rep store.MaintainReply
	err := s.do(ctx, bulk, false, func(w *writer) error {
		var err error
		rep, err = w.maintain(w.advance())
		return err
	})
	if err != nil {
		return store.MaintainReply{}, err
	}
	return rep, nil
}

// upkeep is one step of maintenance under way.
type upkeep struct {
	w     *writer
	now   rule.Now
	rep   *store.MaintainReply
	start time.Time
}

// maintain does a bounded piece of what time demands in the whole namespace.
func (w *writer) maintain(now rule.Now) (store.MaintainReply, error) {
	rep := store.MaintainReply{Now: now.Wall, ConfigVersion: w.st.cfg.Version, Visibility: w.st.cfg.V()}
	u := &upkeep{w, now, &rep, time.Now()}
	for _, f := range [...]func() error{u.reap, u.expire, u.promote, u.purge, u.keep, u.workers, u.lines, u.fair, u.filed, u.unused} {
		if err := f(); err != nil {
			return rep, err
		}
	}
	var err error
	rep.Next, err = u.next()
	return rep, err
}

// each calls f for at most bound rows whose numbers st gives; st must be limited to one more than that.
func (u *upkeep) each(st stmt, f func(r *row) error) error {
	var ns [bound]int64
	n := 0
	for {
		ok, err := st.Step()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if n == bound {
			u.rep.More = true
			st.Reset()
			break
		}
		ns[n] = st.ColInt(0)
		n++
	}
	for i, num := range ns[:n] {
		if i > 0 && time.Since(u.start) > bulkTime { // renewals wait behind us
			u.rep.More = true
			return nil
		}
		r, err := u.w.byNumber(num)
		if err != nil {
			return err
		}
		if r == nil {
			continue
		}
		if err := f(r); err != nil {
			return err
		}
	}
	return nil
}

// reap ends leases that have expired.
func (u *upkeep) reap() error {
	w := u.w
	return u.each(w.q("SELECT n FROM cmd WHERE waits=1 AND at<=? ORDER BY at LIMIT 101").Int(int64(u.now.Lease)), func(r *row) error {
		if !rule.Expired(u.now, r.c) {
			return w.save(r)
		}
		beat, err := w.beat(r.c.Owner)
		if err != nil {
			return err
		}
		if until := rule.Doubt(u.now, beat, w.st.cfg.V()); until != 0 {
			r.c.LeaseUntil = until
			return w.save(r)
		}
		lives := beat > u.now.Lease
		u.rep.Reaped++
		if lives {
			u.rep.ClaimLost++
		} else {
			u.rep.Lost++
		}
		return w.change(u.now, r, func(q store.QueueConfig) { rule.Reap(u.now, r.c, lives, q, w.st.cfg.V()) })
	})
}

// expire ends commands at rest that are past their deadline or start_by, and cancel visits that are tried no more.
func (u *upkeep) expire() error {
	w := u.w
	return u.each(w.q("SELECT n FROM cmd WHERE ends<=? ORDER BY ends LIMIT 101").Int(int64(u.now.Wall)), func(r *row) error {
		switch {
		case rule.Ended(u.now, r.c):
			u.rep.Expired++
			return w.expire(u.now, r)
		case rule.VisitOver(u.now, r.c):
			u.rep.Expired++
			return w.change(u.now, r, func(q store.QueueConfig) { rule.EndVisit(u.now, r.c, q) })
		}
		return w.save(r)
	})
}

// promote puts scheduled commands in line that are due.
func (u *upkeep) promote() error {
	w := u.w
	for _, q := range w.st.queuesBy {
		if q.scheduled == 0 {
			continue
		}
		for waits, at := range map[int64]store.Millis{waitsRun: u.now.Run, waitsWall: u.now.Wall} {
			if err := u.each(w.q("SELECT n FROM cmd WHERE waits=? AND at<=? ORDER BY at LIMIT 101").Int(8*q.q+waits).Int(int64(at)), func(r *row) error {
				if !rule.Due(u.now, r.c) {
					return w.save(r) // it waits for the other clock
				}
				u.rep.Promoted++
				return w.change(u.now, r, func(store.QueueConfig) { rule.Promote(u.now, w.nextSeq(), r.c) })
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// purge forgets records past their retention.
func (u *upkeep) purge() error {
	w := u.w
	return u.each(w.q("SELECT n FROM cmd WHERE waits=2 AND at<=? ORDER BY at LIMIT 101").Int(int64(u.now.Wall)), func(r *row) error {
		if !purgeable(u.now, r.c) {
			return w.save(r)
		}
		u.rep.Purged++
		return w.remove(r)
	})
}

// keep takes the oldest of finished records that are more than their queue keeps, to their tombstones at first.
func (u *upkeep) keep() error {
	for _, q := range u.w.st.queuesBy {
		over := q.finished() - int64(q.cfg.Keep)
		if over <= 0 {
			continue
		}
		before := u.rep.Purged
		if err := u.strip(q, min(over, bound)); err != nil {
			return err
		}
		u.rep.More = u.rep.More || over > bound && u.rep.Purged == before+bound
	}
	return nil
}

func (u *upkeep) strip(q *queueRow, over int64) error {
	w := u.w
	st := w.q(`SELECT n FROM (
		SELECT * FROM (SELECT n, ended FROM cmd WHERE q=?1 AND status=3 AND ended IS NOT NULL AND at IS NOT NULL ORDER BY ended LIMIT ?2) UNION ALL
		SELECT * FROM (SELECT n, ended FROM cmd WHERE q=?1 AND status=4 AND ended IS NOT NULL AND at IS NOT NULL ORDER BY ended LIMIT ?2) UNION ALL
		SELECT * FROM (SELECT n, ended FROM cmd WHERE q=?1 AND status=5 AND ended IS NOT NULL AND at IS NOT NULL ORDER BY ended LIMIT ?2)
		) ORDER BY ended, n LIMIT ?2`).Int(q.q).Int(over)
	return u.each(st, func(r *row) error {
		u.rep.Purged++
		if rule.Strip(r.c); purgeable(u.now, r.c) {
			return w.remove(r)
		}
		return w.save(r)
	})
}

// workers takes off whoever has stopped to renew, and forgets claims that nobody repeats any more.
func (u *upkeep) workers() error {
	w := u.w
	if err := w.q("DELETE FROM worker WHERE expires<=?").Int(int64(u.now.Lease)).Run(); err != nil {
		return err
	}
	old := u.now.Lease.Add(-max(time.Hour, 10*w.st.cfg.V()))
	return w.q("DELETE FROM claimed WHERE at<?").Int(int64(old)).Run()
}

// lines forgets lines in which nobody stands, a few at a time: somewhat more than were made since the last look.
func (u *upkeep) lines() error {
	m := &u.w.numbers
	u.w.steps++
	look := min(2*m.newLines+4, 400)
	m.newLines = 0
	var gone []int64
	st := u.w.q("SELECT ln, head IS NULL FROM line WHERE ln>? ORDER BY ln LIMIT ?").Int(m.lineAfter).Int(int64(look))
	n := 0
	for {
		ok, err := st.Step()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		n++
		m.lineAfter = st.ColInt(0)
		if st.ColInt(1) != 0 {
			gone = append(gone, m.lineAfter)
		}
	}
	if n < look {
		m.lineAfter = 0
	}
	for _, ln := range gone {
		l := u.w.st.linesBy[ln]
		if l != nil && (l.dirty || l.some || u.w.steps-l.used < 1000) {
			continue
		}
		if err := u.w.q("DELETE FROM line WHERE ln=?").Int(ln).Run(); err != nil {
			return err
		}
		if l != nil {
			delete(u.w.st.lines, l.name)
			delete(u.w.st.linesBy, ln)
		}
	}
	return nil
}

// next is how long until time alone may change something.
func (u *upkeep) next() (time.Duration, error) {
	d, err := u.w.nextPoll(u.now)
	if err != nil {
		return 0, err
	}
	look := func(st stmt, now store.Millis) error {
		ok, err := st.Step()
		if err != nil || !ok {
			return err
		}
		d = sooner(d, max(time.Millisecond, store.Millis(st.ColInt(0)).Sub(now)))
		st.Reset()
		return nil
	}
	if u.w.st.ns.filed > 0 {
		if err := look(u.w.q("SELECT at FROM room WHERE at IS NOT NULL ORDER BY at LIMIT 1"), u.now.Run); err != nil {
			return 0, err
		}
	}
	const at = "SELECT at FROM cmd WHERE waits=? ORDER BY at LIMIT 1"
	if err := look(u.w.q(at).Int(waitsLease), u.now.Lease); err != nil {
		return 0, err
	}
	if err := look(u.w.q("SELECT ends FROM cmd WHERE ends IS NOT NULL ORDER BY ends LIMIT 1"), u.now.Wall); err != nil {
		return 0, err
	}
	for _, q := range u.w.st.queuesBy {
		if q.scheduled == 0 {
			continue
		}
		if err := look(u.w.q(at).Int(8*q.q+waitsRun), u.now.Run); err != nil {
			return 0, err
		}
		if err := look(u.w.q(at).Int(8*q.q+waitsWall), u.now.Wall); err != nil {
			return 0, err
		}
	}
	return d, nil
}

// nextPoll is how long until a line of polls that are not due begins to be; 0 if there is none.
func (w *writer) nextPoll(now rule.Now) (time.Duration, error) {
	st := w.q("SELECT head FROM line WHERE lane=1 AND head IS NOT NULL AND head>? ORDER BY head LIMIT 1").Int(int64(now.Run))
	ok, err := st.Step()
	if !ok || err != nil {
		return 0, err
	}
	defer st.Reset()
	return max(time.Millisecond, store.Millis(st.ColInt(0)).Sub(now.Run)), nil
}
