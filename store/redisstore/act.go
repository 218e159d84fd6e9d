package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/store"
)

// Act implements [store.Store]. A filter is followed page by page; each command is looked at again in the step that changes it.
func (s *Store) Act(ctx context.Context, req store.ActRequest) (store.ActReply, error) {
	if err := validAct(&req); err != nil {
		return store.ActReply{}, err
	}
	done, err := s.begin(ctx)
	if err != nil {
		return store.ActReply{}, err
	}
	defer done()
	if req.Filter == nil {
		rep := store.ActReply{UpTo: req.UpTo}
		rep.Results, rep.Done, err = s.actOn(ctx, &req, req.IDs, "")
		return rep, err
	}
	rep := store.ActReply{UpTo: req.UpTo}
	if rep.UpTo == 0 {
		if rep.UpTo, err = s.arrivals(ctx); err != nil {
			return rep, err
		}
	}
	limit := req.Limit
	if limit == 0 {
		limit = 100
	}
	phase, cursor := actPhase(&req)
	cs, v, cursor, err := s.listStep(ctx, &store.ListRequest{Filter: *req.Filter}, cursor, limit)
	if err != nil {
		return rep, err
	}
	if rep.Cursor = cursor; phase != "" && (cursor != "" || phase == "=") {
		rep.Cursor = phase + cursor
		if cursor == "" {
			rep.Cursor = "!"
		}
	}
	var ids []string
	for _, c := range cs {
		if c != nil && c.Seq <= rep.UpTo && matches(v.now, c, req.Filter) {
			ids = append(ids, c.ID)
		}
	}
	if len(ids) > 0 {
		_, rep.Done, err = s.actOn(ctx, &req, ids, filterArg(req.Filter, rep.UpTo, phase))
	}
	return rep, err
}

// actPhase splits a cursor. A new priority moves a command within its line, and it must not be met twice: a first walk counts those that have the
// priority already (=), a second one changes the others (!).
func actPhase(req *store.ActRequest) (phase, cursor string) {
	if req.Kind != store.ActReprioritise || req.Filter.Status.Terminal() {
		return "", req.Cursor
	}
	if req.Cursor == "" {
		return "=", ""
	}
	return req.Cursor[:1], req.Cursor[1:]
}

// arrivals is how many commands have arrived so far; at least 1.
func (s *Store) arrivals(ctx context.Context) (uint64, error) {
	c := s.main.client.Load()
	if c == nil {
		return 0, store.ErrClosed
	}
	n, err := (*c).Do(ctx, (*c).B().Hget().Key(s.key.meta()).Field("seq").Build()).AsInt64()
	if rueidis.IsRedisNil(err) {
		return 1, nil
	}
	if err != nil {
		return 0, s.main.failed(s, "act", err)
	}
	return uint64(max(1, n)), nil
}

func validAct(req *store.ActRequest) error {
	bad := func(field, detail string) error { return &store.InvalidError{Field: field, Detail: detail} }
	switch {
	case req.Kind < store.ActRetry || req.Kind > store.ActRunNow:
		return bad("kind", fmt.Sprintf("unknown action %d", req.Kind))
	case (req.Filter == nil) == (len(req.IDs) == 0):
		return bad("filter", "give either ids or a filter")
	case req.Filter != nil && (req.Filter.Queue == "" || req.Filter.Status == 0):
		return bad("filter", "needs a queue and a status")
	case req.Limit < 0 || req.Limit > store.MaxItems:
		return bad("limit", fmt.Sprintf("%d is not between 0 and %d", req.Limit, store.MaxItems))
	}
	if req.Kind == store.ActMove {
		if err := store.ValidName("queue", req.Queue); err != nil {
			return err
		}
	}
	return tooMany(len(req.IDs))
}

// filterArg says what a command must still match, see script/act.lua.
func filterArg(f *store.Filter, upTo uint64, phase string) string {
	w := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	t := func(m store.Millis) string {
		if m == 0 {
			return "-"
		}
		return itoa(int64(m))
	}
	reason := "-"
	if f.Reason != "" {
		code, _ := reasonCode(f.Reason) // the list has no command with a reason that has no code
		reason = itoa(int64(code))
	}
	return strings.Join([]string{
		f.Queue, itoa(int64(f.Status)), reason, w(f.Type), w(f.Group), t(f.Before), t(f.After), strconv.FormatUint(upTo, 10), w(phase),
	}, " ")
}

// actOn does the work on ids and counts what was done.
func (s *Store) actOn(ctx context.Context, req *store.ActRequest, ids []string, filter string) ([]error, int, error) {
	args := []string{
		itoa(int64(req.Kind)), itoa(int64(req.As)), itoa(int64(req.Deadline)), req.Queue, itoa(int64(req.Priority)), boolArg(req.Force),
		req.By[:cutText(req.By)], filter,
	}
	results, n := make([]error, 0, len(ids)), 0
	for len(ids) > 0 {
		part := ids[:min(len(ids), cancelItems)]
		ids = ids[len(part):]
		m, err := s.eval(ctx, &s.main, scriptAct, append(args[:len(args):len(args)], part...))
		if err != nil {
			return results, n, err
		}
		p, err := m.ToArray()
		if err != nil || len(p) != 2 {
			return results, n, badReply("act", err)
		}
		codes, err := p[0].ToString()
		if err != nil || len(codes) != len(part) {
			return results, n, badReply("act", err)
		}
		say, err := p[1].AsStrSlice()
		if err != nil {
			return results, n, badReply("act", err)
		}
		for i, id := range part {
			need := map[byte]int{'s': 2, 'u': 3}[codes[i]]
			if len(say) < need {
				return results, n, badReply("act", nil)
			}
			switch codes[i] {
			case 'd':
				n++
				results = append(results, nil)
			case 's':
				st, _ := strconv.Atoi(say[1])
				results = append(results, fmt.Errorf("%w: %s is %s: %s", store.ErrState, id, store.Status(st), say[0]))
			case 'u':
				st, _ := strconv.Atoi(say[2])
				results = append(results, &store.UniqueHeldError{Key: say[0], Holder: say[1], Status: store.Status(st)})
			default:
				results = append(results, store.ErrNotFound)
			}
			say = say[need:]
		}
	}
	return results, n, nil
}
