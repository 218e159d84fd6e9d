package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/faultstore"
)

// settle settles up to three leases, current ones rather than old ones.
func (d *duo) settle(rt *rapid.T) {
	d.rt = rt
	if len(d.pairs) == 0 {
		rt.Skip("no lease yet")
	}
	recent := d.pairs[max(0, len(d.pairs)-8):]
	var a, b store.SettleRequest
	for range rapid.IntRange(1, 3).Draw(rt, "items") {
		p := one(rt, "lease", recent...)
		kinds := slices.Clone(outcomes)
		if p.lane == store.Repoll { // a throttle there would show which of several equals the store chose
			kinds = kinds[:len(kinds)-1]
		}
		st := store.Settlement{
			ID: p.id, Kind: one(rt, "kind", append(kinds, store.OutcomeDone, store.OutcomeProcessing, store.OutcomeProcessing)...), Error: one(rt, "error", "", "boom"),
			HasHook: one(rt, "hook", false, true), SetState: one(rt, "set state", false, true), State: []byte(one(rt, "state", "s1", "s2")),
			Grid: one(rt, "grid", 0, 0, 250*time.Millisecond), Decode: one(rt, "decode", false, false, true), Unstarted: one(rt, "unstarted", false, true),
			Again: one(rt, "again", false, false, true),
		}
		switch st.Kind {
		case store.OutcomeDone:
			st.Result = []byte("r")
			if one(rt, "with children", false, true) {
				for _, id := range some(rt, "children", one(rt, "kin", randomKids, randomKids, randomAll, []string{p.id}), 2) {
					st.FollowUps = append(st.FollowUps, d.submission(id))
				}
			}
		case store.OutcomeFail:
			st.Reason = one(rt, "reason", "", store.ReasonError, store.ReasonTooLarge, store.ReasonDropped)
		case store.OutcomeThrottled:
			st.Observed = one(rt, "observed", 0.0, 1, 50)
		}
		if one(rt, "with delay", false, true) {
			st.Delay = d.later(one(rt, "delay", time.Second, 10*time.Second, time.Hour))
		} else if st.Kind != store.OutcomeGiveBack {
			st.Delay = d.later(time.Second) // the floor would make equals
		}
		st.Lease = p.s
		a.Items = append(a.Items, st)
		st.Lease = p.m
		b.Items = append(b.Items, st)
	}
	lost := d.lossy(faultstore.Settle)
	got := call(d, lost, func() ([]store.SettleResult, error) { return d.s.Settle(d.ctx, a) })
	want := call(d, false, func() ([]store.SettleResult, error) { return d.m.Settle(d.ctx, b) })
	if lost {
		want = call(d, false, func() ([]store.SettleResult, error) { return d.m.Settle(d.ctx, b) })
	}
	for i := range want {
		d.equal(fmt.Sprintf("settle of %s with %s", a.Items[i].ID, a.Items[i].Kind), settleAnswer(got[i]), settleAnswer(want[i]))
	}
}

func (d *duo) cancel(rt *rapid.T) {
	d.rt = rt
	req := store.CancelRequest{
		IDs: some(rt, "ids", randomAll, 3), Reason: "why", Force: one(rt, "force", false, false, true),
	}
	got := call(d, d.lossy(faultstore.Cancel), func() ([]store.CancelResult, error) { return d.s.Cancel(d.ctx, req) })
	want := call(d, false, func() ([]store.CancelResult, error) { return d.m.Cancel(d.ctx, req) })
	d.equal(fmt.Sprintf("cancel of %+v", req), got, want)
}

func (d *duo) act(rt *rapid.T) {
	d.rt = rt
	req := store.ActRequest{
		Kind: one(rt, "kind", store.ActRetry, store.ActRetry, store.ActDelete, store.ActMove, store.ActReprioritise, store.ActRunNow),
		IDs:  some(rt, "ids", randomAll, 3),
		As:   one(rt, "as", store.AsBefore, store.AsExecute, store.AsCheck), Queue: one(rt, "to", randomQueues...), Priority: one(rt, "priority", uint8(0), 9),
		Force: one(rt, "force", false, true), By: "op",
	}
	if one(rt, "new deadline", false, true) {
		req.Deadline = d.far(time.Hour)
	}
	got, err := d.s.Act(d.ctx, req)
	d.ok(err)
	want, err := d.m.Act(d.ctx, req)
	d.ok(err)
	for i := range want.Results {
		d.equal(fmt.Sprintf("act %d on %s", req.Kind, req.IDs[i]), errAnswer(got.Results[i]), errAnswer(want.Results[i]))
	}
	d.equal("done", got.Done, want.Done)
}

func (d *duo) actOnFilter(rt *rapid.T) {
	d.rt = rt
	d.ready()
	req := store.ActRequest{
		Kind: one(rt, "kind", store.ActDelete, store.ActMove, store.ActReprioritise), Queue: one(rt, "to", randomQueues...), Priority: one(rt, "priority", uint8(0), 9),
		Force: one(rt, "force", false, false, true), Limit: one(rt, "limit", 0, 1, 3),
		Filter: &store.Filter{
			Queue: one(rt, "queue", randomQueues...), Status: one(rt, "status", store.Pending, store.Processing, store.Failed, store.Cancelled, store.Succeeded),
			Type: one(rt, "type", "", "ta"), Group: one(rt, "group", "", "", "g1"),
		},
	}
	run := func(s store.Store) (done int) {
		r := req
		for i := 0; ; i++ {
			reply, err := s.Act(d.ctx, r)
			d.ok(err)
			done += reply.Done
			if r.Cursor, r.UpTo = reply.Cursor, reply.UpTo; r.Cursor == "" {
				return done
			}
			if i > 200 {
				rt.Fatal("a filtered action never ends")
			}
		}
	}
	d.equal(fmt.Sprintf("act on %+v", *req.Filter), run(d.s), run(d.m))
}

func (d *duo) setConfig(c store.Config) {
	d.both(func(s store.Store) {
		old, err := s.Config(d.ctx)
		d.ok(err)
		_, err = s.Configure(d.ctx, old.Version, c)
		d.ok(err)
	})
}

func (d *duo) configure(rt *rapid.T) {
	d.rt = rt
	c := store.Config{Visibility: one(rt, "visibility", 0, 0, 4*time.Second), Queues: map[string]store.QueueConfig{}}
	for _, name := range randomQueues {
		q := store.QueueConfig{
			Order: d.order, Rates: [2]store.Rate{d.rate}, Pause: one(rt, "pause", store.PauseNone, store.PauseNone, store.PauseNone, store.PauseIntake, store.PauseAll),
			MaxReady: one(rt, "max ready", 0, 0, 4), Retention: one(rt, "retention", 0, 0, -1, time.Minute),
			MaxLosses: one(rt, "max losses", 0, 2, 3), CancelFor: one(rt, "cancel for", 0, 3*time.Second),
		}
		if q.Pause != store.PauseNone && one(rt, "until", false, true) {
			q.PauseUntil = d.now.Add(10 * time.Second)
		}
		c.Queues[name] = q
	}
	d.setConfig(c)
	d.dirty = true
}

func (d *duo) outbox(rt *rapid.T) {
	d.rt = rt
	req := store.OutboxRequest{Topic: "top", Max: 20, HideFor: one(rt, "hide for", store.Millis(0), 0, 5000)}
	a, err := d.s.Outbox(d.ctx, req)
	d.ok(err)
	b, err := d.m.Outbox(d.ctx, req)
	d.ok(err)
	of := func(es []store.OutboxEntry) (all []string) {
		for _, e := range es {
			all = append(all, e.Command.ID+" "+e.Command.Status.String())
		}
		slices.Sort(all)
		return all
	}
	d.equal("outbox", of(a), of(b))
	if len(a) == 0 || !one(rt, "acknowledge", true, true, false) {
		return
	}
	id := one(rt, "of", a...).Command.ID
	ack := func(s store.Store, es []store.OutboxEntry) {
		i := slices.IndexFunc(es, func(e store.OutboxEntry) bool { return e.Command.ID == id })
		_, err := s.Outbox(d.ctx, store.OutboxRequest{Topic: "top", Ack: []uint64{es[i].Seq}})
		d.ok(err)
	}
	ack(d.s, a)
	ack(d.m, b)
	d.dirty = true
}

// What of an answer has to agree.

func errAnswer(err error) string {
	if err == nil {
		return ""
	}
	var u *store.UniqueHeldError
	if errors.As(err, &u) {
		return fmt.Sprintf("unique key %s held by %s %s", u.Key, u.Holder, u.Status)
	}
	for _, known := range []error{store.ErrNotFound, store.ErrIDConflict, store.ErrQueueFull, store.ErrTooLarge, store.ErrInvalid, store.ErrState, store.ErrAborted} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return "another error: " + err.Error()
}

type submitted struct {
	Created bool
	Status  store.Status
	Err     string
}

func submitAnswer(r store.SubmitResult) submitted {
	if r.Err != nil { // the status beside an error is a courtesy
		return submitted{Err: errAnswer(r.Err)}
	}
	return submitted{r.Created, r.Status, ""}
}

type settled struct {
	State  store.SettleState
	Status store.Status
	Reason store.Reason
	Err    string
	Kids   []submitted
}

func settleAnswer(r store.SettleResult) settled {
	s := settled{State: r.State, Err: errAnswer(r.Err)}
	if r.State == store.SettleDone || r.State == store.SettleAlready {
		s.Status, s.Reason = r.Status, r.Reason
	}
	if r.State == store.SettleDone {
		for _, k := range r.FollowUps {
			s.Kids = append(s.Kids, submitAnswer(k))
		}
	}
	return s
}
