package proctest

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twolane/twolane/internal/redistest"
)

// tick is the unit of time here: a second, or more on a machine that is busy with other things.
var tick = time.Second

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
	tick = pace()
	redistest.Main(m)
}

// pace looks for half a second how late this process is woken. A worker tries a renewal for an eighth of the visibility timeout: on a machine that
// answers later than that nobody keeps a lease, and nothing is learnt.
func pace() time.Duration {
	var late []time.Duration
	for range 50 {
		begin := time.Now()
		time.Sleep(stallTick)
		late = append(late, time.Since(begin)-stallTick)
	}
	slices.Sort(late)
	bad := late[len(late)*9/10]
	switch {
	case bad < 10*time.Millisecond:
		return time.Second
	case bad < 40*time.Millisecond:
		return 2 * time.Second
	}
	return 4 * time.Second
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
