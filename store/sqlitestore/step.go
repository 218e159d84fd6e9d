package sqlitestore

import (
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// change lets f change a command in one step and does what follows from it: an end fills the outbox and strips what is not to be kept, and
// whoever waits is woken.
func (w *writer) change(now rule.Now, r *row, f func(q store.QueueConfig)) error {
	before := *r.c
	f(r.k.q.cfg)
	return w.follow(now, &before, r)
}

// follow saves a changed command with what follows from the change.
func (w *writer) follow(now rule.Now, before *store.Command, r *row) error {
	c := r.c
	switch {
	case c.Status.Terminal():
		if !before.Status.Terminal() {
			if err := w.ended(r); err != nil {
				return err
			}
		}
	case before.CancelAsked == 0 && c.CancelAsked != 0 && c.Place == store.Leased:
		w.wakes = append(w.wakes, store.Wake{Kind: store.WakeCancel, ID: c.ID})
	case rule.Claimable(now, c) && (before.Place != store.InLine || before.Queue != c.Queue || before.Due != c.Due):
		w.hit(r)
	}
	return w.save(r)
}

// hit notes that a lane of a queue has work to wake for.
func (w *writer) hit(r *row) {
	q, lane := r.k.q, r.c.Lane()
	if !q.hit[0] && !q.hit[1] {
		w.hits = append(w.hits, q)
	}
	q.hit[lane] = true
}

func (w *writer) ended(r *row) error {
	c := r.c
	if c.Notify != "" {
		ns := w.st.change()
		ns.entry++
		if err := w.q("INSERT INTO outbox (seq, topic, n) VALUES (?,?,?)").Int(int64(ns.entry)).Text(c.Notify).Int(r.n).Run(); err != nil {
			return err
		}
		w.st.topics[c.Notify]++
		w.wakes = append(w.wakes, store.Wake{Kind: store.WakeOutbox, ID: c.Notify})
	} else if rule.StripAtEnd(c, r.k.q.cfg) {
		rule.Strip(c)
	}
	w.wakes = append(w.wakes, store.Wake{Kind: store.WakeEnd, ID: c.ID})
	return nil
}

// expire ends a command for which rule.Ended holds.
func (w *writer) expire(now rule.Now, r *row) error {
	return w.change(now, r, func(q store.QueueConfig) { rule.Expire(now, r.c, q) })
}

// purgeable reports whether a record is past its retention: to every caller it is gone.
func purgeable(now rule.Now, c *store.Command) bool {
	return c.Status.Terminal() && c.PurgeAt != 0 && now.Wall >= c.PurgeAt
}

// nextSeq draws the number of an arrival.
func (w *writer) nextSeq() uint64 {
	ns := w.st.change()
	ns.seq++
	return ns.seq
}
