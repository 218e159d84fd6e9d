package sqlitestore_test

import (
	"path/filepath"
	"testing"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/sqlitestore"
	"github.com/twolane/twolane/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, storetest.Harness{Open: func(t *testing.T) store.Store { return open(t, filepath.Join(t.TempDir(), "store.db"), nil) }})
}

func open(t testing.TB, path string, opt *sqlitestore.Options) *sqlitestore.Store {
	t.Helper()
	s, err := sqlitestore.Open(t.Context(), path, opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
