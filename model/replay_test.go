package model_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/twolane/twolane/model"
	"github.com/twolane/twolane/store"
)

const steps = 250 // of a walk

// seeds is how many walks are made on a store.
func (s *kindOfStore) seeds() int {
	switch {
	case os.Getenv("TWOLANE_MODEL") == "full":
		return s.walks * 10
	case testing.Short() || model.RaceEnabled:
		return s.walks / 4
	}
	return s.walks
}

// The walks of the model hold on each store: each answer, each record after each operation, and the audit.
func TestWalks(t *testing.T) {
	for _, kind := range stores {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			seen := sights{}
			for seed := range kind.seeds() {
				walk := model.Walk(uint64(seed), steps)
				s := kind.open(t)
				if d := newReplay(t, s, walk).run(); d != "" {
					t.Fatalf("seed %d: %s", seed, d)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				for _, op := range walk.Ops {
					seen.note(op)
				}
			}
			if kind.walks >= 100 {
				seen.want(t, "visit", "two losses", "cancel 3", "settle unknown", "renew refused", "claim of one")
			}
			seen.want(t, usual...)
			t.Logf("%d walks of %d operations: %v", kind.seeds(), steps, seen)
		})
	}
}

// usual is what walks show. A walk that never gets somewhere proves nothing about it.
var usual = []string{
	"settle done", "settle already", "settle lost", "renew lost", "renew cancel", "loss", "repeat", "resubmit", "SUCCEEDED", "FAILED error",
	"FAILED deadline_exceeded", "CANCELLED", "cancel 1", "cancel 2", "cancel 4", "paused",
}

// sights counts what walks have shown.
type sights map[string]int

func (s sights) note(op model.Op) {
	for _, what := range tell(op) {
		s[what]++
	}
}

func (s sights) want(t *testing.T, all ...string) {
	t.Helper()
	for _, what := range all {
		if s[what] == 0 {
			t.Errorf("no walk had: %s", what)
		}
	}
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
	case model.OpLimits:
		out = append(out, fmt.Sprintf("%d limits", len(op.Limits)))
	}
	if slices.ContainsFunc(op.Members, func(n int) bool { return n > 1 }) {
		out = append(out, "two members")
	}
	for _, v := range op.After {
		if v.Status.Terminal() {
			out = append(out, strings.TrimSpace(v.Status.String()+" "+v.Reason.String()))
		}
		if v.Status == model.Pending && v.Place != model.Leased && len(v.Holds) > 0 {
			out = append(out, "holder")
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
	t        *testing.T
	s        store.Store
	walk     *model.Trajectory // its operations, or those so far
	commands []model.WalkCommand
	queues   int
	now      store.Millis
	names    map[model.LeaseRef]store.LeaseName
	limits   []model.WalkLimit // in force
}

func newReplay(t *testing.T, s store.Store, walk *model.Trajectory) *replay {
	return &replay{t: t, s: s, walk: walk, commands: walk.Commands, queues: walk.Queues, now: 2_000_000_000_000, names: map[model.LeaseRef]store.LeaseName{}}
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
	r.begin()
	for n, op := range r.walk.Ops {
		got := model.Want{}
		r.do(op, &got)
		if d := r.compare(op, got); d != "" {
			return r.say(n, d)
		}
	}
	return r.audit()
}

func (r *replay) begin() {
	clock := r.s.(store.Clocker)
	r.must(clock.SetClock(r.t.Context(), r.now))
	_, err := r.s.Maintain(r.t.Context())
	r.must(err)
	for q := range r.queues {
		r.configure(func(c *store.QueueConfig) { c.CancelFor = model.WalkDelay(model.WalkCancelFor) }, q)
	}
}

// compare holds the answer of an operation, and what is there after it, against the model.
func (r *replay) compare(op model.Op, got model.Want) string {
	slices.Sort(got.Granted)
	want := op.Want
	want.Granted = slices.Clone(want.Granted)
	slices.Sort(want.Granted)
	return cmp.Diff(want, got, cmpopts.EquateEmpty()) + cmp.Diff(op.After, r.views(op)) + cmp.Diff(op.Members, r.members())
}

// say tells what was different after operation n, and how it came to it.
func (r *replay) say(n int, what string) string {
	var b strings.Builder
	for _, o := range r.walk.Ops[:n+1] {
		fmt.Fprintln(&b, o)
	}
	return fmt.Sprintf("operation %d (-model +store):\n%s\n%s", n, what, b.String())
}

func (r *replay) audit() string {
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
	case model.OpLimits:
		r.limit(op.Limits)
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
	c := r.commands[op.Command]
	sub := store.Submission{ID: commandID(op.Command), Queue: queueName(c.Queue), Type: typeName(c.Type)}
	for l := range 8 {
		if c.Keys&(1<<l) != 0 {
			sub.Keys = append(sub.Keys, store.Key{Name: fmt.Sprintf("k%d", l), Value: "v"})
		}
	}
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
		HasHook: r.commands[op.Lease.Command].Hook, Again: op.Again, Unstarted: op.Unstarted,
	}}})
	r.must(err)
	r.must(res[0].Err)
	got.Answer = model.Answer(res[0].State - store.SettleDone)
}

// views reads all commands.
func (r *replay) views(op model.Op) []model.View {
	var ids []string
	for i := range r.commands {
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
			v.Holds = r.holds(c)
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
