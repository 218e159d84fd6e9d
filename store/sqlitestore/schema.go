package sqlitestore

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
	"github.com/twolane/twolane/store/sqlitestore/internal/lite"
)

//go:embed schema/*.sql
var schemaFiles embed.FS

// A migration takes a file from one schema to the next. Its first line, "-- reader: N", says the lowest schema whose programs may
// still work on the file: one that only adds things keeps N, so that older programs go on beside newer ones.
type migration struct {
	number, reader int64
	sql            string
}

// migrations reads the numbered files of dir schema, in order.
func migrations(files fs.FS) ([]migration, error) {
	names, err := fs.Glob(files, "schema/*.sql") // sorted
	if err != nil {
		return nil, err
	}
	var all []migration
	for i, name := range names {
		b, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		m := migration{sql: string(b)}
		num, _, _ := strings.Cut(path.Base(name), "_")
		if m.number, err = strconv.ParseInt(num, 10, 64); err != nil || m.number != int64(i+1) {
			return nil, fmt.Errorf("%s: is not migration %d", name, i+1)
		}
		first, _, _ := strings.Cut(m.sql, "\n")
		reader, ok := strings.CutPrefix(first, "-- reader: ")
		if m.reader, err = strconv.ParseInt(reader, 10, 64); !ok || err != nil || m.reader > m.number {
			return nil, fmt.Errorf("%s: the first line must be \"-- reader: N\", N at most %d", name, m.number)
		}
		all = append(all, m)
	}
	return all, nil
}

// schema is the schema of this program.
const schema = 1

// setUp makes a connection ours.
const setUp = `PRAGMA cache_size=-6144; PRAGMA temp_store=MEMORY; PRAGMA wal_autocheckpoint=0; PRAGMA foreign_keys=OFF; PRAGMA trusted_schema=OFF`

// open prepares the writer's connection, migrates the file, and begins the namespace.
func (w *writer) open(ctx context.Context) error {
	if err := w.c.Exec(setUp); err != nil {
		return err
	}
	all, err := migrations(schemaFiles)
	if err != nil {
		return err
	}
	w.c.CountFrames()
	w.checkAt = checkpointAt
	w.waiting = 1 // the caller of Open waits
	defer func() { w.waiting = 0 }()
	if err := recognise(ctx, w.c); err != nil {
		return err
	}
	if err := enterWAL(ctx, w.c, w.s.opt.WALLimit); err != nil {
		return err
	}
	if w.buffered, err = w.c.BufferLog(); err != nil {
		return err
	}
	if err := w.synchronous(!w.s.opt.Relaxed); err != nil {
		return err
	}
	if err := migrate(ctx, w.c, all); err != nil {
		return err
	}
	if err := w.begin(true); err != nil {
		return err
	}
	if err := w.anchor(); err != nil {
		w.rollback()
		return err
	}
	if err := w.commit(true); err != nil {
		return err
	}
	w.publish()
	return nil
}

// recognise refuses a file that is not ours before anything in it is changed: the switch to a write-ahead log is for good.
func recognise(ctx context.Context, c *lite.Conn) error {
	return retryBusy(ctx, func() error {
		version, err := userVersion(c)
		switch {
		case err != nil:
			return err
		case version == 0:
			return checkEmpty(c)
		}
		_, _, err = readerOf(c)
		return err
	})
}

// enterWAL switches the file to a write-ahead log; it is refused while others are about to do the same.
func enterWAL(ctx context.Context, c *lite.Conn, limit int64) error {
	return retryBusy(ctx, func() error {
		st, err := c.Prepare("PRAGMA journal_mode=WAL")
		if err != nil {
			return err
		}
		if _, err := st.Step(); err != nil {
			return err
		}
		mode := st.ColText(0)
		st.Reset()
		if mode != "wal" {
			return fmt.Errorf("this file system has no shared memory for a write-ahead log: journal mode is %q", mode)
		}
		return c.Exec("PRAGMA journal_size_limit=" + strconv.FormatInt(limit, 10))
	})
}

// migrate brings the file to the last of all.
func migrate(ctx context.Context, c *lite.Conn, all []migration) error {
	for {
		version, err := userVersion(c)
		if err != nil {
			return err
		}
		if version >= int64(len(all)) {
			return checkReader(c, version, int64(len(all)))
		}
		if err := retryBusy(ctx, func() error { return migrateOne(c, all) }); err != nil {
			return err
		}
	}
}

func migrateOne(c *lite.Conn, all []migration) error {
	if err := c.Exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	version, err := userVersion(c)
	if err == nil && version == 0 {
		err = checkEmpty(c)
	}
	if err == nil && version < int64(len(all)) {
		m := all[version]
		err = c.Exec(m.sql)
		if err == nil {
			err = c.Exec(fmt.Sprintf("UPDATE ns SET reader=max(reader,%d); PRAGMA user_version=%d", m.reader, m.number))
		}
	}
	if err != nil {
		_ = c.Exec("ROLLBACK") // the first error is the one to tell
		return err
	}
	return c.Exec("COMMIT")
}

// checkEmpty refuses a database that somebody else uses for something else.
func checkEmpty(c *lite.Conn) error {
	st, err := c.Prepare("SELECT name FROM sqlite_schema LIMIT 1")
	if err != nil {
		return err
	}
	used, err := st.Step()
	if err != nil {
		return err
	}
	if !used {
		return nil
	}
	name := st.ColText(0)
	st.Reset()
	return fmt.Errorf("%w, but a database of something else: it has %q", errForeign, name)
}

// checkSchema says whether the program may work on the file, in the transaction that is open.
func checkSchema(c *lite.Conn) error {
	version, err := userVersion(c)
	if err != nil {
		return err
	}
	return checkReader(c, version, schema)
}

func checkReader(c *lite.Conn, version, ours int64) error {
	reader, ok, err := readerOf(c)
	if err != nil {
		return err
	}
	if !ok || reader > ours || version < ours {
		return fmt.Errorf("%w: the file has schema %d, which needs a program of schema %d; this one has %d", store.ErrSchema, version, reader, ours)
	}
	return nil
}

// readerOf reads the lowest schema whose programs may work on the file; ok is false if it does not say.
func readerOf(c *lite.Conn) (reader int64, ok bool, err error) {
	st, err := c.Prepare("SELECT reader FROM ns")
	if lite.Is(err, lite.Generic) { // no such table or column
		return 0, false, fmt.Errorf("%w: %w", errForeign, err)
	}
	if err != nil {
		return 0, false, err
	}
	if ok, err = st.Step(); err != nil {
		return 0, false, err
	}
	reader = st.ColInt(0)
	st.Reset()
	return reader, ok, nil
}

func userVersion(c *lite.Conn) (int64, error) {
	st, err := c.Prepare("PRAGMA user_version")
	if err != nil {
		return 0, err
	}
	if ok, err := st.Step(); err != nil || !ok {
		return 0, err
	}
	v := st.ColInt(0)
	st.Reset()
	return v, nil
}

// anchor ties server time to the clock of the machine, unless another process has done it since the machine started, starts the clocks of a
// new namespace, and, opened exclusively, lets the leases of earlier incarnations expire.
func (w *writer) anchor() error {
	ns := w.st.change()
	if shift := wallShift(); abs(int64(shift-ns.shift)) > maxDrift {
		ns.shift = shift
	}
	if ns.clocks.Last == 0 {
		ns.clocks = rule.Start(w.server())
	}
	if w.s.opt.Exclusive {
		if err := w.expireAll(); err != nil {
			return err
		}
	}
	return w.st.flush()
}
