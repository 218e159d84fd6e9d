package sqlitestore

import (
	"context"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// Settle implements [store.Store].
func (s *Store) Settle(ctx context.Context, req store.SettleRequest) ([]store.SettleResult, error) {
	if err := tooMany(len(req.Items)); err != nil {
		return nil, err
	}
	res := make([]store.SettleResult, len(req.Items))
	invalid := make([]error, len(req.Items))
	for i := range req.Items {
		invalid[i] = rule.ValidSettlement(&req.Items[i])
	}
	err := s.do(ctx, urgent, true, func(w *writer) error {
		now := w.look()
		for i := range req.Items {
			var err error
			if res[i], err = w.settle(now, &req.Items[i], invalid[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

func (w *writer) settle(now rule.Now, it *store.Settlement, invalid error) (store.SettleResult, error) {
	var res store.SettleResult
	r, err := w.byID(it.ID)
	if err != nil {
		return res, err
	}
	var c *store.Command
	if r != nil {
		c = r.c
		res.Status, res.Reason = c.Status, c.Reason
	}
	if res.State = rule.Compare(c, it); res.State != store.SettleDone {
		return res, nil
	}
	if invalid != nil {
		return store.SettleResult{Status: c.Status, Err: invalid}, nil
	}
	if it.Kind == store.OutcomeThrottled {
		t, err := w.st.throttle(r.k, c.Lane())
		if err != nil {
			return res, err
		}
		w.st.setThrottle(t, t.Throttled(now.Run, it.Observed, r.k.q.cfg.Rates[c.Lane()]))
	}
	if err := w.change(now, r, func(q store.QueueConfig) { rule.Settle(now, c, it, q, w.st.cfg.V()) }); err != nil {
		return res, err
	}
	for j := range it.FollowUps {
		p := prepare(&it.FollowUps[j], now.Wall)
		f, err := w.submit(now, &p, false)
		if err != nil {
			return res, err
		}
		res.FollowUps = append(res.FollowUps, f)
	}
	res.Status, res.Reason = c.Status, c.Reason
	return res, nil
}
