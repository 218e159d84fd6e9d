package sim

import (
	"bytes"
	"flag"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	one  = flag.Uint64("seed", 0, "the seed of TestSeed")
	from = flag.Uint64("from", 1, "the first seed of TestSeeds, which runs as many as TWOLANE_SEEDS says")
	all  = flag.Bool("all", false, "TestSeeds goes on after a seed that fails and says one line of each")
)

// seeds is how many runs CI makes.
const seeds = 2000

// TestSeed replays one seed.
func TestSeed(t *testing.T) {
	if *one == 0 {
		t.Skip("no -seed")
	}
	r := Run(*one, Options{Trace: testing.Verbose()})
	if testing.Verbose() {
		os.Stdout.Write(r.Trace)
	}
	if r.Violation != nil {
		t.Fatal(r.Report())
	}
}

// each runs seeds on all processors until one fails, next says no more, or all have run.
func each(t *testing.T, next func() (uint64, bool), do func(seed uint64) bool) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for !t.Failed() || *all {
				mu.Lock()
				seed, ok := next()
				mu.Unlock()
				if !ok || !do(seed) {
					return
				}
			}
		})
	}
	wg.Wait()
}

// these are the n seeds from first on.
func these(first, n uint64) func() (uint64, bool) {
	next := first - 1
	return func() (uint64, bool) { next++; return next, next < first+n }
}

func TestSeeds(t *testing.T) {
	n := uint64(seeds)
	if s := os.Getenv("TWOLANE_SEEDS"); s != "" {
		var err error
		if n, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	var events, calls, starts, faults, simulated atomic.Int64
	each(t, these(*from, n), func(seed uint64) bool {
		r := Run(seed, Options{})
		events.Add(int64(r.Events))
		calls.Add(int64(r.Calls))
		starts.Add(int64(r.Starts))
		faults.Add(int64(r.Faults))
		simulated.Add(int64(r.Simulated))
		switch {
		case r.Violation != nil && *all:
			t.Errorf("seed %d: %v", seed, r.Violation)
		case r.Violation != nil:
			t.Error(r.Report())
		}
		return r.Violation == nil || *all
	})
	t.Logf("%d seeds: %v simulated, %d events, %d store calls, %d faults, %d invocations",
		n, time.Duration(simulated.Load()).Round(time.Second), events.Load(), calls.Load(), faults.Load(), starts.Load())
}

// TestReplaysExactly runs seeds twice and compares the traces byte for byte.
func TestReplaysExactly(t *testing.T) {
	each(t, these(1, 50), func(seed uint64) bool {
		a, b := Run(seed, Options{Trace: true}), Run(seed, Options{Trace: true})
		if len(a.Trace) == 0 || !bytes.Equal(a.Trace, b.Trace) {
			t.Errorf("seed %d: traces of %d and %d bytes differ", seed, len(a.Trace), len(b.Trace))
		}
		return true
	})
}

// TestSoak runs new seeds for as long as TWOLANE_SOAK says.
func TestSoak(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("TWOLANE_SOAK"))
	if err != nil {
		t.Skip("TWOLANE_SOAK is not set to a duration")
	}
	end := time.Now().Add(d)
	seed := uint64(time.Now().UnixNano())
	var n atomic.Int64
	each(t, func() (uint64, bool) { seed++; return seed, time.Now().Before(end) }, func(seed uint64) bool {
		n.Add(1)
		if r := Run(seed, Options{}); r.Violation != nil {
			t.Error(r.Report())
			return false
		}
		return true
	})
	t.Logf("%d seeds", n.Load())
}
