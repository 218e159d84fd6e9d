package sqlitestore

import (
	"context"
	"fmt"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// List implements [store.Store].
func (s *Store) List(ctx context.Context, req store.ListRequest) (store.ListPage, error) {
	if req.Filter.Queue == "" || req.Filter.Status == 0 {
		return store.ListPage{}, &store.InvalidError{Field: "filter", Detail: "needs a queue and a status"}
	}
	if req.Limit < 0 || req.Limit > store.MaxItems {
		return store.ListPage{}, &store.InvalidError{Field: "limit", Detail: fmt.Sprintf("%d is not between 0 and %d", req.Limit, store.MaxItems)}
	}
	from, err := parseCursor(req.Cursor, req.Filter.Status)
	if err != nil {
		return store.ListPage{}, err
	}
	if req.Limit == 0 {
		req.Limit = 100
	}
	var page store.ListPage
	err = s.read(ctx, func(r *reader) error {
		page, err = r.list(&req, from)
		return err
	})
	return page, err
}

// list looks at a bounded number of rows; a page may be short.
func (r *reader) list(req *store.ListRequest, from cursor) (store.ListPage, error) {
	var page store.ListPage
	st := r.q("SELECT q FROM queue WHERE name=?").Text(req.Filter.Queue)
	ok, err := st.Step()
	if err != nil || !ok {
		return page, err
	}
	q := st.ColInt(0)
	st.Reset()
	done := false
	for looked := 0; !done && looked < 2*store.MaxItems; {
		var at []cursor
		var next cursor
		if at, next, done, err = walk(r, q, req.Filter.Status, from, max(100, req.Limit+1-len(page.Commands))); err != nil {
			return page, err
		}
		for _, p := range at {
			w, err := r.get(r.q(selectRow+"n=?").Int(p.n), false)
			if err != nil {
				return page, err
			}
			if w == nil || !matches(r.now, w.c, &req.Filter) || req.Place != store.Nowhere && w.c.Place != req.Place {
				continue
			}
			if len(page.Commands) == req.Limit { // there is more than this page holds
				page.Cursor = from.String()
				return page, nil
			}
			c := r.asRead(w.c)
			noBlobs(c)
			page.Commands, from = append(page.Commands, c), p
		}
		looked += max(1, len(at))
		from = next
	}
	if !done {
		page.Cursor = from.String()
	}
	return page, nil
}

func matches(now rule.Now, c *store.Command, f *store.Filter) bool {
	if c.Tombstone || purgeable(now, c) || c.Queue != f.Queue || c.Status != f.Status ||
		f.Reason != "" && c.Reason != f.Reason || f.Type != "" && c.Type != f.Type || f.Group != "" && c.Group != f.Group {
		return false
	}
	at := c.Created
	if c.Status.Terminal() {
		at = c.Ended
	}
	return (f.Before == 0 || at < f.Before) && (f.After == 0 || at >= f.After)
}
