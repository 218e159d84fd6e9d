package config

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Gate is a gate as a file names it.
type Gate struct {
	Type   string
	Params Params
}

// Params are the parameters of a gate. Numbers may be written as strings.
type Params map[string]any

// Types of gates.
const (
	GateConstant      = "constant"
	GateRedis         = "redis"
	GateQuota         = "redis-quota"
	GateLocal         = "local-max-concurrency"
	GateComposite     = "composite"
	GateWaitOnRefuse  = "wait-on-refuse"
	GateSaturation    = "prometheus-saturation"
	GateBudget        = "prometheus-budget"
	GateQuery         = "prometheus-query"
	GateScrape        = "endpoint-scrape"
	GateTierPriority  = "tier-priority-admission"
	GateLeasedRate    = "redis-leased-rate"
	GateAIMD          = "aimd"
	quotaRate         = "rate-limit"
	quotaConcurrency  = "concurrency"
	gatingBlocking    = "blocking"
	gatingClassifying = "classifying"
)

// param says what one parameter may be.
type param struct {
	required bool
	check    func(p Params, name string) error
}

var (
	anyText  = param{}
	fraction = param{check: number(0, 1)}
)

func must(p param) param { p.required = true; return p }

func number(least, most float64) func(Params, string) error {
	return func(p Params, name string) error {
		v, err := p.Float(name, 0)
		if err == nil && !(v >= least && v <= most) {
			err = fmt.Errorf("is %v, not between %v and %v", v, least, most)
		}
		return err
	}
}

func whole(least float64) param {
	return param{check: func(p Params, name string) error {
		v, err := p.Float(name, 0)
		if err == nil && (v != math.Trunc(v) || v < least || v > 1e9) {
			err = fmt.Errorf("is %v, not a whole number of at least %v", v, least)
		}
		return err
	}}
}

func oneOf(words ...string) param {
	return param{check: func(p Params, name string) error {
		if v := p.Text(name, ""); !slices.Contains(words, v) {
			return fmt.Errorf("is %q, none of %s", v, strings.Join(words, ", "))
		}
		return nil
	}}
}

var (
	atLeast0  = param{check: number(0, math.MaxFloat64)}
	anyNumber = param{check: number(-math.MaxFloat64, math.MaxFloat64)}
	lasting   = param{check: func(p Params, name string) error { _, err := p.Duration(name, 0); return err }}
	labels    = param{check: func(p Params, name string) error { _, err := p.Labels(name); return err }}
)

// gateParams are the types of gates and what each takes.
var gateParams = map[string]map[string]param{
	GateConstant: {},
	GateRedis:    {"address": must(anyText), "budget_key": anyText},
	GateQuota: {
		"address": must(anyText), "attribute": anyText, "mode": oneOf(quotaRate, quotaConcurrency), "limit": must(whole(1)), "window": lasting,
		"prefix": anyText, "gating_mode": oneOf(gatingBlocking, gatingClassifying), "burst": whole(1),
	},
	GateLocal:        {"limit": must(whole(1)), "gating_mode": oneOf(gatingBlocking, gatingClassifying)},
	GateComposite:    {"gates": must(param{check: nestedMany})},
	GateWaitOnRefuse: {"gate": must(param{check: nestedOne})},
	GateSaturation:   {"pool": must(anyText), "namespace": anyText, "threshold": atLeast0, "fallback": anyNumber},
	GateBudget: {"pool": must(anyText), "namespace": anyText, "max_concurrency": param{check: number(1, 1e9)},
		"baseline": param{check: number(0, math.Nextafter(1, 0))}, "fallback": fraction},
	GateQuery: {"query": must(anyText), "fallback": anyNumber, "pool": anyText},
	GateScrape: {
		"url": must(anyText), "metric": must(anyText), "labels": labels, "max_count_per_pod": atLeast0, "baseline": fraction, "fallback": anyNumber,
		"pods_url": anyText, "pods_metric": anyText, "pods_labels": labels, "value_type": oneOf("saturation", "budget"), "absent_value": anyNumber,
		"admission": oneOf("budget", "counted"),
	},
	GateTierPriority: {"saturation_gate": must(anyText), "saturation_gate_params": anyText, "tier_label": anyText},
	GateLeasedRate: {"address": must(anyText), "control_key": must(anyText), "pool_id": anyText, "state_key": anyText,
		"burst_seconds": param{check: number(0.001, 1e6)}},
	GateAIMD: {
		"min_window": param{check: number(1, 1e9)}, "max_window": param{check: number(1, 1e9)}, "increase": param{check: number(0.001, 1e9)},
		"decrease_factor": param{check: number(0.001, 0.999)}, "hold_duration": lasting, "tier_label": anyText, "queue_duration_target": lasting,
	},
}

// Validate refuses what the gate could not mean. field says where it stands.
func (g *Gate) Validate(field string) error {
	known, ok := gateParams[g.Type]
	if !ok {
		return invalid(field+".gate_type", "%q is no gate; known are %s", g.Type, strings.Join(slices.Sorted(maps.Keys(gateParams)), ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(g.Params)) {
		p, ok := known[name]
		f := field + ".gate_params." + name
		if !ok {
			if len(known) == 0 {
				return invalid(f, "is no parameter of %s, which has none", g.Type)
			}
			return invalid(f, "is no parameter of %s; known are %s", g.Type, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		if p.check != nil {
			if err := p.check(g.Params, name); err != nil {
				return invalid(f, "%w", err)
			}
		} else if _, ok := scalar(g.Params[name]); !ok && name != "saturation_gate_params" {
			return invalid(f, "is no text")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if v := g.Params[name]; known[name].required && (v == nil || v == "") {
			return invalid(field+".gate_params."+name, "is missing: %s needs it", g.Type)
		}
	}
	switch g.Type {
	case GateComposite, GateWaitOnRefuse, GateTierPriority:
		inner, err := g.Inner()
		if err != nil {
			return invalid(field+".gate_params", "%w", err)
		}
		if g.Type == GateComposite && len(inner) == 0 {
			return invalid(field+".gate_params.gates", "is empty")
		}
		for i := range inner {
			if err := inner[i].Validate(fmt.Sprintf("%s.%s[%d]", field, g.Type, i)); err != nil {
				return err
			}
		}
	case GateAIMD:
		least, _ := g.Params.Float("min_window", 1)
		if most, _ := g.Params.Float("max_window", 256); most < least {
			return invalid(field+".gate_params.max_window", "is less than min_window")
		}
	}
	return nil
}

// Pool is the inference pool that the gate, or the first gate within it, asks about; empty if none does.
func (g *Gate) Pool() string {
	if g == nil {
		return ""
	}
	if p := g.Params.Text("pool", ""); p != "" {
		return p
	}
	inner, err := g.Inner()
	for i := range inner {
		if p := inner[i].Pool(); err == nil && p != "" {
			return p
		}
	}
	return ""
}

// tierLabels are the labels that the gate, and gates within it, say that they read the tier from.
func (g *Gate) tierLabels() (ls []string) {
	if g == nil {
		return nil
	}
	if l := g.Params.Text("tier_label", ""); l != "" {
		ls = append(ls, l)
	}
	inner, err := g.Inner()
	if err != nil { // Validate says it
		return ls
	}
	for i := range inner {
		ls = append(ls, inner[i].tierLabels()...)
	}
	return ls
}

// Inner are the gates within a gate.
func (g *Gate) Inner() ([]Gate, error) {
	switch g.Type {
	case GateComposite:
		return nestedGates(g.Params["gates"])
	case GateWaitOnRefuse:
		one, err := nestedGate(g.Params["gate"])
		return []Gate{one}, err
	case GateTierPriority:
		inner := Gate{Type: g.Params.Text("saturation_gate", "")}
		if p := g.Params["saturation_gate_params"]; p != nil {
			m, err := object(p)
			if err != nil {
				return nil, fmt.Errorf("saturation_gate_params: %w", err)
			}
			inner.Params = m
		}
		return []Gate{inner}, nil
	}
	return nil, nil
}
