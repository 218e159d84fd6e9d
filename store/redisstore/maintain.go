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

// readNow reads the clocks and the version of the configuration that a script used.
func readNow(m rueidis.RedisMessage) (rule.Now, uint64, error) {
	n, err := m.AsIntSlice()
	if err != nil || len(n) != 4 {
		return rule.Now{}, 0, badReply("clock", err)
	}
	return rule.Now{Wall: store.Millis(n[0]), Run: store.Millis(n[1]), Lease: store.Millis(n[2])}, uint64(n[3]), nil
}
