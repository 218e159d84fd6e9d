package memstore_test

import (
	"testing"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/memstore"
	"github.com/twolane/twolane/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, storetest.Harness{Open: func(*testing.T) store.Store { return memstore.New() }})
}

// The model compared with itself tests the comparison: whatever it may find fault with, it must not here.
func TestRandom(t *testing.T) {
	storetest.RunRandom(t, storetest.Harness{Open: func(*testing.T) store.Store { return memstore.New() }})
}
