package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
)

// The limits rows measure what limits cost the store, and what they leave of its promptness.

// limitParts are the parts that can be run alone.
var limitParts = []string{Limits + "/cost", Limits + "/contended", Limits + "/blocked", Limits + "/room", Limits + "/tenants"}

// limits runs all of them.
func (b *bench) limits(ctx context.Context) error {
	for i, part := range []func(context.Context) error{b.limitCost, b.limitContended, b.limitBlocked, b.limitRoom, b.limitTenants} {
		if b.opt.Only == limitParts[i] || !strings.Contains(b.opt.Only, "/") {
			if err := part(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// perGroup is a limit that counts by group.
func perGroup(name string, most int, scope store.Scope) store.Limit {
	return store.Limit{Name: name, By: store.ByGroup, Max: most, Scope: scope}
}

// configure puts limits in force.
func (s *site) configure(ctx context.Context, limits ...store.Limit) error {
	_, err := s.client.Configure(ctx, func(c *twolane.Config) error {
		c.Limits = limits
		return nil
	})
	return err
}

// inGroups spreads commands over that many groups, leaving only tombstones behind.
func inGroups(groups int) func(int, *twolane.Submission) {
	return func(i int, sub *twolane.Submission) {
		sub.Group, sub.Retention = "g"+strconv.Itoa(i%groups), -1
	}
}

// costRounds is how often each variant of a cost is measured, in turn with the others; the middle one counts.
const costRounds = 3

// limitCost compares claim + settle, as the store sees them, under no limit, one and three that are never full.
func (b *bench) limitCost(ctx context.Context) error {
	n := b.n(map[string]int{kindRedis: 30_000, kindSQLite: 20_000, kindMemory: 500})
	const groups = 20
	limits := [][]store.Limit{nil, {perGroup("a", store.MaxMembers, store.ScopeInvocation)}, {
		perGroup("a", store.MaxMembers, store.ScopeInvocation), perGroup("b", store.MaxMembers, store.ScopeCommand),
		{Name: "c", By: store.ByType, Max: store.MaxMembers},
	}}
	for _, batch := range []int{10, 100} {
		var rounds [3][]Row
		for range costRounds {
			for i, ls := range limits {
				r, err := b.cost(ctx, n, groups, batch, batch, ls)
				if err != nil {
					return err
				}
				r.Variant = fmt.Sprintf("uncontended limits=%d batch=%d", len(ls), batch)
				rounds[i] = append(rounds[i], r)
			}
		}
		base := middle(rounds[0])
		for i := range limits {
			r := middle(rounds[i])
			if i > 0 {
				r.Note = fmt.Sprintf("%+.1f %% to the cost without", 100*(r.cpu()/base.cpu()-1))
			}
			if err := b.opt.Show(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// cpu is what one command cost the store: its own time, or that of the process that it lives in.
func (r Row) cpu() float64 {
	if r.StoreCPU > 0 {
		return r.StoreCPU
	}
	return r.ClientCPU
}

func middle(rows []Row) Row {
	slices.SortFunc(rows, func(a, b Row) int {
		switch {
		case a.cpu() < b.cpu():
			return -1
		case a.cpu() > b.cpu():
			return 1
		}
		return 0
	})
	return rows[len(rows)/2]
}

// cost claims and settles n commands over the store's own calls, up to batch of them at a time; free is what each claim asks for.
func (b *bench) cost(ctx context.Context, n, groups, batch, free int, limits []store.Limit) (r Row, err error) {
	err = b.on(ctx, func(s *site) error {
		if err := s.configure(ctx, limits...); err != nil {
			return err
		}
		if err := s.fill(ctx, n, inGroups(groups)); err != nil {
			return err
		}
		u, err := b.measure(ctx, func() error { return s.drive(ctx, n, batch, free) })
		r = b.row(Limits, "", n, u)
		return err
	})
	return r, err
}

// drive claims and settles until n commands are done.
func (s *site) drive(ctx context.Context, n, batch, free int) error {
	st := s.calls.Store
	for done, idle := 0, 0; done < n; {
		reply, err := st.Claim(ctx, store.ClaimRequest{
			Worker: "bench", Nonce: fmt.Sprintf("bench%010d", done*10+idle%10), Free: [2]int{free, 0},
			Wants: []store.Want{{Queue: "bench", Lane: store.Intake, Max: free, Types: []store.TypeWant{{Type: "noop"}}}},
		})
		if err != nil {
			return err
		}
		var items []store.Settlement
		for _, g := range reply.Grants {
			for _, c := range g.Items {
				items = append(items, store.Settlement{ID: c.ID, Lease: c.Lease, Kind: store.OutcomeDone})
			}
		}
		if len(items) == 0 {
			if idle++; idle > 1000 {
				return fmt.Errorf("nothing is granted, %d of %d are done: %+v", done, n, reply.Wants)
			}
			if err := pause(ctx, time.Millisecond); err != nil {
				return err
			}
			continue
		}
		idle = 0
		for part := range slices.Chunk(items, batch) {
			results, err := st.Settle(ctx, store.SettleRequest{Worker: "bench", Items: part})
			if err != nil {
				return err
			}
			for _, r := range results {
				if r.State != store.SettleDone || r.Err != nil {
					return fmt.Errorf("a settle was answered with %s, %v", r.State, r.Err)
				}
			}
		}
		done += len(items)
	}
	return nil
}

// limitContended lets each settle make room in a full key for which a line waits: what a release costs beyond claim and settle.
func (b *bench) limitContended(ctx context.Context) error {
	n := b.n(map[string]int{kindRedis: 30_000, kindSQLite: 20_000, kindMemory: 500})
	groups := min(100, n/5)
	var rounds [2][]Row
	for range costRounds {
		for i, ls := range [][]store.Limit{nil, {perGroup("a", 1, store.ScopeInvocation)}} {
			free := groups
			if ls != nil {
				free = 2 * groups // after one of each group it meets the full keys
			}
			r, err := b.cost(ctx, n, groups, groups, free, ls)
			if err != nil {
				return err
			}
			r.Variant = [...]string{"contended limits=0", "contended limits=1"}[i]
			rounds[i] = append(rounds[i], r)
		}
	}
	base, full := middle(rounds[0]), middle(rounds[1])
	full.Note = fmt.Sprintf("%+.1f us for each release", full.cpu()-base.cpu())
	return errors.Join(b.opt.Show(base), b.opt.Show(full))
}

// limitBlocked measures a worker that has nothing to do but n lines which wait for full keys: one key each, and one key for all.
func (b *bench) limitBlocked(ctx context.Context) error {
	n := b.n(map[string]int{kindRedis: 10_000, kindSQLite: 10_000, kindMemory: 100})
	const watched = 10 * time.Second
	d := watched
	if b.target.kind == kindMemory {
		d = 2 * time.Second
	}
	for _, blocked := range []struct {
		variant string
		limit   store.Limit
		holders int
	}{
		{"none", store.Limit{}, 0},
		{fmt.Sprintf("lines=%d keys=%d", n, n), perGroup("a", 1, store.ScopeCommand), n},
		{fmt.Sprintf("lines=%d keys=1", n), store.Limit{Name: "a", Max: 1, Scope: store.ScopeCommand}, 1},
	} {
		if err := b.on(ctx, func(s *site) (err error) {
			stop, err := s.holdAndWait(ctx, blocked.limit, blocked.holders, n)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, stop()) }()
			if err := pause(ctx, 2*time.Second); err != nil {
				return err
			}
			calls := s.calls.calls.Load()
			u, err := b.measure(ctx, func() error { return pause(ctx, d) })
			if err != nil {
				return err
			}
			return b.opt.Show(Row{
				Row: Limits, Variant: "blocked " + blocked.variant, Store: b.target.label, N: n, CPUPercent: u.cpuPercent(),
				CallsPerSecond: float64(s.calls.calls.Load()-calls) / u.took.Seconds(),
				Note:           fmt.Sprintf("%.2f %% of a core in the store", 100*u.store.Seconds()/u.took.Seconds()),
			})
		}); err != nil {
			return err
		}
	}
	return nil
}

// holdAndWait parks holders that fill a limit of scope command, and lets n lines of one command wait for it, before a worker that runs until stop.
func (s *site) holdAndWait(ctx context.Context, limit store.Limit, holders, n int) (stop func() error, err error) {
	if holders == 0 {
		return s.parker(newCountdown(1, make(chan struct{})))
	}
	if err := s.configure(ctx, limit); err != nil {
		return nil, err
	}
	if err := s.fill(ctx, holders, func(i int, sub *twolane.Submission) { sub.Type, sub.Group = "park", "g"+strconv.Itoa(i) }); err != nil {
		return nil, err
	}
	parked := make(chan struct{})
	if stop, err = s.parker(newCountdown(holders, parked)); err != nil {
		return nil, err
	}
	fail := func(err error) (func() error, error) { return nil, errors.Join(err, stop()) }
	select {
	case <-parked:
	case <-ctx.Done():
		return fail(context.Cause(ctx))
	}
	if err := s.until(ctx, "bench", func(q store.QueueStats) bool { return q.Lanes[store.Repoll].InLine == holders }); err != nil {
		return fail(err)
	}
	if err := s.fill(ctx, n, func(i int, sub *twolane.Submission) { sub.Type, sub.Group = "park", "g"+strconv.Itoa(i) }); err != nil {
		return fail(err)
	}
	// Filed lines are counted up to a hundred: wait until every one was refused.
	all := min(n, 100)
	if err := s.until(ctx, "bench", func(q store.QueueStats) bool {
		return q.Lanes[store.Intake].Filed >= all && q.Lanes[store.Intake].Leased == 0
	}); err != nil {
		return fail(err)
	}
	return stop, nil
}

// limitRoom measures from the step that makes room in one of many keys to the start of the handler that waited for it.
func (b *bench) limitRoom(ctx context.Context) error {
	keys := b.n(map[string]int{kindRedis: 10_000, kindSQLite: 10_000, kindMemory: 200})
	releases := min(keys, 2_000)
	return b.on(ctx, func(s *site) (err error) {
		if err := s.configure(ctx, perGroup("a", 1, store.ScopeCommand)); err != nil {
			return err
		}
		begun := time.Now()
		sent, took := make([]atomic.Int64, keys), make([]float64, 0, releases)
		started := make(chan float64, keys)
		parked := make(chan struct{})
		holders := newCountdown(keys, parked)
		stop, err := s.worker(twolane.WorkerConfig{
			Queues: []twolane.QueueShare{{Name: "bench"}}, Concurrency: twolane.Lanes{Intake: processPermits, Repoll: 1},
		}, func(w *twolane.Worker) {
			twolane.Handle(w, "hold", twolane.Handler[int, []byte]{Execute: func(context.Context, *twolane.Job[int, []byte]) (twolane.Outcome, error) {
				holders.one()
				return twolane.Processing(nil, 24*time.Hour), nil
			}, Check: func(context.Context, *twolane.Job[int, []byte]) (twolane.Outcome, error) {
				return twolane.Processing(nil, 24*time.Hour), nil
			}})
			twolane.HandleFunc(w, "wait", func(_ context.Context, job *twolane.Job[int, []byte]) (any, error) {
				started <- float64(time.Since(begun)-time.Duration(sent[job.Params].Load())) / float64(time.Millisecond)
				return nil, nil
			})
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		member := func(typ string) func(i int, sub *twolane.Submission) {
			return func(i int, sub *twolane.Submission) {
				sub.Type, sub.Params, sub.Group, sub.ID = typ, i, "g"+strconv.Itoa(i), typ+strconv.Itoa(i)
			}
		}
		if err := s.fill(ctx, keys, member("hold")); err != nil {
			return err
		}
		select {
		case <-parked:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := s.until(ctx, "bench", func(q store.QueueStats) bool { return q.Lanes[store.Repoll].InLine == keys }); err != nil {
			return err
		}
		if err := s.fill(ctx, keys, member("wait")); err != nil {
			return err
		}
		if err := pause(ctx, 3*time.Second); err != nil { // all are refused and filed
			return err
		}
		u, err := b.measure(ctx, func() error {
			pace := time.NewTicker(5 * time.Millisecond)
			defer pace.Stop()
			for i := range releases {
				select {
				case <-pace.C:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				k := i * (keys / releases)
				sent[k].Store(int64(time.Since(begun)))
				if _, err := s.client.Cancel(ctx, []string{"hold" + strconv.Itoa(k)}, nil); err != nil {
					return err
				}
			}
			for range releases {
				select {
				case ms := <-started:
					took = append(took, ms)
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		r := b.row(Limits, fmt.Sprintf("room to start keys=%d", keys), releases, u)
		r.quantiles(took)
		return b.opt.Show(r)
	})
}
