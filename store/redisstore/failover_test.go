package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twolane/twolane/internal/redistest"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/redisstore"
)

// eventually calls f until it succeeds; the last error fails the test.
func eventually(t *testing.T, within time.Duration, what string, f func(ctx context.Context) error) {
	t.Helper()
	end := time.Now().Add(within)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		err := f(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: still %v after %v", what, err, within)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// F079: after a fail-over the store finds the new master by itself; a call in between fails and is repeated, and costs no command an attempt.
func TestF079_failover(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a master, a replica and a sentinel")
	}
	set := redistest.StartSentinel(t, 1)
	opt := redisstore.Options{Addrs: set.Addrs(), Master: redistest.MasterName, Namespace: "ns", Timeout: 2 * time.Second}
	ctx := context.Background()
	s, err := redisstore.Open(ctx, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	mustSubmit(t, s, "a", "b", "c")
	cs := claimN(t, s, "w1", store.Intake, 1)
	if d, err := s.Describe(ctx); err != nil || !strings.Contains(strings.Join(d.Warnings, " "), "min-replicas-to-write") {
		t.Errorf("nothing is said about replication: %v %v", d.Warnings, err)
	}
	old, err := set.Master(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Do(ctx, "WAIT", "1", "5000"); err != nil {
		t.Fatal(err)
	}
	if err := set.Failover(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "submit after the fail-over", func(ctx context.Context) error {
		res, err := s.Submit(ctx, one("d"))
		if err == nil && res[0].Err != nil {
			err = res[0].Err
		}
		return err
	})
	if now, err := set.Master(ctx); err != nil || now == old {
		t.Fatalf("the master has not changed: %v", err)
	}
	// The lease of before stands: the command is settled once, and the others start with no failure counted.
	settleAll(t, s, store.Settlement{ID: cs[0].ID, Lease: cs[0].Lease, Kind: store.OutcomeDone})
	rest := claimN(t, s, "w1", store.Intake, 10)
	if len(rest) != 3 {
		t.Fatalf("claimed %d of 3", len(rest))
	}
	for _, c := range rest {
		if c.Failures != 0 || c.Losses != 0 || c.Starts != 1 {
			t.Errorf("%s: starts %d, failures %d, losses %d", c.ID, c.Starts, c.Failures, c.Losses)
		}
	}
	eventually(t, 10*time.Second, "renewal after the fail-over", func(ctx context.Context) error {
		rep, err := s.Renew(ctx, store.RenewRequest{Worker: store.Worker{ID: "w1"}, Leases: []store.RenewItem{{ID: rest[0].ID, Lease: rest[0].Lease}}})
		if err == nil && rep.Results[0].State != store.RenewOK {
			t.Fatalf("%+v", rep)
		}
		return err
	})
	mustAudit(t, s)
}

// F079, without sentinels: a server that answers READONLY for a while changes nothing, and the calls after it succeed.
func TestF079_readonly(t *testing.T) {
	srv := redistest.Start(t)
	s := open(t, srv.URL(), "ns")
	defer s.Close()
	mustSubmit(t, s, "a")
	do(t, srv, "CONFIG", "SET", "replica-serve-stale-data", "yes")
	do(t, srv, "REPLICAOF", "127.0.0.1", "1") // a master that is not there: the data stays
	ctx := context.Background()
	if _, err := s.Submit(ctx, one("b")); err == nil || !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("submit to a replica: %v", err)
	}
	if _, err := s.Maintain(ctx); err == nil {
		t.Error("maintenance on a replica")
	}
	if cs, err := s.Get(ctx, []string{"a"}, store.GetOptions{}); err != nil || cs[0] == nil || cs[0].Starts != 0 {
		t.Errorf("a read from a replica: %v %v", cs, err)
	}
	do(t, srv, "REPLICAOF", "NO", "ONE")
	eventually(t, 10*time.Second, "submit after the promotion", func(ctx context.Context) error {
		_, err := s.Submit(ctx, one("b"))
		return err
	})
	if cs := claimN(t, s, "w1", store.Intake, 5); len(cs) != 2 || cs[0].Starts != 1 {
		t.Errorf("claimed %v", cs)
	}
	mustAudit(t, s)
}

// woken reads what wake-ups are there and says whether one of a kind is among them.
func woken(w store.Watcher, kind store.WakeKind) bool {
	for {
		select {
		case k := <-w.C():
			if k.Kind == kind {
				return true
			}
		default:
			return false
		}
	}
}

// While the slot moves, a script is refused before its first line: nothing is half-written, whatever keys have gone already.
func TestSlotOnTheMove(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three servers")
	}
	cl := redistest.SharedCluster(t)
	ctx := context.Background()
	ns := fresh()
	s, err := redisstore.Open(ctx, redisstore.Options{Addrs: cl.Addrs(), Cluster: true, Namespace: ns})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 20 {
		mustSubmit(t, s, fmt.Sprint("a", i))
	}
	cs := claimN(t, s, "w1", store.Intake, 5)
	w, err := s.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	prefix := "{" + ns + "}:"
	slot, err := cl.Slot(ctx, prefix+"meta")
	if err != nil {
		t.Fatal(err)
	}
	from, err := cl.Owner(ctx, slot)
	if err != nil {
		t.Fatal(err)
	}
	to := (from + 1) % 3
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	refused := func(when string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		for name, call := range map[string]func() error{
			"submit": func() error { _, err := s.Submit(ctx, one("b")); return err },
			"claim": func() error {
				_, err := s.Claim(ctx, store.ClaimRequest{Worker: "w2", Nonce: "nonce00000", Free: [2]int{5, 0}, Wants: []store.Want{{Queue: "q", Max: 5, Types: []store.TypeWant{{Type: "t"}}}}})
				return err
			},
			"settle": func() error {
				_, err := s.Settle(ctx, store.SettleRequest{Worker: "w1", Items: []store.Settlement{{ID: cs[0].ID, Lease: cs[0].Lease, Kind: store.OutcomeDone}}})
				return err
			},
			"renew": func() error { _, err := s.Renew(ctx, store.RenewRequest{Worker: store.Worker{ID: "w1"}}); return err },
		} {
			if err := call(); err == nil {
				t.Errorf("%s went through %s", name, when)
			}
		}
	}
	ok(cl.BeginMove(ctx, slot, from, to))
	// some of the keys, but not the guard
	ok(cl.MigrateKeys(ctx, from, to, prefix+"L", prefix+"T", prefix+"c|a0", prefix+"c|a7"))
	refused("guard at the source")
	ok(cl.MigrateKeys(ctx, from, to, prefix+"meta"))
	refused("guard at the target")
	for {
		n, err := cl.MoveKeys(ctx, slot, from, to, 10)
		ok(err)
		if n == 0 {
			break
		}
	}
	ok(cl.FinishMove(ctx, slot, from, to))
	defer func() { ok(cl.MoveSlot(ctx, slot, to, from)) }()
	eventually(t, 20*time.Second, "submit after the move", func(ctx context.Context) error {
		_, err := s.Submit(ctx, one("after"))
		return err
	})
	// Wake-ups come again from the slot's new node.
	deadline := time.After(20 * time.Second)
	for i := 0; !woken(w, store.WakeConfig); i++ {
		cfg, err := s.Config(ctx)
		ok(err)
		_, err = s.Configure(ctx, cfg.Version, cfg)
		ok(err)
		select {
		case <-deadline:
			t.Fatal("no wake-up after the move")
		case <-time.After(100 * time.Millisecond):
		}
	}
	mustAudit(t, s)
	var items []store.Settlement
	for _, c := range cs {
		items = append(items, store.Settlement{ID: c.ID, Lease: c.Lease, Kind: store.OutcomeDone})
	}
	settleAll(t, s, items...)
	if n := len(claimN(t, s, "w1", store.Intake, 100)); n != 16 {
		t.Errorf("claimed %d, 15 were left and 1 came", n)
	}
	mustAudit(t, s)
}
