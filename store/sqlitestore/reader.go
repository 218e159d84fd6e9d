package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
	"github.com/twolane/twolane/store/sqlitestore/internal/lite"
)

// reader is a connection that only reads, each time one snapshot.
type reader struct {
	s   *Store
	c   *lite.Conn
	ns  namespace
	cfg store.Config
	now rule.Now
	own bool // cfg was read once
}

func (r *reader) q(sql string) stmt { return r.c.Must(sql) }

// read calls f with a snapshot of the store.
func (s *Store) read(ctx context.Context, f func(r *reader) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.isClosed() {
		return store.ErrClosed
	}
	var r *reader
	select {
	case r = <-s.readers: // Close waits for it
	case <-s.closing:
		return store.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { s.readers <- r }()
	if r == nil {
		var err error
		if r, err = s.openReader(); err != nil {
			return err
		}
	}
	err := r.look(f)
	if _, broken := errors.AsType[*lite.Error](err); broken { // the next one begins with a new connection
		err = errors.Join(err, r.c.Close())
		r = nil
	}
	return err
}

func (r *reader) look(f func(r *reader) error) error {
	if err := r.q("BEGIN").Run(); err != nil {
		return err
	}
	err := r.snapshot()
	if err == nil {
		err = f(r)
	}
	return errors.Join(err, r.q("ROLLBACK").Run())
}

func (s *Store) openReader() (*reader, error) {
	c, err := lite.Open(s.path)
	if err != nil {
		return nil, err
	}
	if err := c.Exec("PRAGMA cache_size=-8192; PRAGMA temp_store=MEMORY; PRAGMA wal_autocheckpoint=0; PRAGMA query_only=ON"); err != nil {
		_ = c.Close() // the first error is the one to tell
		return nil, err
	}
	return &reader{s: s, c: c}, nil
}

// snapshot reads what every read needs.
func (r *reader) snapshot() error {
	if err := checkSchema(r.c); err != nil {
		return err
	}
	if err := r.ns.read(r); err != nil {
		return err
	}
	if !r.own || r.cfg.Version != r.ns.version {
		var err error
		if r.cfg, err = readConfig(r); err != nil {
			return err
		}
		r.cfg.Version, r.own = r.ns.version, true
	}
	r.now = r.ns.clocks.Advance(r.ns.server(), r.cfg.V()).Now()
	return nil
}

// names keeps what the numbers of table kind stand for, which never changes once it is committed.
type names struct {
	mu sync.RWMutex
	m  map[int64][2]string
}

// kindName implements kindNamer for a reader.
func (r *reader) kindName(k int64) (string, string, error) {
	m := &r.s.names
	m.mu.RLock()
	name, ok := m.m[k]
	m.mu.RUnlock()
	if ok {
		return name[0], name[1], nil
	}
	st := r.q("SELECT queue.name, kind.type FROM kind JOIN queue ON queue.q=kind.q WHERE kind.k=?").Int(k)
	ok, err := st.Step()
	if err != nil {
		return "", "", err
	}
	if !ok {
		return "", "", fmt.Errorf("there is no type number %d", k)
	}
	name = [2]string{st.ColText(0), st.ColText(1)}
	st.Reset()
	m.mu.Lock()
	if m.m == nil || len(m.m) > 1<<16 {
		m.m = map[int64][2]string{}
	}
	m.m[k] = name
	m.mu.Unlock()
	return name[0], name[1], nil
}

// get returns the row that a statement of selectRow finds, with all values if blobs; nil if there is none or it cannot be read. It is not to
// be saved.
func (r *reader) get(st stmt, blobs bool) (*row, error) {
	ok, err := st.Step()
	if err != nil || !ok {
		return nil, err
	}
	w, err := scanRow(st, r)
	st.Reset()
	if err == nil {
		err = w.finish(r, blobs)
	}
	if u, ok := err.(*unreadable); ok {
		if err := lookAgain(r, u); err != nil {
			return nil, err
		}
		r.s.damaged(u)
		return nil, nil
	}
	return w, err
}

// damaged lets the writer set a record aside that a reader could not read. Nobody waits for it.
func (s *Store) damaged(u *unreadable) {
	o := &op{durable: true, done: make(chan error, 1), run: func(w *writer) error {
		_, err := w.complete(u.n) // looks again: it may have been changed since
		return err
	}}
	if s.w.push(bulk, o) == nil { // else the store is being closed, and the next reader will meet it
		s.w.left()
	}
}

// finish makes the command complete, or takes its values off.
func (w *row) finish(q query, blobs bool) error {
	if err := w.fill(q, valError); err != nil {
		return err
	}
	if !blobs {
		noBlobs(w.c)
		return nil
	}
	if err := w.fill(q, valParams, valState, valResult, valProgress, valEvents, valMetadata); err != nil {
		return err
	}
	return w.unfold()
}

func noBlobs(c *store.Command) {
	c.Params, c.State, c.Result, c.Progress, c.Metadata, c.Events = nil, nil, nil, nil, nil, nil
}
