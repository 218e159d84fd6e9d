package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twolane/twolane/internal/redistest"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/redisstore"
)

// meter measures the CPU of server and client and the server's memory over a piece of a benchmark.
type meter struct {
	b      *testing.B
	srv    *redistest.Server
	server float64 // us
	client float64
	memory float64 // bytes
	wall   time.Time
}

func startMeter(b *testing.B, srv *redistest.Server) *meter {
	b.Helper()
	m := &meter{b: b, srv: srv}
	m.server, m.memory = m.info()
	m.client, m.wall = clientCPU(b), time.Now()
	return m
}

func (m *meter) info() (cpu, memory float64) {
	m.b.Helper()
	f, err := m.srv.Info(context.Background(), "cpu", "memory")
	if err != nil {
		m.b.Fatal(err)
	}
	num := func(k string) float64 {
		v, err := strconv.ParseFloat(f[k], 64)
		if err != nil {
			m.b.Fatalf("INFO %s: %v", k, err)
		}
		return v
	}
	return (num("used_cpu_user") + num("used_cpu_sys")) * 1e6, num("used_memory")
}

// scripts is how many scripts the server has run.
func (m *meter) scripts() float64 {
	m.b.Helper()
	f, err := m.srv.Info(context.Background(), "commandstats")
	if err != nil {
		m.b.Fatal(err)
	}
	_, rest, _ := strings.Cut(f["cmdstat_evalsha"], "calls=")
	n, _, _ := strings.Cut(rest, ",")
	v, err := strconv.ParseFloat(n, 64)
	if err != nil {
		m.b.Fatal(err)
	}
	return v
}

func clientCPU(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e3
}

// stop reports what n commands have cost.
func (m *meter) stop(n int, memory bool) {
	m.b.Helper()
	wall := time.Since(m.wall)
	server, mem := m.info()
	m.b.ReportMetric((server-m.server)/float64(n), "redis-us/cmd")
	m.b.ReportMetric((clientCPU(m.b)-m.client)/float64(n), "client-us/cmd")
	m.b.ReportMetric(float64(n)/wall.Seconds(), "cmd/s")
	if memory {
		m.b.ReportMetric((mem-m.memory)/float64(n), "B/cmd")
	}
	m.b.ReportMetric(0, "ns/op")
}

const benchN = 100_000

func benchStore(b *testing.B) (*redisstore.Store, *redistest.Server) {
	b.Helper()
	srv := redistest.Start(b, "--save", "", "--appendonly", "no")
	s := open(b, srv.URL(), "ns")
	b.Cleanup(func() {
		r, err := s.Audit(context.Background())
		if err != nil || len(r.Violations) > 0 {
			b.Errorf("audit: %v %v", err, r.Violations[:min(5, len(r.Violations))])
		}
		s.Close()
	})
	return s, srv
}

var benchParams = make([]byte, 200)

// benchSubs are n submissions with ids of 26 bytes in time order.
func benchSubs(n int, change func(i int, s *store.Submission)) []store.Submission {
	subs := make([]store.Submission, n)
	for i := range subs {
		subs[i] = store.Submission{ID: fmt.Sprintf("01J8ZQ4K3N%016X", i), Queue: "q", Type: "t", Params: benchParams}
		if change != nil {
			change(i, &subs[i])
		}
	}
	return subs
}

func submitAll(b *testing.B, s *redisstore.Store, subs []store.Submission) {
	b.Helper()
	for len(subs) > 0 {
		part := subs[:min(100, len(subs))]
		subs = subs[len(part):]
		res, err := s.Submit(context.Background(), store.SubmitRequest{Items: part})
		if err != nil {
			b.Fatal(err)
		}
		for _, r := range res {
			if !r.Created {
				b.Fatal(r)
			}
		}
	}
}

var benchNonce atomic.Int64

func benchClaim(b *testing.B, s *redisstore.Store, lane store.Lane, n, batch int) []*store.Command {
	b.Helper()
	req := store.ClaimRequest{Worker: "worker-0123456789abcdef", Nonce: fmt.Sprintf("n%09d", benchNonce.Add(1)), Wants: []store.Want{
		{Queue: "q", Lane: lane, Max: n, Types: []store.TypeWant{{Type: "t", Batch: batch}}},
	}}
	req.Free[lane] = n
	rep, err := s.Claim(context.Background(), req)
	if err != nil {
		b.Fatal(err)
	}
	cs := make([]*store.Command, 0, n)
	for _, g := range rep.Grants {
		cs = append(cs, g.Items...)
	}
	return cs
}

func benchSettle(b *testing.B, s *redisstore.Store, cs []*store.Command, fill func(*store.Settlement)) {
	b.Helper()
	items := make([]store.Settlement, len(cs))
	for i, c := range cs {
		items[i] = store.Settlement{ID: c.ID, Lease: c.Lease, Kind: store.OutcomeDone}
		if fill != nil {
			fill(&items[i])
		}
	}
	res, err := s.Settle(context.Background(), store.SettleRequest{Worker: "worker-0123456789abcdef", Items: items})
	if err != nil {
		b.Fatal(err)
	}
	for _, r := range res {
		if r.State != store.SettleDone {
			b.Fatal(r)
		}
	}
}

func BenchmarkSubmitBatch(b *testing.B) {
	s, srv := benchStore(b)
	subs := benchSubs(benchN, nil)
	m := startMeter(b, srv)
	submitAll(b, s, subs)
	m.stop(len(subs), true)
}

func BenchmarkSubmitSingle(b *testing.B) {
	s, srv := benchStore(b)
	subs := benchSubs(benchN, nil)
	m := startMeter(b, srv)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(subs) {
					return
				}
				res, err := s.Submit(context.Background(), store.SubmitRequest{Items: subs[i : i+1]})
				if err != nil || !res[0].Created {
					b.Error(res, err)
					return
				}
			}
		})
	}
	wg.Wait()
	m.stop(len(subs), false)
	b.ReportMetric(float64(len(subs))/m.scripts(), "cmd/script")
}

func benchProcess(b *testing.B, q store.QueueConfig, change func(i int, s *store.Submission)) {
	s, srv := benchStore(b)
	if _, err := s.Configure(context.Background(), 0, store.Config{Queues: map[string]store.QueueConfig{"q": q}}); err != nil {
		b.Fatal(err)
	}
	submitAll(b, s, benchSubs(benchN, change))
	m := startMeter(b, srv)
	for n := 0; n < benchN; {
		cs := benchClaim(b, s, store.Intake, 100, 1)
		if len(cs) == 0 {
			b.Fatalf("%d of %d", n, benchN)
		}
		benchSettle(b, s, cs, nil)
		n += len(cs)
	}
	m.stop(benchN, false)
}

func BenchmarkProcessNoRetention(b *testing.B) {
	benchProcess(b, store.QueueConfig{Retention: -1}, nil)
}

// Default retention, and a purge of what is more than the queue keeps.
func BenchmarkProcessKeep(b *testing.B) {
	benchProcess(b, store.QueueConfig{Keep: 20_000}, nil)
}

func BenchmarkProcessRetention(b *testing.B) {
	benchProcess(b, store.QueueConfig{}, nil)
}

func BenchmarkProcess10kLines(b *testing.B) {
	benchProcess(b, store.QueueConfig{Retention: -1}, func(i int, s *store.Submission) {
		s.Keys = []store.Key{{Name: "tenant", Value: fmt.Sprint("t", i%10_000)}}
	})
}

func BenchmarkSubmit10kLines(b *testing.B) {
	s, srv := benchStore(b)
	subs := benchSubs(10_000, func(i int, s *store.Submission) {
		s.Keys = []store.Key{{Name: "tenant", Value: fmt.Sprint("t", i)}}
	})
	m := startMeter(b, srv)
	submitAll(b, s, subs)
	m.stop(len(subs), true)
	m = startMeter(b, srv)
	for n := 0; n < len(subs); {
		cs := benchClaim(b, s, store.Intake, 100, 1)
		benchSettle(b, s, cs, nil)
		n += len(cs)
	}
	wall := (func() float64 { c, _ := m.info(); return c - m.server })() / float64(len(subs))
	b.ReportMetric(wall, "process-redis-us/cmd")
}

// A poll is a claim and a settle that leaves the state alone.
func BenchmarkPoll(b *testing.B) {
	s, srv := benchStore(b)
	submitAll(b, s, benchSubs(benchN/4, nil))
	m := startMeter(b, srv)
	for n := 0; n < benchN/4; n += 100 {
		benchSettle(b, s, benchClaim(b, s, store.Intake, 100, 1), func(st *store.Settlement) {
			st.Kind, st.Delay = store.OutcomeProcessing, 100*time.Millisecond
			st.SetState, st.State = true, []byte(`{"task":"i-0123456789"}`)
		})
	}
	_, mem := m.info()
	b.ReportMetric((mem-m.memory)/(benchN/4), "parked-growth-B/cmd")
	time.Sleep(200 * time.Millisecond)
	m = startMeter(b, srv)
	n := 0
	for n < benchN {
		cs := benchClaim(b, s, store.Repoll, 100, 1)
		benchSettle(b, s, cs, func(st *store.Settlement) {
			st.Kind, st.Delay = store.OutcomeProcessing, 100*time.Millisecond
		})
		n += len(cs)
	}
	m.stop(n, false)
}

func BenchmarkParkedMemory(b *testing.B) {
	s, srv := benchStore(b)
	m := startMeter(b, srv)
	submitAll(b, s, benchSubs(benchN, nil))
	for n := 0; n < benchN; n += 100 {
		benchSettle(b, s, benchClaim(b, s, store.Intake, 100, 1), func(st *store.Settlement) {
			st.Kind, st.Delay = store.OutcomeProcessing, time.Hour
			st.SetState, st.State = true, []byte(`{"task":"i-0123456789"}`)
		})
	}
	m.stop(benchN, true)
}

func BenchmarkRenew(b *testing.B) {
	s, srv := benchStore(b)
	submitAll(b, s, benchSubs(10_000, nil))
	var items []store.RenewItem
	for range 100 {
		for _, c := range benchClaim(b, s, store.Intake, 100, 1) {
			items = append(items, store.RenewItem{ID: c.ID, Lease: c.Lease})
		}
	}
	m := startMeter(b, srv)
	for range 10 {
		for i := 0; i < len(items); i += 500 {
			if _, err := s.Renew(context.Background(), store.RenewRequest{Worker: store.Worker{ID: "worker-0123456789abcdef"}, Leases: items[i : i+500]}); err != nil {
				b.Fatal(err)
			}
		}
	}
	m.stop(10*len(items), false)
}
