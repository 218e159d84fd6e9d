package dispatch

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twolane/twolane/store"
)

func TestRenewTriesAndFence(t *testing.T) {
	d := newDriver(t, nil)
	d.claimed(d.cmds("1"), nil)
	start := d.now
	var sent []time.Duration
	for d.now < start+testV {
		d.sleep(500 * time.Millisecond)
		if len(d.renew) > 0 {
			sent = append(sent, d.now-start)
			d.renewFails()
		}
		if len(d.cancel) > 0 {
			break
		}
	}
	if got, want := d.now-start, testV-testV/8; got != want {
		t.Errorf("fenced after %v, want %v", got, want)
	}
	if !errors.Is(d.cancel[0].Cause, ErrLeaseLost) || d.saw(LeaseLost) != 1 {
		t.Errorf("%+v, %d events", d.cancel, d.saw(LeaseLost))
	}
	want := []time.Duration{5 * time.Second, 7500 * time.Millisecond, 10 * time.Second, 12500 * time.Millisecond, 15 * time.Second, 17500 * time.Millisecond}
	if !slices.Equal(sent, want) {
		t.Errorf("renewals at %v, want %v", sent, want)
	}
	// It is still renewed, and what it answers is still offered; an error is nobody's failure.
	d.renewed(nil)
	d.end(d.live[0], store.OutcomeRetry)
	if s := d.settle.Req.Items[0]; s.Kind != store.OutcomeGiveBack || s.Unstarted {
		t.Errorf("offered %+v, want a give-back", s)
	}
	d.settled(store.SettleLost, nil)
	d.baseline()
}

// The lease counts from when the renewal was sent, however late its answer comes.
func TestFenceCountsFromTheSend(t *testing.T) {
	d := newDriver(t, nil)
	d.claimed(d.cmds("1"), nil)
	start := d.now
	d.sleep(5 * time.Second)
	d.now += 2 * time.Second
	d.renewed(nil) // sent at 5 s, answered at 7 s
	d.sleep(15500*time.Millisecond - 1)
	if len(d.cancel) != 0 {
		t.Fatalf("fenced at %v", d.now-start)
	}
	d.sleep(1)
	if len(d.cancel) != 1 || d.now-start != 22500*time.Millisecond {
		t.Errorf("%d fenced at %v, want one at 22.5s", len(d.cancel), d.now-start)
	}
}

func TestRenewChunks(t *testing.T) {
	d := newDriver(t, func(c *Config) { c.Permits = [2]int{1200, 4} })
	for i := 0; i < 1200; {
		var ids []string
		for range d.claim.Req.Free[store.Intake] {
			ids = append(ids, fmt.Sprint("c", i))
			i++
		}
		call := d.claim
		d.claim = nil
		r := store.ClaimReply{Grants: d.cmds(ids...), Wants: make([]store.WantReport, len(call.Req.Wants))}
		d.c.Claimed(d.now, call, r, nil)
		d.step()
	}
	d.sleep(testV / 4)
	var sizes []int
	for _, r := range d.renew {
		sizes = append(sizes, len(r.Req.Leases))
	}
	if !slices.Equal(sizes, []int{500, 500, 200}) {
		t.Fatalf("chunks %v", sizes)
	}
	// One chunk fails: the second try is for it alone.
	bad := d.renew[1]
	d.renew = slices.Delete(d.renew, 1, 2)
	d.renewed(nil)
	d.c.Renewed(d.now, bad, store.RenewReply{}, errStore)
	d.step()
	d.sleep(testV / 8)
	if len(d.renew) != 1 || len(d.renew[0].Req.Leases) != 500 || d.renew[0].Req.Leases[0].ID != bad.Req.Leases[0].ID {
		t.Errorf("second try: %d calls", len(d.renew))
	}
}

func TestCancelComesWithTheHeartbeat(t *testing.T) {
	d := newDriver(t, nil)
	d.claimed(d.cmds("1", "2"), nil)
	d.c.Woken(d.now, store.Wake{Kind: store.WakeCancel, ID: "2"})
	d.step()
	if len(d.renew) != 1 || len(d.renew[0].Req.Leases) != 1 {
		t.Fatalf("a wake-up about a cancel renews at once: %+v", d.renew)
	}
	d.renewed(func(string) store.RenewResult { return store.RenewResult{State: store.RenewOK, Cancel: true} })
	if len(d.cancel) != 1 || !errors.Is(d.cancel[0].Cause, ErrCancelRequested) || d.cancel[0].Inv.Items[0].Cmd.ID != "2" {
		t.Fatalf("%+v", d.cancel)
	}
	d.end(d.live[1], store.OutcomeRetry)
	d.sleep(settleLinger)
	if s := d.settle.Req.Items[0]; s.Kind != store.OutcomeRetry {
		t.Errorf("an error after a cancel is offered as %v: the store makes CANCELLED of it", s.Kind)
	}
}

func TestCancelVisitIsNotCancelled(t *testing.T) {
	d := newDriver(t, nil)
	g := d.cmds("1")
	g[0].Lane, g[0].Class, g[0].Items[0].Status = store.Repoll, store.ClassCancel, store.Processing
	g[0].Items[0].Deadline = 1
	d.claimed(g, nil)
	d.sleep(5 * time.Second)
	d.renewed(func(string) store.RenewResult { return store.RenewResult{State: store.RenewOK, Cancel: true} })
	if len(d.cancel) != 0 {
		t.Errorf("its context ended: %v", d.cancel[0].Cause)
	}
}

func TestMaxRunAndOverdue(t *testing.T) {
	for _, policy := range []Overdue{Keep, Abandon} {
		t.Run(fmt.Sprint(policy), func(t *testing.T) {
			d := newDriver(t, func(c *Config) {
				c.Types[0].MaxRun, c.Grace, c.Overdue = 5*time.Second, 2*time.Second, policy
				c.Visibility = 10 * time.Minute
			})
			d.claimed(d.cmds("1"), nil)
			start := d.now
			d.sleep(5*time.Second - 1)
			if len(d.cancel)+d.saw(RunTooLong)+d.saw(MarkedOverdue) != 0 {
				t.Fatalf("something fired %v after the start", d.now-start)
			}
			d.sleep(1)
			if len(d.cancel) != 1 || d.cancel[0].Cause != ErrMaxRun || d.saw(RunTooLong) != 1 {
				t.Fatalf("%+v", d.cancel)
			}
			d.sleep(2*time.Second - 1)
			if d.saw(MarkedOverdue) != 0 {
				t.Fatal("overdue before the grace")
			}
			d.sleep(1)
			if d.saw(MarkedOverdue) != 1 {
				t.Fatal("not marked overdue")
			}
			p := d.c.Pulse(d.now)
			if policy == Keep {
				if d.settle != nil || p.Held[0] != 1 || p.Overdue != 1 || p.Abandoned != 0 {
					t.Errorf("%+v", p)
				}
				d.end(d.live[0], store.OutcomeDone)
				d.settled(store.SettleDone, nil)
			} else {
				if d.settle.Req.Items[0].Kind != store.OutcomeAbandon || p.Held[0] != 0 || p.Abandoned != 1 {
					t.Errorf("%+v %+v", d.settle.Req.Items[0], p)
				}
				d.settled(store.SettleDone, nil)
				// The id may not start here while its handler goes on.
				d.c.claim.next = d.now
				if d.claim == nil {
					d.step()
				}
				d.claimed(d.cmds("1"), nil)
				if len(d.live) != 1 || !d.settle.Req.Items[0].Unstarted {
					t.Errorf("it was started again beside itself")
				}
				d.settled(store.SettleDone, nil)
				d.end(d.live[0], store.OutcomeDone) // nobody waits for this answer
				if d.settle != nil {
					t.Errorf("offered %+v", d.settle.Req.Items[0])
				}
			}
			if d.saw(Returned) != 1 {
				t.Error("its return was not told")
			}
			d.baseline()
			if p := d.c.Pulse(d.now); p.Overdue != 0 || p.Abandoned != 0 {
				t.Errorf("%+v", p)
			}
		})
	}
}

// The first reply tells the visibility timeout: the tick follows it at once.
func TestTickFollowsTheVisibilityTimeout(t *testing.T) {
	d := newDriver(t, nil)
	call := d.claim
	d.claim = nil
	r := store.ClaimReply{Grants: d.cmds("1"), Wants: make([]store.WantReport, len(call.Req.Wants))}
	r.Visibility = 2 * time.Second
	d.c.Claimed(d.now, call, r, nil)
	d.step()
	start := d.now
	for len(d.renew) == 0 {
		d.sleep(10 * time.Millisecond)
	}
	if got := d.now - start; got != 500*time.Millisecond {
		t.Errorf("renewed after %v, want 500ms", got)
	}
	if at := time.Duration(d.live[0].Items[0].fenceAt.Load()); at != start+1750*time.Millisecond {
		t.Errorf("fence at %v", at-start)
	}
}
