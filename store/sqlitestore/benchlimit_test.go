//go:build unix

package sqlitestore_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/twolane/twolane/store"
)

// BenchmarkLimit claims and settles what was submitted before the clock starts, 10 and 100 in a call, under limits that have room. The disk is left out.
func BenchmarkLimit(b *testing.B) {
	one := store.Limit{Name: "one", Max: store.MaxMembers}
	for _, v := range []struct {
		name   string
		limits []store.Limit
	}{
		{"none", nil},
		{"invocation", []store.Limit{one}},
		{"command", []store.Limit{{Name: "one", Max: store.MaxMembers, Scope: store.ScopeCommand}}},
		{"rate", []store.Limit{{Name: "one", Rate: 1e6, Burst: 1e6}}},
		{"three", []store.Limit{one, {Name: "two", By: store.ByType, Max: store.MaxMembers, Scope: store.ScopeCommand}, {Name: "three", By: store.ByQueue, Max: store.MaxMembers}}},
	} {
		for _, batch := range []int{10, 100} {
			b.Run(fmt.Sprintf("%s/batch=%d", v.name, batch), func(b *testing.B) {
				s := open(b, filepath.Join(b.TempDir(), "store.db"), relaxed)
				defer func() { _ = s.Close() }()
				limitsOf(b, s, v.limits...)
				submitBatches(b, s, b.N)
				begin(b)
				for n, left := 0, b.N; left > 0; n++ {
					rep, err := s.Claim(context.Background(), claimOf(n, store.Intake, min(batch, left)))
					if err != nil || len(rep.Grants) == 0 {
						b.Fatal(err, rep.Wants)
					}
					settleAll(b, s, rep, store.OutcomeDone)
					left -= len(rep.Grants)
				}
				report(b)
			})
		}
	}
}

// BenchmarkLimitKeys does the same with 1,000 tenants, each with a limit of its own that has room, and a line of its own.
func BenchmarkLimitKeys(b *testing.B) {
	for _, limits := range []int{0, 1} {
		b.Run(fmt.Sprintf("limits=%d", limits), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "store.db"), relaxed)
			defer func() { _ = s.Close() }()
			limitsOf(b, s, []store.Limit{{Name: "tenant", By: store.ByGroup, Max: 1000}}[:limits]...)
			submitGroups(b, s, b.N, 1000)
			begin(b)
			for n, left := 0, b.N; left > 0; n++ {
				rep, err := s.Claim(context.Background(), claimOf(n, store.Intake, min(100, left)))
				if err != nil || len(rep.Grants) == 0 {
					b.Fatal(err, rep.Wants)
				}
				settleAll(b, s, rep, store.OutcomeDone)
				left -= len(rep.Grants)
			}
			report(b)
		})
	}
}

// BenchmarkContended settles and claims as many commands as a full limit lets in, for which four lines wait in turn, and as many without a limit.
func BenchmarkContended(b *testing.B) {
	for _, most := range []int{1, 10, 100} {
		for _, limits := range []int{0, 1} {
			b.Run(fmt.Sprintf("max=%d/limits=%d", most, limits), func(b *testing.B) {
				s := open(b, filepath.Join(b.TempDir(), "store.db"), relaxed)
				defer func() { _ = s.Close() }()
				limitsOf(b, s, []store.Limit{{Name: "l", Max: most}}[:limits]...)
				submitGroups(b, s, b.N+1000, 4)
				begin(b)
				for n, left := 0, b.N; left > 0; n++ {
					rep, err := s.Claim(context.Background(), claimOf(n, store.Intake, most+limits))
					if err != nil || len(rep.Grants) != most {
						b.Fatal(err, rep.Wants)
					}
					settleAll(b, s, rep, store.OutcomeDone)
					left -= most
				}
				report(b)
			})
		}
	}
}

// BenchmarkFiled lets seconds go by while 10,000 lines wait: under one key, and each under its own. One operation is a second, with maintenance until
// there is no more and a claim that gets nothing.
func BenchmarkFiled(b *testing.B) {
	for _, by := range []store.By{store.ByAll, store.ByGroup} {
		b.Run(fmt.Sprintf("by=%d", by), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "store.db"), relaxed)
			defer func() { _ = s.Close() }()
			now := store.Millis(2_000_000_000_000)
			clock := func() {
				if err := s.SetClock(context.Background(), now); err != nil {
					b.Fatal(err)
				}
			}
			clock()
			limitsOf(b, s, store.Limit{Name: "l", By: by, Max: 0})
			submitGroups(b, s, 10_000, 10_000)
			n := 0
			for more := true; more; n++ {
				rep, err := s.Claim(context.Background(), claimOf(n, store.Intake, 1000))
				if err != nil || len(rep.Grants) > 0 {
					b.Fatal(err, rep.Wants)
				}
				more = rep.More
			}
			begin(b)
			for range b.N {
				now += 1000
				clock()
				for more := true; more; {
					rep, err := s.Maintain(context.Background())
					if err != nil {
						b.Fatal(err)
					}
					more = rep.More
				}
				if rep, err := s.Claim(context.Background(), claimOf(n, store.Intake, 100)); err != nil || rep.Wants[0].Why != store.WhyLimit {
					b.Fatal(err, rep.Wants)
				}
				n++
			}
			report(b)
		})
	}
}

// BenchmarkTenants submits one command of tenant B and claims it, while tenant A has a backlog and a full limit: as many of A are settled and
// claimed beside.
func BenchmarkTenants(b *testing.B) {
	for _, backlog := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("backlog=%d", backlog), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "store.db"), relaxed)
			defer func() { _ = s.Close() }()
			limitsOf(b, s, store.Limit{Name: "tenant", By: store.ByGroup, Max: 10})
			submitGroups(b, s, backlog+b.N, 1)
			claimed := func(n, want int) store.ClaimReply {
				rep, err := s.Claim(context.Background(), claimOf(n, store.Intake, 20))
				if err != nil || len(rep.Grants) != want {
					b.Fatal(err, len(rep.Grants), rep.Wants)
				}
				return rep
			}
			run := claimed(0, 10)
			begin(b)
			for n := range b.N {
				if res, err := s.Submit(context.Background(), store.SubmitRequest{Items: []store.Submission{{ID: fmt.Sprint("b", n), Queue: "q", Type: "t", Group: "b"}}}); err != nil || res[0].Err != nil {
					b.Fatal(err, res)
				}
				one := run
				one.Grants, run.Grants = run.Grants[:1], run.Grants[1:]
				settleAll(b, s, one, store.OutcomeDone)
				rep := claimed(n+1, 2)
				for _, g := range rep.Grants {
					one.Grants = []store.Grant{g}
					if g.Items[0].Group == "b" {
						settleAll(b, s, one, store.OutcomeDone)
					} else {
						run.Grants = append(run.Grants, g)
					}
				}
			}
			report(b)
		})
	}
}

func limitsOf(b *testing.B, s store.Store, limits ...store.Limit) {
	b.Helper()
	if _, err := s.Configure(context.Background(), 0, store.Config{Limits: limits, Queues: map[string]store.QueueConfig{"q": {Retention: time.Hour}}}); err != nil {
		b.Fatal(err)
	}
}

func submitGroups(b *testing.B, s store.Store, total, groups int) {
	b.Helper()
	for n := 0; n < total; {
		var items []store.Submission
		for ; len(items) < 500 && n < total; n++ {
			items = append(items, store.Submission{ID: id(n), Queue: "q", Type: "t", Group: fmt.Sprint("g", n%groups), Params: params})
		}
		if res, err := s.Submit(context.Background(), store.SubmitRequest{Items: items}); err != nil || res[0].Err != nil {
			b.Fatal(err, res)
		}
	}
}

func settleAll(b *testing.B, s store.Store, rep store.ClaimReply, kind store.OutcomeKind) {
	b.Helper()
	if res, err := s.Settle(context.Background(), settlement(rep, store.Settlement{Kind: kind})); err != nil || res[0].State != store.SettleDone {
		b.Fatal(err, res)
	}
}

// BenchmarkRoom makes room in one of 10,000 keys, each with a member at rest and one line that waits, and claims and settles what waited for it.
func BenchmarkRoom(b *testing.B) {
	const keys = 10_000
	s := open(b, filepath.Join(b.TempDir(), "store.db"), relaxed)
	defer func() { _ = s.Close() }()
	limitsOf(b, s, store.Limit{Name: "l", By: store.ByGroup, Max: 1, Scope: store.ScopeCommand})
	submitGroups(b, s, keys, keys)
	n := 0
	claimed := func(most int) store.ClaimReply {
		n++
		rep, err := s.Claim(context.Background(), claimOf(n, store.Intake, most))
		if err != nil {
			b.Fatal(err)
		}
		return rep
	}
	for left := keys; left > 0; {
		rep := claimed(500)
		if res, err := s.Settle(context.Background(), settlement(rep, store.Settlement{Kind: store.OutcomeProcessing, Delay: time.Hour})); err != nil || res[0].State != store.SettleDone {
			b.Fatal(err, res)
		}
		left -= len(rep.Grants)
	}
	more := make([]store.Submission, 0, keys)
	for i := range keys {
		more = append(more, store.Submission{ID: fmt.Sprint("more", i), Queue: "q", Type: "t", Group: fmt.Sprint("g", i), Params: params})
	}
	for part := range slices.Chunk(more, 500) {
		if res, err := s.Submit(context.Background(), store.SubmitRequest{Items: part}); err != nil || res[0].Err != nil {
			b.Fatal(err, res)
		}
	}
	for claimed(500).More {
	}
	begin(b)
	for i := range b.N {
		k := i % keys
		if i == keys {
			b.Fatal("more rounds than keys")
		}
		if res, err := s.Cancel(context.Background(), store.CancelRequest{IDs: []string{id(k)}, Force: true}); err != nil || res[0].State != store.CancelEnded {
			b.Fatal(err, res)
		}
		rep := claimed(10)
		if len(rep.Grants) != 1 || rep.Grants[0].Items[0].ID != fmt.Sprint("more", k) {
			b.Fatalf("%d granted: %+v", len(rep.Grants), rep.Wants)
		}
		settleAll(b, s, rep, store.OutcomeDone)
	}
	report(b)
}
