package inference

import (
	"context"
	"strconv"
	"sync"

	"github.com/twolane/twolane/store"

	"github.com/twolane/twolane/inference/wire"
)

// pushing is a store whose settles push results to their lists themselves, where store and lists are one database: the end of a request and its record are
// one step then, and only ends that no handler made go by the outbox.
type pushing struct {
	store.Store
	pushes sync.Map // id of a command -> *store.PushItem: what its handler has answered
}

// answer notes where the result goes that the handler of a command is about to return.
func (s *pushing) answer(id string, it *store.PushItem) { s.pushes.Store(id, it) }

func (s *pushing) Settle(ctx context.Context, req store.SettleRequest) ([]store.SettleResult, error) {
	copied := false
	for i := range req.Items {
		it := &req.Items[i]
		if it.Kind != store.OutcomeDone && it.Kind != store.OutcomeFail {
			continue
		}
		p, ok := s.pushes.Load(it.ID)
		if !ok {
			continue
		}
		if !copied { // the caller keeps its own
			req.Items = append([]store.Settlement(nil), req.Items...)
			copied = true
		}
		req.Items[i].Push = p.(*store.PushItem)
	}
	rs, err := s.Store.Settle(ctx, req)
	if err != nil || !copied {
		return rs, err
	}
	for i := range rs {
		if rs[i].State != 0 && i < len(req.Items) {
			s.pushes.Delete(req.Items[i].ID)
		}
	}
	return rs, nil
}

// pushOf is where the result of a command goes, and what has had its day with it, by its metadata.
func pushOf(meta map[string]string) store.PushItem {
	it := store.PushItem{List: meta[metaRoute]}
	if ttl, err := strconv.ParseInt(meta[metaTTL], 10, 64); err == nil && ttl > 0 {
		it.TTL = store.Millis(ttl * 1000)
	}
	for _, name := range []string{metaPayload, metaBlob} {
		if key := meta[name]; key != "" {
			it.Del = append(it.Del, key)
		}
	}
	if id, token := meta[metaRequest], meta[metaToken]; id != "" && token != "" {
		it.DelIf = []store.PushCondition{{Key: wire.ActiveKey(id), Value: token}, {Key: wire.CancelKey(id), Value: token}}
	}
	return it
}
