package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/twolane/twolane/store"
)

func nestedMany(p Params, name string) error { _, err := nestedGates(p[name]); return err }
func nestedOne(p Params, name string) error  { _, err := nestedGate(p[name]); return err }

func nestedGates(v any) ([]Gate, error) {
	if s, ok := v.(string); ok {
		var list []any
		if err := decodeJSON([]byte(s), &list); err != nil {
			return nil, fmt.Errorf("is no JSON array: %w", err)
		}
		v = list
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("is no array of gates")
	}
	gates := make([]Gate, len(list))
	for i, x := range list {
		var err error
		if gates[i], err = nestedGate(x); err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return gates, nil
}

func nestedGate(v any) (Gate, error) {
	m, err := object(v)
	if err != nil {
		return Gate{}, err
	}
	var g Gate
	for name, v := range m {
		switch name {
		case "gate_type", "type":
			g.Type, _ = v.(string)
		case "gate_params", "params":
			if v == nil {
				continue
			}
			if g.Params, err = object(v); err != nil {
				return g, fmt.Errorf("%s: %w", name, err)
			}
		default:
			return g, fmt.Errorf("%q is neither gate_type nor gate_params", name)
		}
	}
	if g.Type == "" {
		return g, fmt.Errorf("gate_type is missing")
	}
	return g, nil
}

// object reads an object, or a string that holds one.
func object(v any) (Params, error) {
	switch v := v.(type) {
	case string:
		var m map[string]any
		if err := decodeJSON([]byte(v), &m); err != nil {
			return nil, fmt.Errorf("is no JSON object: %w", err)
		}
		return m, nil
	case map[string]any:
		return v, nil
	case Params:
		return v, nil
	}
	return nil, fmt.Errorf("is no object")
}

func decodeJSON(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return fmt.Errorf("there is more after the value")
	}
	return nil
}

// scalar is a text, number or boolean as it was written.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool, int, int64, uint64, float64:
		return fmt.Sprint(v), true
	}
	return "", false
}

// Text is a parameter as it was written.
func (p Params) Text(name, otherwise string) string {
	if s, ok := scalar(p[name]); ok && s != "" {
		return s
	}
	return otherwise
}

// Float is a parameter that is a number.
func (p Params) Float(name string, otherwise float64) (float64, error) {
	v, ok := p[name]
	if !ok {
		return otherwise, nil
	}
	s, ok := scalar(v)
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if !ok || err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return otherwise, fmt.Errorf("%v is no number", v)
	}
	return f, nil
}

// Duration is a parameter that is a duration as Go writes it, or a number of seconds.
func (p Params) Duration(name string, otherwise time.Duration) (time.Duration, error) {
	v, ok := p[name]
	if !ok {
		return otherwise, nil
	}
	s, _ := scalar(v)
	d, err := time.ParseDuration(s)
	if n, e := strconv.ParseFloat(s, 64); e == nil {
		d, err = time.Duration(n*float64(time.Second)), nil
	}
	if err != nil || d < 0 {
		return otherwise, fmt.Errorf("%v is no duration", v)
	}
	return d, nil
}

// Labels is a parameter that is an object of texts, or "name=value,name=value".
func (p Params) Labels(name string) (map[string]string, error) {
	v, ok := p[name]
	if !ok {
		return nil, nil
	}
	out := map[string]string{}
	if s, ok := v.(string); ok && !strings.HasPrefix(strings.TrimSpace(s), "{\"") {
		for part := range strings.SplitSeq(strings.Trim(strings.TrimSpace(s), "{}"), ",") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			k, val, ok := strings.Cut(part, "=")
			if !ok || k == "" {
				return nil, fmt.Errorf("%q is not name=value", part)
			}
			out[strings.TrimSpace(k)] = strings.Trim(strings.TrimSpace(val), `"`)
		}
		return out, nil
	}
	m, err := object(v)
	if err != nil {
		return nil, err
	}
	for k, v := range m {
		s, ok := scalar(v)
		if !ok {
			return nil, fmt.Errorf("%s is no text", k)
		}
		out[k] = s
	}
	return out, nil
}

// UnmarshalYAML reads {type, params}.
func (g *Gate) UnmarshalYAML(n *yaml.Node) error {
	var m map[string]any
	if err := n.Decode(&m); err != nil {
		return err
	}
	var err error
	if *g, err = nestedGate(m); err != nil {
		return fmt.Errorf("line %d: gate: %w", n.Line, err)
	}
	if err := g.Validate("gate"); err != nil {
		line := n.Line
		if e, ok := errors.AsType[*store.InvalidError](err); ok {
			if at, ok := lineOf(n, e.Field[strings.LastIndexByte(e.Field, '.')+1:]); ok {
				line = at
			}
		}
		return fmt.Errorf("line %d: %w", line, err)
	}
	return nil
}

// lineOf finds the line of a key within a node.
func lineOf(n *yaml.Node, key string) (int, bool) {
	for i, x := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && (x.Value == key || "gate_"+x.Value == key) { // as type stands for gate_type
			return x.Line, true
		}
		if line, ok := lineOf(x, key); ok {
			return line, true
		}
	}
	return 0, false
}

// MarshalYAML writes what UnmarshalYAML reads.
func (g Gate) MarshalYAML() (any, error) {
	m := map[string]any{"type": g.Type}
	if len(g.Params) > 0 {
		m["params"] = plain(map[string]any(g.Params))
	}
	return m, nil
}

// plain turns numbers that were kept as text into numbers.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return v.String()
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = plain(x)
		}
		return out
	case Params:
		return plain(map[string]any(v))
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = plain(x)
		}
		return out
	}
	return v
}
