// Package sqlitestore keeps commands in one SQLite file: the embedded default of twolane. It is pure Go, needs no server, is shared by the
// processes of one machine, and an acknowledged submit or settle survives power loss.
//
// # How it works
//
// A record is one row of table cmd: its packed contents with a checksum, and beside them the few columns that its indexes need. The
// indexes are SQLite's own, partial, and derived from the row, so a place, a line, a lease or a unique key cannot disagree with the record. Lines
// are rows of their own whose head is the score of their first command; a claim looks at heads only.
//
// Each process has one writer goroutine. Calls queue up; the writer takes all that wait, renewals and settles first, runs them in one
// transaction, and answers after its commit: one flush for many calls. Calls run one after the other without savepoints, since they decide first
// and write last; if one fails all the same, the transaction is rolled back and its calls are run again, each in a savepoint of its own, so
// that the one that fails takes nobody along. What the writer has read stays in memory as long as no other process has written (PRAGMA
// data_version). Transactions end after about ten milliseconds of work. A transaction that only claimed or renewed is not flushed: after a power loss
// nobody who could hold those leases is left.
//
// Reads have connections of their own and are short, so that they never hold up the checkpoint of the log.
package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"modernc.org/sqlite"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
	"github.com/twolane/twolane/store/sqlitestore/internal/lite"
)

// Options of [Open]. The zero value is the default.
type Options struct {
	// Exclusive takes the file for this process alone, as long as the store is open. Leases that are found in the file then belong to nobody
	// alive and expire at once.
	Exclusive bool
	// Relaxed does not flush at each commit: a crash of the process loses nothing, a power loss may lose the last commits.
	Relaxed bool
	// WALLimit is the size in bytes that the log should not exceed; 0 means 64 MiB. It grows beyond while a foreign reader holds it.
	WALLimit int64
	// Logger gets what an operator should know; nil means slog.Default().
	Logger *slog.Logger

	beforeCommit func(w *writer, durable bool) // tests only
}

// Store is a store.Store in one file. Open it with [Open].
type Store struct {
	path string
	opt  Options
	log  *slog.Logger
	lock *fileLock

	w       *writer
	readers chan *reader  // tokens: nil is a reader that is not open yet
	closing chan struct{} // closed when Close begins
	done    chan struct{} // closed when the writer has ended
	stop    sync.Once

	clock atomic.Pointer[timepiece] // as of the last transaction of this process
	watch watchers
	names names
	wal   walState
}

var (
	_ store.Store     = (*Store)(nil)
	_ store.Describer = (*Store)(nil)
	_ store.Clocker   = (*Store)(nil)
)

const maxReaders = 4

// Open opens the store in the file at path (a path, not a URL) and creates it unless it exists; its folder must exist. It refuses network file
// systems, files of a newer, incompatible schema or of something else ([store.ErrSchema]), which it leaves as they are, and files that another
// process has opened exclusively. Beside the file there are two of SQLite while it is open, and an empty one whose name ends in -lock, which stays.
func Open(ctx context.Context, path string, opt *Options) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if path == "" || strings.HasPrefix(path, ":memory:") {
		return nil, &store.InvalidError{Field: "path", Detail: "name a file; for memory use the memory store"}
	}
	if strings.HasPrefix(path, "sqlite:") || strings.HasPrefix(path, "file:") {
		return nil, &store.InvalidError{Field: "path", Detail: fmt.Sprintf("%q is a URL; give the path alone, and settings as options", path)}
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, closing: make(chan struct{}), done: make(chan struct{}), readers: make(chan *reader, maxReaders)}
	if opt != nil {
		s.opt = *opt
	}
	if s.opt.WALLimit <= 0 {
		s.opt.WALLimit = 64 << 20
	}
	if s.log = s.opt.Logger; s.log == nil {
		s.log = slog.Default()
	}
	s.log = s.log.With("store", path)
	if err := checkPlace(path); err != nil {
		return nil, err
	}
	_, _ = sqlite.Fdatasync(true) // half the work of a flush where it exists; where not, fsync it is
	if s.lock, err = lockFile(path+"-lock", s.opt.Exclusive); err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		_ = s.lock.release() // the first error is the one to tell
		if errors.Is(err, errForeign) {
			s.lock.forget()
		}
		return nil, err
	}
	return s, nil
}

// checkPlace says why there can be no store at path, before anything is written there.
func checkPlace(path string) error {
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("the folder of the store: %w", err)
	}
	if fi, err := os.Stat(path); err == nil && fi.IsDir() {
		return &store.InvalidError{Field: "path", Detail: path + " is a folder; name a file in it"}
	}
	return refuseNetwork(dir)
}

// errForeign says that a file is none of ours. Nothing of ours is to be left beside it.
var errForeign error = foreign{}

type foreign struct{}

func (foreign) Error() string        { return "this is no store of twolane" }
func (foreign) Is(target error) bool { return target == store.ErrSchema }

func (s *Store) start(ctx context.Context) error {
	c, err := lite.Open(s.path)
	if err != nil {
		return s.openError(err)
	}
	w := &writer{s: s, c: c, wakeup: make(chan struct{}, 1)}
	if err = w.open(ctx); err != nil {
		_ = c.Close() // the first error is the one to tell
		return s.openError(err)
	}
	s.w = w
	for range maxReaders {
		s.readers <- nil
	}
	s.watch.s = s
	go w.loop()
	return nil
}

func (s *Store) openError(err error) error {
	switch {
	case lite.Is(err, lite.NotADB):
		return fmt.Errorf("open %s: %w, but something else, or its first page is damaged", s.path, errForeign)
	case lite.Is(err, lite.Corrupt):
		return fmt.Errorf("%s is damaged: %w", s.path, err)
	}
	return fmt.Errorf("open %s: %w", s.path, err)
}

// Path is the file that the store lives in.
func (s *Store) Path() string { return s.path }

// Close implements [store.Store].
func (s *Store) Close() error {
	var err error
	s.stop.Do(func() {
		close(s.closing)
		s.w.close()
		<-s.done
		s.watch.close()
		for range maxReaders {
			if r := <-s.readers; r != nil {
				err = errors.Join(err, r.c.Close())
			}
		}
		err = errors.Join(err, s.w.c.Close(), s.lock.release())
	})
	<-s.done
	return err
}

func (s *Store) isClosed() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// SetClock implements [store.Clocker]. The clock stays fixed for every process until it is given back.
func (s *Store) SetClock(ctx context.Context, at store.Millis) error {
	return s.do(ctx, normal, true, func(t *writer) error {
		ns := t.st.change()
		if at != 0 && ns.fixed == 0 && ns.seq == 0 && ns.token == 0 {
			ns.clocks = rule.Start(at) // nothing has happened yet: the namespace begins now
		}
		ns.fixed = at
		return nil
	})
}

// Describe implements [store.Describer].
func (s *Store) Describe(ctx context.Context) (store.Description, error) {
	if err := ctx.Err(); err != nil {
		return store.Description{}, err
	}
	if s.isClosed() {
		return store.Description{}, store.ErrClosed
	}
	d := store.Description{Kind: "sqlite", Version: lite.Version(), Durability: "acknowledged submits and settles survive power loss (synchronous=FULL, group commit)"}
	if s.opt.Relaxed {
		d.Durability = "acknowledged work survives a crash of the process; a power loss may take the last commits (synchronous=NORMAL)"
		d.Warnings = append(d.Warnings, "relaxed durability: a power loss may take the last commits; open without relaxed if they matter")
	}
	if w := s.wal.warning(s.opt.WALLimit); w != "" {
		d.Warnings = append(d.Warnings, w)
	}
	if w := suspectFS(filepath.Dir(s.path)); w != "" {
		d.Warnings = append(d.Warnings, w)
	}
	return d, nil
}

// bytes is what the store occupies on disk.
func (s *Store) bytes() int64 {
	var n int64
	for _, suffix := range [...]string{"", "-wal", "-shm"} {
		if fi, err := os.Stat(s.path + suffix); err == nil {
			n += fi.Size()
		}
	}
	return n
}
