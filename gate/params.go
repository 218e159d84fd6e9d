package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twolane/twolane/store"
)

// Params are the settings of one gate as a file has them, read key by key. Numbers and booleans may be written as strings. A key that nobody
// has asked for, and a value that does not fit, are errors of [Params.Err] that name the field.
type Params struct {
	path  string
	m     map[string]any
	read  map[string]bool
	errs  []error
	kinds Kinds
}

// NewParams reads m, whose keys are below path in what people see.
func NewParams(path string, m map[string]any, kinds Kinds) *Params {
	return &Params{path: path, m: m, read: map[string]bool{}, kinds: kinds}
}

func (p *Params) field(key string) string {
	return strings.TrimPrefix(p.path+"."+key, ".")
}

// Fail notes that a field is wrong.
func (p *Params) Fail(key, format string, a ...any) {
	p.errs = append(p.errs, invalid(p.field(key), format, a...))
}

// Err is everything that is wrong: what was noted, and keys that were not read.
func (p *Params) Err() error {
	errs := slices.Clone(p.errs)
	for _, k := range slices.Sorted(maps.Keys(p.m)) {
		if p.read[k] {
			continue
		}
		detail := "is unknown"
		if near := nearest(k, slices.Collect(maps.Keys(p.read))); near != "" {
			detail += "; did you mean " + near + "?"
		}
		errs = append(errs, invalid(p.field(k), "%s", detail))
	}
	return errors.Join(errs...)
}

// Within puts the path before the field that an error of a constructor names.
func (p *Params) Within(err error) error {
	if e, ok := errors.AsType[*store.InvalidError](err); ok {
		return invalid(p.field(e.Field), "%s", e.Detail)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.path, err)
	}
	return nil
}

func (p *Params) get(key string) (any, bool) {
	p.read[key] = true
	v, ok := p.m[key]
	return v, ok && v != nil
}

// String reads a text; def if it is not there.
func (p *Params) String(key, def string) string {
	v, ok := p.get(key)
	if !ok {
		return def
	}
	switch v := v.(type) {
	case string:
		return v
	case bool, int, int64, uint64, float64, json.Number:
		return fmt.Sprint(v)
	}
	p.Fail(key, "is no text")
	return def
}

// Need is String for what must be there.
func (p *Params) Need(key string) string {
	s := p.String(key, "")
	if _, ok := p.m[key]; !ok || s == "" {
		p.Fail(key, "is missing")
	}
	return s
}

// Float reads a number.
func (p *Params) Float(key string, def float64) float64 {
	if f := p.Number(key); f != nil {
		return *f
	}
	return def
}

// Number is Float for what may be left out: nil then.
func (p *Params) Number(key string) *float64 {
	v, ok := p.get(key)
	if !ok {
		return nil
	}
	f, err := 0.0, error(nil)
	switch v := v.(type) {
	case int:
		f = float64(v)
	case int64:
		f = float64(v)
	case uint64:
		f = float64(v)
	case float64:
		f = v
	case json.Number:
		f, err = v.Float64()
	case string:
		f, err = strconv.ParseFloat(strings.TrimSpace(v), 64)
	default:
		err = errors.New("no number")
	}
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		p.Fail(key, "%v is no number", v)
		return nil
	}
	return &f
}

// Above reads a number above 0; 0 if it is not there.
func (p *Params) Above(key string) float64 {
	f := p.Number(key)
	if f == nil {
		return 0
	}
	if *f <= 0 {
		p.Fail(key, "%v is not above 0", *f)
	}
	return *f
}

// Time reads a duration above 0; 0 if it is not there.
func (p *Params) Time(key string) time.Duration {
	d := p.Duration(key, 0)
	if v, ok := p.get(key); ok && d <= 0 && len(p.errs) == 0 {
		p.Fail(key, "%v is not above 0", v)
	}
	return d
}

// Duration reads a text like 1m30s.
func (p *Params) Duration(key string, def time.Duration) time.Duration {
	v, ok := p.get(key)
	if !ok {
		return def
	}
	s, _ := v.(string)
	d, err := time.ParseDuration(s)
	if err != nil {
		p.Fail(key, "%v is no duration like 1m30s", v)
		return def
	}
	return d
}

// Bool reads true or false.
func (p *Params) Bool(key string, def bool) bool {
	v, ok := p.get(key)
	if !ok {
		return def
	}
	switch v := v.(type) {
	case bool:
		return v
	case string:
		if b, err := strconv.ParseBool(v); err == nil {
			return b
		}
	}
	p.Fail(key, "%v is neither true nor false", v)
	return def
}

// Strings reads a list of texts; one text is a list of it.
func (p *Params) Strings(key string) []string {
	v, ok := p.get(key)
	if !ok {
		return nil
	}
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var all []string
		for i, x := range v {
			s, ok := x.(string)
			if !ok {
				p.Fail(fmt.Sprintf("%s[%d]", key, i), "is no text")
				continue
			}
			all = append(all, s)
		}
		return all
	}
	p.Fail(key, "is no list of texts")
	return nil
}

// Map reads names with texts.
func (p *Params) Map(key string) map[string]string {
	v, ok := p.get(key)
	if !ok {
		return nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		p.Fail(key, "is no list of names with values")
		return nil
	}
	all := map[string]string{}
	for k, x := range m {
		switch x := x.(type) {
		case string:
			all[k] = x
		case bool, int, int64, uint64, float64, json.Number:
			all[k] = fmt.Sprint(x)
		default:
			p.Fail(key+"."+k, "is no text")
		}
	}
	return all
}

// List reads a list of settings, each with a path of its own.
func (p *Params) List(key string) []*Params {
	v, ok := p.get(key)
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		p.Fail(key, "is no list")
		return nil
	}
	var all []*Params
	for i, x := range list {
		k := fmt.Sprintf("%s[%d]", key, i)
		m, ok := x.(map[string]any)
		if !ok {
			p.Fail(k, "has no settings")
			continue
		}
		all = append(all, NewParams(p.field(k), m, p.kinds))
	}
	return all
}

// Took takes over what is wrong with settings below.
func (p *Params) Took(sub *Params) {
	if err := sub.Err(); err != nil {
		p.errs = append(p.errs, err)
	}
}

// Gate reads a gate that must be there: its type and its settings.
func (p *Params) Gate(key string) Gate {
	v, ok := p.get(key)
	if !ok {
		p.Fail(key, "is missing")
		return nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		p.Fail(key, "has no settings of a gate")
		return nil
	}
	return p.build(p.field(key), m)
}

// Gates reads a list of gates with one entry or more.
func (p *Params) Gates(key string) []Gate {
	var all []Gate
	for _, sub := range p.List(key) {
		if g := p.build(sub.path, sub.m); g != nil {
			all = append(all, g)
		}
	}
	if _, ok := p.m[key]; !ok {
		p.Fail(key, "are missing")
	}
	return all
}

func (p *Params) build(path string, m map[string]any) Gate {
	g, err := p.kinds.build(NewParams(path, m, p.kinds))
	if err != nil {
		p.errs = append(p.errs, err)
		return nil
	}
	return g
}

// nearest is the name that s was probably meant to be.
func nearest(s string, names []string) string {
	slices.Sort(names)
	best, at := "", len(s)/3+1
	for _, n := range names {
		if d := distance(strings.ToLower(s), n); d < at || d == at && best == "" {
			best, at = n, d
		}
	}
	return best
}

// distance is how many letters have to be changed, added, taken away or swapped with the next one.
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		two, one, row := rows[(i+2)%3], rows[i%3], rows[(i+1)%3]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			row[j] = min(one[j]+1, row[j-1]+1, one[j-1]+different(a[i-1], b[j-1]))
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], two[j-2]+1)
			}
		}
	}
	return rows[(len(a)+1)%3][len(b)]
}

func different(a, b byte) int {
	if a == b {
		return 0
	}
	return 1
}
