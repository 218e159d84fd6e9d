package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twolane/twolane/internal/redistest"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/redisstore"
)

func one(id string) store.SubmitRequest {
	return store.SubmitRequest{Items: []store.Submission{{ID: id, Queue: "q", Type: "t", Params: []byte("p")}}}
}

func mustSubmit(t testing.TB, s *redisstore.Store, ids ...string) {
	t.Helper()
	for _, id := range ids {
		res, err := s.Submit(context.Background(), one(id))
		if err != nil || res[0].Err != nil {
			t.Fatalf("submit of %s: %v %+v", id, err, res)
		}
	}
}

func mustAudit(t testing.TB, s *redisstore.Store) {
	t.Helper()
	rep, err := s.Audit(context.Background())
	if err != nil || len(rep.Violations) > 0 {
		t.Errorf("audit: %v\n%s", err, strings.Join(rep.Violations, "\n"))
	}
}

func do(t testing.TB, srv *redistest.Server, args ...string) {
	t.Helper()
	if _, err := srv.Do(context.Background(), args...); err != nil {
		t.Fatal(err)
	}
}

// After SCRIPT FLUSH or a restart the server knows no script; every call brings its text along then.
func TestScriptFlush(t *testing.T) {
	srv := redistest.Start(t)
	s := open(t, srv.URL(), "ns")
	defer s.Close()
	do(t, srv, "SCRIPT", "FLUSH")
	mustSubmit(t, s, "a", "b")
	do(t, srv, "SCRIPT", "FLUSH")
	cs := claimN(t, s, "w1", store.Intake, 2)
	if len(cs) != 2 {
		t.Fatalf("claimed %d of 2", len(cs))
	}
	do(t, srv, "SCRIPT", "FLUSH")
	settleAll(t, s, store.Settlement{ID: "a", Lease: cs[0].Lease, Kind: store.OutcomeDone})
	mustAudit(t, s)
}

// When memory is full new commands are refused with a typed error, and everything else goes on (F035, store side).
func TestOutOfMemoryRefusesOnlySubmit(t *testing.T) {
	srv := redistest.Start(t, "--maxmemory-policy", "noeviction")
	s := open(t, srv.URL(), "ns")
	defer s.Close()
	ctx := context.Background()
	mustSubmit(t, s, "a", "b", "c", "d")
	do(t, srv, "CONFIG", "SET", "maxmemory", "1mb")
	res, err := s.Submit(ctx, one("e"))
	if err != nil || !errors.Is(res[0].Err, store.ErrReadOnly) {
		t.Fatalf("submit with full memory: %v %+v", err, res)
	}
	cs := claimN(t, s, "w1", store.Intake, 4)
	if len(cs) != 4 {
		t.Fatalf("claimed %d of 4 with full memory", len(cs))
	}
	rep, err := s.Renew(ctx, store.RenewRequest{Worker: store.Worker{ID: "w1"}, Leases: []store.RenewItem{{ID: cs[0].ID, Lease: cs[0].Lease, Progress: []byte("half")}}})
	if err != nil || rep.Results[0].State != store.RenewOK {
		t.Fatalf("renew with full memory: %v %+v", err, rep)
	}
	settleAll(t, s,
		store.Settlement{ID: cs[0].ID, Lease: cs[0].Lease, Kind: store.OutcomeDone, Result: []byte("r")},
		store.Settlement{ID: cs[1].ID, Lease: cs[1].Lease, Kind: store.OutcomeRetry, Error: "e"},
		store.Settlement{ID: cs[2].ID, Lease: cs[2].Lease, Kind: store.OutcomeProcessing, SetState: true, State: []byte("s")})
	if r, err := s.Cancel(ctx, store.CancelRequest{IDs: []string{cs[3].ID}, Force: true}); err != nil || r[0].State != store.CancelEnded {
		t.Fatalf("cancel with full memory: %v %+v", err, r)
	}
	if _, err := s.Maintain(ctx); err != nil {
		t.Fatal(err)
	}
	if d, err := s.Describe(ctx); err != nil || !strings.Contains(strings.Join(d.Warnings, " "), "maxmemory") {
		t.Errorf("nothing is said about the memory: %v %v", d.Warnings, err)
	}
	do(t, srv, "CONFIG", "SET", "maxmemory", "0")
	mustSubmit(t, s, "e")
	mustAudit(t, s)
}

// F080: a server that evicts is refused, or warned about; what it has evicted all the same is set aside and stops nothing.
func TestF080_eviction_policy(t *testing.T) {
	srv := redistest.Start(t)
	ctx := context.Background()
	for _, policy := range []string{"allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"} {
		do(t, srv, "CONFIG", "SET", "maxmemory-policy", policy)
		opt, err := redisstore.ParseURL(srv.URL())
		if err != nil {
			t.Fatal(err)
		}
		if s, err := redisstore.Open(ctx, opt); err == nil || !strings.Contains(err.Error(), policy) {
			t.Errorf("%s: opened, %v", policy, err)
			s.Close()
		}
		opt.AllowEviction = true
		s, err := redisstore.Open(ctx, opt)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := s.Describe(ctx); err != nil || !strings.Contains(strings.Join(d.Warnings, " "), policy) {
			t.Errorf("%s: no warning: %v %v", policy, d, err)
		}
		s.Close()
	}
	opt, _ := redisstore.ParseURL(srv.URL() + "?allow_eviction=1&namespace=ns")
	s, err := redisstore.Open(ctx, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	mustSubmit(t, s, "a", "b", "c")
	do(t, srv, "DEL", "{ns}:c|a", "{ns}:c|b") // as an eviction would
	if cs := claimN(t, s, "w1", store.Intake, 3); len(cs) != 1 || cs[0].ID != "c" {
		t.Errorf("claimed %v", cs)
	}
	if st, err := s.Stats(ctx, store.StatsRequest{}); err != nil || st.Lost != 2 {
		t.Errorf("%d set aside, %v", st.Lost, err)
	}
	if rep, err := s.Maintain(ctx); err != nil || rep.More {
		t.Errorf("maintenance loops: %+v %v", rep, err)
	}
}

// F081: FLUSHALL while running heals by itself: the next call makes the namespace anew, and what was running is refused.
func TestF081_flushall(t *testing.T) {
	srv := redistest.Start(t)
	s := open(t, srv.URL(), "ns")
	defer s.Close()
	ctx := context.Background()
	mustSubmit(t, s, "before")
	old := claimN(t, s, "w1", store.Intake, 1)[0]
	do(t, srv, "FLUSHALL")
	for i := range 10 {
		mustSubmit(t, s, fmt.Sprint("after", i))
	}
	cs := claimN(t, s, "w1", store.Intake, 20)
	if len(cs) != 10 {
		t.Fatalf("claimed %d of 10", len(cs))
	}
	res, err := s.Settle(ctx, store.SettleRequest{Worker: "w1", Items: []store.Settlement{{ID: old.ID, Lease: old.Lease, Kind: store.OutcomeDone}}})
	if err != nil || res[0].State != store.SettleLost {
		t.Errorf("the settle of what was flushed: %v %+v", err, res)
	}
	rep, err := s.Renew(ctx, store.RenewRequest{Worker: store.Worker{ID: "w1"}, Leases: []store.RenewItem{{ID: old.ID, Lease: old.Lease}}})
	if err != nil || rep.Results[0].State != store.RenewLost {
		t.Errorf("the renewal of what was flushed: %v %+v", err, rep)
	}
	mustAudit(t, s)
}

// F147, store side: ten bad records among a hundred good ones; the good ones run, the bad ones are set aside, counted, kept and can be deleted.
func TestF147_bad_records(t *testing.T) {
	srv := redistest.Shared(t)
	s := open(t, srv.URL(), fresh())
	defer s.Close()
	ctx := context.Background()
	var subs []store.Submission
	for i := range 110 {
		subs = append(subs, store.Submission{ID: fmt.Sprintf("c%03d", i), Queue: "q", Type: "t", Params: []byte("p"), Metadata: map[string]string{"k": "v"}})
	}
	if _, err := s.Submit(ctx, store.SubmitRequest{Items: subs}); err != nil {
		t.Fatal(err)
	}
	c := "{" + s.Namespace() + "}:c|"
	for i, damage := range [][]string{
		{"SET", c + "c000", `{"json": true}`}, {"SET", c + "c011", ""}, {"SETRANGE", c + "c022", "0", "\xff"}, {"DEL", c + "c033"},
		{"SETRANGE", c + "c044", "1", "\x09"}, {"SETRANGE", c + "c055", "20", "0000000000000000"}, {"SETRANGE", c + "c066", "15", "\xff\xff\xff\xff"},
		{"SETRANGE", c + "c077", "44", "\xff\xff\xff\x7f"}, {"EVAL", "return redis.call('SET', KEYS[1], string.sub(redis.call('GET', KEYS[1]), 1, 47))", "1", c + "c088"},
		{"EVAL", "redis.call('DEL', KEYS[1]) return redis.call('LPUSH', KEYS[1], 'x')", "1", c + "c099"},
	} {
		if _, err := srv.Do(ctx, damage...); err != nil {
			t.Fatalf("damage %d: %v", i, err)
		}
	}
	done := map[string]bool{}
	for range 10 {
		for _, c := range claimN(t, s, "w1", store.Intake, 30) {
			if done[c.ID] || string(c.Params) != "p" {
				t.Errorf("%s: params %q", c.ID, c.Params)
			}
			done[c.ID] = true
			settleAll(t, s, store.Settlement{ID: c.ID, Lease: c.Lease, Kind: store.OutcomeDone})
		}
	}
	if len(done) != 100 {
		t.Errorf("%d of 100 have run", len(done))
	}
	st, err := s.Stats(ctx, store.StatsRequest{Queues: []string{"q"}})
	if err != nil || st.Lost != 10 {
		t.Errorf("%d of 10 are set aside, %v", st.Lost, err)
	}
	if m, err := srv.Do(ctx, "GET", c+"c000"); err != nil || !strings.Contains(fmt.Sprint(m.ToString()), "json") {
		t.Errorf("the bytes of a bad record were not kept: %v %v", m, err)
	}
	var bad []string
	for i := 0; i < 110; i += 11 {
		bad = append(bad, fmt.Sprintf("c%03d", i))
	}
	rep, err := s.Act(ctx, store.ActRequest{Kind: store.ActDelete, IDs: bad})
	if err != nil || rep.Done != 10 {
		t.Errorf("deleted %d of 10: %v %v", rep.Done, rep.Results, err)
	}
	if st, err := s.Stats(ctx, store.StatsRequest{}); err != nil || st.Lost != 0 {
		t.Errorf("%d are still set aside, %v", st.Lost, err)
	}
}

func TestTLS(t *testing.T) {
	srv := redistest.StartTLS(t, "--tls-auth-clients", "yes")
	certs := srv.TLS()
	q := "?tls_ca=" + certs.CAFile + "&tls_cert=" + certs.ClientCertFile + "&tls_key=" + certs.ClientKeyFile + "&namespace=ns"
	s, err := redisstore.OpenURL(context.Background(), srv.URL()+q)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	mustSubmit(t, s, "a")
	mustAudit(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if s, err := redisstore.OpenURL(ctx, srv.URL()); err == nil {
		s.Close()
		t.Error("opened without trusting the server's authority")
	}
}

// The least that an ACL user needs, with the password from a file; CONFIG is forbidden. No error shows the password.
func TestACL(t *testing.T) {
	const secret = "s3cret-word"
	srv := redistest.StartUser(t, "ann", secret, []string{
		"~{ns}:*", "&{ns}:*", "-@all", "+@connection", "+@read", "+@write", "+@scripting", "+@pubsub", "+info", "+time", "+scan",
	})
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	opt := redisstore.Options{Addrs: []string{srv.Addr()}, Username: "ann", PasswordFile: file, Namespace: "ns"}
	ctx := context.Background()
	s, err := redisstore.Open(ctx, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w, err := s.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	mustSubmit(t, s, "a")
	select {
	case <-w.C():
	case <-time.After(10 * time.Second):
		t.Error("no wake-up")
	}
	cs := claimN(t, s, "w1", store.Intake, 1)
	settleAll(t, s, store.Settlement{ID: "a", Lease: cs[0].Lease, Kind: store.OutcomeDone})
	if _, err := s.Describe(ctx); err != nil {
		t.Error(err)
	}
	mustAudit(t, s)
	opt.Namespace = "other"
	other, err := redisstore.Open(ctx, opt)
	if err == nil {
		_, err = other.Submit(ctx, one("a"))
		other.Close()
	}
	if err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("another namespace: %v", err)
	}
	opt.PasswordFile, opt.Password = "", "wrong-"+secret
	if s, err := redisstore.Open(ctx, opt); err == nil || strings.Contains(err.Error(), secret) {
		s.Close()
		t.Errorf("wrong password: %v", err)
	}
}

// The schema is checked in every step: a namespace of a later version is left alone.
func TestSchemaOfALaterVersion(t *testing.T) {
	srv := redistest.Start(t)
	s := open(t, srv.URL(), "ns")
	defer s.Close()
	mustSubmit(t, s, "a")
	do(t, srv, "HSET", "{ns}:meta", "rd", "2")
	ctx := context.Background()
	_, err := s.Submit(ctx, one("b"))
	if !errors.Is(err, store.ErrSchema) {
		t.Errorf("submit: %v", err)
	}
	if _, err := s.Get(ctx, []string{"a"}, store.GetOptions{}); !errors.Is(err, store.ErrSchema) {
		t.Errorf("get: %v", err)
	}
	if _, err := s.Maintain(ctx); !errors.Is(err, store.ErrSchema) {
		t.Errorf("maintain: %v", err)
	}
	opt, _ := redisstore.ParseURL(srv.URL() + "?namespace=ns")
	if s, err := redisstore.Open(ctx, opt); !errors.Is(err, store.ErrSchema) {
		s.Close()
		t.Errorf("open: %v", err)
	}
	do(t, srv, "HSET", "{ns}:meta", "rd", "1")
	mustAudit(t, s)
}
