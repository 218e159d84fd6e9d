package sqlitestore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// Renew implements [store.Store].
func (s *Store) Renew(ctx context.Context, req store.RenewRequest) (store.RenewReply, error) {
	if err := tooMany(len(req.Leases)); err != nil {
		return store.RenewReply{}, err
	}
	if err := store.ValidName("worker", req.Worker.ID); err != nil {
		return store.RenewReply{}, err
	}
	for i := range req.Leases {
		if n := len(req.Leases[i].Progress); n > store.MaxProgress {
			return store.RenewReply{}, &store.InvalidError{Field: "progress", Detail: fmt.Sprintf("has %d bytes, at most %d are allowed", n, store.MaxProgress), Max: store.MaxProgress}
		}
	}
	var rep store.RenewReply
	err := s.do(ctx, urgent, false, func(w *writer) error {
		now := w.advance()
		rep = store.RenewReply{Results: make([]store.RenewResult, len(req.Leases))}
		// The caller's own leases and registration go first: whoever comes back in time is not reaped by its own call.
		if err := w.register(now, &req); err != nil {
			return err
		}
		for i := range req.Leases {
			var err error
			if rep.Results[i], err = w.renew(now, &req.Leases[i]); err != nil {
				return err
			}
		}
		var err error
		if rep.MaintainReply, err = w.maintain(now); err != nil {
			return err
		}
		rep.Workers, err = w.liveWorkers(now)
		return err
	})
	if err != nil {
		return store.RenewReply{}, err
	}
	return rep, nil
}

func (w *writer) renew(now rule.Now, it *store.RenewItem) (store.RenewResult, error) {
	r, err := w.byID(it.ID)
	if err != nil {
		return store.RenewResult{}, err
	}
	if r == nil {
		return rule.Renew(now, nil, it, w.st.cfg.V()), nil
	}
	before := *r.c
	res := rule.Renew(now, r.c, it, w.st.cfg.V())
	if res.State == store.RenewLost || it.Progress == nil && r.c.LeaseUntil == before.LeaseUntil && r.c.Overdue == before.Overdue {
		return res, nil
	}
	return res, w.save(r)
}

// register keeps what a worker says about itself, or takes it off.
func (w *writer) register(now rule.Now, req *store.RenewRequest) error {
	if req.Gone {
		if err := w.q("DELETE FROM worker WHERE id=?").Text(req.Worker.ID).Run(); err != nil {
			return err
		}
		return w.noteClaim(req.Worker.ID, gone, now, nil)
	}
	if err := w.q("DELETE FROM claimed WHERE worker=? AND nonce=?").Text(req.Worker.ID).Text(gone).Run(); err != nil {
		return err
	}
	wk := req.Worker
	wk.Seen, wk.Expires = now.Wall, now.Lease.Add(w.st.cfg.V())
	b, err := json.Marshal(wk)
	if err != nil {
		return err
	}
	return w.q("INSERT INTO worker (id, expires, json) VALUES (?1,?2,?3) ON CONFLICT DO UPDATE SET expires=?2, json=?3").
		Text(wk.ID).Int(int64(wk.Expires)).Blob(b).Run()
}

func (w *writer) liveWorkers(now rule.Now) (int, error) {
	st := w.q("SELECT count(*) FROM worker WHERE expires>?").Int(int64(now.Lease))
	_, err := st.Step()
	if err != nil {
		return 0, err
	}
	n := int(st.ColInt(0))
	st.Reset()
	return n, nil
}

// beat is when a worker's own heartbeat runs out; zero for one that is not known.
func (w *writer) beat(id string) (store.Millis, error) {
	st := w.q("SELECT expires FROM worker WHERE id=?").Text(id)
	ok, err := st.Step()
	if err != nil || !ok {
		return 0, err
	}
	beat := store.Millis(st.ColInt(0))
	st.Reset()
	return beat, nil
}

// expireAll ends the leases and the heartbeats of earlier incarnations: whoever had them is dead.
func (w *writer) expireAll() error {
	now := int64(w.st.ns.clocks.Lease)
	if err := w.q("DELETE FROM worker").Run(); err != nil {
		return err
	}
	for {
		var ns []int64
		st := w.q("SELECT n FROM cmd WHERE waits=1 AND at>? LIMIT 500").Int(now)
		for {
			ok, err := st.Step()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			ns = append(ns, st.ColInt(0))
		}
		if len(ns) == 0 {
			return nil
		}
		for _, n := range ns {
			r, err := w.byNumber(n)
			if err != nil {
				return err
			}
			if r == nil {
				continue
			}
			r.c.LeaseUntil = store.Millis(now)
			if err := w.save(r); err != nil {
				return err
			}
		}
	}
}
