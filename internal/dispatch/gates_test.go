package dispatch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twolane/twolane/gate"
	"github.com/twolane/twolane/store"
)

// knob is a gate that a test turns.
type knob struct {
	budget  float64
	verdict func(job *gate.Job) gate.Verdict
	heard   []gate.Feedback
	asked   []gate.Scope
}

func (k *knob) Read(_ time.Time, s gate.Scope) gate.Reading {
	k.asked = append(k.asked, s)
	return gate.Reading{Budget: k.budget, Value: k.budget, Threshold: gate.None, Up: true}
}

func (k *knob) Judge(_ time.Time, _ gate.Scope, job *gate.Job) gate.Verdict {
	if k.verdict == nil {
		return gate.Verdict{}
	}
	return k.verdict(job)
}

func (k *knob) Feedback(f gate.Feedback) { k.heard = append(k.heard, f) }

// whole is a knob that measures all that runs under it, late at times.
type whole struct{ *knob }

func (whole) Whole() {}

func (w whole) Read(now time.Time, s gate.Scope) gate.Reading {
	r := w.knob.Read(now, s)
	r.Lag = time.Duration(len(w.asked)%3) * 100 * time.Millisecond
	return r
}

func gated(t *testing.T, bs ...gate.Binding) *driver {
	return newDriver(t, func(c *Config) {
		c.Permits = [2]int{8, 8}
		c.Queues = []Queue{{Name: "q"}, {Name: "r"}}
		c.Types = []*Type{{Name: "a", Lanes: [2]bool{true, true}}, {Name: "b", Lanes: [2]bool{true, true}}}
		c.Gates = bs
		c.Wall = func(now time.Duration) time.Time { return time.UnixMilli(2e12).Add(now) }
	})
}

// wants says what the claim in flight asks for, but for cancel visits: "queue/lane max type:room ...".
func (d *driver) wants(visits bool) []string {
	var all []string
	for _, w := range d.claim.Req.Wants {
		if w.Visits != visits {
			continue
		}
		s := fmt.Sprintf("%s/%s %d", w.Queue, w.Lane, w.Max)
		for _, t := range w.Types {
			s += " " + t.Type
			for _, r := range t.Rooms {
				s += fmt.Sprintf(":%d", d.claim.Req.Rooms[r])
			}
		}
		all = append(all, s)
	}
	slices.Sort(all)
	return all
}

func TestGatesSizeWants(t *testing.T) {
	both := []store.Lane{store.Intake, store.Repoll}
	for _, c := range []struct {
		name  string
		binds []gate.Binding
		want  string // the sums that intake and repoll ask for, and the visits
	}{
		{"open", []gate.Binding{{Gate: &knob{budget: 1}}}, "q/intake 4 a b, q/repoll 4 a b"},
		{"a quarter", []gate.Binding{{Gate: &knob{budget: 0.25}}}, "q/intake 4 a:2 b:2, q/repoll 4 a b"},
		{"one queue", []gate.Binding{{Gate: &knob{budget: 0.25}, Queues: []string{"r"}}}, "q/repoll 4 a b, q/repoll 4 a b, r/intake 4 a:2 b:2"},
		{"one type", []gate.Binding{{Gate: &knob{budget: 0.25}, Types: []string{"b"}}}, "q/intake 4 a b:2"},
		{"type shut", []gate.Binding{{Gate: &knob{}, Types: []string{"b"}}}, "q/intake 4 a,"},
		{"lane shut", []gate.Binding{{Gate: &knob{}, Lanes: both}}, " | q/repoll 8 a b, r/repoll 8 a b"},
		{"type shut in both", []gate.Binding{{Gate: &knob{}, Lanes: both, Types: []string{"b"}}}, "| q/repoll 8 b, r/repoll 8 b"},
		{"two gates", []gate.Binding{{Gate: &knob{budget: 0.5}}, {Gate: &knob{budget: 0.25}}}, "q/intake 4 a:4:2 b:4:2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i := range c.binds {
				c.binds[i].Name = fmt.Sprint("g", i)
			}
			d := gated(t, c.binds...)
			d.step()
			if d.claim == nil {
				t.Fatal("no claim")
			}
			got := strings.Join(d.wants(false), ", ") + " | " + strings.Join(d.wants(true), ", ")
			if !strings.Contains(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if n := len(d.claim.Req.Rooms); n > len(c.binds) {
				t.Errorf("%d rooms for %d gates", n, len(c.binds))
			}
		})
	}
}

// What a gate leaves is one room that all queues share: one claim tells who has something for it, whoever comes first has it, and no claim follows for the rest.
func TestGateRoomIsShared(t *testing.T) {
	d := newDriver(t, func(c *Config) {
		c.Permits, c.Policy = [2]int{8, 8}, Strict
		c.Queues = []Queue{{Name: "q"}, {Name: "r"}}
		c.Types = []*Type{{Name: "a", Lanes: [2]bool{true, false}}, {Name: "b", Lanes: [2]bool{true, false}}}
		c.Gates = []gate.Binding{{Name: "g", Gate: &knob{budget: 0.25}}}
		c.Wall = func(now time.Duration) time.Time { return time.UnixMilli(2e12).Add(now) }
	})
	d.step()
	if got := strings.Join(d.wants(false), ", "); got != "q/intake 8 a:2 b:2, r/intake 8 a:2 b:2" || !d.claim.Req.Ordered {
		t.Fatalf("asked for %s", got)
	}
	call := d.claim
	d.claim = nil
	g := d.cmds("1", "2")
	g[0].Items[0].Queue = "r"
	r := store.ClaimReply{Grants: g, Wants: make([]store.WantReport, len(call.Req.Wants))}
	for i := range r.Wants {
		r.Wants[i].Why = store.WhyEmpty
	}
	d.c.Claimed(d.now, call, r, nil)
	for range 5 {
		d.sleep(20 * time.Millisecond)
		if d.claim != nil {
			t.Fatalf("it asks for %v when the room is used up", d.wants(false))
		}
	}
	d.end(d.live[0], store.OutcomeDone)
	if d.step(); d.claim == nil || !slices.Contains(d.wants(false), "q/intake 7 a:1 b:1") {
		t.Error("the place that became free was not asked for at once")
	}
}

// What a claim brought for a room and was given back leaves the room: it is asked for at once.
func TestGateRoomOfWhatIsGivenBack(t *testing.T) {
	d := gated(t, gate.Binding{Name: "g", Gate: &knob{budget: 0.25}})
	d.step()
	call := d.claim
	d.claim = nil
	g := d.cmds("1", "2")
	g[0].Items[0].Type = "unknown"
	g[1].Items[0].Type = "unknown"
	for i := range g { // under the gate, but nothing that this worker runs
		g[i].Items[0].Queue = "q"
	}
	d.c.Claimed(d.now, call, store.ClaimReply{Grants: g, Wants: make([]store.WantReport, len(call.Req.Wants))}, nil)
	if d.step(); d.claim == nil {
		t.Error("no claim for the room that is left")
	}
}

// A permit that becomes free under a gate that is full is claimed at once, not at the next poll.
func TestGateRoomIsUsedAtOnce(t *testing.T) {
	d := gated(t, gate.Binding{Name: "g", Gate: &knob{budget: 0.25}})
	d.step()
	call := d.claim
	d.claim = nil
	r := store.ClaimReply{Grants: d.cmds("1", "2"), Wants: make([]store.WantReport, len(call.Req.Wants))} // it was given all that it asked for
	d.c.Claimed(d.now, call, r, nil)
	d.step()
	if len(d.live) != 2 {
		t.Fatalf("%d run", len(d.live))
	}
	for d.claim != nil { // what is not under the gate
		if slices.ContainsFunc(d.wants(false), func(s string) bool { return strings.Contains(s, "/intake ") }) {
			t.Fatalf("asked for %v under a full gate", d.wants(false))
		}
		d.claimed(nil, nil)
	}
	d.end(d.live[0], store.OutcomeDone)
	if d.claim == nil {
		d.sleep(time.Millisecond)
	}
	if d.claim == nil || !slices.ContainsFunc(d.wants(false), func(s string) bool { return strings.Contains(s, "/intake ") && strings.Contains(s, " a:1 b:1") }) {
		t.Error("the room was not asked for at once")
	}
}

// A gate that changes is looked at when it says so; one that opens by time alone, at that time.
func TestGateWakesTheCore(t *testing.T) {
	k := &knob{}
	d := gated(t, gate.Binding{Name: "g", Gate: k})
	d.step()
	for d.claim != nil {
		d.claimed(nil, nil)
	}
	d.sleep(20 * time.Millisecond)
	if d.claim != nil {
		t.Fatal("a claim for nothing")
	}
	k.budget = 1
	d.c.GatesChanged(d.now)
	d.step()
	if d.claim == nil || len(d.wants(false)) < 3 {
		t.Fatal("no claim for intake after the gate said that it has changed")
	}
}

// Verdicts: each command has its own; those that run share the call; nothing is held for the others.
func TestGateVerdictsInABatch(t *testing.T) {
	k := &knob{budget: 1}
	d := newDriver(t, func(c *Config) {
		c.Types[0].Batch = [2]int{10, 10}
		c.Gates = []gate.Binding{{Name: "g", Gate: k}}
	})
	k.verdict = func(job *gate.Job) gate.Verdict {
		switch job.ID {
		case "drop":
			return gate.Verdict{Decision: gate.Drop, Result: []byte("x"), Detail: "why"}
		case "wait":
			return gate.Verdict{Decision: gate.Wait}
		case "refuse":
			return gate.Verdict{Decision: gate.Refuse, After: 7 * time.Second}
		}
		return gate.Verdict{}
	}
	d.step()
	g := store.Grant{Items: []*store.Command{d.cmd("drop"), d.cmd("run1"), d.cmd("wait"), d.cmd("refuse"), d.cmd("run2")}}
	d.claimed([]store.Grant{g}, nil)
	if len(d.live) != 1 || len(d.live[0].Items) != 2 || d.live[0].Items[0].Cmd.ID != "run1" {
		t.Fatalf("live: %+v", d.live)
	}
	d.sleep(2 * time.Millisecond)
	got := map[string]store.Settlement{}
	for _, s := range d.settled(store.SettleDone, nil) {
		got[s.ID] = s
	}
	if s := got["drop"]; s.Kind != store.OutcomeFail || s.Reason != store.ReasonDropped || string(s.Result) != "x" || !strings.Contains(s.Error, "gate g: drop: why") {
		t.Errorf("drop: %+v", s)
	}
	if s := got["wait"]; s.Kind != store.OutcomeGiveBack || !s.Unstarted || s.Delay != time.Second {
		t.Errorf("wait: %+v", s)
	}
	if s := got["refuse"]; s.Kind != store.OutcomeGiveBack || !s.Unstarted || s.Delay != 7*time.Second {
		t.Errorf("refuse: %+v", s)
	}
	d.end(d.live[0], store.OutcomeDone)
	d.settled(store.SettleDone, nil)
	d.baseline()
	if n := len(k.heard); n != 2 || k.heard[0].Signal != gate.Succeeded || k.heard[0].Scope.Held != 1 {
		t.Errorf("heard %+v", k.heard)
	}
}

// A class is known only of a command: a gate for one class lets the others pass, and counts its own alone.
func TestGateOfAClass(t *testing.T) {
	k := &knob{budget: 0.25}
	d := gated(t, gate.Binding{Name: "g", Gate: k, Class: gate.Overflow})
	d.step()
	gs := d.cmds("o1", "r1", "o2", "o3", "r2")
	for _, g := range gs {
		g.Items[0].Overflow = g.Items[0].ID[0] == 'o'
	}
	d.claimed(gs, nil)
	var ran []string
	for _, inv := range d.live {
		ran = append(ran, inv.Items[0].Cmd.ID)
	}
	if want := []string{"o1", "r1", "o2", "r2"}; !slices.Equal(ran, want) {
		t.Errorf("ran %v, want %v", ran, want)
	}
	d.sleep(2 * time.Millisecond)
	if s := d.settled(store.SettleDone, nil); len(s) != 1 || s[0].ID != "o3" || s[0].Kind != store.OutcomeGiveBack || !s[0].Unstarted || s[0].Delay < time.Second {
		t.Errorf("given back: %+v", s)
	}
	for len(d.live) > 0 {
		d.end(d.live[0], store.OutcomeDone)
	}
	for d.settle != nil {
		d.settled(store.SettleDone, nil)
	}
	d.baseline()
}

// After any sequence of verdicts, budgets, ends, lost replies, lost leases and a drain nothing is held: no permit, no lease, and no place under a gate.
// The driver compares what gates count with what runs at every step.
func TestF010_GatesHoldNothing(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		knobs := []*knob{{budget: 1}, {budget: 1}, {budget: 1}}
		for _, k := range knobs {
			k.verdict = func(job *gate.Job) gate.Verdict {
				v := gate.Verdict{Decision: gate.Decision(rng.IntN(6))}
				if v.Decision > gate.Drop {
					v.Decision = gate.Continue
				}
				if rng.IntN(3) == 0 {
					v.Close = &gate.Key{By: store.ByType, Value: job.Type}
				}
				return v
			}
		}
		d := gated(t, gate.Binding{Name: "g0", Gate: knobs[0]}, gate.Binding{Name: "g1", Gate: whole{knobs[1]}, Per: gate.PerQueue | gate.PerType, Lanes: []store.Lane{0, 1}},
			gate.Binding{Name: "g2", Gate: knobs[2], Per: gate.PerClass, ClassOf: func(j *gate.Job) string { return j.ID[:1] }})
		next := 0
		for range 400 {
			for _, k := range knobs {
				if rng.IntN(10) == 0 {
					k.budget = []float64{0, 0.01, 0.3, 1}[rng.IntN(4)]
				}
			}
			d.sleep(time.Duration(rng.Int64N(int64(500 * time.Millisecond))))
			if d.claim != nil {
				if rng.IntN(10) == 0 {
					d.claimed(nil, errStore)
				} else {
					var gs []store.Grant
					left := d.claim.Req.Free
					for _, w := range d.claim.Req.Wants {
						for n := min(w.Max, rng.IntN(3)); n > 0 && left[w.Lane] > 0 && !w.Visits; n-- {
							next++
							left[w.Lane]--
							cmd := d.cmd(fmt.Sprintf("%c%d", 'x'+rng.IntN(3), next))
							cmd.Queue, cmd.Type = w.Queue, w.Types[rng.IntN(len(w.Types))].Type
							if w.Lane == store.Repoll {
								cmd.Status = store.Processing
							}
							gs = append(gs, store.Grant{Lane: w.Lane, Items: []*store.Command{cmd}})
						}
					}
					d.claimed(gs, nil)
				}
			}
			if len(d.renew) > 0 {
				d.renewed(func(string) store.RenewResult {
					if rng.IntN(50) == 0 {
						return store.RenewResult{State: store.RenewLost}
					}
					return store.RenewResult{State: store.RenewOK}
				})
			}
			if len(d.live) > 0 && rng.IntN(2) == 0 {
				kinds := []store.OutcomeKind{store.OutcomeDone, store.OutcomeRetry, store.OutcomeSnooze, store.OutcomeThrottled, store.OutcomeFail}
				d.end(d.live[rng.IntN(len(d.live))], kinds[rng.IntN(len(kinds))])
			}
			if d.settle != nil && rng.IntN(3) > 0 {
				if rng.IntN(8) == 0 {
					d.settled(0, errStore)
				} else {
					d.settled(store.SettleDone, nil)
				}
			}
		}
		d.c.Drain(d.now, 30*time.Second)
		for i := 0; i < 2000 && !d.done; i++ {
			if d.claim != nil {
				d.claimed(nil, nil)
			}
			if len(d.live) > 0 {
				d.end(d.live[0], store.OutcomeDone)
			}
			if d.settle != nil {
				d.settled(store.SettleDone, nil)
			}
			if len(d.renew) > 0 {
				d.renewed(nil)
			}
			d.sleep(10 * time.Millisecond)
		}
		d.baseline()
		for _, b := range d.c.gates.binds {
			for k, x := range b.cells {
				if x.held != 0 {
					t.Fatalf("seed %d: %s holds %d in %+v", seed, b.Name, x.held, k)
				}
			}
			for l, s := range b.sums {
				if s != nil && s.held != 0 {
					t.Fatalf("seed %d: the cells of %s hold %d together in lane %d", seed, b.Name, s.held, l)
				}
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// An open gate leaves a strict order alone: each claim asks for the first queue first, and for all of them.
func TestOpenGateKeepsTheOrder(t *testing.T) {
	d := newDriver(t, func(c *Config) {
		c.Permits, c.Policy = [2]int{8, 0}, Strict
		c.Queues = []Queue{{Name: "q"}, {Name: "r"}, {Name: "s"}}
		c.Types = []*Type{{Name: "a", Lanes: [2]bool{true, false}}, {Name: "b", Lanes: [2]bool{true, false}}}
		c.Gates = []gate.Binding{{Name: "all", Gate: &knob{budget: 1}}, {Name: "one", Gate: &knob{budget: 1}, Types: []string{"a"}}}
		c.Wall = func(now time.Duration) time.Time { return time.UnixMilli(2e12).Add(now) }
	})
	for i := range 5 {
		d.step()
		if d.claim == nil {
			t.Fatal("no claim")
		}
		for j, w := range d.claim.Req.Wants {
			if w.Queue != []string{"q", "r", "s"}[j] || w.Max != 8-i {
				t.Fatalf("claim %d: want %d is %+v", i, j, w)
			}
		}
		call := d.claim
		d.claim = nil
		d.c.Claimed(d.now, call, store.ClaimReply{Grants: d.cmds(fmt.Sprint(i)), Wants: make([]store.WantReport, len(call.Req.Wants))}, nil)
		d.sleep(time.Second)
	}
}
