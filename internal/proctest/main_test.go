package proctest

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twolane/twolane/internal/redistest"
)

// v is the visibility timeout of every namespace here; work of a dead worker goes on within resume.
const (
	v      = time.Second
	resume = v + 2*time.Second
)

func TestMain(m *testing.M) {
	if orders := os.Getenv(envSpec); orders != "" {
		os.Exit(runWorker(orders))
	}
	// Most of the time is spent waiting for leases to run out. A -parallel of the command line wins.
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go stalls.run()
	redistest.Main(m)
}

// rounds is how often a test with a random moment is repeated. On SQLite, where a round costs more and has fewer ways to go, a third of it.
func rounds(t *testing.T) int {
	n := 25
	if os.Getenv("TWOLANE_CHAOS") == "full" {
		n = 100
	}
	if strings.Contains(t.Name(), "sqlite") {
		n /= 3
	}
	return n
}

var persist sync.Once

// sharedRedis is the server of the tests that leave it alone. It appends to its file every second.
func sharedRedis(t *testing.T) *redistest.Server {
	t.Helper()
	srv := redistest.Shared(t)
	persist.Do(func() {
		for _, kv := range [][2]string{{"appendfsync", "everysec"}, {"appendonly", "yes"}} {
			if _, err := srv.Do(t.Context(), "CONFIG", "SET", kv[0], kv[1]); err != nil {
				t.Fatal(err)
			}
		}
	})
	return srv
}

// ownRedis is a server of this test alone.
func ownRedis(t *testing.T) *redistest.Server {
	t.Helper()
	return redistest.Start(t, "--appendonly", "yes", "--appendfsync", "everysec")
}
