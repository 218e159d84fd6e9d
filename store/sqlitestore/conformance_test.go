package sqlitestore_test

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/sqlitestore"
	"github.com/twolane/twolane/store/sqlitestore/internal/lite"
	"github.com/twolane/twolane/store/storetest"
)

// harness does not flush: the suite proves what the calls do, TestFlushBeforeAnswer and TestF075_Kill that what they did stays.
var harness = storetest.Harness{
	Open: func(t *testing.T) store.Store { return open(t, filepath.Join(t.TempDir(), "store.db"), relaxed) },
	Second: func(t *testing.T, s store.Store) store.Store {
		return open(t, s.(*sqlitestore.Store).Path(), relaxed)
	},
	Reopen: func(t *testing.T, s store.Store) store.Store {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return open(t, s.(*sqlitestore.Store).Path(), relaxed)
	},
	Damage: func(t *testing.T, s store.Store, id string, part storetest.Part) bool {
		if part != storetest.PartRecord {
			return false // what points to a record are indexes of its row
		}
		tamper(t, s.(*sqlitestore.Store).Path(), fmt.Sprintf("UPDATE cmd SET rec=substr(rec,1,20)||x'ff'||substr(rec,22) WHERE id='%s'", id))
		return true
	},
}

var relaxed = &sqlitestore.Options{Relaxed: true, Logger: slog.New(slog.DiscardHandler)}

func TestConformance(t *testing.T) {
	t.Cleanup(func() { checkPlans(t) }) // of everything that the suite has made the stores do
	storetest.Run(t, harness)
}

func TestRandom(t *testing.T) { storetest.RunRandom(t, harness) }

func open(t testing.TB, path string, opt *sqlitestore.Options) *sqlitestore.Store {
	t.Helper()
	s, err := sqlitestore.Open(t.Context(), path, opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tamper changes the file behind the back of those who have it open.
func tamper(t testing.TB, path, script string) {
	t.Helper()
	c, err := lite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := c.Exec("PRAGMA busy_timeout=5000; " + script); err != nil {
		t.Fatal(err)
	}
}
