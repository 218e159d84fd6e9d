package inference

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/twolane/twolane/inference/config"
	"github.com/twolane/twolane/inference/wire"
)

func TestTransform(t *testing.T) {
	ts := []config.Transform{{Type: config.GCSMultipart, Providers: []string{"whisper", "ocr"}}}
	now := time.Now()
	v4 := func(in time.Duration) string {
		return fmt.Sprintf("https://storage.googleapis.com/b/o?X-Goog-Date=%s&X-Goog-Expires=%d&X-Goog-Signature=a", now.UTC().Format("20060102T150405Z"), int(in.Seconds()))
	}
	v2 := func(in time.Duration) string {
		return fmt.Sprintf("https://storage.googleapis.com/b/o?Expires=%d", now.Add(in).Unix())
	}
	for name, c := range map[string]struct {
		provider, payload string
		fields            map[string]string // nil: the body stays
		fails             string
	}{
		"form": {"ocr", `{"gcs_uri":"` + v4(time.Hour) + `","model":"m","n":9007199254740993,"b":true,"o":{"x":[1]},"z":null,"file_base64":""}`,
			map[string]string{"url": v4(time.Hour), "model": "m", "n": "9007199254740993", "b": "true", "o": `{"x":[1]}`, "z": ""}, ""},
		"v2":            {"whisper", `{"gcs_uri":"` + v2(time.Hour) + `"}`, map[string]string{"url": v2(time.Hour)}, ""},
		"unsigned":      {"whisper", `{"gcs_uri":"http://h/o"}`, map[string]string{"url": "http://h/o"}, ""},
		"no uri":        {"whisper", `{"model":"m"}`, nil, ""},
		"empty uri":     {"whisper", `{"gcs_uri":""}`, nil, ""},
		"other":         {"gpt", `{"gcs_uri":"https://h/o"}`, nil, ""},
		"inline":        {"whisper", `{"gcs_uri":"https://h/o","file_base64":"AA=="}`, nil, "file_base64"},
		"too short":     {"whisper", `{"gcs_uri":"` + v4(time.Second) + `"}`, nil, "expires"},
		"too short, v2": {"whisper", `{"gcs_uri":"` + v2(time.Second) + `"}`, nil, "expires"},
		"no end":        {"whisper", `{"gcs_uri":"https://h/o?X-Goog-Date=today"}`, nil, "without an end"},
		"no URL":        {"whisper", `{"gcs_uri":"gs://b/o"}`, nil, "no URL"},
	} {
		m := member("a", time.Minute, func(m *wire.Member) {
			m.Data.Metadata, m.Data.Payload = map[string]string{"provider": c.provider}, json.RawMessage(c.payload)
		})
		out, typ, err := transform(ts, m, m.Data.Payload)
		switch {
		case c.fails != "":
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v, want %q", name, err, c.fails)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case c.fields == nil:
			if string(out) != c.payload || typ != "" {
				t.Errorf("%s: %s %q", name, out, typ)
			}
		default:
			_, params, err := mime.ParseMediaType(typ)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			r := multipart.NewReader(strings.NewReader(string(out)), params["boundary"])
			for {
				part, err := r.NextPart()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(part)
				if err != nil || part.FileName() != "" {
					t.Fatal(err, part.FileName())
				}
				got[part.FormName()] = string(b)
			}
			if diff := cmp.Diff(c.fields, got); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}
