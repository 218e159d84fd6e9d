package kinds_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twolane/twolane/gate"
	"github.com/twolane/twolane/gate/kinds"
	"github.com/twolane/twolane/gate/promgate"
	"github.com/twolane/twolane/store"
)

func decode(t *testing.T, text string) []any {
	t.Helper()
	var list []any
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return list
}

var options = kinds.Options{Prometheus: promgate.ClientConfig{URL: "http://127.0.0.1:1"}}

// Every type can be written down, with numbers as numbers and as text.
func TestEveryTypeCanBeConfigured(t *testing.T) {
	all := kinds.All(options)
	seen := map[string]bool{}
	bs, err := gate.NewBindings("gates", decode(t, `[
		{"name": "c", "type": "constant", "budget": "0.5", "lanes": ["intake", "repoll"], "queues": ["q"], "types": "a", "per": ["queue", "type"]},
		{"name": "m", "type": "manual"},
		{"name": "s", "type": "schedule", "zone": "UTC", "default": 0.1, "windows": [{"days": ["mon", "Friday"], "from": "22:00", "to": "06:00", "budget": 1}]},
		{"name": "a", "type": "aimd", "min_window": "2", "max_window": 10, "increase": 1, "decrease_factor": 0.7, "expired_factor": 0.95, "hold_duration": "2s",
		 "queue_duration_target": "0s", "start_window": 5, "bands": ["x", "y"], "per": "class", "class_by": "metadata:tier"},
		{"name": "q", "type": "prometheus-query", "query": "free", "fallback": "0.2", "every": "1s", "stale": "20s", "lag": "10s", "step": 0.1, "timeout": "3s", "cache": "2s"},
		{"name": "share", "type": "prometheus-query", "query": "free", "lag": "0s"},
		{"name": "sat", "type": "prometheus-saturation", "pool": "p", "namespace": "ns", "threshold": 0.7, "url": "https://prom", "skip_verify": true},
		{"name": "b", "type": "prometheus-budget", "pool": "p", "max_concurrency": 20, "baseline": 0},
		{"name": "e", "type": "endpoint-scrape", "url": "http://x/metrics", "metric": "m", "labels": {"a": "b", "n": 7}, "max_count_per_pod": 8, "pods_url": "http://y",
		 "pods_metric": "pods", "pods_labels": {"c": "d"}, "baseline": 0.1, "absent_value": 0, "admission": "counted", "value_type": "saturation"},
		{"name": "r", "type": "redis-budget", "url": "redis://127.0.0.1:1", "key": "k", "missing": 1},
		{"name": "l", "type": "redis-leased-rate", "url": "127.0.0.1:1", "control_key": "k", "pool_id": "p", "burst_seconds": 2},
		{"name": "t", "type": "tier-priority", "saturation_gate": {"type": "constant"}, "tier_label": "tier", "dropped_result": "{}"},
		{"name": "all", "type": "composite", "class": "overflow",
		 "gates": [{"type": "constant", "budget": 1}, {"type": "wait-on-refuse", "gate": {"type": "composite", "gates": [{"type": "manual"}]}}]}
	]`), all)
	if err != nil {
		t.Fatal(err)
	}
	var walk func(x any)
	walk = func(x any) {
		switch x := x.(type) {
		case map[string]any:
			if s, ok := x["type"].(string); ok {
				seen[s] = true
			}
			for _, y := range x {
				walk(y)
			}
		case []any:
			for _, y := range x {
				walk(y)
			}
		}
	}
	walk(decode(t, `[{"type":"constant"},{"type":"manual"},{"type":"schedule"},{"type":"aimd"},{"type":"prometheus-query"},{"type":"prometheus-saturation"},
		{"type":"prometheus-budget"},{"type":"endpoint-scrape"},{"type":"redis-budget"},{"type":"redis-leased-rate"},{"type":"tier-priority"},{"type":"composite"},{"type":"wait-on-refuse"}]`))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !seen[name] {
			t.Errorf("type %s is not tried", name)
		}
	}
	by := map[string]gate.Binding{}
	for _, b := range bs {
		by[b.Name] = b
	}
	if b := by["c"]; !b.On(store.Repoll) || !b.Covers(store.Intake, "q", "a") || b.Covers(store.Intake, "q", "b") || b.Per != gate.PerQueue|gate.PerType {
		t.Errorf("%+v", b)
	}
	if r := by["c"].Gate.Read(time.Now(), gate.Scope{}); r.Budget != 0.5 {
		t.Errorf("%+v", r)
	}
	if r := by["q"].Gate.Read(time.Now(), gate.Scope{}); r.Budget != 0.2 || r.Reason != gate.NoReading {
		t.Errorf("%+v", r)
	}
	if b := by["a"]; b.ClassName(&gate.Job{Metadata: map[string]string{"tier": "x"}}) != "x" {
		t.Error("class_by is not used")
	}
	if !gate.Has[gate.Pacer](by["l"].Gate) {
		t.Error("a leased rate has no rate")
	}
}

// What is misspelt, unknown or contradicts itself stops the start, and the error names the field and what was probably meant.
func TestF115_SettingsThatContradictThemselves(t *testing.T) {
	all := kinds.All(options)
	for _, c := range []struct{ text, field, detail string }{
		{`{"name": "g", "type": "constnat"}`, "gates[0].type", "did you mean constant?"},
		{`{"name": "g", "type": "redis"}`, "gates[0].type", "is no type of a gate"},
		{`{"name": "g"}`, "gates[0].type", "is missing"},
		{`{"type": "constant"}`, "gates[0].name", "is missing"},
		{`{"name": "g", "type": "prometheus-saturation", "pool": "p", "treshold": 0.5}`, "gates[0].treshold", "did you mean threshold?"},
		{`{"name": "g", "type": "composite", "gates": [{"type": "constant", "budgte": 1}]}`, "gates[0].gates[0].budgte", "did you mean budget?"},
		{`{"name": "g", "type": "composite", "gates": [{"gate_type": "constant"}]}`, "gates[0].gates[0].type", "is missing"},
		{`{"name": "g", "type": "composite", "gates": []}`, "gates[0].gates", "would be open"},
		{`{"name": "g", "type": "composite"}`, "gates[0].gates", "are missing"},
		{`{"name": "g", "type": "wait-on-refuse", "gate": {"type": "prometheus-query", "qurey": "x"}}`, "gates[0].gate.query", "is missing"},
		{`{"name": "g", "type": "wait-on-refuse", "gate": {"type": "prometheus-query", "qurey": "x"}}`, "gates[0].gate.qurey", "did you mean query?"},
		{`{"name": "g", "type": "wait-on-refuse"}`, "gates[0].gate", "is missing"},
		{`{"name": "g", "type": "constant", "lanes": ["poll"]}`, "gates[0].lanes", "neither intake nor repoll"},
		{`{"name": "g", "type": "constant", "per": ["tenant"]}`, "gates[0].per", "neither queue nor type"},
		{`{"name": "g", "type": "constant", "class_by": "user"}`, "gates[0].class_by", "is none of"},
		{`{"name": "g", "type": "constant", "class_by": "group"}`, "gates.g.class_of", "neither class nor per class"},
		{`{"name": "g", "type": "constant", "class": "overflow", "per": "class"}`, "gates.g.class", "beside per class"},
		{`{"name": "g", "type": "constant", "budget": 2}`, "gates[0].budget", "not between 0 and 1"},
		{`{"name": "g", "type": "constant", "budget": "half"}`, "gates[0].budget", "is no number"},
		{`{"name": "g", "type": "constant", "budget": [1]}`, "gates[0].budget", "is no number"},
		{`{"name": "g", "type": "prometheus-saturation", "pool": "p", "threshold": 0}`, "gates[0].threshold", "is not above 0"},
		{`{"name": "g", "type": "prometheus-budget", "pool": "p", "baseline": 1}`, "gates[0].baseline", "not between 0 and 1"},
		{`{"name": "g", "type": "prometheus-query", "query": "x", "every": "1m", "stale": "10s"}`, "gates[0].stale", "is less than every"},
		{`{"name": "g", "type": "prometheus-query", "query": "x", "every": "0s"}`, "gates[0].every", "is not above 0"},
		{`{"name": "g", "type": "prometheus-query", "query": "x", "every": 5}`, "gates[0].every", "is no duration"},
		{`{"name": "g", "type": "prometheus-query", "query": "x", "lag": "0s", "step": 0.5}`, "gates[0].step", "without a lag"},
		{`{"name": "g", "type": "prometheus-query", "query": "x", "url": "http://u:p@x"}`, "gates[0].url", "has a user in it"},
		{`{"name": "g", "type": "aimd", "min_window": 20, "max_window": 10}`, "gates[0].max_window", "not between min_window"},
		{`{"name": "g", "type": "aimd", "decrease_factor": 1.5}`, "gates[0].decrease_factor", "not between 0 and 1"},
		{`{"name": "g", "type": "schedule", "windows": [{"from": "25:00", "to": "06:00"}]}`, "gates[0].windows[0].from", "no time of day"},
		{`{"name": "g", "type": "schedule", "windows": [{"from": "22:00", "to": "06:00", "day": "mon"}]}`, "gates[0].windows[0].day", "did you mean days?"},
		{`{"name": "g", "type": "schedule", "default": 1, "windows": [{"from": "22:00", "to": "06:00"}]}`, "gates[0].windows", "change nothing"},
		{`{"name": "g", "type": "schedule", "zone": "Mars/Olympus", "windows": [{"from": "22:00", "to": "06:00"}]}`, "gates[0].zone", "not known"},
		{`{"name": "g", "type": "endpoint-scrape", "url": "http://x", "metric": "m", "admission": "counted"}`, "gates[0].admission", "nothing to count"},
		{`{"name": "g", "type": "endpoint-scrape", "url": "http://x", "metric": "m", "admission": "count"}`, "gates[0].admission", "neither budget nor counted"},
		{`{"name": "g", "type": "redis-budget"}`, "gates[0].url", "is missing"},
		{`{"name": "g", "type": "redis-budget", "url": "redis://x", "missing": 3}`, "gates[0].missing", "not between 0 and 1"},
		{`{"name": "g", "type": "redis-leased-rate", "url": "redis://x"}`, "gates[0].control_key", "is missing"},
		{`{"name": "g", "type": "tier-priority"}`, "gates[0].saturation_gate", "is missing"},
		{`{"name": "g", "type": "constant", "queues": {"a": 1}}`, "gates[0].queues", "is no list"},
	} {
		_, err := gate.NewBindings("gates", decode(t, "["+c.text+"]"), all)
		if err == nil {
			t.Errorf("accepted: %s", c.text)
			continue
		}
		found := false
		for _, e := range flat(err) {
			if inv, ok := errors.AsType[*store.InvalidError](e); ok && inv.Field == c.field && strings.Contains(inv.Detail, c.detail) {
				found = true
			}
		}
		if !found {
			t.Errorf("%s:\n got  %v\n want %s: ...%s", c.text, err, c.field, c.detail)
		}
	}
	_, err := gate.NewBindings("gates", decode(t, `[{"name": "g", "type": "constant"}, {"name": "g", "type": "constant"}]`), all)
	if err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("one name twice: %v", err)
	}
}

// flat lists the errors that are joined in one.
func flat(err error) []error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range j.Unwrap() {
			all = append(all, flat(e)...)
		}
		return all
	}
	return []error{err}
}
