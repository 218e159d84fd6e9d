package wire

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Salvaged is what can be read of a member that is no request.
type Salvaged struct {
	ID          string // data.id, as the consumer of a result needs it
	Token       string
	ResultQueue string
}

// Salvage reads what it can of a member that [Parse] refused, also of one that is cut off. What it finds is only as good as its source.
func Salvage(member []byte) Salvaged {
	var s Salvaged
	d := json.NewDecoder(bytes.NewReader(member))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return s
	}
	for d.More() {
		name, ok := next(d)
		if !ok {
			return s
		}
		switch strings.ToLower(name) {
		case "internal":
			ok = s.object(d, map[string]*string{"request_token": &s.Token, "result_queue_name": &s.ResultQueue})
		case "data":
			ok = s.object(d, map[string]*string{"id": &s.ID})
		default:
			ok = skip(d)
		}
		if !ok {
			return s
		}
	}
	return s
}

// object reads strings of an object by their names.
func (s *Salvaged) object(d *json.Decoder, want map[string]*string) bool {
	t, err := d.Token()
	if err != nil || t != json.Delim('{') {
		return err == nil && (t != json.Delim('[') || rest(d))
	}
	for d.More() {
		name, ok := next(d)
		if !ok {
			return false
		}
		to := want[strings.ToLower(name)]
		if to == nil {
			if !skip(d) {
				return false
			}
			continue
		}
		t, err := d.Token()
		if err != nil {
			return false
		}
		switch t := t.(type) {
		case string:
			*to = t
		case json.Delim:
			if !rest(d) {
				return false
			}
		}
	}
	_, err = d.Token()
	return err == nil
}

func next(d *json.Decoder) (name string, ok bool) {
	t, err := d.Token()
	if err != nil {
		return "", false
	}
	name, ok = t.(string)
	return name, ok
}

// skip passes over one value.
func skip(d *json.Decoder) bool {
	t, err := d.Token()
	if err != nil {
		return false
	}
	if _, ok := t.(json.Delim); ok {
		return rest(d)
	}
	return true
}

// rest passes over what is left of the object or array that the decoder has just entered.
func rest(d *json.Decoder) bool {
	for depth := 1; depth > 0; {
		t, err := d.Token()
		if err != nil {
			return false
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
	return true
}
