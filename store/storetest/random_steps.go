package storetest

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/faultstore"
)

// one draws one of some values.
func one[T any](rt *rapid.T, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(rt, label)
}

// some draws up to most of some ids, at times one of them twice.
func some(rt *rapid.T, label string, from []string, most int) []string {
	got := rapid.SliceOfNDistinct(rapid.SampledFrom(from), 1, most, rapid.ID[string]).Draw(rt, label)
	if len(got) < most && one(rt, "repeated", false, false, false, true) {
		got = append(got, one(rt, "again", got...))
	}
	return got
}

func (d *duo) submission(id string) store.Submission {
	rt := d.rt
	s := store.Submission{
		ID: id, Queue: one(rt, "queue", randomQueues...), Type: one(rt, "type", randomTypes...), Group: one(rt, "group", "", "", "g1", "g2"),
		BatchKey: one(rt, "batch key", "", "", "b"), Cost: one(rt, "cost", 0, 0, 2), Params: []byte(one(rt, "params", "p", "p", "p2")),
		UniqueKey: one(rt, "unique", "", "", "", "u1", "u2"), Notify: one(rt, "notify", "", "", "top"), Priority: one(rt, "priority", uint8(0), 0, 3, 255),
		MaxFailures: one(rt, "max failures", 0, 0, 1, 3), Retention: one(rt, "retention", 0, 0, -1, time.Second, time.Hour),
	}
	if one(rt, "delayed", false, false, true) {
		s.Delay = d.later(one(rt, "delay", time.Second, 10*time.Second, time.Hour))
	}
	if one(rt, "with start_by", false, false, false, true) {
		s.StartBy = d.far(one(rt, "start_by", 2*time.Second, time.Minute))
	}
	if one(rt, "with deadline", false, false, true) {
		s.Deadline = d.far(one(rt, "deadline", time.Second, 10*time.Second, time.Minute, 10*time.Hour))
	}
	if one(rt, "with keys", false, false, true) {
		s.Keys = []store.Key{{Name: "k", Value: one(rt, "key", "v1", "v2")}}
	}
	return s
}

func (d *duo) submit(rt *rapid.T) {
	d.rt = rt
	if !d.ready() {
		return
	}
	req := store.SubmitRequest{Atomic: one(rt, "atomic", false, false, true)}
	for _, id := range some(rt, "ids", randomIDs, 4) {
		req.Items = append(req.Items, d.submission(id))
	}
	lost := d.lossy(faultstore.Submit)
	got := call(d, lost, func() ([]store.SubmitResult, error) { return d.s.Submit(d.ctx, req) })
	want := call(d, false, func() ([]store.SubmitResult, error) { return d.m.Submit(d.ctx, req) })
	if lost {
		want = call(d, false, func() ([]store.SubmitResult, error) { return d.m.Submit(d.ctx, req) })
	}
	for i := range want {
		d.equal(fmt.Sprintf("submit of %+v", req.Items[i]), submitAnswer(got[i]), submitAnswer(want[i]))
	}
}

// ready does the maintenance that is due before a step whose outcome depends on the order in which work came back.
func (d *duo) ready() bool {
	if d.dirty {
		d.both(d.drain)
		d.dirty = false
		d.runSuspects()
	}
	return true
}

// runSuspects lets commands that wait after a loss run now, after a look at how long they would have waited: the length of the pause depends on
// the number of the lost lease, which stores may count differently.
func (d *duo) runSuspects() {
	as, bs := d.getAll(d.s), d.getAll(d.m)
	for i, id := range randomAll {
		a, b := as[i], bs[i]
		if b == nil || b.Losses < 2 || b.Status.Terminal() || b.Place == store.Leased || a == nil || a.Losses != b.Losses {
			continue
		}
		for _, s := range []store.Store{d.s, d.m} {
			r, err := s.Act(d.ctx, store.ActRequest{Kind: store.ActRunNow, IDs: []string{id}})
			d.ok(err)
			if r.Done != 1 {
				d.rt.Fatalf("%s cannot run now: %v; %s, model: %s", id, r.Results[0], show(a), show(b))
			}
		}
	}
}

// sameOrder reports whether both stores would start what is in line in the same order. Who was retried at once has one deadline.
func (d *duo) sameOrder() bool {
	deadlines := map[store.Millis]bool{}
	line := func(s store.Store) (in []string) {
		cs, err := s.Get(d.ctx, randomAll, store.GetOptions{NoBlobs: true})
		d.ok(err)
		cs = slices.DeleteFunc(cs, func(c *store.Command) bool {
			return c == nil || c.Status != store.Pending || c.Place != store.InLine
		})
		slices.SortFunc(cs, func(a, b *store.Command) int { return int(int64(a.Seq) - int64(b.Seq)) })
		clear(deadlines)
		for _, c := range cs {
			if d.order == store.ByDeadline && c.Deadline != 0 && deadlines[c.Deadline] {
				return nil
			}
			deadlines[c.Deadline] = true
		}
		return append([]string{""}, ids(cs)...)
	}
	a, b := line(d.s), line(d.m)
	return a != nil && slices.Equal(a, b)
}

func (d *duo) claimIntake(rt *rapid.T) {
	d.rt = rt
	d.ready()
	r := store.ClaimRequest{Worker: one(rt, "worker", randomWorkers...)}
	n := one(rt, "max", 1, 1, 2, 5, 100)
	r.Free[store.Intake] = n
	all := n == 100
	roomy := d.rooms(rt, &r)
	for _, q := range rapid.Permutation(randomQueues).Draw(rt, "queues") {
		w := store.Want{Queue: q, Lane: store.Intake, Max: n, Turn: one(rt, "turn", 0, 1, 2, 3), Suspect: all}
		for _, t := range randomTypes[:one(rt, "types", 1, 2, 2)] {
			w.Types = append(w.Types, store.TypeWant{Type: t, Rooms: roomy[t]})
		}
		r.Wants = append(r.Wants, w)
	}
	if !d.sameOrder() {
		rt.Skip("what came back at one moment stands in an order of the store's choice")
	}
	d.claim(r, all)
}

func (d *duo) claimRepoll(rt *rapid.T) {
	d.rt = rt
	d.ready()
	r := store.ClaimRequest{Worker: one(rt, "worker", randomWorkers...)}
	r.Free[store.Repoll] = 100
	batch := one(rt, "batch", 0, 3)
	roomy := d.rooms(rt, &r)
	for _, q := range randomQueues {
		w := store.Want{Queue: q, Lane: store.Repoll, Max: 100, Suspect: true}
		for _, t := range randomTypes {
			w.Types = append(w.Types, store.TypeWant{Type: t, Batch: batch, Rooms: roomy[t]})
		}
		r.Wants = append(r.Wants, w)
	}
	d.claim(r, true)
}

// rooms gives a claim rooms, and says which types take places of them.
func (d *duo) rooms(rt *rapid.T, r *store.ClaimRequest) map[string][]int {
	of := map[string][]int{}
	for i := range one(rt, "rooms", 0, 0, 0, 1, 2) {
		r.Rooms = append(r.Rooms, one(rt, "room", 0, 1, 3, 100))
		for _, t := range randomTypes {
			if one(rt, "takes", true, false) {
				of[t] = append(of[t], i)
			}
		}
	}
	return of
}

// claim makes a claim on both until nothing more is granted, and pairs the leases.
func (d *duo) claim(r store.ClaimRequest, all bool) {
	lost := d.lossy(faultstore.Claim)
	got, want := d.claimOn(d.s, r, all, lost), d.claimOn(d.m, r, all, false)
	var a, b []string
	for id := range got {
		a = append(a, id)
	}
	for id := range want {
		b = append(b, id)
	}
	slices.Sort(a)
	slices.Sort(b)
	if !slices.Equal(a, b) {
		var why []string
		for _, c := range d.getAll(d.m) {
			if c != nil && !c.Status.Terminal() && slices.Contains(a, c.ID) != slices.Contains(b, c.ID) {
				why = append(why, fmt.Sprintf("%s of queue %s type %s", show(c), c.Queue, c.Type))
			}
		}
		cfg, _ := d.m.Config(d.ctx) // for the message only
		d.rt.Fatalf("claim %+v at %d got %v, the model gives %v\nin the model: %q\nconfiguration: %+v", r, d.now, a, b, why, cfg)
	}
	for _, id := range a { // in an order that the next run repeats
		d.pairs = append(d.pairs, pair{id, r.Worker, got[id].Lane(), got[id].Lease, want[id].Lease})
	}
}

func (d *duo) claimOn(s store.Store, r store.ClaimRequest, all, lost bool) map[string]*store.Command {
	r.Wants, r.Rooms = slices.Clone(r.Wants), slices.Clone(r.Rooms)
	got := map[string]*store.Command{}
	for i := 0; ; i++ {
		if i > 200 {
			d.rt.Fatal("claims never end")
		}
		d.nonces++
		r.Nonce = fmt.Sprintf("nonce%06d", d.nonces)
		repeated := lost && i == 0
		reply := call(d, repeated, func() (store.ClaimReply, error) { return s.Claim(d.ctx, r) })
		if d.gone[r.Worker] && len(reply.Grants) > 0 {
			d.rt.Fatalf("%s has gone and is granted %s", r.Worker, reply.Grants[0].Items[0].ID)
		}
		if s == d.s && !d.gone[r.Worker] {
			d.last[r.Worker] = r
		}
		more := reply.More || repeated
		for _, w := range reply.Wants {
			more = more || w.Why == store.WhyMore
		}
		for _, g := range reply.Grants {
			d.checkGrant(r, g)
			r.Free[g.Lane]--
			for k := range r.Wants {
				if w := &r.Wants[k]; w.Queue == g.Items[0].Queue && w.Lane == g.Lane {
					w.Max--
					w.Turn++
					if i := slices.IndexFunc(w.Types, func(t store.TypeWant) bool { return t.Type == g.Items[0].Type }); !g.Class.Visit() {
						for _, room := range w.Types[i].Rooms {
							r.Rooms[room]--
						}
					}
				}
			}
			for _, c := range g.Items {
				if got[c.ID] != nil {
					d.rt.Fatalf("%s was granted twice", c.ID)
				}
				got[c.ID] = c
			}
		}
		if r.Free[0] < 0 || r.Free[1] < 0 || slices.ContainsFunc(r.Rooms, func(n int) bool { return n < 0 }) {
			d.rt.Fatalf("more was granted than was free: %+v", r)
		}
		if !more && (!all || len(reply.Grants) == 0) {
			return got
		}
	}
}

// checkGrant checks one grant by itself: it was wanted, and a batch is of one line.
func (d *duo) checkGrant(r store.ClaimRequest, g store.Grant) {
	for _, c := range g.Items {
		first := g.Items[0]
		if c.Place != store.Leased || c.Owner != r.Worker || c.Lease.Nonce != r.Nonce || c.Lane() != g.Lane {
			d.rt.Fatalf("granted to %s with %s: %s of %s", r.Worker, r.Nonce, show(c), c.Owner)
		}
		if c.Queue != first.Queue || c.Type != first.Type || c.Group != first.Group || c.BatchKey != first.BatchKey || c.Cost != first.Cost {
			d.rt.Fatalf("one batch has %s and %s", show(first), show(c))
		}
		if c.Deadline != 0 && c.CancelAsked == 0 && d.now >= c.Deadline {
			d.rt.Fatalf("granted after its deadline: %s", show(c))
		}
	}
}

// repeatClaim repeats the last claim of a worker on the store under test: it gets what it still holds of it, and nothing else.
func (d *duo) repeatClaim(rt *rapid.T) {
	d.rt = rt
	r, ok := d.last[one(rt, "worker", randomWorkers...)]
	if !ok {
		rt.Skip("no claim yet")
	}
	d.ready()
	reply, err := d.s.Claim(d.ctx, r)
	d.ok(err)
	got := ids(items(reply.Grants))
	slices.Sort(got)
	var want []string
	for i, c := range d.getAll(d.s) {
		if id := randomAll[i]; c != nil && c.Place == store.Leased && c.Lease.Nonce == r.Nonce && c.Owner == r.Worker {
			want = append(want, id)
		}
	}
	if !slices.Equal(got, want) {
		rt.Fatalf("the repeated claim of %s got %v, it holds %v", r.Worker, got, want)
	}
}

func (d *duo) renew(rt *rapid.T) {
	d.rt = rt
	w := one(rt, "worker", randomWorkers...)
	a := store.RenewRequest{
		Worker: store.Worker{ID: w, Queues: randomQueues, Types: [2][]string{randomTypes, randomTypes[:1]}, Draining: one(rt, "draining", false, false, true)},
		Gone:   one(rt, "gone", false, false, false, false, true),
	}
	if d.gone[w] = a.Gone; a.Gone {
		delete(d.last, w) // its last claim is forgotten with it: the same again would be a new one
	}
	b := a
	for _, p := range d.pairs {
		if p.worker == w && one(rt, "renewed", true, true, true, false) {
			it := store.RenewItem{ID: p.id, Overdue: one(rt, "overdue", false, false, true)}
			if one(rt, "with progress", false, true) {
				it.Progress = []byte(one(rt, "progress", "1", "2"))
			}
			it.Lease = p.s
			a.Leases = append(a.Leases, it)
			it.Lease = p.m
			b.Leases = append(b.Leases, it)
		}
	}
	lost := d.lossy(faultstore.Renew)
	got := call(d, lost, func() (store.RenewReply, error) { return d.s.Renew(d.ctx, a) })
	want := call(d, false, func() (store.RenewReply, error) { return d.m.Renew(d.ctx, b) })
	if lost { // the maintenance of the first call may have ended what it refused
		want = call(d, false, func() (store.RenewReply, error) { return d.m.Renew(d.ctx, b) })
	}
	d.both(d.drain)
	d.dirty = false
	d.equal("renewal", got.Results, want.Results)
	d.equal("live workers", got.Workers, want.Workers)
	d.runSuspects()
}
