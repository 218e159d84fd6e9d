package lite

import (
	"path/filepath"
	"testing"
)

func openWAL(t *testing.T, path string) *Conn {
	t.Helper()
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := c.Exec("PRAGMA journal_mode=WAL"); err != nil {
		t.Fatal(err)
	}
	return c
}

// The state of the log tells of each commit, whoever makes it, and of nothing else.
func TestLogState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	plain, err := Open(filepath.Join(t.TempDir(), "plain.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if _, ok := plain.LogState(); ok {
		t.Error("a file without a log has a state of it")
	}
	a, b := openWAL(t, path), openWAL(t, path)
	if err := a.Exec("CREATE TABLE t (n INTEGER); BEGIN; SELECT count(*) FROM t; COMMIT"); err != nil {
		t.Fatal(err)
	}
	last, ok := a.LogState()
	if !ok {
		t.Fatal("no state of the log")
	}
	for i, step := range []struct {
		by      *Conn
		sql     string
		changes bool
	}{
		{b, "INSERT INTO t VALUES (1)", true},
		{a, "INSERT INTO t VALUES (2)", true},
		{b, "BEGIN; SELECT count(*) FROM t; COMMIT", false},
		{b, "BEGIN IMMEDIATE; INSERT INTO t VALUES (3); ROLLBACK", false},
		{b, "PRAGMA wal_checkpoint(PASSIVE)", false},
		{b, "INSERT INTO t VALUES (4)", true}, // the log begins anew
		{b, "DELETE FROM t", true},
		{b, "PRAGMA wal_checkpoint(TRUNCATE)", false},
		{a, "INSERT INTO t VALUES (5)", true},
	} {
		if err := step.by.Exec(step.sql); err != nil {
			t.Fatal(err)
		}
		now, ok := a.LogState()
		if !ok || step.changes && now == last {
			t.Errorf("step %d, %s: changed %v, want %v", i, step.sql, now != last, step.changes)
		}
		if !step.changes && now != last {
			t.Logf("step %d, %s: has changed the state", i, step.sql)
		}
		last = now
	}
}
