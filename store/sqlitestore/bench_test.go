//go:build unix

package sqlitestore_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/sqlitestore/internal/lite"
)

var params = make([]byte, 200)

// BenchmarkFloor is what the others are measured against: plain rows of an id and 200 bytes, 64 in a transaction, each flushed.
func BenchmarkFloor(b *testing.B) {
	c, err := lite.Open(filepath.Join(b.TempDir(), "floor.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := c.Exec("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE t (id TEXT PRIMARY KEY, params BLOB)"); err != nil {
		b.Fatal(err)
	}
	run := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	begin(b)
	for n := 0; n < b.N; {
		run(c.Must("BEGIN IMMEDIATE").Run())
		for range 64 {
			n++
			run(c.Must("INSERT INTO t (id, params) VALUES (?,?)").Text(id(n)).Blob(params).Run())
		}
		run(c.Must("COMMIT").Run())
	}
	report(b)
}

func id(n int) string { return fmt.Sprintf("01JXK3T5Z8Q4W7R2M6%08d", n) }

// report adds what a busy machine says less wrong than the time: the processor time of one command, client and store together.
func report(b *testing.B) {
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
	b.ReportMetric(float64(cpu()-cpuAtStart)/1e3/float64(b.N), "cpu-us/command")
}

var cpuAtStart time.Duration

// begin starts the clocks.
func begin(b *testing.B) {
	b.ResetTimer()
	cpuAtStart = cpu()
}

func cpu() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // never fails for oneself
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSubmit submits from 64 goroutines, one command in a call, each durable when the call returns.
func BenchmarkSubmit(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "store.db"), nil)
	defer func() { _ = s.Close() }()
	begin(b)
	submit64(b, s, b.N)
	report(b)
}

func submit64(b *testing.B, s store.Store, total int) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for {
				n := int(next.Add(1))
				if n > total {
					return
				}
				res, err := s.Submit(context.Background(), store.SubmitRequest{Items: []store.Submission{{ID: id(n), Queue: "q", Type: "t", Params: params}}})
				if err != nil || res[0].Err != nil {
					b.Error(err, res)
					return
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkSubmitBatch(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "store.db"), nil)
	defer func() { _ = s.Close() }()
	begin(b)
	submitBatches(b, s, b.N)
	report(b)
}

func submitBatches(b *testing.B, s store.Store, total int) {
	for n := 0; n < total; {
		var items []store.Submission
		for ; len(items) < 100 && n < total; n++ {
			items = append(items, store.Submission{ID: id(n), Queue: "q", Type: "t", Params: params})
		}
		res, err := s.Submit(context.Background(), store.SubmitRequest{Items: items})
		if err != nil || res[0].Err != nil {
			b.Fatal(err, res)
		}
	}
}

// BenchmarkClaimSettle claims and settles with done, 100 in a call, what was submitted before the clock starts: two loops in turn, as a
// worker does it that settles while it claims.
func BenchmarkClaimSettle(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "store.db"), nil)
	defer func() { _ = s.Close() }()
	submitBatches(b, s, b.N)
	begin(b)
	settles := make(chan store.SettleRequest, 4)
	var wg sync.WaitGroup
	wg.Go(func() {
		for req := range settles {
			res, err := s.Settle(context.Background(), req)
			if err != nil || res[0].State != store.SettleDone {
				b.Error(err, res)
			}
		}
	})
	for n, left := 0, b.N; left > 0; n++ {
		rep, err := s.Claim(context.Background(), claimOf(n, store.Intake, 100))
		if err != nil || len(rep.Grants) == 0 {
			b.Fatal(err, rep.Wants)
		}
		settles <- settlement(rep, store.Settlement{Kind: store.OutcomeDone})
		left -= len(rep.Grants)
	}
	close(settles)
	wg.Wait()
	report(b)
}

func claimOf(n int, lane store.Lane, most int) store.ClaimRequest {
	r := store.ClaimRequest{Worker: "w", Nonce: fmt.Sprintf("nonce%08d", n), Wants: []store.Want{{
		Queue: "q", Lane: lane, Max: most, Types: []store.TypeWant{{Type: "t"}},
	}}}
	r.Free[lane] = most
	return r
}

func settlement(rep store.ClaimReply, how store.Settlement) store.SettleRequest {
	req := store.SettleRequest{Worker: "w"}
	for _, g := range rep.Grants {
		for _, c := range g.Items {
			how.ID, how.Lease = c.ID, c.Lease
			req.Items = append(req.Items, how)
		}
	}
	return req
}

// BenchmarkPoll claims and settles polls that are due, 100 in a call, with the state unchanged.
func BenchmarkPoll(b *testing.B) {
	const live = 5_000
	s := open(b, filepath.Join(b.TempDir(), "store.db"), nil)
	defer func() { _ = s.Close() }()
	now := store.Millis(2_000_000_000_000)
	clock := func(at store.Millis) {
		if err := s.SetClock(context.Background(), at); err != nil {
			b.Fatal(err)
		}
	}
	clock(now)
	submitBatches(b, s, live)
	park := func(lane store.Lane, n, most int) int {
		rep, err := s.Claim(context.Background(), claimOf(n, lane, most))
		if err != nil {
			b.Fatal(err)
		}
		if len(rep.Grants) == 0 {
			return 0
		}
		res, err := s.Settle(context.Background(), settlement(rep, store.Settlement{Kind: store.OutcomeProcessing, Delay: 5 * time.Second}))
		if err != nil || res[0].State != store.SettleDone {
			b.Fatal(err, res)
		}
		return len(rep.Grants)
	}
	calls := 0
	for left := live; left > 0; calls++ {
		left -= park(store.Intake, calls, 100)
	}
	begin(b)
	for left := b.N; left > 0; calls++ {
		n := park(store.Repoll, calls, min(left, 100))
		if left -= n; n == 0 {
			now += 5_000
			clock(now)
		}
	}
	report(b)
}

// BenchmarkRenew renews 500 leases in a call.
func BenchmarkRenew(b *testing.B) {
	const leases = 500
	s := open(b, filepath.Join(b.TempDir(), "store.db"), nil)
	defer func() { _ = s.Close() }()
	submitBatches(b, s, leases)
	rep, err := s.Claim(context.Background(), claimOf(1, store.Intake, leases))
	if err != nil || len(rep.Grants) != leases {
		b.Fatal(err, len(rep.Grants))
	}
	req := store.RenewRequest{Worker: store.Worker{ID: "w"}}
	for _, g := range rep.Grants {
		req.Leases = append(req.Leases, store.RenewItem{ID: g.Items[0].ID, Lease: g.Items[0].Lease})
	}
	begin(b)
	for left := b.N; left > 0; left -= leases {
		rep, err := s.Renew(context.Background(), req)
		if err != nil || rep.Results[0].State != store.RenewOK {
			b.Fatal(err, rep)
		}
	}
	report(b)
}
