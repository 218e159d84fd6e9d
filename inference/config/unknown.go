package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// unknown names the keys of a JSON value that a struct does not read, as paths; names match in any case, as encoding/json reads them.
func unknown(raw []byte, v any, at string) []string {
	var out []string
	t := reflect.TypeOf(v)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Slice:
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil {
			return nil
		}
		for i, x := range list {
			out = append(out, unknown(x, reflect.Zero(t.Elem()).Interface(), fmt.Sprintf("%s[%d]", at, i))...)
		}
	case reflect.Struct:
		var m map[string]json.RawMessage
		if json.Unmarshal(raw, &m) != nil {
			return nil
		}
		known := map[string]reflect.Type{}
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			known[strings.ToLower(name)] = f.Type
		}
		for _, k := range slices.Sorted(maps.Keys(m)) {
			path := strings.TrimPrefix(at+"."+k, ".")
			ft, ok := known[strings.ToLower(k)]
			if !ok {
				out = append(out, path)
				continue
			}
			out = append(out, unknown(m[k], reflect.Zero(ft).Interface(), path)...)
		}
	}
	return out
}
