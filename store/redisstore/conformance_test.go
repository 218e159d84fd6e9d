package redisstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/internal/redistest"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/redisstore"
	"github.com/twolane/twolane/store/storetest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var namespaces atomic.Int64

// fresh is a namespace that no other test uses.
func fresh() string { return fmt.Sprintf("t%d", namespaces.Add(1)) }

func open(t testing.TB, url, namespace string) *redisstore.Store {
	t.Helper()
	opt, err := redisstore.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	opt.Namespace = namespace
	s, err := redisstore.Open(context.Background(), opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// harness opens stores on one server or cluster; each has a namespace of its own.
func harness(url string) storetest.Harness {
	return storetest.Harness{
		Open: func(t *testing.T) store.Store { return open(t, url, fresh()) },
		Second: func(t *testing.T, s store.Store) store.Store {
			return open(t, url, s.(*redisstore.Store).Namespace())
		},
		Reopen: func(t *testing.T, s store.Store) store.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return open(t, url, s.(*redisstore.Store).Namespace())
		},
		Damage: func(t *testing.T, s store.Store, id string, part storetest.Part) bool {
			prefix := "{" + s.(*redisstore.Store).Namespace() + "}:"
			switch part {
			case storetest.PartRecord:
				raw(t, url, "SET", prefix+"c|"+id, "no record at all")
			case storetest.PartMissing:
				raw(t, url, "DEL", prefix+"c|"+id)
			case storetest.PartLease:
				raw(t, url, "ZREM", prefix+"L", id)
			}
			return true
		},
	}
}

// raw runs one command on a server or cluster, behind the back of every store.
func raw(t *testing.T, url string, args ...string) {
	t.Helper()
	opt, err := rueidis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	opt.DisableCache = true
	c, err := rueidis.NewClient(opt)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Do(context.Background(), c.B().Arbitrary(args[0]).Keys(args[1]).Args(args[2:]...).Build()).Error(); err != nil {
		t.Fatal(err)
	}
}

func TestConformance(t *testing.T) {
	storetest.Run(t, harness(redistest.Shared(t).URL()))
}

func TestConformanceCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three servers")
	}
	storetest.Run(t, harness(redistest.SharedCluster(t).URL()))
}

func TestRandom(t *testing.T) {
	storetest.RunRandom(t, harness(redistest.Shared(t).URL()))
}
