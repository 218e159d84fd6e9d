package dispatch

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twolane/twolane/store"
)

// adds checks that a report accounts for every command.
func adds(t *testing.T, r Report) {
	t.Helper()
	if r.Held != r.Settled+r.GivenBack+r.Lost+len(r.Running)+len(r.Unsettled) {
		t.Errorf("the report does not add up: %+v", r)
	}
}

func TestDrainPhases(t *testing.T) {
	d := newDriver(t, nil)
	d.claimed(d.cmds("quick", "obeys", "stuck", "errs"), nil)
	start := d.now
	d.c.Drain(d.now, 8*time.Second)
	d.step()
	if d.claim != nil {
		t.Fatal("it claims while it drains")
	}
	d.sleep(time.Second)
	d.end(d.live[0], store.OutcomeDone) // quick
	if s := d.settled(store.SettleDone, nil); s[0].Kind != store.OutcomeDone {
		t.Errorf("a success in a drain is offered as %v", s[0].Kind)
	}
	d.end(d.live[2], store.OutcomeRetry) // errs, of itself, before the contexts end
	if s := d.settled(store.SettleDone, nil); s[0].Kind != store.OutcomeRetry {
		t.Errorf("an error before the contexts ended is offered as %v", s[0].Kind)
	}
	d.sleep(5*time.Second - 1)
	if len(d.cancel) != 0 {
		t.Fatalf("contexts end %v after the begin", d.now-start)
	}
	d.sleep(1)
	if len(d.cancel) != 2 || !errors.Is(d.cancel[0].Cause, ErrDraining) {
		t.Fatalf("at three quarters: %+v", d.cancel)
	}
	d.end(d.live[0], store.OutcomeRetry) // obeys
	if s := d.settled(store.SettleDone, nil); s[0].Kind != store.OutcomeGiveBack || s[0].Unstarted {
		t.Errorf("an error because of the drain is offered as %+v", s[0])
	}
	if len(d.renew) != 1 || len(d.renew[0].Req.Leases) == 0 || !d.renew[0].Req.Worker.Draining {
		t.Errorf("no heartbeat at five seconds of the drain: %+v", d.renew)
	}
	d.renewed(nil)
	d.sleep(1499 * time.Millisecond)
	if len(d.renew) != 0 {
		t.Fatalf("gone too early: %+v", d.renew)
	}
	d.sleep(2 * time.Millisecond)
	if len(d.renew) != 1 || !d.renew[0].Req.Gone || len(d.renew[0].Req.Leases) != 1 {
		t.Fatalf("the last renewal: %+v", d.renew)
	}
	d.renewed(nil)
	if d.done {
		t.Fatal("over while a handler may still return")
	}
	d.sleep(500 * time.Millisecond)
	r := d.c.Report()
	adds(t, r)
	if !d.done || r.Held != 4 || r.Settled != 2 || r.GivenBack != 1 || !slices.Equal(r.Running, []string{"stuck"}) || r.Took > 8*time.Second {
		t.Errorf("%v %+v", d.done, r)
	}
}

func TestDrainOfAnIdleWorkerIsQuick(t *testing.T) {
	d := newDriver(t, nil)
	d.claimed(nil, nil)
	d.c.Drain(d.now, time.Minute)
	d.step()
	if len(d.renew) != 1 || !d.renew[0].Req.Gone {
		t.Fatalf("%+v", d.renew)
	}
	d.renewed(nil)
	if r := d.c.Report(); !d.done || r.Held != 0 || r.Took != 0 {
		t.Errorf("%v %+v", d.done, r)
	}
}

// While the last call is on its way the time of a tick passes; nothing is to be done then.
func TestDrainSleepsUntilItsLastAnswer(t *testing.T) {
	d := newDriver(t, nil)
	d.claimed(nil, nil)
	d.now = testV/4 - time.Millisecond
	d.step()
	d.c.Drain(d.now, 5*time.Minute)
	d.step()
	if d.claim != nil {
		d.claimed(nil, nil)
	}
	for end := d.now + 10*time.Second; d.now < end; d.now = d.wake {
		d.step()
		if d.wake <= d.now {
			t.Fatalf("at %v it wants to wake at %v", d.now, d.wake)
		}
	}
	d.renewed(nil)
	if !d.done {
		t.Error("not done")
	}
}

// A claim that failed and is not repeated any more is no reason to wake.
func TestDrainSleepsBesideAClaimThatFailed(t *testing.T) {
	d := newDriver(t, nil)
	d.claimed(d.cmds("a"), nil)
	d.step()
	d.now += time.Second
	d.c.Woken(d.now, store.Wake{Kind: store.WakeAll})
	d.step()
	d.c.Drain(d.now, 8*time.Second)
	d.step()
	d.now += 1500 * time.Millisecond // beyond the eighth
	d.claimed(nil, errStore)
	for end := d.now + 2*time.Second; d.now < end; d.now = d.wake {
		if d.step(); d.wake <= d.now {
			t.Fatalf("at %v it wants to wake at %v", d.now, d.wake)
		}
	}
	if d.claim != nil {
		t.Error("it claims")
	}
}

// A tick that was sent before the drain and arrives behind the last renewal would register the worker again.
func TestDrainUnregistersAfterItsTicks(t *testing.T) {
	d := newDriver(t, nil)
	d.sleep(30 * time.Second)
	if len(d.renew) == 0 {
		t.Fatal("no tick is under way")
	}
	d.claimed(nil, nil)
	d.c.Drain(d.now, 8*time.Second)
	d.step()
	for _, call := range d.renew {
		if call.Req.Gone {
			t.Fatal("the worker unregisters before its ticks are back")
		}
	}
	for !d.done && len(d.renew) > 0 {
		d.renewed(nil)
	}
	if !d.done {
		t.Error("the drain does not end")
	}
}

func TestDrainGivesALateClaimBack(t *testing.T) {
	for _, late := range []time.Duration{time.Second, 4 * time.Second} {
		t.Run(late.String(), func(t *testing.T) {
			d := newDriver(t, nil)
			d.claimed(d.cmds("0"), nil) // while it runs, the drain listens beyond an eighth of the budget
			d.sleep(1100 * time.Millisecond)
			d.c.Drain(d.now, 10*time.Second)
			d.step()
			d.sleep(late)
			d.claimed(d.cmds("1", "2"), nil)
			if len(d.live) != 1 {
				t.Fatal("it starts a command while it drains")
			}
			for _, s := range d.settled(store.SettleDone, nil) {
				if s.Kind != store.OutcomeGiveBack || !s.Unstarted {
					t.Errorf("%+v", s)
				}
			}
			d.end(d.live[0], store.OutcomeDone)
			d.settled(store.SettleDone, nil)
			for !d.done && len(d.renew) > 0 { // the ticks, then the last one
				d.renewed(nil)
			}
			r := d.c.Report()
			adds(t, r)
			if !d.done || r.Held != 3 || r.GivenBack != 2 || r.Settled != 1 || r.Claim {
				t.Errorf("%v %+v", d.done, r)
			}
		})
	}
}

func TestDrainWaitsAnEighthForAClaim(t *testing.T) {
	d := newDriver(t, nil)
	d.c.Drain(d.now, 8*time.Second)
	d.step()
	d.sleep(999 * time.Millisecond)
	if len(d.renew) != 0 {
		t.Fatal("gone while a claim may still bring something")
	}
	d.sleep(time.Millisecond)
	if len(d.renew) != 1 || !d.renew[0].Req.Gone {
		t.Fatalf("%+v", d.renew)
	}
	d.renewed(nil)
	if r := d.c.Report(); !d.done || !r.Claim || r.Took != time.Second {
		t.Errorf("%v %+v", d.done, r)
	}
}

// A claim whose answer was lost is asked for once more, for what it got alone.
func TestDrainRepeatsALostClaim(t *testing.T) {
	d := newDriver(t, nil)
	nonce := d.claim.Req.Nonce
	d.claimed(nil, errStore)
	d.c.Drain(d.now, 10*time.Second)
	d.step()
	if d.claim == nil || d.claim.Req.Nonce != nonce || len(d.claim.Req.Wants) != 0 || d.claim.Req.Free != [2]int{} {
		t.Fatalf("%+v", d.claim)
	}
	d.claimed(d.cmds("1"), nil)
	d.settled(store.SettleDone, nil)
	d.renewed(nil)
	r := d.c.Report()
	adds(t, r)
	if !d.done || r.GivenBack != 1 || r.Claim {
		t.Errorf("%v %+v", d.done, r)
	}
}

func TestDrainWithTheStoreAway(t *testing.T) {
	d := newDriver(t, nil)
	d.claimed(d.cmds("1", "2"), nil)
	d.end(d.live[0], store.OutcomeDone)
	d.c.Drain(d.now, 8*time.Second)
	start := d.now
	for !d.done {
		if d.now-start > 8*time.Second {
			t.Fatalf("not over after %v", d.now-start)
		}
		if d.settle != nil {
			d.settled(0, errStore)
		}
		d.sleep(50 * time.Millisecond) // renewals hang
	}
	r := d.c.Report()
	adds(t, r)
	if !slices.Equal(r.Running, []string{"2"}) || !slices.Equal(r.Unsettled, []string{"1"}) {
		t.Errorf("%+v", r)
	}
}

func TestDrainShorterNotLonger(t *testing.T) {
	d := newDriver(t, nil)
	d.claimed(d.cmds("1"), nil)
	start := d.now
	d.c.Drain(d.now, 100*time.Second)
	d.step()
	d.sleep(time.Second)
	d.c.Drain(d.now, 1000*time.Second)
	d.c.Drain(d.now, 4*time.Second)
	d.step()
	for !d.done && d.now < start+10*time.Second {
		d.sleep(100 * time.Millisecond)
	}
	if r := d.c.Report(); !d.done || r.Took < 4900*time.Millisecond || r.Took > 5*time.Second {
		t.Errorf("over %v after %v, want 5s", d.done, r.Took)
	}
}

func TestTimersAndRates(t *testing.T) {
	var ts timers
	all := make([]timer, 200)
	for i := range all {
		ts.set(&all[i], time.Duration(i*7919%1000))
	}
	for i := range all {
		if i%3 == 0 {
			ts.stop(&all[i])
		}
		if i%5 == 0 {
			ts.set(&all[i], time.Duration(i))
		}
	}
	n, last := 0, time.Duration(-1)
	for t0 := ts.pop(1e9); t0 != nil; t0 = ts.pop(1e9) {
		if t0.at < last {
			t.Fatalf("%v after %v", t0.at, last)
		}
		last = t0.at
		n++
	}
	want := 0
	for i := range all {
		if i%3 != 0 || i%5 == 0 {
			want++
		}
		if all[i].pos != 0 {
			t.Fatalf("timer %d is still in the heap", i)
		}
	}
	if n != want {
		t.Errorf("%d timers fired, want %d", n, want)
	}

	var r rate
	for i := range 50 {
		r.add(time.Duration(i) * 200 * time.Millisecond) // 5 a second for 10 s
	}
	if got := r.perSecond(9900 * time.Millisecond); got != 5 {
		t.Errorf("%v a second, want 5", got)
	}
	if got := r.perSecond(14500 * time.Millisecond); got != 2.5 {
		t.Errorf("%v a second, want 2.5 when half the window is empty", got)
	}
	if got := r.perSecond(time.Hour); got != 0 {
		t.Errorf("%v a second an hour later", got)
	}
}
