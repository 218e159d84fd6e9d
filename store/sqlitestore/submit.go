package sqlitestore

import (
	"context"
	"fmt"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
	"github.com/twolane/twolane/store/sqlitestore/internal/lite"
)

// Submit implements [store.Store].
func (s *Store) Submit(ctx context.Context, req store.SubmitRequest) ([]store.SubmitResult, error) {
	if err := tooMany(len(req.Items)); err != nil {
		return nil, err
	}
	if req.Atomic && len(req.Items) > store.MaxAtomic {
		return nil, &store.InvalidError{Field: "items", Detail: fmt.Sprintf("an atomic batch has at most %d", store.MaxAtomic), Max: store.MaxAtomic}
	}
	res := make([]store.SubmitResult, len(req.Items))
	invalid := make([]error, len(req.Items))
	for i := range req.Items {
		invalid[i] = rule.ValidSubmission(&req.Items[i]) // here and not in the writer: in parallel with others
	}
	err := s.do(ctx, normal, true, func(w *writer) error {
		if req.Atomic {
			return w.submitAll(req.Items, invalid, res)
		}
		return w.submitEach(req.Items, invalid, res)
	})
	if lite.Is(err, lite.Full) || lite.Is(err, lite.RdOnly) {
		for i := range res {
			res[i] = store.SubmitResult{Err: fmt.Errorf("%w: %w", store.ErrReadOnly, err)}
		}
		return res, nil
	}
	if err != nil {
		return nil, err
	}
	return res, nil
}

func (w *writer) submitEach(items []store.Submission, invalid []error, res []store.SubmitResult) error {
	now := w.look()
	for i := range items {
		if invalid[i] != nil {
			res[i] = store.SubmitResult{Err: invalid[i]}
			continue
		}
		var err error
		if res[i], err = w.submit(now, &items[i], true); err != nil {
			return err
		}
	}
	return nil
}

// submitAll submits all or none.
func (w *writer) submitAll(items []store.Submission, invalid []error, res []store.SubmitResult) error {
	if err := w.st.flush(); err != nil {
		return err
	}
	if err := w.exec("SAVEPOINT atomic"); err != nil {
		return err
	}
	wakes, hits := len(w.wakes), len(w.hits)
	if err := w.submitEach(items, invalid, res); err != nil {
		return err // the whole transaction goes
	}
	refused := false
	for i := range res {
		refused = refused || res[i].Err != nil
	}
	if !refused {
		return w.exec("RELEASE atomic")
	}
	for i := range res {
		if res[i].Err == nil {
			res[i] = store.SubmitResult{Err: store.ErrAborted}
		}
	}
	w.wakes, w.hits = w.wakes[:wakes], w.hits[:hits]
	if err := w.exec("ROLLBACK TO atomic"); err != nil {
		return err
	}
	if err := w.exec("RELEASE atomic"); err != nil {
		return err
	}
	w.st = newState(w)
	return w.st.load()
}

// submit adds one valid command. capped says that a full queue refuses it.
func (w *writer) submit(now rule.Now, sub *store.Submission, capped bool) (store.SubmitResult, error) {
	q, err := w.st.queue(sub.Queue)
	if err != nil {
		return store.SubmitResult{}, err
	}
	careful := sub.UniqueKey != "" || capped && q.cfg.MaxReady > 0
	if careful {
		if res, known, err := w.known(now, sub); err != nil || known {
			return res, err
		}
		h, err := w.uniqueHolder(now, sub.UniqueKey)
		if err != nil {
			return store.SubmitResult{}, err
		}
		if h != nil {
			return store.SubmitResult{Err: &store.UniqueHeldError{Key: sub.UniqueKey, Holder: h.c.ID, Status: h.c.Status}}, nil
		}
		if most := q.cfg.MaxReady; capped && most > 0 && q.ready >= int64(most) {
			return store.SubmitResult{Err: store.ErrQueueFull}, nil
		}
	}
	k, err := w.st.kind(q, sub.Type, true)
	if err != nil {
		return store.SubmitResult{}, err
	}
	seq := w.nextSeq()
	r := &row{n: int64(seq), c: rule.New(now, seq, sub), k: k}
	if !careful {
		ok, err := w.insert(r, true)
		if err != nil {
			return store.SubmitResult{}, err
		}
		if !ok {
			w.st.change().seq--
			res, known, err := w.known(now, sub)
			if err != nil || known {
				return res, err
			}
			careful = true // an expired tombstone was in the way, or a record that could not be read
			seq = w.nextSeq()
		}
	}
	if careful {
		if _, err := w.insert(r, false); err != nil {
			return store.SubmitResult{}, err
		}
	}
	if rule.Claimable(now, r.c) {
		w.hit(r)
	}
	return store.SubmitResult{Created: true, Status: r.c.Status}, nil
}

// known answers for an id that is known already. A record past its retention is removed first.
func (w *writer) known(now rule.Now, sub *store.Submission) (store.SubmitResult, bool, error) {
	r, err := w.byID(sub.ID)
	if err != nil || r == nil {
		return store.SubmitResult{}, false, err
	}
	if purgeable(now, r.c) {
		return store.SubmitResult{}, false, w.remove(r)
	}
	if rule.Ended(now, r.c) {
		if err := w.expire(now, r); err != nil {
			return store.SubmitResult{}, true, err
		}
	}
	if r.c.Fingerprint != rule.Fingerprint(sub) {
		return store.SubmitResult{Status: r.c.Status, Err: store.ErrIDConflict}, true, nil
	}
	return store.SubmitResult{Status: r.c.Status}, true, nil
}

// uniqueHolder is the live command that holds a unique key, or nil. One that time has ended holds nothing.
func (w *writer) uniqueHolder(now rule.Now, key string) (*row, error) {
	if key == "" {
		return nil, nil
	}
	h, err := w.get(w.q(selectRow + "ukey=?").Text(key))
	if err != nil || h == nil || !rule.Ended(now, h.c) {
		return h, err
	}
	if err := w.expire(now, h); err != nil || h.c.Status.Terminal() {
		return nil, err
	}
	return h, nil
}
