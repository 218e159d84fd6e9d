package dispatch

import (
	"fmt"
	"testing"
	"time"

	"github.com/twolane/twolane/store"
)

func TestClaimGathers(t *testing.T) {
	d := newDriver(t, nil)
	if d.claim == nil || d.claim.Req.Free != [2]int{4, 4} {
		t.Fatalf("first claim: %+v", d.claim)
	}
	d.claimed(d.cmds("1", "2", "3", "4"), nil)
	if len(d.live) != 4 || d.c.free(store.Intake) != 0 {
		t.Fatalf("%d started, %d free", len(d.live), d.c.free(store.Intake))
	}
	d.c.Woken(d.now, store.Wake{Kind: store.WakeWork, Queue: "q"})
	d.step()
	// The other lane is asked, and while that is in flight two permits become free: they are asked for in one call after it.
	if d.claim == nil || d.claim.Req.Free != [2]int{0, 4} {
		t.Fatalf("claim with a full intake: %+v", d.claim)
	}
	d.sleep(settleLinger)
	d.end(d.live[0], store.OutcomeDone)
	d.end(d.live[0], store.OutcomeDone)
	d.claimed(nil, nil)
	if d.claim == nil || d.claim.Req.Free[store.Intake] != 2 {
		t.Fatalf("claim after two ends: %+v", d.claim)
	}
	d.claimed(nil, nil)
	for len(d.live) > 0 {
		d.end(d.live[0], store.OutcomeDone)
	}
	if n := len(d.settled(store.SettleDone, nil)); n != 1 {
		t.Errorf("first settle has %d items, want the first alone", n)
	}
	if n := len(d.settled(store.SettleDone, nil)); n != 3 {
		t.Errorf("second settle has %d items, want the three that ended meanwhile", n)
	}
	d.baseline()
}

func TestClaimLostReplyIsRepeatedWithItsNonce(t *testing.T) {
	d := newDriver(t, nil)
	first := *d.claim
	d.claimed(nil, errStore)
	d.sleep(100 * time.Millisecond)
	d.sleep(200 * time.Millisecond)
	if d.claim == nil || d.claim.Req.Nonce != first.Req.Nonce || d.claim.Req.Free != first.Req.Free {
		t.Fatalf("repeated claim: %+v, want the nonce of %+v", d.claim, first)
	}
	// Permits stay asked: nothing else may use them.
	if d.c.free(store.Intake) != 0 {
		t.Errorf("%d permits free while a claim for all of them is not answered", d.c.free(store.Intake))
	}
	d.claimed(d.cmds("1"), nil)
	if len(d.live) != 1 {
		t.Fatalf("%d started", len(d.live))
	}
	if d.claim == nil || d.claim.Req.Nonce == first.Req.Nonce {
		t.Errorf("next claim: %+v, want another nonce at once", d.claim)
	}
}

func TestClaimAge(t *testing.T) {
	for _, c := range []struct {
		age            time.Duration
		starts, proves bool
	}{{testV/4 - 1, true, false}, {testV / 4, false, true}, {testV / 2, false, true}, {testV/2 + 1, false, false}} {
		t.Run(c.age.String(), func(t *testing.T) {
			d := newDriver(t, nil)
			d.now += c.age
			d.claimed(d.cmds("1"), nil)
			if c.starts != (len(d.live) == 1) {
				t.Fatalf("started %d", len(d.live))
			}
			var proof *RenewCall
			for _, r := range d.renew {
				if r.kind == renewExtra {
					proof = r
				}
			}
			if c.proves != (proof != nil) {
				t.Fatalf("renewed first: %v", proof != nil)
			}
			if !c.starts && !c.proves {
				if s := d.settle.Req.Items[0]; s.Kind != store.OutcomeGiveBack || !s.Unstarted {
					t.Errorf("settled with %+v", s)
				}
			}
			if c.proves {
				d.renewed(nil)
				if len(d.live) != 1 || d.live[0].Items[0].sent < c.age {
					t.Errorf("started %d; its lease counts from %v", len(d.live), d.live[0].Items[0].sent)
				}
			}
		})
	}
}

// The time that a deadline leaves is counted from the arrival of the answer to a claim. One that was long on its way says too much: the proof of the
// lease corrects it.
func TestClaimAgeAndDeadline(t *testing.T) {
	d := newDriver(t, nil)
	const left = 6 * time.Second
	g := d.cmds("1")
	g[0].Items[0].Deadline = store.Millis(left.Milliseconds()) // the store answers at its time 0
	sent := d.now
	d.now += testV / 4
	d.claimed(g, nil)
	d.renewedAt(store.Millis((d.now - sent).Milliseconds()))
	if len(d.live) != 1 || d.live[0].Items[0].endsAt != sent+left {
		t.Fatalf("started %d; its context ends at %v, want %v", len(d.live), d.live[0].Items[0].endsAt, sent+left)
	}
	d.sleep(sent + left - d.now)
	if len(d.cancel) != 1 || d.cancel[0].Cause != ErrDeadline {
		t.Fatalf("at its deadline: %+v", d.cancel)
	}
}

func TestClaimProofRefused(t *testing.T) {
	d := newDriver(t, nil)
	d.now += testV / 4
	d.claimed(d.cmds("1", "2"), nil)
	d.renewed(func(id string) store.RenewResult {
		if id == "1" {
			return store.RenewResult{State: store.RenewLost}
		}
		return store.RenewResult{State: store.RenewOK}
	})
	if len(d.live) != 1 || d.live[0].Items[0].Cmd.ID != "2" {
		t.Fatalf("started %d", len(d.live))
	}
	d.end(d.live[0], store.OutcomeDone)
	d.settled(store.SettleDone, nil)
	d.baseline()
}

func TestClaimOfWhatStillRunsHere(t *testing.T) {
	d := newDriver(t, nil)
	d.claimed(d.cmds("1"), nil)
	d.sleep(time.Second)
	d.claimed(d.cmds("1", "2"), nil)
	d.sleep(settleLinger)
	if len(d.live) != 2 {
		t.Fatalf("%d run, want 1 once and 2", len(d.live))
	}
	if s := d.settle.Req.Items; len(s) != 1 || s[0].ID != "1" || s[0].Kind != store.OutcomeGiveBack || !s[0].Unstarted || s[0].Delay != 5*time.Second || s[0].Lease.Token != 2 {
		t.Errorf("given back: %+v", s)
	}
}

// A batch that was claimed as one may come back in pieces when the claim is repeated: what has no permit goes back.
func TestClaimThatComesApart(t *testing.T) {
	d := newDriver(t, func(c *Config) { c.Permits = [2]int{1, 2}; c.Types[0].Batch = [2]int{1, 3} })
	d.claimed(nil, errStore)
	d.now += time.Second
	d.step()
	gs := d.cmds("a", "b", "c")
	for i := range gs {
		gs[i].Lane, gs[i].Items[0].Status = store.Repoll, store.Processing
	}
	gs[1].Class = store.ClassCancel
	d.claimed(gs, nil)
	if len(d.live) != 2 || d.c.held[store.Repoll] != 2 {
		t.Errorf("%d started, %v held, want 2", len(d.live), d.c.held)
	}
	d.sleep(settleLinger)
	if back := d.settled(store.SettleDone, nil); len(back) != 1 || back[0].ID != "c" || back[0].Kind != store.OutcomeGiveBack || !back[0].Unstarted || back[0].Delay != 0 {
		t.Errorf("%+v, want c given back", back)
	}
}

// A claim that is repeated after the visibility timeout was raised brings leases of the old one: they are renewed before their handlers start.
func TestClaimOfAShorterLease(t *testing.T) {
	d := newDriver(t, nil)
	gs := d.cmds("a", "b")
	for i, term := range []time.Duration{testV / 4, testV} {
		gs[i].Items[0].LeasedAt, gs[i].Items[0].LeaseUntil = 1000, store.Millis(1000).Add(term)
	}
	d.claimed(gs, nil)
	if len(d.live) != 1 || d.live[0].Items[0].Cmd.ID != "b" {
		t.Fatalf("%d started, want b alone", len(d.live))
	}
	d.renewed(nil)
	if len(d.live) != 2 {
		t.Errorf("%d started after the renewal, want 2", len(d.live))
	}
}

func TestOneSuspectAtATime(t *testing.T) {
	d := newDriver(t, nil)
	flags := func() (n int) {
		for _, w := range d.claim.Req.Wants {
			if w.Suspect {
				n++
			}
		}
		return n
	}
	if all := len(d.claim.Req.Wants); flags() != all {
		t.Fatalf("%d of %d wants may have a suspect: the store sees to it that one comes", flags(), all)
	}
	g := d.cmds("s")
	g[0].Class = store.ClassSuspect
	d.claimed(g, nil)
	d.sleep(1100 * time.Millisecond)
	if flags() != 0 {
		t.Error("a second suspect may come while one is young")
	}
	d.claimed(nil, nil)
	for d.now < 2*testV+time.Second {
		d.sleep(time.Second)
		d.renewed(nil)
		if d.claim != nil && d.now < 2*testV && flags() != 0 {
			t.Fatalf("a second suspect may come at %v", d.now)
		}
		if d.claim != nil && d.now < 2*testV {
			d.claimed(nil, nil)
		}
	}
	if d.claim == nil {
		d.sleep(1100 * time.Millisecond)
	}
	if flags() == 0 {
		t.Error("no other suspect may come though the first has lived for 2 V")
	}
}

// Many suspects take their turns one after another, not one for each poll.
func TestNextSuspectAtOnce(t *testing.T) {
	d := newDriver(t, nil)
	for i := range 5 {
		if d.claim == nil || !d.claim.Req.Wants[0].Suspect {
			t.Fatalf("suspect %d is not asked for", i)
		}
		g := d.cmds(fmt.Sprint("s", i))
		g[0].Class = store.ClassSuspect
		d.claimed(g, nil)
		for d.claim != nil {
			d.claimed(nil, nil)
		}
		d.sleep(50 * time.Millisecond)
		d.end(d.live[0], store.OutcomeDone)
		d.step()
	}
}

// What arrives while a claim is in flight may have been missed by it: another claim follows at once.
func TestWakeUpDuringAClaim(t *testing.T) {
	d := newDriver(t, nil)
	d.claimed(nil, nil)
	d.sleep(1100 * time.Millisecond)
	if d.claim == nil {
		t.Fatal("no claim after the poll interval")
	}
	d.c.Woken(d.now, store.Wake{Kind: store.WakeWork, Queue: "q"})
	d.claimed(nil, nil)
	if d.claim == nil {
		t.Fatal("the wake-up was forgotten")
	}
	d.claimed(nil, nil)
	if d.claim != nil {
		t.Error("one wake-up made two claims")
	}
}
