package sqlitestore

import (
	"cmp"
	"context"
	"slices"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// entry is a row of table outbox.
type entry struct{ seq, n int64 }

// Outbox implements [store.Store].
func (s *Store) Outbox(ctx context.Context, req store.OutboxRequest) ([]store.OutboxEntry, error) {
	if err := tooMany(max(req.Max, len(req.Ack))); err != nil {
		return nil, err
	}
	var res []store.OutboxEntry
	err := s.do(ctx, normal, true, func(w *writer) error {
		res = nil
		now := w.look()
		for _, seq := range req.Ack {
			if err := w.acknowledge(req.Topic, int64(seq)); err != nil {
				return err
			}
		}
		entries, err := w.entries(now, req.Topic, req.Max)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if req.HideFor > 0 {
				if err := w.q("UPDATE outbox SET hidden=? WHERE seq=?").Int(int64(now.Wall + req.HideFor)).Int(e.seq).Run(); err != nil {
					return err
				}
			}
			r, err := w.complete(e.n)
			if err != nil {
				return err
			}
			if r != nil {
				res = append(res, store.OutboxEntry{Seq: uint64(e.seq), Command: r.c})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// complete returns a row with all of its values, not to be saved; nil if there is none.
func (w *writer) complete(n int64) (*row, error) {
	r, err := w.byNumber(n)
	if err != nil || r == nil {
		return nil, err
	}
	if err = r.fill(w, valParams, valState, valResult, valProgress, valMetadata); err == nil {
		err = r.unfold()
	}
	return r, w.readable(&r, err)
}

// acknowledge removes an entry that was delivered; its record may go from now on.
func (w *writer) acknowledge(topic string, seq int64) error {
	st := w.q("SELECT n FROM outbox WHERE seq=? AND topic=?").Int(seq).Text(topic)
	ok, err := st.Step()
	if err != nil || !ok {
		return err
	}
	n := st.ColInt(0)
	st.Reset()
	if err := w.dropEntry(n); err != nil {
		return err
	}
	r, err := w.byNumber(n)
	if err != nil || r == nil {
		return err
	}
	q := r.k.q.cfg
	r.c.PurgeAt = rule.PurgeAt(r.c, q)
	if rule.StripAtEnd(r.c, q) {
		rule.Strip(r.c)
	}
	return w.save(r)
}

// dropEntry removes the entry of a command, if it has one.
func (w *writer) dropEntry(n int64) error {
	st := w.q("DELETE FROM outbox WHERE n=? RETURNING topic").Int(n)
	ok, err := st.Step()
	if err != nil || !ok {
		return err
	}
	w.st.topics[st.ColText(0)]--
	return st.Run()
}

// entries are up to most entries of a topic that nobody hides, the first ones first.
func (w *writer) entries(now rule.Now, topic string, most int) ([]entry, error) {
	if most <= 0 {
		return nil, nil
	}
	var all []entry
	for _, st := range [...]stmt{
		w.q("SELECT seq, n FROM outbox WHERE topic=? AND hidden=0 ORDER BY seq LIMIT ?").Text(topic),
		w.q("SELECT seq, n FROM outbox WHERE topic=? AND hidden>0 AND hidden<=? ORDER BY hidden LIMIT ?").Text(topic).Int(int64(now.Wall)),
	} {
		st.Int(int64(most))
		for {
			ok, err := st.Step()
			if err != nil {
				return nil, err
			}
			if !ok {
				break
			}
			all = append(all, entry{st.ColInt(0), st.ColInt(1)})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.seq, b.seq) })
	return all[:min(most, len(all))], nil
}
