package twolane

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Codec turns params, states and results into bytes and back. It must be safe for concurrent use and must not keep or change
// the bytes. Values of type []byte and json.RawMessage never reach it: they are stored and given back as they are.
type Codec interface {
	Marshal(v any) ([]byte, error)
	Unmarshal(data []byte, v any) error
}

// JSON is the default [Codec]: encoding/json, except that numbers decoded into an interface value become json.Number, so that
// integers beyond 2^53 keep every digit.
var JSON Codec = jsonCodec{}

type jsonCodec struct{}

func (jsonCodec) Marshal(v any) ([]byte, error) { return json.Marshal(v) }

func (jsonCodec) Unmarshal(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data after the JSON value")
	}
	return nil
}

// encode returns the bytes of v: none for nil, a copy of bytes, everything else by the codec. The caller may use his own again at once, though
// a call of the store may still be under way.
func encode(c Codec, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []byte:
		return bytes.Clone(v), nil
	case json.RawMessage:
		return bytes.Clone(v), nil
	}
	return c.Marshal(v)
}

// decode is the inverse of encode. No bytes leave v at its zero value. Bytes that v gets are its own copy.
func decode(c Codec, data []byte, v any) error {
	switch v := v.(type) {
	case *[]byte:
		*v = bytes.Clone(data)
		return nil
	case *json.RawMessage:
		*v = bytes.Clone(data)
		return nil
	}
	if len(data) == 0 {
		return nil
	}
	if err := c.Unmarshal(data, v); err != nil {
		return fmt.Errorf("decode %T: %w", v, err)
	}
	return nil
}
