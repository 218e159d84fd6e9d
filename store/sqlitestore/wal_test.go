package sqlitestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/sqlitestore"
	"github.com/twolane/twolane/store/sqlitestore/internal/lite"
)

// F132: while nobody reads for long the log stays short; a long read makes it grow, which is said once it passes its limit, and after the read it is
// short again.
func TestF132_LongReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	const limit = 2 * sqlitestore.CheckpointAt * sqlitestore.FrameSize
	s := open(t, path, &sqlitestore.Options{Relaxed: true, WALLimit: limit})
	defer closeStore(t, s)
	n := 0
	write := func(commits int) {
		for range commits {
			var ids []string
			for range 100 {
				n++
				ids = append(ids, fmt.Sprintf("c-%06d", n))
			}
			submit(t, s, ids...)
		}
	}
	size := func() int64 {
		fi, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return fi.Size()
	}
	warned := func() bool {
		d, err := s.Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(strings.Join(d.Warnings, " "), "write-ahead log")
	}
	write(500) // some ten pages each: more than the log holds
	if got := size(); got > limit || warned() {
		t.Errorf("without a reader the log has %d bytes, limit %d", got, limit)
	}
	reader, err := lite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Exec("BEGIN; SELECT count(*) FROM ns"); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if write(100); warned() {
			break
		}
	}
	if got := size(); got <= limit || !warned() {
		t.Errorf("a reader holds the log at %d bytes, limit %d, and nothing warns", got, limit)
	}
	if st, err := s.Stats(t.Context(), store.StatsRequest{}); err != nil || st.Bytes < size() {
		t.Errorf("stats say %d bytes, %v", st.Bytes, err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	write(300)
	if got := size(); got > limit || warned() {
		t.Errorf("after the reader has gone the log has %d bytes, limit %d", got, limit)
	}
}

// Two processes that copy the log at once are nothing to tell anybody. That nobody could copy it for long is, and so is any other error; each is
// told once, until a copy was made.
func TestCheckpointInTheWay(t *testing.T) {
	const limit = 10 * sqlitestore.CheckpointAt * sqlitestore.FrameSize
	var said bytes.Buffer
	s := open(t, filepath.Join(t.TempDir(), "store.db"), &sqlitestore.Options{Relaxed: true, WALLimit: limit, Logger: slog.New(slog.NewTextHandler(&said, nil))})
	defer closeStore(t, s)
	busy, broken := &lite.Error{Code: lite.Busy}, errors.New("disk on fire")
	warnings := func(want int, frames int, err error) {
		t.Helper()
		s.Checkpoint(t, frames, err)
		if n := strings.Count(said.String(), "cannot be copied"); n != want {
			t.Fatalf("%d warnings, not %d, with %d frames and %v:\n%s", n, want, frames, err, said.String())
		}
	}
	for f := sqlitestore.CheckpointAt; f < 40*sqlitestore.CheckpointAt; f += sqlitestore.CheckpointAt {
		warnings(0, f, busy)
	}
	warnings(1, 41*sqlitestore.CheckpointAt, busy)
	warnings(1, 42*sqlitestore.CheckpointAt, busy)
	warnings(1, 100, nil)
	warnings(1, sqlitestore.CheckpointAt, busy)
	warnings(2, sqlitestore.CheckpointAt, broken)
	warnings(2, sqlitestore.CheckpointAt, broken)
}
