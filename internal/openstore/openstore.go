// Package openstore opens a store by its URL. There is no registry: the forms are listed here.
//
//	mem:                                  in memory, gone with the process
//	sqlite:PATH[?exclusive=1][&relaxed=1] one file; PATH as the shell gives it
//	redis://[user:password@]host[:port]   and rediss://; redisstore.ParseURL says what else may be in it
package openstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/memstore"
	"github.com/twolane/twolane/store/sqlitestore"
)

// ErrURL is returned (wrapped) for a URL that cannot be understood.
var ErrURL = errors.New("bad store URL")

// Forms says what a URL may be, for help texts.
const Forms = "mem:, sqlite:PATH or redis://…"

// Options are the settings that are not part of a URL.
type Options struct {
	Logger *slog.Logger // what an operator should know; nil means slog.Default()
	// MustExist refuses to create a file: an error that is fs.ErrNotExist.
	MustExist bool
}

// Open opens the store that a URL names. opt may be nil. The caller closes it.
func Open(ctx context.Context, rawURL string, opt *Options) (store.Store, error) {
	o := Options{}
	if opt != nil {
		o = *opt
	}
	switch Kind(rawURL) {
	case Memory:
		if rest := rawURL[len("mem:"):]; rest != "" {
			return nil, fmt.Errorf("%w: mem: takes nothing behind it, and got %q", ErrURL, rest)
		}
		return memstore.New(), nil
	case SQLite:
		return openSQLite(ctx, rawURL, o)
	case Redis:
		return openRedis(ctx, rawURL)
	}
	return nil, fmt.Errorf("%w: %q is none of %s", ErrURL, Redacted(rawURL), Forms)
}

// Kinds of stores.
const (
	Memory = "memory"
	SQLite = "sqlite"
	Redis  = "redis"
)

// Kind says which store a URL names by its scheme; empty if none.
func Kind(rawURL string) string {
	scheme, _, ok := strings.Cut(rawURL, ":")
	switch {
	case !ok:
	case scheme == "mem":
		return Memory
	case scheme == "sqlite":
		return SQLite
	case scheme == "redis", scheme == "rediss":
		return Redis
	}
	return ""
}

// Redacted returns a URL without its password, for people and logs.
func Redacted(rawURL string) string {
	if Kind(rawURL) == SQLite || Kind(rawURL) == Memory {
		return rawURL
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		scheme, _, _ := strings.Cut(rawURL, ":")
		return scheme + ":(unreadable)" // it may hold a password
	}
	return u.Redacted()
}

// SQLitePath returns the path of a sqlite: URL.
func SQLitePath(rawURL string) string {
	path, _, _ := strings.Cut(strings.TrimPrefix(rawURL, "sqlite:"), "?")
	return path
}

func openSQLite(ctx context.Context, rawURL string, o Options) (store.Store, error) {
	_, query, _ := strings.Cut(rawURL, "?")
	path := SQLitePath(rawURL)
	if path == "" {
		return nil, fmt.Errorf("%w: sqlite: needs a path, as in sqlite:queue.db", ErrURL)
	}
	values, err := parseQuery(query, "exclusive", "relaxed")
	if err != nil {
		return nil, err
	}
	opt := sqlitestore.Options{Logger: o.Logger}
	if opt.Exclusive, err = flag(values, "exclusive"); err != nil {
		return nil, err
	}
	if opt.Relaxed, err = flag(values, "relaxed"); err != nil {
		return nil, err
	}
	if o.MustExist {
		if info, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("open store: %w", err)
		} else if info.IsDir() {
			return nil, fmt.Errorf("open store: %w", &fs.PathError{Op: "open", Path: path, Err: errors.New("is a folder")})
		}
	}
	st, err := sqlitestore.Open(ctx, path, &opt)
	if err != nil {
		return nil, err // a nil *sqlitestore.Store would be no nil store.Store
	}
	return st, nil
}

// parseQuery reads a query in which only some keys may be, each once.
func parseQuery(query string, known ...string) (url.Values, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	for key, v := range values {
		switch {
		case !slices.Contains(known, key):
			return nil, fmt.Errorf("%w: unknown setting %q; known are %s", ErrURL, key, strings.Join(known, ", "))
		case len(v) > 1:
			return nil, fmt.Errorf("%w: setting %q is given twice", ErrURL, key)
		}
	}
	return values, nil
}

// flag reads a setting that is on or off.
func flag(values url.Values, key string) (bool, error) {
	switch v := values.Get(key); v {
	case "1", "true":
		return true, nil
	case "", "0", "false":
		if v == "" && values.Has(key) {
			return false, fmt.Errorf("%w: setting %q is empty; it is 0 or 1", ErrURL, key)
		}
		return false, nil
	default:
		return false, fmt.Errorf("%w: setting %q is %q; it is 0 or 1", ErrURL, key, v)
	}
}
