package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/twolane/twolane/internal/openstore"
	"github.com/twolane/twolane/store"
)

// place is a store that a verb opened for itself, and the folder that it made for it, if any.
type place struct {
	store store.Store
	url   string
	dir   string
	drop  bool // the namespace is of no use to anybody else
}

// openTemporary opens the store at url, or a SQLite file in a new temporary folder if url is empty. On Redis it takes a namespace of its own
// unless the url names one.
func openTemporary(ctx context.Context, url, purpose string, log *slog.Logger) (_ *place, err error) {
	p := &place{url: url}
	if url == "" {
		if p.dir, err = os.MkdirTemp("", "twolane-"+purpose+"-"); err != nil {
			return nil, err
		}
		p.url = "sqlite:" + filepath.Join(p.dir, purpose+".db")
	}
	if openstore.Kind(url) == openstore.Redis {
		if p.url, p.drop, err = openstore.WithNamespace(url, "twolane-"+purpose+"-"+rand.Text()[:10]); err != nil {
			return nil, err
		}
	}
	if p.store, err = openstore.Open(ctx, p.url, &openstore.Options{Logger: log}); err != nil {
		return nil, errors.Join(err, p.remove())
	}
	return p, nil
}

// close closes the store and removes what was made for it.
func (p *place) close() error { return errors.Join(p.store.Close(), p.remove()) }

// keep closes the store and leaves it for a look.
func (p *place) keep(messages io.Writer) error {
	if p.dir != "" || p.drop {
		fmt.Fprintf(messages, "The store is kept: twolane audit --store '%s'\n", openstore.Redacted(p.url))
	}
	return p.store.Close()
}

func (p *place) remove() error {
	var err error
	if p.drop {
		// Also after Ctrl-C, but not for ever.
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = openstore.DropNamespace(ctx, p.url)
	}
	if p.dir != "" {
		err = errors.Join(err, os.RemoveAll(p.dir))
	}
	return err
}
