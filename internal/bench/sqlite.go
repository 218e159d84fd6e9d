package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"
)

// sqliteFloor inserts rows with n bytes in transactions of 64, each on disk before the next begins, for about d, and returns how many
// rows it did in a second. The file is in dir, so that it is the same disk.
func sqliteFloor(ctx context.Context, dir string, n int, d time.Duration) (perSecond float64, err error) {
	_, _ = sqlite.Fdatasync(true) // as the store does: where it does not exist, fsync it is
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "floor.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS floor (id INTEGER PRIMARY KEY, params BLOB NOT NULL)"); err != nil {
		return 0, err
	}
	insert, err := db.PrepareContext(ctx, "INSERT INTO floor (params) VALUES (?)")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, insert.Close()) }()
	payload := []byte(strings.Repeat("x", n))
	batch := func() error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		stmt := tx.StmtContext(ctx, insert)
		for range 64 {
			if _, err := stmt.ExecContext(ctx, payload); err != nil {
				return errors.Join(err, tx.Rollback())
			}
		}
		return tx.Commit()
	}
	start, count := time.Now(), 0
	for time.Since(start) < d {
		if err := batch(); err != nil {
			return 0, fmt.Errorf("floor probe: %w", err)
		}
		count += 64
	}
	return float64(count) / time.Since(start).Seconds(), nil
}
