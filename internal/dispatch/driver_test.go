package dispatch

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twolane/twolane/store"
)

const testV = 20 * time.Second

var errStore = errors.New("store is away")

// driver plays the store and the handlers for a core, one call at a time.
type driver struct {
	*testing.T
	c      *Core
	now    time.Duration
	claim  *ClaimCall
	renew  []*RenewCall
	settle *SettleCall
	stats  *StatsCall
	tend   *MaintainCall
	live   []*Invocation
	cancel []Cancellation
	events []Event
	wake   time.Duration
	done   bool
	token  uint64
}

func newDriver(t *testing.T, change func(*Config)) *driver {
	t.Helper()
	n := 0
	cfg := Config{
		Worker: store.Worker{ID: "w"}, Queues: []Queue{{Name: "q"}}, Permits: [2]int{4, 4}, Types: []*Type{{Name: "a", Lanes: [2]bool{true, true}}},
		Visibility: testV, Rand: func() float64 { return 0.5 }, Nonce: func() string { n++; return fmt.Sprintf("nonce%05d", n) },
	}
	if change != nil {
		change(&cfg)
	}
	d := &driver{T: t, c: New(cfg)}
	d.step()
	d.renewed(nil)
	return d
}

func (d *driver) step() {
	d.Helper()
	act := d.c.Step(d.now)
	d.cancel = append(d.cancel, act.Cancel...)
	d.renew = append(d.renew, act.Renew...)
	for _, f := range []struct{ twice bool }{{act.Settle != nil && d.settle != nil}, {act.Claim != nil && d.claim != nil}} {
		if f.twice {
			d.Fatal("a second call while one is in flight")
		}
	}
	if act.Settle != nil {
		d.settle = act.Settle
	}
	if act.Claim != nil {
		d.claim = act.Claim
		for l := range store.Lanes {
			if free := d.c.cfg.Permits[l] - d.c.held[l]; act.Claim.Req.Free[l] > free {
				d.Fatalf("lane %d: a claim of %d with %d permits free", l, act.Claim.Req.Free[l], free)
			}
		}
	}
	if act.Stats != nil {
		d.stats = act.Stats
	}
	if act.Maintain != nil {
		d.tend = act.Maintain
	}
	d.live = append(d.live, act.Start...)
	d.events = append(d.events, act.Events...)
	d.checkCells()
	d.wake, d.done = act.Wake, act.Done
}

// sleep lets time pass, waking the core when it wants to.
func (d *driver) sleep(t time.Duration) {
	d.Helper()
	for end := d.now + t; d.now < end; {
		d.now = min(end, max(d.wake, d.now+time.Millisecond))
		d.step()
	}
}

// cmds are grants of one command each.
func (d *driver) cmds(ids ...string) []store.Grant {
	var gs []store.Grant
	for _, id := range ids {
		gs = append(gs, store.Grant{Items: []*store.Command{d.cmd(id)}})
	}
	return gs
}

func (d *driver) cmd(id string) *store.Command {
	d.token++
	return &store.Command{ID: id, Queue: "q", Type: "a", Status: store.Pending, Lease: store.LeaseName{Token: d.token, Nonce: "n"}}
}

// claimed answers the claim in flight.
func (d *driver) claimed(gs []store.Grant, err error) {
	d.Helper()
	if d.claim == nil {
		d.Fatal("no claim in flight")
	}
	call := d.claim
	d.claim = nil
	r := store.ClaimReply{Grants: gs, Wants: make([]store.WantReport, len(call.Req.Wants))}
	for i := range r.Wants {
		r.Wants[i].Why = store.WhyEmpty
	}
	d.c.Claimed(d.now, call, r, err)
	d.step()
}

// renewed answers the renewals in flight; of is called with each item.
func (d *driver) renewed(of func(id string) store.RenewResult) {
	d.Helper()
	calls := d.renew
	d.renew = nil
	for _, call := range calls {
		r := store.RenewReply{Workers: 1}
		for _, it := range call.Req.Leases {
			res := store.RenewResult{State: store.RenewOK}
			if of != nil {
				res = of(it.ID)
			}
			r.Results = append(r.Results, res)
		}
		d.c.Renewed(d.now, call, r, nil)
	}
	d.step()
}

// renewedAt answers the renewals in flight at a time of the store.
func (d *driver) renewedAt(at store.Millis) {
	calls := d.renew
	d.renew = nil
	for _, call := range calls {
		r := store.RenewReply{Workers: 1, Results: make([]store.RenewResult, len(call.items))}
		r.Now = at
		for i := range r.Results {
			r.Results[i].State = store.RenewOK
		}
		d.c.Renewed(d.now, call, r, nil)
	}
	d.step()
}

func (d *driver) renewFails() {
	calls := d.renew
	d.renew = nil
	for _, call := range calls {
		d.c.Renewed(d.now, call, store.RenewReply{}, errStore)
	}
	d.step()
}

func (d *driver) settled(state store.SettleState, err error) []store.Settlement {
	d.Helper()
	call := d.settle
	if call == nil {
		d.Fatal("no settle in flight")
	}
	d.settle = nil
	items := slices.Clone(call.Req.Items)
	r := make([]store.SettleResult, len(items))
	for i := range r {
		r[i].State = state
	}
	d.c.Settled(d.now, call, r, err)
	d.step()
	return items
}

func (d *driver) end(inv *Invocation, kind store.OutcomeKind) {
	for _, it := range inv.Items {
		it.Answer(store.Settlement{Kind: kind})
	}
	d.live = slices.DeleteFunc(d.live, func(o *Invocation) bool { return o == inv })
	d.c.Ended(d.now, inv)
	d.step()
}

func (d *driver) saw(k EventKind) int {
	n := 0
	for _, e := range d.events {
		if e.Kind == k {
			n++
		}
	}
	return n
}

// checkCells compares what gates count with the live invocations.
func (d *driver) checkCells() {
	d.Helper()
	live := map[*GateCell]int{}
	for _, inv := range d.c.live {
		if !inv.gone {
			for _, x := range inv.cells {
				live[x]++
			}
		}
	}
	for _, b := range d.c.gates.binds {
		for k, x := range b.cells {
			if x.held != live[x] {
				d.Fatalf("gate %s counts %d in %+v, and %d run", b.Name, x.held, k, live[x])
			}
		}
	}
}

// baseline checks that nothing is held any more.
func (d *driver) baseline() {
	d.Helper()
	c := d.c
	if c.held != [2]int{} || len(c.live) != 0 || len(c.leases) != 0 || c.open != 0 || len(c.runs) != 0 || len(c.timers.heap) != 0 || c.settle.unsettled() != 0 {
		d.Errorf("held %v, live %d, leases %d, open %d, runs %d, timers %d, unsettled %d: want none",
			c.held, len(c.live), len(c.leases), c.open, len(c.runs), len(c.timers.heap), c.settle.unsettled())
	}
}
