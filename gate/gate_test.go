package gate

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/twolane/twolane/store"
)

func TestReadingsAreBroughtIntoBounds(t *testing.T) {
	for _, c := range []struct {
		in   Reading
		want Reading
	}{
		{Reading{Budget: math.NaN()}, Reading{Cap: 1, Step: 1, Reason: Closed}},
		{Reading{Budget: math.Inf(1)}, Reading{Budget: 1, Cap: 1, Step: 1, Reason: Open}},
		{Reading{Budget: -3, Reason: Window}, Reading{Cap: 1, Step: 1, Reason: Window}},
		{Reading{Budget: 0.4}, Reading{Budget: 0.4, Cap: 0.4, Step: 1, Reason: Open}},
		{Reading{Budget: 0.4, Lag: time.Second}, Reading{Budget: 0.4, Cap: 1, Step: 0.25, Lag: time.Second, Reason: Open}},
		{Reading{Budget: 0.4, Lag: time.Second, Cap: 0.5, Step: 0.1}, Reading{Budget: 0.4, Cap: 0.5, Step: 0.1, Lag: time.Second, Reason: Open}},
		{Reading{Budget: 0.4, Lag: -1}, Reading{Budget: 0.4, Cap: 0.4, Step: 1, Reason: Open}},
	} {
		if got := c.in.Normal(); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.in, got, c.want)
		}
		if n := c.in.Normal(); n != n.Normal() {
			t.Errorf("%+v is not kept: %+v", n, n.Normal())
		}
	}
}

// fixed is a gate with a reading and a verdict.
type fixed struct {
	r Reading
	v Verdict
}

func (f fixed) Read(time.Time, Scope) Reading            { return f.r }
func (f fixed) Judge(time.Time, Scope, *Job) (v Verdict) { return f.v }

func TestCompositeIsTheTightest(t *testing.T) {
	c, err := NewComposite(fixed{r: Reading{Budget: 0.3, Up: true}}, fixed{r: Reading{Budget: 0.8, Lag: time.Second, Up: true, Value: 7}})
	if err != nil {
		t.Fatal(err)
	}
	if r := c.Read(t0, Scope{}); r.Budget != 0.3 || r.Cap != 0.3 || r.Lag != time.Second || r.Step != 0.25 || !r.Up {
		t.Errorf("%+v", r)
	}
	c, _ = NewComposite(Constant(1), fixed{r: Reading{Reason: NoReading, Detail: "gone"}}, Constant(0.5))
	if r := c.Read(t0, Scope{}); r.Budget != 0 || r.Up || r.Reason != NoReading || r.Detail != "gone" {
		t.Errorf("%+v", r)
	}
	c, _ = NewComposite(fixed{}, fixed{v: Verdict{Decision: Refuse}}, fixed{v: Verdict{Decision: Drop}})
	if v := c.Judge(t0, Scope{}, &Job{}); v.Decision != Refuse {
		t.Errorf("%+v", v)
	}
	if _, err := NewComposite(); err == nil {
		t.Error("a composite of no gates would be open")
	}
}

func TestWaitOnRefuse(t *testing.T) {
	for in, want := range map[Decision]Decision{Continue: Continue, Wait: Wait, Refuse: Wait, Drop: Drop} {
		w, err := NewWaitOnRefuse(fixed{r: Reading{Budget: 0.5}, v: Verdict{Decision: in, After: time.Minute}})
		if err != nil {
			t.Fatal(err)
		}
		if v := w.Judge(t0, Scope{}, &Job{}); v.Decision != want || v.After != time.Minute {
			t.Errorf("%v: %+v", in, v)
		}
		if r := w.Read(t0, Scope{}); r.Budget != 0.5 {
			t.Errorf("%+v", r)
		}
	}
}

// Who gives way while the backend is saturated.
func TestTierPriority(t *testing.T) {
	saturation := &fixedPtr{}
	g, err := NewTierPriority(TierConfig{Saturation: saturation})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tier     string
		overflow bool
		key      bool
		want     Decision
		closes   string
	}{
		{TierInteractive, false, false, Wait, ""}, {TierAsync, false, false, Wait, ""}, {TierInteractive, true, false, Drop, ""},
		{TierAsync, true, false, Refuse, ""}, {TierBatch, true, false, Refuse, ""}, {"", true, false, Refuse, ""}, {"unheard-of", false, false, Wait, ""},
		{TierBatch, true, true, Refuse, TierBatch}, {TierInteractive, false, true, Wait, ""}, {TierInteractive, true, true, Drop, ""},
	} {
		job := &Job{Overflow: c.overflow}
		if c.key {
			job.Keys = []store.Key{{Name: "tier", Value: c.tier}}
		} else {
			job.Metadata = map[string]string{"tier": c.tier}
		}
		saturation.r = Reading{Budget: 0.1}
		if v := g.Judge(t0, Scope{}, job); v.Decision != Continue {
			t.Errorf("%+v: %v while there is room", c, v.Decision)
		}
		saturation.r = Reading{}
		v := g.Judge(t0, Scope{}, job)
		if v.Decision != c.want || (v.Close != nil) != (c.closes != "") || v.Close != nil && v.Close.Value != c.closes {
			t.Errorf("%+v: %+v", c, v)
		}
		if v.Decision == Drop && string(v.Result) != `{"error": "Too Many Requests", "code": 429}` {
			t.Errorf("dropped with %s", v.Result)
		}
	}
	// An outage of the source ends no command.
	saturation.r = Reading{Reason: NoReading}
	for overflow, want := range map[bool]Decision{true: Refuse, false: Wait} {
		job := &Job{Overflow: overflow, Metadata: map[string]string{"tier": TierInteractive}}
		if v := g.Judge(t0, Scope{}, job); v.Decision != want || !strings.Contains(v.Detail, "not known") {
			t.Errorf("without a reading, overflow %v: %+v", overflow, v)
		}
	}
	saturation.r = Reading{}
	if r := g.Read(t0, Scope{Permits: 8, Held: 3}); Share(r.Budget, 8) != 5 {
		t.Errorf("saturated: %+v; it should look at a quarter beside what runs", r)
	}
}

type fixedPtr struct{ r Reading }

func (f *fixedPtr) Read(time.Time, Scope) Reading { return f.r }

func TestOverrideEnds(t *testing.T) {
	o := NewOverride(Constant(0.5))
	told := 0
	stop := o.Notify(func() { told++ })
	if err := o.Set(t0, 0, t0.Add(time.Minute), "maintenance"); err != nil || told != 1 {
		t.Fatal(err, told)
	}
	r := o.Read(t0.Add(59*time.Second), Scope{})
	if r.Budget != 0 || r.Reason != Manual || r.Detail != "maintenance" || !r.Opens.Equal(t0.Add(time.Minute)) || !r.Since.Equal(t0) {
		t.Errorf("%+v", r)
	}
	if r := o.Read(t0.Add(time.Minute), Scope{}); r.Budget != 0.5 {
		t.Errorf("%+v", r)
	}
	for _, err := range []error{
		o.Set(t0, 0, t0, ""), o.Set(t0, 0, time.Time{}, ""), o.Set(t0, 2, t0.Add(1), ""), o.Set(t0, math.NaN(), t0.Add(1), ""), o.Set(t0, 1, t0.AddDate(10, 0, 0), ""),
	} {
		if _, ok := errors.AsType[*store.InvalidError](err); !ok {
			t.Errorf("accepted: %v", err)
		}
	}
	stop()
	o.Clear()
	if told != 1 {
		t.Errorf("told %d times after stop", told)
	}
	inner := NewOverride(fixed{v: Verdict{Decision: Drop}})
	if v := inner.Judge(t0, Scope{}, &Job{}); v.Decision != Drop {
		t.Errorf("%+v", v)
	}
	_ = inner.Set(t0, 1, t0.Add(time.Hour), "")
	if v := inner.Judge(t0, Scope{}, &Job{}); v.Decision != Continue {
		t.Errorf("%+v", v)
	}
}

// paced is a gate with a rate.
type paced struct{ Constant }

func (paced) Pace(time.Time) (Pace, bool) {
	return Pace{Rate: 3, Burst: 1, Until: t0.Add(time.Hour)}, true
}

// A gate with a rate is closed until the store keeps that rate.
func TestPacerWaitsForItsRate(t *testing.T) {
	c, _ := NewComposite(Constant(1), paced{1})
	w, _ := NewWaitOnRefuse(c)
	o := NewOverride(w)
	if r := o.Read(t0, Scope{}); r.Budget != 0 || r.Reason != NoReading {
		t.Errorf("%+v", r)
	}
	if p, ok := o.Pace(t0); !ok || p.Rate != 3 {
		t.Errorf("%+v %v", p, ok)
	}
	o.Paced()
	if r := o.Read(t0, Scope{}); r.Budget != 1 {
		t.Errorf("%+v", r)
	}
	if Has[Pacer](NewOverride(Constant(1))) {
		t.Error("a constant has no rate")
	}
	tiers, _ := NewTierPriority(TierConfig{Saturation: Constant(1)})
	type own struct{ *TierPriority } // a gate of somebody else, made of one of ours
	for _, g := range []Gate{tiers, own{tiers}, NewOverride(own{tiers})} {
		if Has[Pacer](g) || Has[Listener](g) || !Has[Judge](g) {
			t.Errorf("%T: pacer %v, listener %v, judge %v", g, Has[Pacer](g), Has[Listener](g), Has[Judge](g))
		}
	}
	aimd, _ := NewAIMD(AIMDConfig{})
	if w, _ := NewWaitOnRefuse(aimd); !Has[Listener](w) || Has[Judge](w) {
		t.Error("what is behind a gate is not seen")
	}
	var _ Runner = w
	w.Run(context.Background()) // nobody in it runs: it returns
}
