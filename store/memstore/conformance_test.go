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
