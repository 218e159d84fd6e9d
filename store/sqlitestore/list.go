package sqlitestore

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// cursor is a place in the list of a queue and status: live commands by number, finished ones by their end.
type cursor struct{ ord, n int64 }

func (c cursor) String() string {
	return strconv.FormatInt(c.ord, 36) + "." + strconv.FormatInt(c.n, 36)
}

func parseCursor(s string) (cursor, error) {
	if s == "" {
		return cursor{-1, -1}, nil
	}
	a, b, ok := strings.Cut(s, ".")
	ord, err1 := strconv.ParseInt(a, 36, 64)
	n, err2 := strconv.ParseInt(b, 36, 64)
	if !ok || err1 != nil || err2 != nil {
		return cursor{}, &store.InvalidError{Field: "cursor", Detail: fmt.Sprintf("%q is not one of this store's", s)}
	}
	return cursor{ord, n}, nil
}

// List implements [store.Store].
func (s *Store) List(ctx context.Context, req store.ListRequest) (store.ListPage, error) {
	if req.Filter.Queue == "" || req.Filter.Status == 0 {
		return store.ListPage{}, &store.InvalidError{Field: "filter", Detail: "needs a queue and a status"}
	}
	if req.Limit < 0 || req.Limit > store.MaxItems {
		return store.ListPage{}, &store.InvalidError{Field: "limit", Detail: fmt.Sprintf("%d is not between 0 and %d", req.Limit, store.MaxItems)}
	}
	from, err := parseCursor(req.Cursor)
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

// maxLooked bounds how many rows a page looks at in vain.
const maxLooked = 2 * store.MaxItems

func (r *reader) list(req *store.ListRequest, from cursor) (store.ListPage, error) {
	var page store.ListPage
	st := r.q("SELECT q FROM queue WHERE name=?").Text(req.Filter.Queue)
	ok, err := st.Step()
	if err != nil || !ok {
		return page, err
	}
	q := st.ColInt(0)
	st.Reset()
	sql := selectRow + "q=? AND status=? AND ord IS NOT NULL AND (ord, n) > (?,?) ORDER BY ord, n LIMIT ?"
	if req.Filter.Status.Terminal() {
		sql = selectRow + "q=? AND status=? AND ord IS NOT NULL AND (ord, n) < (?,?) ORDER BY ord DESC, n DESC LIMIT ?"
		if req.Cursor == "" {
			from = cursor{math.MaxInt64, math.MaxInt64}
		}
	}
	st = r.q(sql).Int(q).Int(int64(req.Filter.Status)).Int(from.ord).Int(from.n).Int(maxLooked)
	for looked := 1; ; looked++ {
		ok, err := st.Step()
		if err != nil || !ok {
			return page, err
		}
		at := cursor{st.ColInt(16), st.ColInt(0)}
		w, err := scanRow(st, r)
		if _, bad := err.(*unreadable); err != nil && !bad {
			st.Reset()
			return page, err
		}
		if err == nil && matches(r.now, w.c, &req.Filter) && (req.Place == store.Nowhere || w.c.Place == req.Place) {
			if err := w.finish(r, false); err != nil {
				st.Reset()
				return page, err
			}
			c := r.asRead(w.c)
			noBlobs(c)
			page.Commands = append(page.Commands, c)
		}
		if len(page.Commands) == req.Limit || looked == maxLooked {
			st.Reset()
			page.Cursor = at.String()
			return page, nil
		}
	}
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
