package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/twolane/twolane/internal/openstore"
	"github.com/twolane/twolane/store"
)

const (
	kindRedis  = openstore.Redis
	kindSQLite = openstore.SQLite
	kindMemory = openstore.Memory
)

// Target is a store to measure: a Redis server, a folder for SQLite files, or memory.
type Target struct {
	kind  string
	label string
	url   string // of Redis
	query string // of SQLite
	probe *redisProbe
	dir   string
	runs  int
}

// NewTarget connects to the store at url. On Redis each row gets a namespace of its own that is removed afterwards. On SQLite each row gets
// a new file beside the path of the url; what is at that path is not touched. The caller closes the target.
func NewTarget(ctx context.Context, url string) (*Target, error) {
	t := &Target{kind: openstore.Kind(url), url: url}
	switch t.kind {
	case kindRedis:
		p, err := newRedisProbe(url)
		if err != nil {
			return nil, err
		}
		t.probe = p
		if t.label, err = p.label(ctx); err != nil {
			p.close()
			return nil, err
		}
		return t, nil
	case kindSQLite:
		path := openstore.SQLitePath(url)
		t.query = url[len("sqlite:"+path):]
		dir, err := os.MkdirTemp(filepath.Dir(path), "twolane-bench-")
		if err != nil {
			return nil, err
		}
		t.dir, t.label = dir, "sqlite"+t.query
		return t, nil
	case kindMemory:
		t.label = "memory"
		return t, nil
	}
	return nil, fmt.Errorf("%w: %q is none of %s", openstore.ErrURL, openstore.Redacted(url), openstore.Forms)
}

// Close frees what the target holds.
func (t *Target) Close() error {
	if t.probe != nil {
		t.probe.close()
	}
	if t.dir != "" {
		return os.RemoveAll(t.dir)
	}
	return nil
}

// fresh opens an empty store; clean removes what it left, after it was closed.
func (t *Target) fresh(ctx context.Context, log *slog.Logger) (st store.Store, url string, clean func(context.Context) error, err error) {
	t.runs++
	clean = func(context.Context) error { return nil }
	switch t.kind {
	case kindRedis:
		url, own, err := openstore.WithNamespace(t.url, "twolane-bench-"+rand.Text()[:10])
		if err != nil {
			return nil, "", nil, err
		}
		if !own {
			return nil, "", nil, fmt.Errorf("%w: the bench makes its own namespaces; leave it out", openstore.ErrURL)
		}
		clean = func(ctx context.Context) error { return openstore.DropNamespace(ctx, url) }
		st, err = openstore.Open(ctx, url, &openstore.Options{Logger: log})
		return st, url, clean, err
	case kindSQLite:
		path := filepath.Join(t.dir, fmt.Sprintf("%d.db", t.runs))
		url = "sqlite:" + path + t.query
		clean = func(context.Context) error {
			var errs []error
			files, err := filepath.Glob(path + "*")
			for _, f := range files {
				errs = append(errs, os.Remove(f))
			}
			return errors.Join(append(errs, err)...)
		}
	case kindMemory:
		url = t.url
	}
	st, err = openstore.Open(ctx, url, &openstore.Options{Logger: log})
	return st, url, clean, err
}

// cpu is what the store has used so far; 0 if it has no process of its own.
func (t *Target) cpu(ctx context.Context) (time.Duration, error) {
	if t.probe == nil {
		return 0, nil
	}
	return t.probe.cpu(ctx)
}

// floor is what the bare store does in a second; 0 if there is no such thing.
func (t *Target) floor(ctx context.Context, n int, d time.Duration) (float64, error) {
	switch t.kind {
	case kindRedis:
		return t.probe.floor(ctx, n, d)
	case kindSQLite:
		return sqliteFloor(ctx, t.dir, n, d)
	}
	return 0, nil
}

// bytes is what the data of the store takes now.
func (t *Target) bytes(ctx context.Context, s *site) (int64, error) {
	switch t.kind {
	case kindRedis:
		return t.probe.memory(ctx)
	case kindSQLite:
		st, err := s.calls.Store.Stats(ctx, store.StatsRequest{Overview: true})
		return st.Bytes, err
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), nil
}
