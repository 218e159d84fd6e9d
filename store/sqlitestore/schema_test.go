package sqlitestore_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/sqlitestore"
	"github.com/twolane/twolane/store/sqlitestore/internal/lite"
)

// newer are the migrations of a program that is one ahead of this one.
func newer(t *testing.T, second string) fs.FS {
	t.Helper()
	first, err := fs.ReadFile(sqlitestore.SchemaFiles, "schema/001_init.sql")
	if err != nil {
		t.Fatal(err)
	}
	return fstest.MapFS{"schema/001_init.sql": {Data: first}, "schema/002_next.sql": {Data: []byte(second)}}
}

const adds = "-- reader: 1\nALTER TABLE cmd ADD COLUMN color TEXT; CREATE INDEX cmd_color ON cmd (color) WHERE color IS NOT NULL;"
const breaks = "-- reader: 2\nALTER TABLE cmd RENAME COLUMN line TO lane_line;"

// A newer program that only adds to the schema and this one work side by side on one file.
func TestMigrationThatAdds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path, relaxed)
	submit(t, s, "before")
	if err := sqlitestore.Migrate(t.Context(), path, newer(t, adds)); err != nil {
		t.Fatal(err)
	}
	submit(t, s, "after")
	settle(t, s, claim(t, s, "w", store.Intake, 2), store.Settlement{Kind: store.OutcomeDone})
	closeStore(t, s)
	s = open(t, path, relaxed)
	defer closeStore(t, s)
	if cs, err := s.Get(t.Context(), []string{"before", "after"}, store.GetOptions{}); err != nil || cs[0].Status != store.Succeeded || cs[1].Status != store.Succeeded {
		t.Errorf("%+v, %v", cs, err)
	}
}

// After a migration that older programs cannot read, those that have the file open refuse every further call, and it cannot be opened.
func TestMigrationThatBreaks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path, relaxed)
	submit(t, s, "a")
	if err := sqlitestore.Migrate(t.Context(), path, newer(t, breaks)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Submit(t.Context(), store.SubmitRequest{Items: []store.Submission{submission("b")}}); !errors.Is(err, store.ErrSchema) {
		t.Errorf("submit: %v", err)
	}
	if _, err := s.Claim(t.Context(), claimOf(1, store.Intake, 1)); !errors.Is(err, store.ErrSchema) {
		t.Errorf("claim: %v", err)
	}
	if _, err := s.Get(t.Context(), []string{"a"}, store.GetOptions{}); !errors.Is(err, store.ErrSchema) {
		t.Errorf("get: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := sqlitestore.Open(t.Context(), path, nil); !errors.Is(err, store.ErrSchema) {
		t.Errorf("open: %v", err)
	}
}

// A migration that fails leaves the file as it was; one with a bad header is refused.
func TestMigrationThatFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path, relaxed)
	defer closeStore(t, s)
	if err := sqlitestore.Migrate(t.Context(), path, newer(t, "-- reader: 1\nCREATE TABLE x (y); CREATE TABLE x (y);")); err == nil {
		t.Error("a broken migration succeeded")
	}
	for _, header := range []string{"", "-- reader: 3\n", "-- reader: x\n", "-- Reader: 1\n"} {
		if err := sqlitestore.Migrate(t.Context(), path, newer(t, header+"CREATE TABLE x (y);")); err == nil {
			t.Errorf("header %q was taken", header)
		}
	}
	submit(t, s, "a")
	if err := sqlitestore.Migrate(t.Context(), path, newer(t, adds)); err != nil {
		t.Error(err)
	}
}

// A file of something else is refused and stays what it was.
func TestForeignFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.db")
	c, err := lite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Exec("CREATE TABLE people (name TEXT)"), c.Close()); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(filepath.Dir(path), "notes.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("not a database\n", 1000)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, text} {
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sqlitestore.Open(t.Context(), path, nil); !errors.Is(err, store.ErrSchema) || !strings.Contains(err.Error(), path+": ") {
			t.Errorf("something else: %v", err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s was changed (%v)", path, err)
		}
	}
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 2 {
		t.Errorf("left beside the files: %v %v", files, err)
	}
	if _, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "nowhere", "store.db"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such folder: %v", err)
	}
	dir := t.TempDir()
	for _, bad := range []string{"", ":memory:", "sqlite:" + path, "file:" + path, dir} {
		if _, err := sqlitestore.Open(t.Context(), bad, nil); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("path %q: %v", bad, err)
		}
	}
	if _, err := os.Stat(dir + "-lock"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left beside a folder: %v", err)
	}
}
