package storetest_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/memstore"
	"github.com/twolane/twolane/store/storetest"
)

// bugs are stores with one mistake each, and the part of the suite that must find it.
var bugs = map[string]struct {
	run string // -test.run below TestBroken
	new func(s store.Store) store.Store
}{
	"settles whatever is leased": {"suite/settle", func(s store.Store) store.Store { return &lax{broken{s}} }},
	"forgets the nonce":          {"suite/idempotency", func(s store.Store) store.Store { return &forgetful{broken{s}} }},
	"does not extend leases":     {"suite/renew", func(s store.Store) store.Store { return &still{broken{s}} }},
	"ignores unique keys": {"suite/unique", func(s store.Store) store.Store {
		return &submits{broken{s}, func(x *store.Submission) { x.UniqueKey = "" }}
	}},
	"ignores deadlines": {"suite/deadline", func(s store.Store) store.Store {
		return &submits{broken{s}, func(x *store.Submission) { x.Deadline = 0 }}
	}},
	"re-encodes params": {"suite/bytes", func(s store.Store) store.Store { return &submits{broken{s}, reencode} }},
	"ignores priorities": {"suite/claim", func(s store.Store) store.Store {
		return &submits{broken{s}, func(x *store.Submission) { x.Priority = 0 }}
	}},
	"ignores rates":  {"suite/rate", func(s store.Store) store.Store { return &unruly{broken{s}} }},
	"ignores pauses": {"suite/pause", func(s store.Store) store.Store { return &unruly{broken{s}} }},
	"drops children": {"suite/follow_ups", func(s store.Store) store.Store {
		return &settles{broken{s}, func(x *store.Settlement) { x.FollowUps = nil }}
	}},
	"loses states": {"suite/lanes", func(s store.Store) store.Store {
		return &settles{broken{s}, func(x *store.Settlement) { x.State = nil }}
	}},
	"retries at once": {"suite/retry", func(s store.Store) store.Store { return &settles{broken{s}, func(x *store.Settlement) { x.Delay = 0 }} }},
	"never maintains": {"suite/loss", func(s store.Store) store.Store { return &lazy{broken{s}} }},

	"settles whatever is leased, at random": {"random", func(s store.Store) store.Store { return &lax{broken{s}} }},
	"ignores unique keys, at random": {"random", func(s store.Store) store.Store {
		return &submits{broken{s}, func(x *store.Submission) { x.UniqueKey = "" }}
	}},
	"does not extend leases, at random": {"random", func(s store.Store) store.Store { return &still{broken{s}} }},
	"retries at once, at random":        {"random", func(s store.Store) store.Store { return &settles{broken{s}, func(x *store.Settlement) { x.Delay = 0 }} }},
}

const bugVariable = "STORETEST_BUG"

// TestBroken is the suite on a store with a mistake. It runs only in the processes that TestFindsBugs starts.
func TestBroken(t *testing.T) {
	bug, ok := bugs[os.Getenv(bugVariable)]
	if !ok {
		t.Skip("run by TestFindsBugs")
	}
	h := storetest.Harness{Open: func(*testing.T) store.Store { return bug.new(memstore.New()) }}
	t.Run("suite", func(t *testing.T) { storetest.Run(t, h) })
	t.Run("random", func(t *testing.T) { storetest.RunRandom(t, h) })
}

// The suite is tested by what it must find.
func TestFindsBugs(t *testing.T) {
	for name, bug := range bugs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBroken$/^"+strings.ReplaceAll(bug.run, "/", "$/^")+"$", "-rapid.shrinktime=0s")
			cmd.Env = append(os.Environ(), bugVariable+"="+name, "TWOLANE_RANDOM=60s") // it ends when the bug is found
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("not found by %s", bug.run)
			}
			if !strings.Contains(string(out), "--- FAIL: TestBroken/") || strings.Contains(string(out), "panic: ") {
				t.Fatalf("%v:\n%s", err, out)
			}
			if strings.HasPrefix(bug.run, "suite") && !strings.Contains(string(out), "rule: ") {
				t.Errorf("the failure does not state the rule:\n%s", out)
			}
		})
	}
}

type broken struct{ store.Store }

func (b broken) SetClock(ctx context.Context, t store.Millis) error {
	return b.Store.(store.Clocker).SetClock(ctx, t)
}

// lax settles with the current lease, whatever lease it is given.
type lax struct{ broken }

func (b *lax) Settle(ctx context.Context, req store.SettleRequest) ([]store.SettleResult, error) {
	req.Items = append([]store.Settlement(nil), req.Items...)
	for i := range req.Items {
		cs, err := b.Get(ctx, []string{req.Items[i].ID}, store.GetOptions{})
		if err != nil {
			return nil, err
		}
		if cs[0] != nil && cs[0].Place == store.Leased {
			req.Items[i].Lease = cs[0].Lease
		}
	}
	return b.Store.Settle(ctx, req)
}

// forgetful never knows a claim again.
type forgetful struct{ broken }

func (b *forgetful) Claim(ctx context.Context, req store.ClaimRequest) (store.ClaimReply, error) {
	r, err := b.Store.Claim(ctx, store.ClaimRequest{Worker: req.Worker, Nonce: "forget" + req.Nonce})
	if err != nil {
		return r, err
	}
	return b.Store.Claim(ctx, req)
}

// still answers renewals and does nothing.
type still struct{ broken }

func (b *still) Renew(ctx context.Context, req store.RenewRequest) (store.RenewReply, error) {
	leases := req.Leases
	req.Leases = nil
	r, err := b.Store.Renew(ctx, req)
	for range leases {
		r.Results = append(r.Results, store.RenewResult{State: store.RenewOK})
	}
	return r, err
}

// submits changes what is submitted.
type submits struct {
	broken
	change func(*store.Submission)
}

func (b *submits) Submit(ctx context.Context, req store.SubmitRequest) ([]store.SubmitResult, error) {
	req.Items = append([]store.Submission(nil), req.Items...)
	for i := range req.Items {
		b.change(&req.Items[i])
	}
	return b.Store.Submit(ctx, req)
}

func reencode(s *store.Submission) {
	var v any
	if json.Unmarshal(s.Params, &v) == nil {
		s.Params, _ = json.Marshal(v) // what was decoded can be encoded
	}
}

// settles changes what is settled.
type settles struct {
	broken
	change func(*store.Settlement)
}

func (b *settles) Settle(ctx context.Context, req store.SettleRequest) ([]store.SettleResult, error) {
	req.Items = append([]store.Settlement(nil), req.Items...)
	for i := range req.Items {
		b.change(&req.Items[i])
	}
	return b.Store.Settle(ctx, req)
}

// unruly keeps no rate and no pause.
type unruly struct{ broken }

func (b *unruly) Configure(ctx context.Context, expect uint64, cfg store.Config) (store.Config, error) {
	qs := map[string]store.QueueConfig{}
	for name, q := range cfg.Queues {
		q.Rates, q.Pause, q.PauseUntil = [2]store.Rate{}, store.PauseNone, 0
		qs[name] = q
	}
	cfg.Queues = qs
	return b.Store.Configure(ctx, expect, cfg)
}

// lazy does no maintenance of its own.
type lazy struct{ broken }

func (b *lazy) Maintain(context.Context) (store.MaintainReply, error) {
	return store.MaintainReply{}, nil
}
