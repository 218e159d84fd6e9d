package redisstore

import (
	"context"

	"github.com/twolane/twolane/store"
)

// cancelItems bounds one script call.
const cancelItems = 100

// Cancel implements [store.Store].
func (s *Store) Cancel(ctx context.Context, req store.CancelRequest) ([]store.CancelResult, error) {
	if err := tooMany(len(req.IDs)); err != nil {
		return nil, err
	}
	done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	res := make([]store.CancelResult, 0, len(req.IDs))
	for len(req.IDs) > 0 {
		part := req.IDs[:min(len(req.IDs), cancelItems)]
		req.IDs = req.IDs[len(part):]
		args := append([]string{req.Reason, req.Reason[:cutText(req.Reason)], boolArg(req.Force)}, part...)
		m, err := s.eval(ctx, &s.main, scriptCancel, args)
		if err != nil {
			return nil, err
		}
		out, err := m.ToString()
		if err != nil || len(out) != 2*len(part) {
			return nil, badReply("cancel", err)
		}
		for i := range part {
			res = append(res, store.CancelResult{State: store.CancelState(out[2*i]), Status: store.Status(out[2*i+1])})
		}
	}
	return res, nil
}
