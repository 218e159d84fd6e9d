package redisstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twolane/twolane/internal/redistest"
	"github.com/twolane/twolane/store"
)

// BenchmarkSplit shows the least that claims and settles have cost in several rounds.
func BenchmarkSplit(b *testing.B) {
	for _, ret := range []store.QueueConfig{{Retention: -1}, {}, {Keep: 1000}} {
		srv := redistest.Start(b, "--save", "", "--appendonly", "no")
		s := open(b, srv.URL(), "ns")
		if _, err := s.Configure(context.Background(), 0, store.Config{Queues: map[string]store.QueueConfig{"q": ret}}); err != nil {
			b.Fatal(err)
		}
		m := startMeter(b, srv)
		least := [3]float64{1e9, 1e9, 1e9}
		for round := range 12 {
			n := 5000
			subs := benchSubs(n, func(i int, s *store.Submission) { s.ID = fmt.Sprintf("01J8Z%05d%016X", round, i) })
			t0, _ := m.info()
			submitAll(b, s, subs)
			t1, _ := m.info()
			var all []*store.Command
			for i := 0; i < n; i += 100 {
				all = append(all, benchClaim(b, s, store.Intake, 100, 1)...)
			}
			t2, _ := m.info()
			for i := 0; i < n; i += 100 {
				benchSettle(b, s, all[i:i+100], nil)
			}
			t3, _ := m.info()
			for i := range 50 {
				if ret.Keep > 0 && i >= 0 {
					if _, err := s.Maintain(context.Background()); err != nil {
						b.Fatal(err)
					}
				}
			}
			t4, _ := m.info()
			for i, d := range []float64{t1 - t0, t2 - t1, t3 - t2 + t4 - t3} {
				least[i] = min(least[i], d/float64(n))
			}
		}
		fmt.Printf("retention %v keep %d: submit %.2f claim %.2f settle+purge %.2f sum %.2f us\n", ret.Retention, ret.Keep, least[0], least[1], least[2], least[1]+least[2])
		s.Close()
	}
	_ = time.Now
}
