package redisstore

import (
	"context"
	"strconv"

	"github.com/twolane/twolane/store"
)

// outboxItems bounds one script call.
const outboxItems = 100

// Outbox implements [store.Store].
func (s *Store) Outbox(ctx context.Context, req store.OutboxRequest) ([]store.OutboxEntry, error) {
	if err := tooMany(max(req.Max, len(req.Ack))); err != nil {
		return nil, err
	}
	if err := store.ValidName("topic", req.Topic); err != nil {
		return nil, err
	}
	done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	var out []store.OutboxEntry
	for first := true; first || len(req.Ack) > 0; first = false {
		acks := req.Ack[:min(len(req.Ack), outboxItems)]
		req.Ack = req.Ack[len(acks):]
		most := 0
		if len(req.Ack) == 0 {
			most = min(req.Max, outboxItems) // fewer than asked for: the caller comes again
		}
		args := []string{req.Topic, itoa(int64(max(0, most))), itoa(int64(max(0, req.HideFor)))}
		for _, n := range acks {
			args = append(args, strconv.FormatUint(n, 10))
		}
		m, err := s.eval(ctx, &s.main, scriptOutbox, args)
		if err != nil {
			return nil, err
		}
		p, err := m.ToArray()
		if err != nil || len(p) != 4 {
			return nil, badReply("outbox", err)
		}
		seqs, err := p[1].AsIntSlice()
		if err != nil {
			return nil, badReply("outbox", err)
		}
		ids, err := p[2].AsStrSlice()
		if err != nil || len(ids) != len(seqs) {
			return nil, badReply("outbox", err)
		}
		cs, err := s.readCommands(p[3], ids, false)
		if err != nil {
			return nil, err
		}
		for i, c := range cs {
			if c != nil {
				out = append(out, store.OutboxEntry{Seq: uint64(seqs[i]), Command: c})
			}
		}
	}
	return out, nil
}
