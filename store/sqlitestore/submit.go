package sqlitestore

import (
	"context"
	"fmt"
	"sync"

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
	items := prepareAll(req.Items, s.clock.Load().server()) // here and not in the writer, which has enough to do
	err := s.do(ctx, normal, true, func(w *writer) error {
		if req.Atomic {
			return w.submitAll(items, res)
		}
		return w.submitEach(items, res)
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

// maxAge is how old, in milliseconds, the time in a prepared record may be. A clock that a test fixes is compared exactly by all who look at it.
const maxAge = 100

// prepared is a submission with all that can be worked out about it before its turn.
type prepared struct {
	sub     *store.Submission
	invalid error
	at      store.Millis // server time of the record
	c       *store.Command
	line    string // that it stands in, once it is in line
	rec     []byte // packed, but for its number of arrival
	vals    [values]value
	outs    []out
}

func prepare(sub *store.Submission, at store.Millis) prepared {
	p := prepared{sub: sub, invalid: rule.ValidSubmission(sub)}
	if p.invalid == nil {
		p.make(at)
	}
	return p
}

// manyItems is from how many on it pays to prepare the items of one call in two goroutines.
const manyItems = 24

func prepareAll(subs []store.Submission, at store.Millis) []prepared {
	items := make([]prepared, len(subs))
	some := func(from, to int) {
		for i := from; i < to; i++ {
			items[i] = prepare(&subs[i], at)
		}
	}
	if len(subs) < manyItems {
		some(0, len(subs))
		return items
	}
	var other sync.WaitGroup
	other.Go(func() { some(len(subs)/2, len(subs)) })
	some(0, len(subs)/2)
	other.Wait()
	return items
}

// make makes the record; for a new one only server time matters.
func (p *prepared) make(at store.Millis) {
	p.at = at
	p.c = rule.New(rule.Now{Wall: at}, 0, p.sub)
	p.line = rule.Line(p.c)
	p.rec, p.vals, p.outs = encode(p.c, &[values]value{}, nil)
}

func (w *writer) submitEach(items []prepared, res []store.SubmitResult) error {
	now := w.look()
	for i := range items {
		var err error
		if res[i], err = w.submit(now, &items[i], true); err != nil {
			return err
		}
	}
	return nil
}

// submitAll submits all or none.
func (w *writer) submitAll(items []prepared, res []store.SubmitResult) error {
	if err := w.st.flush(); err != nil {
		return err
	}
	if err := w.exec("SAVEPOINT atomic"); err != nil {
		return err
	}
	wakes, hits := len(w.wakes), len(w.hits)
	if err := w.submitEach(items, res); err != nil {
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
func (w *writer) submit(now rule.Now, p *prepared, capped bool) (store.SubmitResult, error) {
	if p.invalid != nil {
		return store.SubmitResult{Err: p.invalid}, nil
	}
	sub := p.sub
	if d := abs(int64(now.Wall - p.at)); d > maxAge || d > 0 && w.st.ns.fixed != 0 { // the clock has been changed, or the call has waited for long
		p.make(now.Wall)
	}
	q, err := w.st.queue(sub.Queue)
	if err != nil {
		return store.SubmitResult{}, err
	}
	var unfit *rule.Applied
	if len(w.st.cfg.Limits) > 0 {
		unfit = rule.NeverFits(now, &w.st.cfg, p.c)
	}
	careful := sub.UniqueKey != "" || capped && q.cfg.MaxReady > 0 || unfit != nil
	if careful {
		if res, known, err := w.known(now, p); err != nil || known {
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
		if unfit != nil {
			return store.SubmitResult{Err: &store.InvalidError{Field: "cost", Detail: fmt.Sprintf("%d can never fit limit %s of %d", p.c.Cost, unfit.LimitKey, unfit.Max)}}, nil
		}
	}
	k, err := w.st.kind(q, sub.Type, true)
	if err != nil {
		return store.SubmitResult{}, err
	}
	r := &w.scratch
	*r = row{c: p.c, k: k}
	w.number(r, p)
	if !careful {
		ok, err := w.insert(r, p, true)
		if err != nil {
			return store.SubmitResult{}, err
		}
		if !ok {
			w.st.change().seq--
			res, known, err := w.known(now, p)
			if err != nil || known {
				return res, err
			}
			careful = true // an expired tombstone was in the way, or a record that could not be read
			w.number(r, p)
		}
	}
	if careful {
		if _, err := w.insert(r, p, false); err != nil {
			return store.SubmitResult{}, err
		}
	}
	if rule.Claimable(now, r.c) {
		w.hit(r)
	}
	return store.SubmitResult{Created: true, Status: r.c.Status}, nil
}

// number gives a new row its number of arrival.
func (w *writer) number(r *row, p *prepared) {
	p.c.Seq = w.nextSeq()
	r.n = int64(p.c.Seq)
	setSeq(p.rec, p.c.Seq)
}

// known answers for an id that is known already. A record past its retention is removed first.
func (w *writer) known(now rule.Now, p *prepared) (store.SubmitResult, bool, error) {
	r, err := w.byID(p.sub.ID)
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
	if r.c.Fingerprint != p.c.Fingerprint {
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
	if h != nil && h.c.UniqueKey != key {
		return nil, misled("unique keys", key, h.c.UniqueKey)
	}
	if err != nil || h == nil || !rule.Ended(now, h.c) {
		return h, err
	}
	if err := w.expire(now, h); err != nil || h.c.Status.Terminal() {
		return nil, err
	}
	return h, nil
}
