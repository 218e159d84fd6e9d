package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// readable says where in a JSON text it cannot be read, and what was due there.
func readable(raw []byte, err error) error {
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("line %d: %w", lineAt(raw, e.Offset), err)
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		where := e.Field
		if where == "" {
			where = "it"
		}
		return fmt.Errorf("line %d: %s is %s, and must be %s", lineAt(raw, e.Offset), where, article(e.Value), due(e.Type))
	}
	return err
}

func lineAt(raw []byte, offset int64) int {
	return 1 + bytes.Count(raw[:min(max(offset, 0), int64(len(raw)))], []byte{'\n'})
}

func article(v string) string {
	switch v {
	case "object", "array":
		return "an " + v
	case "string", "number", "bool":
		return "a " + v
	}
	return v
}

func due(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	}
	return "a " + t.Kind().String()
}
