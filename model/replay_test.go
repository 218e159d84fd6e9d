package model_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/twolane/twolane/model"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/memstore"
)

// The walks of the model hold on the memory store: each answer, each record after each operation, and the audit.
func TestWalksOnMemstore(t *testing.T) {
	seeds, steps := 400, 250
	if testing.Short() || model.RaceEnabled {
		seeds = 100
	}
	seen := map[string]int{}
	for seed := range seeds {
		walk := model.Walk(uint64(seed), steps)
		s := memstore.New()
		if d := newReplay(t, s, walk).run(); d != "" {
			t.Fatalf("seed %d: %s", seed, d)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for _, op := range walk.Ops {
			for _, what := range tell(op) {
				seen[what]++
			}
		}
	}
	// A walk that never gets somewhere proves nothing about it.
	for _, what := range []string{
		"settle done", "settle already", "settle lost", "settle unknown", "renew lost", "renew refused", "renew cancel", "visit",
		"loss", "two losses", "repeat", "resubmit", "SUCCEEDED", "FAILED error", "FAILED deadline_exceeded", "CANCELLED",
		"cancel 1", "cancel 2", "cancel 3", "cancel 4", "claim of one", "paused",
	} {
		if seen[what] == 0 {
			t.Errorf("no walk had: %s", what)
		}
	}
	t.Logf("%d walks of %d operations: %v", seeds, steps, seen)
}

// tell names what an operation shows.
func tell(op model.Op) (out []string) {
	switch op.Kind {
	case model.OpSettle:
		out = append(out, "settle "+op.Want.Answer.String())
		if op.Visit {
			out = append(out, "visit")
		}
	case model.OpRenew:
		for _, r := range op.Want.Renewed {
			switch {
			case r.Answer == model.Lost:
				out = append(out, "renew lost")
			case r.Refused:
				out = append(out, "renew refused")
			case r.Cancel:
				out = append(out, "renew cancel")
			}
		}
	case model.OpRepeat:
		if len(op.Want.Granted) > 0 {
			out = append(out, "repeat")
		}
	case model.OpClaim:
		if op.Free[0] == 1 {
			out = append(out, "claim of one")
		}
	case model.OpSubmit:
		if !op.Want.Created {
			out = append(out, "resubmit")
		}
	case model.OpCancel:
		out = append(out, fmt.Sprintf("cancel %d", op.Want.Cancel))
	case model.OpPause:
		if op.Pause > 0 {
			out = append(out, "paused")
		}
	}
	for _, v := range op.After {
		if v.Status.Terminal() {
			out = append(out, strings.TrimSpace(v.Status.String()+" "+v.Reason.String()))
		}
		switch {
		case v.Losses == 1:
			out = append(out, "loss")
		case v.Losses > 1:
			out = append(out, "two losses")
		}
	}
	return out
}

type replay struct {
	t     *testing.T
	s     store.Store
	walk  *model.Trajectory
	now   store.Millis
	names map[model.LeaseRef]store.LeaseName
}

func newReplay(t *testing.T, s store.Store, walk *model.Trajectory) *replay {
	return &replay{t: t, s: s, walk: walk, now: 2_000_000_000_000, names: map[model.LeaseRef]store.LeaseName{}}
}

func (r *replay) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *replay) configure(change func(q *store.QueueConfig), queues ...int) {
	r.t.Helper()
	cfg, err := r.s.Config(r.t.Context())
	r.must(err)
	if cfg.Queues == nil {
		cfg.Queues = map[string]store.QueueConfig{}
	}
	cfg.Visibility = model.WalkV
	for _, q := range queues {
		c := cfg.Queues[queueName(q)]
		change(&c)
		cfg.Queues[queueName(q)] = c
	}
	_, err = r.s.Configure(r.t.Context(), cfg.Version, cfg)
	r.must(err)
}

func queueName(q int) string      { return fmt.Sprintf("q%d", q) }
func typeName(t int) string       { return fmt.Sprintf("t%d", t) }
func commandID(c int) string      { return fmt.Sprintf("c%d", c) }
func workerID(op model.Op) string { return fmt.Sprintf("w%d.%d", op.Worker, op.Incarnation) }
func nonce(claim int) string      { return fmt.Sprintf("nonce%06d", claim) }

// run plays the walk and says what the store did differently.
func (r *replay) run() string {
	clock := r.s.(store.Clocker)
	r.must(clock.SetClock(r.t.Context(), r.now))
	_, err := r.s.Maintain(r.t.Context())
	r.must(err)
	for q := range r.walk.Queues {
		r.configure(func(c *store.QueueConfig) { c.CancelFor = model.WalkDelay(model.WalkCancelFor) }, q)
	}
	for n, op := range r.walk.Ops {
		got := model.Want{}
		r.do(op, &got)
		slices.Sort(got.Granted)
		want := op.Want
		want.Granted = slices.Clone(want.Granted)
		slices.Sort(want.Granted)
		views := r.views(op)
		if d := cmp.Diff(want, got) + cmp.Diff(op.After, views); d != "" {
			var b strings.Builder
			for _, o := range r.walk.Ops[:n+1] {
				fmt.Fprintln(&b, o)
			}
			return fmt.Sprintf("operation %d (-model +store):\n%s\n%s", n, d, b.String())
		}
	}
	rep, err := r.s.Audit(r.t.Context())
	r.must(err)
	if len(rep.Violations) > 0 {
		return fmt.Sprintf("audit: %q", rep.Violations)
	}
	return ""
}

func (r *replay) do(op model.Op, got *model.Want) {
	ctx := r.t.Context()
	switch op.Kind {
	case model.OpSubmit:
		r.submit(ctx, op, got)
	case model.OpClaim, model.OpRepeat:
		r.claim(ctx, op, got)
	case model.OpRenew:
		r.renew(ctx, op, got)
	case model.OpSettle:
		r.settle(ctx, op, got)
	case model.OpCancel:
		res, err := r.s.Cancel(ctx, store.CancelRequest{IDs: []string{commandID(op.Command)}, Force: op.Force})
		r.must(err)
		got.Cancel = model.CancelAnswer(res[0].State)
	case model.OpDelete:
		rep, err := r.s.Act(ctx, store.ActRequest{Kind: store.ActDelete, IDs: []string{commandID(op.Command)}, Force: true})
		r.must(err)
		got.Found = rep.Results[0] == nil
	case model.OpPause:
		r.configure(func(q *store.QueueConfig) { q.Pause = store.PauseMode(op.Pause) }, op.Queue)
	case model.OpTick:
		r.now = r.now.Add(model.WalkTick)
		r.must(r.s.(store.Clocker).SetClock(ctx, r.now))
		for more := true; more; {
			rep, err := r.s.Maintain(ctx)
			r.must(err)
			more = rep.More
		}
	default:
		r.t.Fatalf("unknown operation %d", op.Kind)
	}
}

func (r *replay) submit(ctx context.Context, op model.Op, got *model.Want) {
	c := r.walk.Commands[op.Command]
	sub := store.Submission{ID: commandID(op.Command), Queue: queueName(c.Queue), Type: typeName(c.Type)}
	if op.Delay > 0 {
		sub.NotBefore = r.now.Add(model.WalkDelay(op.Delay))
	}
	if op.Deadline > 0 {
		sub.Deadline = r.now.Add(model.WalkDelay(op.Deadline))
	}
	res, err := r.s.Submit(ctx, store.SubmitRequest{Items: []store.Submission{sub}})
	r.must(err)
	r.must(res[0].Err)
	got.Created = res[0].Created
}

func (r *replay) claim(ctx context.Context, op model.Op, got *model.Want) {
	req := store.ClaimRequest{Worker: workerID(op), Nonce: nonce(op.Claim), Free: op.Free}
	for _, q := range op.Queues {
		for _, lane := range store.Lanes {
			want := store.Want{Queue: queueName(q), Lane: lane, Max: op.Free[lane]}
			for _, t := range op.Types {
				want.Types = append(want.Types, store.TypeWant{Type: typeName(t)})
			}
			req.Wants = append(req.Wants, want)
		}
	}
	rep, err := r.s.Claim(ctx, req)
	r.must(err)
	for _, g := range rep.Grants {
		for _, c := range g.Items {
			var i int
			_, err := fmt.Sscanf(c.ID, "c%d", &i)
			r.must(err)
			got.Granted = append(got.Granted, i)
			r.names[model.LeaseRef{Command: i, Claim: op.Claim}] = c.Lease
		}
	}
}

func (r *replay) renew(ctx context.Context, op model.Op, got *model.Want) {
	req := store.RenewRequest{Worker: store.Worker{ID: workerID(op)}}
	for _, l := range op.Leases {
		req.Leases = append(req.Leases, store.RenewItem{ID: commandID(l.Command), Lease: r.names[l]})
	}
	rep, err := r.s.Renew(ctx, req)
	r.must(err)
	for _, res := range rep.Results {
		re := model.Renewal{Cancel: res.Cancel, Refused: res.State == store.RenewRefused}
		if res.State == store.RenewLost {
			re.Answer = model.Lost
		}
		got.Renewed = append(got.Renewed, re)
	}
}

var outcomes = map[model.Outcome]store.OutcomeKind{
	model.Done: store.OutcomeDone, model.Fail: store.OutcomeFail, model.Retry: store.OutcomeRetry, model.Snooze: store.OutcomeSnooze,
	model.Process: store.OutcomeProcessing, model.Visited: store.OutcomeCancelled, model.VisitFail: store.OutcomeCancelRetry,
	model.GiveBack: store.OutcomeGiveBack,
}

func (r *replay) settle(ctx context.Context, op model.Op, got *model.Want) {
	res, err := r.s.Settle(ctx, store.SettleRequest{Worker: workerID(op), Items: []store.Settlement{{
		ID: commandID(op.Lease.Command), Lease: r.names[op.Lease], Kind: outcomes[op.Outcome], Delay: model.WalkDelay(op.Delay),
		HasHook: r.walk.Commands[op.Lease.Command].Hook, Again: op.Again,
	}}})
	r.must(err)
	r.must(res[0].Err)
	got.Answer = model.Answer(res[0].State - store.SettleDone)
}

// views reads all commands.
func (r *replay) views(op model.Op) []model.View {
	var ids []string
	for i := range r.walk.Commands {
		ids = append(ids, commandID(i))
	}
	cmds, err := r.s.Get(r.t.Context(), ids, store.GetOptions{})
	r.must(err)
	st, err := r.s.Stats(r.t.Context(), store.StatsRequest{})
	r.must(err)
	var out []model.View
	for i, c := range cmds {
		want := op.After[i]
		if c == nil {
			out = append(out, model.View{})
			continue
		}
		v := model.View{Status: model.Status(c.Status), Place: place(c, st.Run), Reason: reasons[c.Reason]}
		if !c.Status.Terminal() {
			v.Starts, v.Failures, v.Losses, v.Polls = c.Starts, c.Failures, c.Losses, c.Polls
			v.CancelAsked = c.CancelAsked != 0
			if c.Place == store.Leased {
				v.Lease = want.Lease
				if r.names[want.Lease] != c.Lease {
					v.Lease = model.LeaseRef{Command: i, Claim: -1}
				}
			}
			if v.Resting = c.Losses >= 2 && c.Place != store.Leased; v.Resting {
				v.Place = want.Place
			}
		}
		out = append(out, v)
	}
	return out
}

var reasons = map[store.Reason]model.Reason{
	"": model.NoReason, store.ReasonError: model.ByHandler, store.ReasonWorkerLost: model.WorkerLost, store.ReasonDeadline: model.DeadlineExceeded,
}

func place(c *store.Command, run store.Millis) model.Place {
	switch {
	case c.Place == store.Leased:
		return model.Leased
	case c.Place == store.Scheduled:
		return model.Scheduled
	case c.Place == store.InLine && c.Status == store.Processing && c.Due > run:
		return model.Parked
	case c.Place == store.InLine:
		return model.Ready
	}
	return model.Nowhere
}
