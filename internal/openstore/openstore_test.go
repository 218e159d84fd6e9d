package openstore

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twolane/twolane/internal/redistest"
	"github.com/twolane/twolane/store"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	for url, kind := range map[string]string{
		"mem:": "memory",
		"sqlite:" + filepath.Join(dir, "a b%c.db"):                           "sqlite",
		"sqlite:" + filepath.Join(dir, "x.db") + "?exclusive=1&relaxed=true": "sqlite",
	} {
		st, err := Open(t.Context(), url, nil)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if d, err := st.(store.Describer).Describe(t.Context()); err != nil || d.Kind != kind {
			t.Errorf("%s is a %+v, %v", url, d, err)
		}
		if err := st.Close(); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := Open(t.Context(), "sqlite:"+filepath.Join(dir, "a b%c.db"), &Options{MustExist: true}); err != nil {
		t.Errorf("the path of a URL is not the path of the file: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for url, want := range map[string]string{
		"":                             "none of",
		"queue.db":                     "none of",
		"postgres://localhost":         "none of",
		"mem:x":                        `"x"`,
		"sqlite:":                      "needs a path",
		"sqlite:q.db?exklusive=1":      `"exklusive"`,
		"sqlite:q.db?exclusive=yes":    `"yes"`,
		"sqlite:q.db?exclusive=":       "empty",
		"sqlite:q.db?relaxed&relaxed":  "twice",
		"redis://localhost?nmespace=x": `nmespace`,
	} {
		st, err := Open(t.Context(), url, nil)
		if st != nil || !errors.Is(err, ErrURL) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v %v; want ErrURL that says %q", url, st, err, want)
		}
	}
}

func TestMustExist(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.db")
	_, err := Open(t.Context(), "sqlite:"+path, &Options{MustExist: true})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := Open(t.Context(), "sqlite:"+t.TempDir(), &Options{MustExist: true}); err == nil {
		t.Error("a folder was opened")
	}
}

func TestRedacted(t *testing.T) {
	for url, want := range map[string]string{
		"redis://ann:secret@host:1/0": "redis://ann:xxxxx@host:1/0",
		"sqlite:/a/b.db":              "sqlite:/a/b.db",
		"mem:":                        "mem:",
		"redis://ann:sec ret@ho st":   "redis:(unreadable)",
	} {
		if got := Redacted(url); got != want {
			t.Errorf("%s is shown as %s, want %s", url, got, want)
		}
	}
}

func TestRedis(t *testing.T) {
	srv := redistest.Start(t)
	url, own, err := WithNamespace(srv.URL(), "mine")
	if err != nil || !own || !strings.Contains(url, "namespace=mine") {
		t.Fatalf("%s %v %v", url, own, err)
	}
	if same, own, err := WithNamespace(url, "other"); same != url || own || err != nil {
		t.Errorf("a namespace was replaced: %s %v %v", same, own, err)
	}
	if _, err := srv.Do(t.Context(), "SET", "{other}:x", "1"); err != nil {
		t.Fatal(err)
	}
	st, err := Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Submit(t.Context(), store.SubmitRequest{Items: []store.Submission{{ID: "a", Queue: "q", Type: "t"}}}); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if err := DropNamespace(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	msg, err := srv.Do(t.Context(), "KEYS", "*")
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := msg.AsStrSlice(); err != nil || len(keys) != 1 || keys[0] != "{other}:x" {
		t.Errorf("left after DropNamespace: %v %v", keys, err)
	}
	if err := DropNamespace(t.Context(), srv.URL()); err == nil {
		t.Error("DropNamespace took a URL without a namespace")
	}
}
