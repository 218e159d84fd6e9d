package sim

import (
	"hash/fnv"
	"time"

	"github.com/twolane/twolane/gate"
	"github.com/twolane/twolane/internal/dispatch"
	"github.com/twolane/twolane/store"
)

// tide is a gate whose budget changes every few seconds, and that says of single commands what it wants. Once all is healed it is open. What it
// says follows from the time and the command alone, so that a seed replays.
type tide struct {
	w      *world
	name   string
	lag    time.Duration
	judges bool
}

// gates are those of a worker of this run.
func (w *world) gates() []gate.Binding {
	return []gate.Binding{
		{Name: "tide", Gate: &tide{w: w, name: "tide"}},
		{Name: "late", Gate: &tide{w: w, name: "late", lag: time.Second}, Lanes: []store.Lane{store.Intake, store.Repoll}, Types: []string{"quick", "batch", "hook"}},
		{Name: "moody", Gate: &tide{w: w, name: "moody", judges: true}, Per: gate.PerQueue | gate.PerType},
	}
}

// gated reports whether a gate may keep something from starting.
func (w *world) gated() bool {
	return w.plan.tides && (!w.healed || w.now < w.opened+5*time.Second)
}

// lot draws a number below n for a name at a time; it is the same for some seconds.
func (t *tide) lot(name string, every time.Duration, n uint64) uint64 {
	h := fnv.New64a()
	h.Write([]byte(t.name + name))
	x := h.Sum64() ^ uint64(t.w.now/every)*0x9e3779b97f4a7c15
	x ^= x >> 31
	x *= 0xbf58476d1ce4e5b9
	return (x >> 33) % n
}

func (t *tide) budget() float64 {
	if t.w.healed || t.judges {
		return 1
	}
	return []float64{0, 0, 0.05, 0.3, 1, 1}[t.lot("", 3*time.Second, 6)]
}

// Read implements gate.Gate.
func (t *tide) Read(now time.Time, _ gate.Scope) gate.Reading {
	b := t.budget()
	return gate.Reading{Budget: b, Value: b, Threshold: gate.None, Up: true, Lag: t.lag, At: now}
}

// Judge implements gate.Judge.
func (t *tide) Judge(_ time.Time, _ gate.Scope, job *gate.Job) gate.Verdict {
	if !t.judges || t.w.healed {
		return gate.Verdict{}
	}
	switch t.lot(job.ID, 2*time.Second, 40) {
	case 0, 1, 2, 3, 4, 5:
		return gate.Verdict{Decision: gate.Wait}
	case 6, 7, 8:
		return gate.Verdict{Decision: gate.Refuse, After: 3 * time.Second}
	case 9:
		return gate.Verdict{Decision: gate.Drop, Result: []byte("dropped")}
	}
	return gate.Verdict{}
}

// underGates looks at a claim: a gate that is closed is asked for nothing but cancel visits.
func (p *proc) underGates(req *store.ClaimRequest) {
	if !p.w.plan.tides || req.Nonce == p.nonce {
		return // it is the same again
	}
	p.nonce = req.Nonce
	for _, b := range p.w.gates() {
		if b.Gate.(*tide).budget() > 0 {
			continue
		}
		for _, want := range req.Wants {
			for _, t := range want.Types {
				if !want.Visits && b.Covers(want.Lane, want.Queue, t.Type) {
					p.w.fail("gates", "%s claims %s in %s/%s under gate %s, which is closed", p.id, t.Type, want.Queue, want.Lane, b.Name)
				}
			}
		}
	}
}

// countGates compares what gates count with the handlers that run, and notes when one had no room.
func (p *proc) countGates() {
	if !p.w.plan.tides || p.dead {
		return
	}
	p.core.EachGate(func(x *dispatch.GateCell) {
		if !x.Spare() && !x.Closed() {
			p.tight[x.Lane()] = p.w.now
		}
		running, waiting := 0, x.Held()
		for _, r := range p.runs {
			if r.inv.Lane == x.Lane() && !r.abandoned && !r.over && !r.inv.Class.Visit() && x.About(r.inv.Queue, r.inv.Type.Name) {
				running++
			}
		}
		if most := p.plan.permits[x.Lane()]; waiting < running || waiting > most {
			p.w.fail("gates", "%s: gate %s counts %d in lane %s, %d handlers run and there are %d permits", p.id, x.Binding().Name, waiting, x.Lane(), running, most)
		}
	})
}
