package inference

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime/multipart"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/twolane/twolane/inference/config"
	"github.com/twolane/twolane/inference/wire"
)

// transform changes a body as the first transform does that applies. Without one the bytes stay as they are and typ is empty. An error says that the request
// can never be sent.
func transform(ts []config.Transform, m *wire.Member, body []byte) (out []byte, typ string, err error) {
	for _, t := range ts {
		if slices.Contains(t.Providers, m.Data.Metadata["provider"]) {
			if out, typ, err = gcsMultipart(m, body); typ != "" || err != nil {
				return out, typ, err
			}
		}
	}
	return body, "", nil
}

// gcsMultipart turns a payload that names its media by a signed URL into a form: the URL is its field url, and what else the payload has becomes fields.
func gcsMultipart(m *wire.Member, body []byte) (out []byte, typ string, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, "", fmt.Errorf("the payload is no object: %w", err)
	}
	signed := text(fields["gcs_uri"])
	if signed == "" {
		return nil, "", nil
	}
	if text(fields["file_base64"]) != "" {
		return nil, "", errors.New("file_base64 cannot be sent as a form; give gcs_uri alone")
	}
	ends, err := signedUntil(signed)
	if err != nil {
		return nil, "", err
	}
	if !ends.IsZero() && !ends.After(deadline(m)) {
		return nil, "", fmt.Errorf("gcs_uri expires at %s, not after the deadline", ends.UTC().Format(time.RFC3339))
	}
	delete(fields, "gcs_uri")
	delete(fields, "file_base64")
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.WriteField("url", signed); err != nil {
		return nil, "", err
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if err := w.WriteField(name, text(fields[name])); err != nil {
			return nil, "", err
		}
	}
	if err := w.Close(); err != nil {
		return nil, "", err
	}
	return b.Bytes(), w.FormDataContentType(), nil
}

// text is a JSON string's value, nothing for null, and any other value as it was written.
func text(v json.RawMessage) string {
	var s string
	if len(v) == 0 || string(v) == "null" {
		return ""
	}
	if json.Unmarshal(v, &s) == nil {
		return s
	}
	return string(v)
}

// signedUntil is the end of a signed URL, zero if it has none. Both forms of signatures are known.
func signedUntil(raw string) (time.Time, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return time.Time{}, errors.New("gcs_uri is no URL")
	}
	q := u.Query()
	if date := q.Get("X-Goog-Date"); date != "" {
		from, err := time.Parse("20060102T150405Z", date)
		secs, e := strconv.ParseInt(q.Get("X-Goog-Expires"), 10, 32)
		if err != nil || e != nil {
			return time.Time{}, errors.New("gcs_uri has a signature without an end")
		}
		return from.Add(time.Duration(secs) * time.Second), nil
	}
	if at := q.Get("Expires"); at != "" {
		secs, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return time.Time{}, errors.New("gcs_uri has a signature without an end")
		}
		return time.Unix(secs, 0), nil
	}
	return time.Time{}, nil
}
