package redisstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/twolane/twolane/store"
)

// List implements [store.Store].
func (s *Store) List(ctx context.Context, req store.ListRequest) (store.ListPage, error) {
	if req.Filter.Queue == "" || req.Filter.Status == 0 {
		return store.ListPage{}, &store.InvalidError{Field: "filter", Detail: "needs a queue and a status"}
	}
	if req.Limit < 0 || req.Limit > store.MaxItems {
		return store.ListPage{}, &store.InvalidError{Field: "limit", Detail: fmt.Sprintf("%d is not between 0 and %d", req.Limit, store.MaxItems)}
	}
	done, err := s.begin(ctx)
	if err != nil {
		return store.ListPage{}, err
	}
	defer done()
	if req.Limit == 0 {
		req.Limit = 100
	}
	return s.list(ctx, &req)
}

// list reads pages until one has something to show, the list ends, or it has looked at ten of them.
func (s *Store) list(ctx context.Context, req *store.ListRequest) (store.ListPage, error) {
	page := store.ListPage{Cursor: req.Cursor}
	for range 10 {
		cs, v, cursor, err := s.listStep(ctx, req, page.Cursor, req.Limit-len(page.Commands))
		if err != nil {
			return store.ListPage{}, err
		}
		page.Cursor = cursor
		for _, c := range cs {
			if c == nil || !matches(v.now, c, &req.Filter) || req.Place != store.Nowhere && c.Place != req.Place {
				continue
			}
			if c, err = v.see(ctx, c); err != nil {
				return store.ListPage{}, err
			}
			c.Events = nil
			page.Commands = append(page.Commands, c)
		}
		if cursor == "" || len(page.Commands) >= req.Limit {
			break
		}
	}
	return page, nil
}

// listStep reads the next ids of a list, filtered by nothing but queue, status and what the lists know.
func (s *Store) listStep(ctx context.Context, req *store.ListRequest, cursor string, limit int) ([]*store.Command, *view, string, error) {
	codes, ok := finishedCodes(&req.Filter)
	if !ok {
		return nil, &view{}, "", nil
	}
	if cursor != "" && strings.Count(cursor, " ") != 4 {
		return nil, nil, "", &store.InvalidError{Field: "cursor", Detail: "is not one of this store's"}
	}
	f := &req.Filter
	m, err := s.eval(ctx, &s.main, scriptList, []string{
		f.Queue, itoa(int64(f.Status)), itoa(int64(req.Place)), codes, itoa(int64(min(limit, 200))), cursor, f.Type, f.Group,
	})
	if err != nil {
		return nil, nil, "", err
	}
	p, err := m.ToArray()
	if err != nil || len(p) != 4 {
		return nil, nil, "", badReply("list", err)
	}
	now, err := readMoment(p[0])
	if err != nil {
		return nil, nil, "", err
	}
	next, err := p[1].ToString()
	if err != nil {
		return nil, nil, "", badReply("list", err)
	}
	ids, err := p[2].AsStrSlice()
	if err != nil {
		return nil, nil, "", badReply("list", err)
	}
	cs, err := s.readCommands(p[3], ids, true)
	return cs, &view{store: s, now: now}, next, err
}

// finishedCodes are the lists of finished commands that a filter looks at, parted by commas; false if there is none.
func finishedCodes(f *store.Filter) (string, bool) {
	if f.Reason != "" && f.Status != store.Failed {
		return "", false
	}
	switch f.Status {
	case store.Succeeded:
		return "s", true
	case store.Cancelled:
		return "c", true
	case store.Failed:
		if f.Reason != "" {
			code, ok := reasonCode(f.Reason)
			return itoa(int64(code)), ok
		}
		return "1,2,3,4,5,6,7,8", true
	}
	return "", true
}

func matches(now moment, c *store.Command, f *store.Filter) bool {
	if c.Tombstone || now.purgeable(c) || c.Queue != f.Queue || c.Status != f.Status ||
		f.Reason != "" && c.Reason != f.Reason || f.Type != "" && c.Type != f.Type || f.Group != "" && c.Group != f.Group {
		return false
	}
	at := c.Created
	if c.Status.Terminal() {
		at = c.Ended
	}
	return (f.Before == 0 || at < f.Before) && (f.After == 0 || at >= f.After)
}
