package simrt

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

var one = flag.Uint64("seed", 0, "the seed of TestSeed")

// seeds is how many runs CI makes.
const seeds = 200

// TestMain keeps to one processor: two tickers in one select crash the race detector in a bubble on more.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	flag.Parse()
	os.Exit(m.Run())
}

// TestSeed runs one seed.
func TestSeed(t *testing.T) {
	if *one == 0 {
		t.Skip("no -seed")
	}
	run(t, *one)
}

func TestSeeds(t *testing.T) {
	for seed := range uint64(seeds) {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { run(t, seed) }) {
			return
		}
	}
}

// TestSoak runs new seeds for as long as TWOLANE_SOAK says.
func TestSoak(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("TWOLANE_SOAK"))
	if err != nil {
		t.Skip("TWOLANE_SOAK is not set to a duration")
	}
	seed := uint64(time.Now().UnixNano())
	for end := time.Now().Add(d); time.Now().Before(end); seed++ {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { run(t, seed) }) {
			return
		}
	}
}
