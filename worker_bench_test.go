//go:build unix

package twolane_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/gate"
	"github.com/twolane/twolane/store"
)

// endless is a store that hands out as many commands as are asked for, up to a number, and takes every outcome: what is left is the
// worker's own cost.
type endless struct {
	store.Store
	left    atomic.Int64
	settled atomic.Int64
	claims  atomic.Int64
	settles atomic.Int64
	total   int64
	done    chan struct{}
	rtt     time.Duration
}

type silent struct{ c chan store.Wake }

func (s silent) C() <-chan store.Wake             { return s.c }
func (s silent) Await(ids, groups []string) error { return nil }
func (s silent) Forget(ids, groups []string)      {}
func (s silent) Close() error                     { return nil }
func (e *endless) Watch(context.Context) (store.Watcher, error) {
	return silent{make(chan store.Wake)}, nil
}

func (e *endless) Claim(_ context.Context, req store.ClaimRequest) (store.ClaimReply, error) {
	if e.rtt > 0 {
		time.Sleep(e.rtt)
	}
	e.claims.Add(1)
	r := store.ClaimReply{Wants: make([]store.WantReport, len(req.Wants))}
	for i, w := range req.Wants {
		if w.Lane != store.Intake {
			r.Wants[i].Why = store.WhyEmpty
			continue
		}
		n := min(int64(w.Max), e.left.Load())
		from := e.left.Add(-n)
		for k := range n {
			r.Grants = append(r.Grants, store.Grant{Items: []*store.Command{{ID: fmt.Sprint("c", from+k), Queue: w.Queue, Type: "noop", Params: []byte(`{"N":1}`),
				Status: store.Pending, Place: store.Leased, Lease: store.LeaseName{Token: uint64(from + k + 1), Nonce: req.Nonce}}}})
		}
		r.Wants[i].Granted = int(n)
		if n < int64(w.Max) {
			r.Wants[i].Why = store.WhyEmpty
		}
	}
	return r, nil
}

func (e *endless) Renew(_ context.Context, req store.RenewRequest) (store.RenewReply, error) {
	r := store.RenewReply{Results: make([]store.RenewResult, len(req.Leases)), Workers: 1}
	for i := range r.Results {
		r.Results[i].State = store.RenewOK
	}
	return r, nil
}

func (e *endless) Settle(_ context.Context, req store.SettleRequest) ([]store.SettleResult, error) {
	if e.rtt > 0 {
		time.Sleep(e.rtt)
	}
	e.settles.Add(1)
	r := make([]store.SettleResult, len(req.Items))
	for i := range r {
		r[i] = store.SettleResult{State: store.SettleDone, Status: store.Succeeded}
	}
	if e.settled.Add(int64(len(r))) >= e.total {
		close(e.done)
	}
	return r, nil
}

func (e *endless) Maintain(context.Context) (store.MaintainReply, error) {
	return store.MaintainReply{}, nil
}

func (e *endless) Stats(context.Context, store.StatsRequest) (store.Stats, error) {
	return store.Stats{}, nil
}

// BenchmarkNoop is what the worker itself costs for one command: claim, decode, run, settle.
func BenchmarkNoop(b *testing.B) {
	for _, c := range []struct {
		name  string
		rtt   time.Duration
		gates int
	}{{"0s", 0, 0}, {"200µs", 200 * time.Microsecond, 0}, {"gates=1", 0, 1}, {"gates=3", 0, 3}} {
		b.Run(c.name, func(b *testing.B) {
			rtt := c.rtt
			var gates []gate.Binding
			for i := range c.gates {
				gates = append(gates, gate.Binding{Name: fmt.Sprint("g", i), Gate: gate.Constant(1), Per: []gate.Per{0, gate.PerType, gate.PerClass}[i]})
			}
			e := &endless{total: int64(b.N), done: make(chan struct{}), rtt: rtt}
			e.left.Store(int64(b.N))
			c := twolane.NewClient(e, &twolane.Options{NoTick: true, Logger: slog.New(slog.DiscardHandler)})
			defer c.Close()
			w, err := twolane.NewWorker(c, twolane.WorkerConfig{Concurrency: twolane.Lanes{Intake: 200, Repoll: 10}, Gates: gates})
			if err != nil {
				b.Fatal(err)
			}
			twolane.Handle(w, "noop", twolane.Handler[number, []byte]{Execute: func(context.Context, *twolane.Job[number, []byte]) (twolane.Outcome, error) {
				return twolane.Done(nil), nil
			}})
			ctx, stop := context.WithCancel(b.Context())
			ended := make(chan error, 1)
			b.ReportAllocs()
			var before, after syscall.Rusage
			syscall.Getrusage(syscall.RUSAGE_SELF, &before)
			b.ResetTimer()
			go func() { ended <- w.Run(ctx) }()
			<-e.done
			b.StopTimer()
			syscall.Getrusage(syscall.RUSAGE_SELF, &after)
			cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
			b.ReportMetric(float64(cpu)/float64(b.N)/1000, "cpu-us/op")
			b.ReportMetric(float64(b.N)/float64(e.claims.Load()), "cmds/claim")
			b.ReportMetric(float64(b.N)/float64(e.settles.Load()), "cmds/settle")
			stop()
			if err := <-ended; err != nil {
				b.Fatal(err)
			}
		})
	}
}
