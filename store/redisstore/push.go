package redisstore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/twolane/twolane/store"
)

var _ store.ListPusher = (*Store)(nil)

// pushBytes bounds the values of one script call.
const pushBytes = 4 << 20

// Database implements [store.ListPusher]: a server's run, and the number of the database. A cluster has no lists that a script of ours may touch.
func (s *Store) Database(ctx context.Context) (string, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	if s.opt.Cluster {
		return "", nil
	}
	m, err := s.info(ctx)
	if err != nil {
		return "", err
	}
	if m["cluster_enabled"] == "1" || m["run_id"] == "" {
		return "", nil
	}
	return m["run_id"] + "/" + strconv.Itoa(s.opt.DB), nil
}

// Push implements [store.ListPusher].
func (s *Store) Push(ctx context.Context, topic string, items []store.PushItem) ([]store.PushState, error) {
	if err := tooMany(len(items)); err != nil {
		return nil, err
	}
	if err := store.ValidName("topic", topic); err != nil {
		return nil, err
	}
	if s.opt.Cluster {
		return nil, &store.InvalidError{Field: "topic", Detail: "cannot be pushed to lists of a cluster"}
	}
	done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	out := make([]store.PushState, 0, len(items))
	for len(items) > 0 {
		args, n, size := []string{topic}, 0, 0
		for n < len(items) && n < outboxItems && (n == 0 || size+len(items[n].Value) <= pushBytes) {
			size += len(items[n].Value)
			args = pushArgs(append(args, strconv.FormatUint(items[n].Seq, 10), stringOf(items[n].Value)), &items[n])
			n++
		}
		m, err := s.eval(ctx, &s.main, scriptPush, args)
		if err != nil {
			return out, err
		}
		p, err := m.ToArray()
		if err != nil || len(p) != 1 {
			return out, badReply("push", err)
		}
		states, err := p[0].ToString()
		if err != nil || len(states) != n {
			return out, badReply("push", err)
		}
		for _, c := range states {
			st, ok := pushStates[c]
			if !ok {
				return out, badReply("push", fmt.Errorf("state %q", c))
			}
			out = append(out, st)
		}
		items = items[n:]
	}
	return out, nil
}

var pushStates = map[rune]store.PushState{'p': store.PushDone, 'g': store.PushGone, 'l': store.PushRefused}

// pushArgs appends what the scripts read of one push, but its number and value.
func pushArgs(args []string, it *store.PushItem) []string {
	args = append(args, it.List, itoa(int64(max(0, it.TTL))), strconv.Itoa(len(it.Del)))
	args = append(args, it.Del...)
	args = append(args, strconv.Itoa(len(it.DelIf)))
	for _, c := range it.DelIf {
		args = append(args, c.Key, c.Value)
	}
	return args
}
