package demo

import (
	"math"
	"slices"
	"sync"
	"time"
)

// Lateness collects how late polls were. Its methods may be called concurrently.
type Lateness struct {
	mu  sync.Mutex
	all []float64 // milliseconds
}

// Quantiles are in milliseconds.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Add adds observations.
func (l *Lateness) Add(late ...time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range late {
		l.all = append(l.all, float64(d)/float64(time.Millisecond))
	}
}

// Count is how many observations there are.
func (l *Lateness) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// Quantiles returns those of all observations so far, by nearest rank; zero if there are none.
func (l *Lateness) Quantiles() Quantiles {
	l.mu.Lock()
	sorted := slices.Clone(l.all)
	l.mu.Unlock()
	if len(sorted) == 0 {
		return Quantiles{}
	}
	slices.Sort(sorted)
	rank := func(p float64) float64 {
		return round(sorted[max(0, int(math.Ceil(p*float64(len(sorted))))-1)], 0.1)
	}
	return Quantiles{P50: rank(0.50), P99: rank(0.99), Max: rank(1)}
}

// round rounds to a multiple of unit.
func round(x, unit float64) float64 { return math.Round(x/unit) / math.Round(1/unit) }
