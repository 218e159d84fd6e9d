package sqlitestore

import (
	"context"
	"fmt"
	"io/fs"
	"testing"

	"github.com/twolane/twolane/store/sqlitestore/internal/lite"
)

// BeforeCommit calls f in the writer before each commit. flushes says whether the commit will flush the log to the disk.
func (o *Options) BeforeCommit(f func(durable, flushes bool)) *Options {
	o.beforeCommit = func(w *writer, durable bool) {
		n, err := w.pragma("PRAGMA synchronous")
		if err != nil || n != 2 && w.buffered {
			panic(fmt.Sprint("synchronous is ", n, err))
		}
		f(durable, n == 2 && w.full)
	}
	return o
}

// Syncs is how often the log was flushed to the disk.
func (s *Store) Syncs(t testing.TB) (n int) {
	t.Helper()
	if err := s.do(context.Background(), normal, false, func(w *writer) error {
		if !w.buffered {
			t.Skip("the log is not buffered here")
		}
		n = w.c.Syncs()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// Break lets a step fail in the middle: it runs between two others if they wait together.
func (s *Store) Break(ctx context.Context, sql string) error {
	return s.do(ctx, normal, true, func(w *writer) error {
		w.st.change().seq += 100 // must not survive
		return w.c.Exec(sql)
	})
}

// Hold keeps the writer busy until release is closed.
func (s *Store) Hold(ctx context.Context, held chan<- struct{}, release <-chan struct{}) error {
	return s.do(ctx, urgent, false, func(*writer) error {
		close(held)
		<-release
		return nil
	})
}

// Waiting is how many callers wait for the writer.
func (s *Store) Waiting() int {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return s.w.waiting
}

// Pages is how many pages the database has.
func (s *Store) Pages(t testing.TB) (n int64) {
	t.Helper()
	if err := s.do(context.Background(), normal, false, func(w *writer) (err error) {
		n, err = w.pragma("PRAGMA page_count")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// Reprepared is how often the writer's statements were prepared anew.
func (s *Store) Reprepared(t testing.TB) (n int) {
	t.Helper()
	if err := s.do(context.Background(), normal, false, func(w *writer) error {
		n = w.c.Reprepared()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// Read calls f in a snapshot of a reader.
func (s *Store) Read(ctx context.Context, f func(c *lite.Conn) error) error {
	return s.read(ctx, func(r *reader) error { return f(r.c) })
}

// Checkpoint lets the writer see a try to copy a log of so many frames that answers err.
func (s *Store) Checkpoint(t testing.TB, frames int, err error) {
	t.Helper()
	if e := s.do(context.Background(), normal, false, func(w *writer) error {
		w.checkpointed(frames, func() (int, int, error) { return frames, frames, err })
		return nil
	}); e != nil {
		t.Fatal(e)
	}
}

// Frames is how many frames the log has, and how many of them are in the database.
func (s *Store) Frames() (frames, copied int) {
	s.wal.mu.Lock()
	defer s.wal.mu.Unlock()
	return s.wal.frames, s.wal.copied
}

// Migrate brings a file to the schema of files, as a program with these files would.
func Migrate(ctx context.Context, path string, files fs.FS) error {
	c, err := lite.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	all, err := migrations(files)
	if err != nil {
		return err
	}
	return migrate(ctx, c, all)
}

// SchemaFiles are the migrations of this program.
var SchemaFiles fs.FS = schemaFiles

// CheckpointAt is the length of the log at which it is copied.
const CheckpointAt = checkpointAt

// FrameSize is what a page takes in the log.
const FrameSize = frameSize
