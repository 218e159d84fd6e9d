package redisstore

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// downAfter asks the sentinels how long a master must be silent before they replace it; 0 if none says.
func (s *Store) downAfter(ctx context.Context) time.Duration {
	for _, addr := range s.opt.Addrs {
		opt := s.opt.client()
		opt.InitAddress, opt.ForceSingleClient, opt.Sentinel, opt.SelectDB = []string{addr}, true, rueidis.SentinelOption{}, 0
		opt.Username, opt.Password, opt.AuthCredentialsFn = s.opt.SentinelUsername, s.opt.SentinelPassword, nil
		c, err := rueidis.NewClient(opt)
		if err != nil {
			continue // the next one may be there
		}
		m, err := c.Do(ctx, c.B().Arbitrary("SENTINEL", "MASTER", s.opt.Master).Build()).AsStrMap()
		c.Close()
		if err != nil {
			continue
		}
		if ms, err := strconv.Atoi(m["down-after-milliseconds"]); err == nil {
			return time.Duration(ms) * time.Millisecond
		}
	}
	return 0
}
