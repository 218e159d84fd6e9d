package gate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twolane/twolane/store"
)

// Kind builds a gate of one type. It reads its settings from p, which knows what was read; errors are noted there or returned.
type Kind func(p *Params) (Gate, error)

// Kinds are types of gates by name. There is no registry: who reads a configuration says which types it may name.
type Kinds map[string]Kind

// With returns k and more; more counts where a name is in both.
func (k Kinds) With(more Kinds) Kinds {
	all := maps.Clone(k)
	maps.Copy(all, more)
	return all
}

// build makes a gate of settings that have its type.
func (k Kinds) build(p *Params) (Gate, error) {
	typ := p.Need("type")
	if typ == "" {
		return nil, p.Err()
	}
	kind, ok := k[typ]
	if !ok {
		detail := fmt.Sprintf("%q is no type of a gate", typ)
		if near := nearest(typ, slices.Collect(maps.Keys(k))); near != "" {
			detail += "; did you mean " + near + "?"
		}
		return nil, invalid(p.field("type"), "%s", detail)
	}
	g, err := kind(p)
	if wrong := p.Err(); wrong != nil { // what is wrong with single fields comes before what is wrong with all of them
		return nil, wrong
	}
	if err != nil {
		return nil, p.Within(err)
	}
	return g, nil
}

// New makes one gate of its settings, as a YAML or JSON file has them: "type" and what that type takes. An unknown type or key, and settings
// that contradict each other, are errors that name the field; path goes before it.
func New(path string, settings map[string]any, kinds Kinds) (Gate, error) {
	return kinds.build(NewParams(path, settings, kinds))
}

// NewBindings makes the gates of a worker of a list, as a YAML or JSON file has it: each entry has a name, may have lanes, queues,
// types, class and per, and is for the rest a gate.
func NewBindings(path string, list []any, kinds Kinds) ([]Binding, error) {
	var all []Binding
	top := NewParams("", map[string]any{path: list}, kinds)
	var errs []error
	for _, p := range top.List(path) {
		b, err := newBinding(p)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, b)
	}
	errs = append(errs, top.Err())
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return all, Validate(all)
}

var perNames = map[string]Per{"queue": PerQueue, "type": PerType, "class": PerClass}

func newBinding(p *Params) (Binding, error) {
	b := Binding{Name: p.Need("name"), Queues: p.Strings("queues"), Class: p.String("class", "")}
	for _, s := range p.Strings("lanes") {
		switch s {
		case store.Intake.String():
			b.Lanes = append(b.Lanes, store.Intake)
		case store.Repoll.String():
			b.Lanes = append(b.Lanes, store.Repoll)
		default:
			p.Fail("lanes", "%q is neither intake nor repoll", s)
		}
	}
	for _, s := range p.Strings("per") {
		per, ok := perNames[s]
		if !ok {
			p.Fail("per", "%q is neither queue nor type nor class", s)
		}
		b.Per |= per
	}
	b.Types = p.Strings("types")
	switch by, name, _ := strings.Cut(p.String("class_by", ""), ":"); by {
	case "":
	case "metadata":
		b.ClassOf = func(j *Job) string { return j.Metadata[name] }
	case "key":
		b.ClassOf = func(j *Job) string { v, _ := j.Key(name); return v }
	case "group":
		b.ClassOf = func(j *Job) string { return j.Group }
	default:
		p.Fail("class_by", "%q is none of metadata:NAME, key:NAME and group", by)
	}
	g, err := p.kinds.build(p)
	b.Gate = g
	return b, err
}

// Pure are the types that need nothing but this package: constant, schedule, manual, aimd, composite, tier-priority and wait-on-refuse.
func Pure() Kinds {
	return Kinds{
		"constant":       constantKind,
		"schedule":       scheduleKind,
		"manual":         manualKind,
		"aimd":           aimdKind,
		"composite":      func(p *Params) (Gate, error) { return asGate(NewComposite(p.Gates("gates")...)) },
		"wait-on-refuse": func(p *Params) (Gate, error) { return asGate(NewWaitOnRefuse(p.Gate("gate"))) },
		"tier-priority": func(p *Params) (Gate, error) {
			c := TierConfig{Saturation: p.Gate("saturation_gate"), Label: p.String("tier_label", "")}
			if s := p.String("dropped_result", ""); s != "" {
				c.Dropped = []byte(s)
			}
			return asGate(NewTierPriority(c))
		},
	}
}

// asGate keeps a nil of a type out of an interface.
func asGate[G Gate](g G, err error) (Gate, error) {
	if err != nil {
		return nil, err
	}
	return g, nil
}

func constantKind(p *Params) (Gate, error) {
	b := p.Float("budget", 1)
	if !(b >= 0 && b <= 1) {
		return nil, invalid("budget", "%v is not between 0 and 1", b)
	}
	return Constant(b), nil
}

// manualKind is a gate that only people move: open by its budget, unless it is overridden.
func manualKind(p *Params) (Gate, error) {
	g, err := constantKind(p)
	if err != nil {
		return nil, err
	}
	return NewOverride(g), nil
}

func scheduleKind(p *Params) (Gate, error) {
	c := ScheduleConfig{Default: p.Float("default", 0)}
	if zone := p.String("zone", ""); zone != "" {
		var err error
		if c.Zone, err = time.LoadLocation(zone); err != nil {
			p.Fail("zone", "%q is not known: %v", zone, err)
		}
	}
	day := func(w *Params, key string) (t TimeOfDay) {
		if s := w.Need(key); s != "" {
			var err error
			if t, err = ParseTimeOfDay(s); err != nil {
				w.Fail(key, "%v", err)
			}
		}
		return t
	}
	for _, w := range p.List("windows") {
		x := TimeWindow{From: day(w, "from"), To: day(w, "to"), Budget: w.Float("budget", 1)}
		for _, s := range w.Strings("days") {
			d, err := ParseDay(s)
			if err != nil {
				w.Fail("days", "%v", err)
			}
			x.Days = append(x.Days, d)
		}
		p.Took(w)
		c.Windows = append(c.Windows, x)
	}
	return asGate(NewSchedule(c))
}

func aimdKind(p *Params) (Gate, error) {
	return asGate(NewAIMD(AIMDConfig{
		Min: p.Above("min_window"), Max: p.Above("max_window"), Start: p.Above("start_window"), Increase: p.Above("increase"),
		Decrease: p.Above("decrease_factor"), ExpiredDecrease: p.Above("expired_factor"), Hold: p.Time("hold_duration"),
		QueueTarget: p.Duration("queue_duration_target", 0), Bands: p.Strings("bands"),
	}))
}
