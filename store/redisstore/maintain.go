package redisstore

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// Maintain implements [store.Store].
func (s *Store) Maintain(ctx context.Context) (store.MaintainReply, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return store.MaintainReply{}, err
	}
	defer done()
	m, err := s.eval(ctx, &s.main, scriptMaintain, nil)
	if err != nil {
		return store.MaintainReply{}, err
	}
	rep, _, err := readMaintain(m)
	return rep, err
}

// readMaintain reads what script/maintenance.lua answers; the second value is the lease clock.
func readMaintain(m rueidis.RedisMessage) (store.MaintainReply, store.Millis, error) {
	n, err := m.AsIntSlice()
	if err != nil || len(n) != 12 {
		return store.MaintainReply{}, 0, badReply("maintain", err)
	}
	return store.MaintainReply{
		Now: store.Millis(n[0]), More: n[1] != 0, Next: time.Duration(n[2]) * time.Millisecond,
		Reaped: int(n[3]), Expired: int(n[4]), Promoted: int(n[5]), Purged: int(n[6]), Lost: int(n[7]), ClaimLost: int(n[8]),
		ConfigVersion: uint64(n[9]), Visibility: time.Duration(n[10]),
	}, store.Millis(n[11]), nil
}

// moment is when a script ran.
type moment struct{ rule.Now }

// readMoment reads the clocks that a script used.
func readMoment(m rueidis.RedisMessage) (moment, error) {
	n, err := m.AsIntSlice()
	if err != nil || len(n) != 4 {
		return moment{}, badReply("clock", err)
	}
	return moment{rule.Now{Wall: store.Millis(n[0]), Run: store.Millis(n[1]), Lease: store.Millis(n[2])}}, nil
}

// purgeable reports whether a record is past its retention: to every caller it is gone.
func (m moment) purgeable(c *store.Command) bool {
	return c.Status.Terminal() && c.PurgeAt != 0 && m.Wall >= c.PurgeAt
}
