package dispatch

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/twolane/twolane/store"
)

func TestRenewGoesOnUntilSettled(t *testing.T) {
	d := newDriver(t, nil)
	d.claimed(d.cmds("1"), nil)
	d.end(d.live[0], store.OutcomeDone)
	for range 20 {
		d.settled(0, errStore)
		d.sleep(5 * time.Second)
		if len(d.renew) != 1 || len(d.renew[0].Req.Leases) != 1 {
			t.Fatalf("renewal while unsettled: %+v", d.renew)
		}
		d.renewed(nil)
	}
	if !d.settle.Req.Items[0].Again {
		t.Error("a settle whose answer was not seen is repeated without Again")
	}
	d.settled(store.SettleAlready, nil)
	d.baseline()
	if d.saw(LeaseLost) != 0 || len(d.cancel) != 0 {
		t.Errorf("%d leases lost, %d cancelled", d.saw(LeaseLost), len(d.cancel))
	}
}

// An outcome whose answer was lost is offered again as it was: nobody knows whether the store has taken it.
func TestLostSettleReplyIsRepeatedAsItWas(t *testing.T) {
	for _, kind := range []store.OutcomeKind{store.OutcomeDone, store.OutcomeFail, store.OutcomeProcessing, store.OutcomeSnooze} {
		t.Run(kind.String(), func(t *testing.T) {
			d := newDriver(t, nil)
			d.claimed(d.cmds("1"), nil)
			d.end(d.live[0], kind)
			first := d.settled(0, errStore)[0]
			for d.settle == nil && d.now < time.Minute {
				d.sleep(time.Second)
				d.renewed(nil)
			}
			second := d.settled(store.SettleAlready, nil)[0]
			if !second.Again {
				t.Error("the store is not told that it is a repetition")
			}
			if second.Again = first.Again; second.Kind != kind || !reflect.DeepEqual(first, second) {
				t.Errorf("first %+v, then %+v", first, second)
			}
			d.baseline()
		})
	}
}

func TestSettleRefused(t *testing.T) {
	d := newDriver(t, nil)
	d.claimed(d.cmds("1", "2", "3"), nil)
	d.sleep(settleLinger)
	for len(d.live) > 0 {
		d.end(d.live[0], store.OutcomeDone)
	}
	d.settled(store.SettleDone, nil)
	bad := &store.InvalidError{Field: "state", Detail: "too large", Max: 1}
	d.settled(0, bad) // the whole call: each is tried alone
	if len(d.settle.Req.Items) != 1 || d.settle.Req.Items[0].Again {
		t.Fatalf("%+v", d.settle.Req.Items)
	}
	d.settled(store.SettleDone, nil)
	d.settled(0, bad)
	if s := d.settle.Req.Items[0]; s.Kind != store.OutcomeRetry || s.Error == "" {
		t.Fatalf("after a refusal %+v, want a retry that says so", s)
	}
	d.settled(store.SettleDone, nil)
	d.baseline()
}

func TestSettlesAreBounded(t *testing.T) {
	d := newDriver(t, func(c *Config) { c.Permits = [2]int{400, 1} })
	n := 0
	for d.claim != nil && n < 100 {
		var ids []string
		for i := range d.claim.Req.Free[0] {
			ids = append(ids, fmt.Sprintf("c%d-%d", n, i))
		}
		n++
		call := d.claim
		d.claim = nil
		d.c.Claimed(d.now, call, store.ClaimReply{Grants: d.cmds(ids...), Wants: make([]store.WantReport, len(call.Req.Wants))}, nil)
		d.step()
		for _, inv := range d.live {
			inv.Items[0].Answer(store.Settlement{Kind: store.OutcomeDone})
			d.c.Ended(d.now, inv)
		}
		d.live = nil
		if d.settle != nil {
			d.settled(0, errStore)
		}
		d.step()
	}
	if u, most := d.c.settle.unsettled(), d.c.maxUnsettled()+400; u > most || n == 100 {
		t.Errorf("%d outcomes wait for a store that does not take them, at most %d may", u, most)
	}
}

// Outcomes of handlers that have just begun go together; nothing waits for a handler that takes longer, nor when nothing else runs.
func TestSettleLingers(t *testing.T) {
	d := newDriver(t, nil)
	d.claimed(d.cmds("1", "2", "3"), nil)
	d.end(d.live[0], store.OutcomeDone)
	if d.settle != nil {
		t.Fatal("the first outcome went at once, though two handlers have just begun")
	}
	d.sleep(settleLinger - 1)
	d.end(d.live[0], store.OutcomeDone)
	if d.settle != nil {
		t.Fatal("settled before its time")
	}
	d.sleep(1)
	if d.settle == nil || len(d.settle.Req.Items) != 2 {
		t.Fatalf("after the linger: %+v, want two outcomes", d.settle)
	}
	d.settled(store.SettleDone, nil)
	d.end(d.live[0], store.OutcomeDone)
	if d.settle == nil || len(d.settle.Req.Items) != 1 {
		t.Fatalf("the last one that runs: %+v, want it settled at once", d.settle)
	}
	d.settled(store.SettleDone, nil)
	d.baseline()
}

// poll answers for a poll that has begun: its command goes on, and is to be looked at again after delay.
func (d *driver) poll(change func(*store.Command), delay time.Duration) {
	d.Helper()
	cmd := d.cmd(fmt.Sprint("p", d.token))
	cmd.Status = store.Processing
	if change != nil {
		change(cmd)
	}
	d.claimed([]store.Grant{{Lane: store.Repoll, Items: []*store.Command{cmd}}}, nil)
	inv := d.live[len(d.live)-1]
	inv.Items[0].Answer(store.Settlement{Kind: store.OutcomeProcessing, Delay: delay})
	d.live = d.live[:len(d.live)-1]
	d.c.Ended(d.now, inv)
	d.step()
}

// What a poll finds that nobody waits for goes with the next claim, and asks for as much less of a pause as it has waited.
func TestOutcomesOfPollsGoWithTheNextClaim(t *testing.T) {
	d := newDriver(t, nil)
	d.poll(nil, 5*time.Second)
	if d.settle != nil {
		t.Fatal("it went at once")
	}
	d.sleep(5 * time.Millisecond)
	d.c.Woken(d.now, store.Wake{Kind: store.WakeAll})
	d.step()
	if d.claim == nil || d.settle == nil {
		t.Fatalf("claim %v, settle %v: want both", d.claim, d.settle)
	}
	if got, want := d.settled(store.SettleDone, nil)[0].Delay, 4995*time.Millisecond; got != want {
		t.Errorf("a pause of %v, want %v", got, want)
	}
	d.poll(nil, 5*time.Second)
	d.sleep(patientLinger - 1)
	if d.settle != nil {
		t.Fatal("settled before its time")
	}
	d.sleep(1)
	if d.settle == nil {
		t.Fatal("no claim came, and it still waits")
	}
	if got, want := d.settled(0, errStore)[0].Delay, 5*time.Second-patientLinger; got != want {
		t.Errorf("a pause of %v, want %v", got, want)
	}
	for d.settle == nil && d.now < time.Minute {
		d.sleep(time.Second)
	}
	if got, want := d.settled(store.SettleDone, nil)[0].Delay, 5*time.Second-patientLinger; got != want {
		t.Errorf("repeated with a pause of %v, want %v as before", got, want)
	}
	d.baseline()
}

// An outcome that somebody may wait for takes the others along and does not wait for a claim: one after a short pause, the end of a command, the first
// outcome of one, and what frees room under a limit.
func TestOutcomesThatMatterDoNotWaitForAClaim(t *testing.T) {
	held := func(c *store.Command) { c.Holds = []store.Hold{{LimitKey: store.LimitKey{Limit: "l"}}} }
	for name, act := range map[string]func(*driver){
		"short pause": func(d *driver) { d.poll(nil, patientDelay-1) },
		"limit":       func(d *driver) { d.poll(held, time.Minute) },
		"first run":   func(d *driver) { d.poll(func(c *store.Command) { c.Status = store.Pending }, time.Minute) },
		"end": func(d *driver) {
			cmd := d.cmd("e")
			cmd.Status = store.Processing
			d.claimed([]store.Grant{{Lane: store.Repoll, Items: []*store.Command{cmd}}}, nil)
			d.end(d.live[0], store.OutcomeDone)
		},
		"drain": func(d *driver) { d.c.Drain(d.now, time.Second); d.step() },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, nil)
			d.poll(nil, time.Minute)
			d.c.Woken(d.now, store.Wake{Kind: store.WakeAll})
			d.c.settle.call = &SettleCall{} // one is in flight, so that the claim goes alone
			d.step()
			d.c.settle.call = nil
			act(d)
			if d.settle == nil {
				t.Fatal("it waits")
			}
			d.settled(store.SettleDone, nil)
		})
	}
}
