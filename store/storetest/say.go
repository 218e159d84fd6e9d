package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/twolane/twolane/store"
)

// sub makes a submission to queue "q" of type "t".
func sub(id string, change ...func(*store.Submission)) store.Submission {
	s := store.Submission{ID: id, Queue: "q", Type: "t", Params: []byte(`{"id":"` + id + `"}`)}
	for _, c := range change {
		c(&s)
	}
	return s
}

// many makes n submissions prefix-0000 and so on.
func many(prefix string, n int, change ...func(*store.Submission)) []store.Submission {
	var all []store.Submission
	for i := range n {
		all = append(all, sub(fmt.Sprintf("%s-%04d", prefix, i), change...))
	}
	return all
}

// submit adds commands and fails if one is refused.
func (f *fixture) submit(items ...store.Submission) {
	f.Helper()
	for part := range slices.Chunk(items, store.MaxItems) {
		for i, r := range f.trySubmit(part...) {
			f.check(r.Err == nil, "submit of %s: %v", part[i].ID, r.Err)
		}
	}
}

func (f *fixture) trySubmit(items ...store.Submission) []store.SubmitResult {
	f.Helper()
	rs, err := f.s.Submit(f.ctx(), store.SubmitRequest{Items: items})
	f.ok(err)
	f.check(len(rs) == len(items), "submit answered %d of %d items", len(rs), len(items))
	return rs
}

// claimFor is a request of worker w for n commands of type "t" from queue "q" in one lane.
func (f *fixture) claimFor(w string, lane store.Lane, n int) store.ClaimRequest {
	r := store.ClaimRequest{Worker: w, Nonce: f.drawNonce(), Wants: []store.Want{{
		Queue: "q", Lane: lane, Max: n, Suspect: true, Types: []store.TypeWant{{Type: "t"}},
	}}}
	r.Free[lane] = n
	return r
}

func (f *fixture) tryClaim(r store.ClaimRequest) store.ClaimReply {
	f.Helper()
	reply, err := f.s.Claim(f.ctx(), r)
	f.ok(err)
	f.check(len(reply.Wants) == len(r.Wants), "claim reported on %d of %d wants", len(reply.Wants), len(r.Wants))
	f.granted += len(reply.Grants)
	return reply
}

// claimAll repeats a request, each time with a new nonce and what is left of its bounds, until the store says that nothing else is to be had now.
func (f *fixture) claimAll(r store.ClaimRequest) []store.Grant {
	f.Helper()
	r.Wants = slices.Clone(r.Wants)
	var all []store.Grant
	for range 10_000 {
		reply := f.tryClaim(r)
		all = append(all, reply.Grants...)
		more, left := reply.More, 0
		for i, w := range reply.Wants {
			more = more || w.Why == store.WhyMore
			r.Wants[i].Max -= w.Granted
			r.Wants[i].Turn += w.Granted
			left += r.Wants[i].Max
		}
		for _, g := range reply.Grants {
			r.Free[g.Lane]--
		}
		if !more || left == 0 || r.Free == [2]int{} {
			return all
		}
		r.Nonce = f.drawNonce()
	}
	f.Fatal("claims never end: there is always more")
	return nil
}

// claim leases up to n commands of type "t" in queue "q" for worker w.
func (f *fixture) claim(w string, lane store.Lane, n int) []*store.Command {
	f.Helper()
	return items(f.claimAll(f.claimFor(w, lane, n)))
}

// claim1 leases the one command that is there to be leased, and checks that it is id.
func (f *fixture) claim1(w string, lane store.Lane, id string) *store.Command {
	f.Helper()
	cs := f.claim(w, lane, 1)
	f.check(len(cs) == 1, "%s in lane %s is not claimed; stored is %s", id, lane, show(f.get(id)))
	f.check(cs[0].ID == id, "%s is claimed, not %s", cs[0].ID, id)
	return cs[0]
}

// start submits a command and claims it.
func (f *fixture) start(id string, change ...func(*store.Submission)) *store.Command {
	f.Helper()
	f.submit(sub(id, change...))
	return f.claim1("w1", store.Intake, id)
}

// park brings a new command to PROCESSING with a state, due now.
func (f *fixture) park(id string, change ...func(*store.Settlement)) *store.Command {
	f.Helper()
	c := f.start(id)
	f.settle(c, store.OutcomeProcessing, append([]func(*store.Settlement){state("s0")}, change...)...)
	return f.get(id)
}

func items(grants []store.Grant) []*store.Command {
	var all []*store.Command
	for _, g := range grants {
		all = append(all, g.Items...)
	}
	return all
}

func ids(cs []*store.Command) []string {
	var all []string
	for _, c := range cs {
		all = append(all, c.ID)
	}
	return all
}

// trySettle settles the lease that c carries.
func (f *fixture) trySettle(c *store.Command, kind store.OutcomeKind, change ...func(*store.Settlement)) store.SettleResult {
	f.Helper()
	st := store.Settlement{ID: c.ID, Lease: c.Lease, Kind: kind}
	for _, ch := range change {
		ch(&st)
	}
	rs, err := f.s.Settle(f.ctx(), store.SettleRequest{Worker: c.Owner, Items: []store.Settlement{st}})
	f.ok(err)
	f.check(len(rs) == 1, "settle answered %d of 1 items", len(rs))
	f.check(rs[0].State != store.SettleDone || rs[0].Err != nil || len(rs[0].FollowUps) == len(st.FollowUps), "settle answered %d of %d follow-ups", len(rs[0].FollowUps), len(st.FollowUps))
	return rs[0]
}

// settle settles the lease that c carries and fails unless this call did it.
func (f *fixture) settle(c *store.Command, kind store.OutcomeKind, change ...func(*store.Settlement)) store.SettleResult {
	f.Helper()
	r := f.trySettle(c, kind, change...)
	f.check(r.State == store.SettleDone && r.Err == nil, "settle of %s with %s: %s, %v; stored is %s", c.ID, kind, r.State, r.Err, show(f.get(c.ID)))
	return r
}

// renew sends a heartbeat of w with the leases that cs carry.
func (f *fixture) renew(w string, cs ...*store.Command) []store.RenewResult {
	f.Helper()
	req := store.RenewRequest{Worker: store.Worker{ID: w, Queues: []string{"q"}, Types: [2][]string{{"t"}, {"t"}}}}
	for _, c := range cs {
		req.Leases = append(req.Leases, store.RenewItem{ID: c.ID, Lease: c.Lease})
	}
	r, err := f.s.Renew(f.ctx(), req)
	f.ok(err)
	f.check(len(r.Results) == len(cs), "renew answered %d of %d leases", len(r.Results), len(cs))
	return r.Results
}

// get reads a command; nil if there is none.
func (f *fixture) get(id string) *store.Command {
	f.Helper()
	cs, err := f.s.Get(f.ctx(), []string{id}, store.GetOptions{})
	f.ok(err)
	f.check(len(cs) == 1, "get answered %d of 1 ids", len(cs))
	return cs[0]
}

// is checks status and place of a command and returns it.
func (f *fixture) is(id string, status store.Status, place store.Place) *store.Command {
	f.Helper()
	c := f.get(id)
	f.check(c != nil && c.Status == status && c.Place == place, "%s is not %s/%s but %s", id, status, place, show(c))
	return c
}

// failed checks that a command is FAILED with a reason and returns it.
func (f *fixture) failed(id string, reason store.Reason) *store.Command {
	f.Helper()
	c := f.is(id, store.Failed, store.Nowhere)
	f.check(c.Reason == reason, "%s failed with reason %q, not %q", id, c.Reason, reason)
	return c
}

func (f *fixture) cancel(id string) store.CancelResult {
	f.Helper()
	return f.tryCancel(store.CancelRequest{IDs: []string{id}, Reason: "test"})[0]
}

func (f *fixture) tryCancel(r store.CancelRequest) []store.CancelResult {
	f.Helper()
	rs, err := f.s.Cancel(f.ctx(), r)
	f.ok(err)
	f.check(len(rs) == len(r.IDs), "cancel answered %d of %d ids", len(rs), len(r.IDs))
	return rs
}

// act does operator work on one id and returns its error.
func (f *fixture) act(kind store.ActKind, id string, change ...func(*store.ActRequest)) error {
	f.Helper()
	req := store.ActRequest{Kind: kind, IDs: []string{id}, By: "test"}
	for _, c := range change {
		c(&req)
	}
	r, err := f.s.Act(f.ctx(), req)
	f.ok(err)
	f.check(len(r.Results) == 1, "act answered %d of 1 ids", len(r.Results))
	f.check((r.Results[0] == nil) == (r.Done == 1), "act says done %d and %v", r.Done, r.Results[0])
	return r.Results[0]
}

func (f *fixture) stats() store.Stats {
	f.Helper()
	s, err := f.s.Stats(f.ctx(), store.StatsRequest{Queues: []string{"q"}})
	f.ok(err)
	return s
}

// lane reads the numbers of one lane of queue "q".
func (f *fixture) lane(l store.Lane) store.LaneStats {
	f.Helper()
	s := f.stats()
	f.check(len(s.Queues) == 1 && s.Queues[0].Queue == "q", "stats of q are about %v", s.Queues)
	return s.Queues[0].Lanes[l]
}

// wrong reports an error that is not the one expected.
func (f *fixture) wrong(err, want error) {
	f.Helper()
	f.check(errors.Is(err, want), "error is %v, not %v", err, want)
}

// show says in one line what matters about a command.
func show(c *store.Command) string {
	if c == nil {
		return "no command"
	}
	return fmt.Sprintf("%s %s%s/%s lease %q until %d due %d starts %d failures %d losses %d polls %d cancel %d/%d error %q",
		c.ID, c.Status, c.Reason, c.Place, c.Lease, c.LeaseUntil, c.Due, c.Starts, c.Failures, c.Losses, c.Polls, c.CancelAsked, c.CancelUntil, c.Error)
}

// Changes of a settlement.

func state(s string) func(*store.Settlement) {
	return func(x *store.Settlement) { x.SetState, x.State = true, []byte(s) }
}

func delay(d time.Duration) func(*store.Settlement) {
	return func(x *store.Settlement) { x.Delay = d }
}

func errText(s string) func(*store.Settlement) { return func(x *store.Settlement) { x.Error = s } }

func hook(x *store.Settlement) { x.HasHook = true }

func isErr(err, want error) bool { return errors.Is(err, want) }

// outbox reads what a topic shows, hiding nothing.
func (f *fixture) outbox(topic string, ack ...uint64) []store.OutboxEntry {
	f.Helper()
	es, err := f.s.Outbox(f.ctx(), store.OutboxRequest{Topic: topic, Ack: ack, Max: 1000})
	f.ok(err)
	return es
}

// same fails the case if two values differ in more than empty against nil.
func (f *fixture) same(want, got any) {
	f.Helper()
	if d := cmp.Diff(want, got, emptyIsNil); d != "" {
		f.Fatalf("differs (-want +got):\n%s", d)
	}
}

func isInvalid(err error, inv **store.InvalidError) bool { return errors.As(err, inv) }
