package prom

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/twolane/twolane"
)

// MaxSeries is how many label sets one metric of a worker may have; further ones share the one whose labels are all "_other".
const MaxSeries = 1000

const other = "_other"

// Metrics is a twolane.Metrics in a registry. It is safe for concurrent use.
type Metrics struct {
	reg  prometheus.Registerer
	mu   sync.Mutex
	vecs map[string]*vec
}

var _ twolane.Metrics = (*Metrics)(nil)

// New registers every metric that a worker has with reg, and fails if one is taken by something else. Workers of one process may share it.
func New(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{reg: reg, vecs: map[string]*vec{}}
	for _, d := range twolane.WorkerMetrics() {
		if _, err := m.vec(d); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Series implements twolane.Metrics. A metric that is not of this package's knowledge is registered now; it panics if that is impossible, as
// prometheus.MustRegister does.
func (m *Metrics) Series(d *twolane.Metric, values ...string) twolane.Series {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, err := m.vec(d)
	if err != nil {
		panic(err)
	}
	return v.series(values)
}

// vec is one metric with its label sets.
type vec struct {
	labels int
	known  map[string]bool
	make   func(values []string) twolane.Series
}

func (v *vec) series(values []string) twolane.Series {
	if len(values) != v.labels {
		panic(fmt.Sprintf("prom: %d values for %d labels", len(values), v.labels))
	}
	key := strings.Join(values, "\x00")
	if !v.known[key] && len(v.known) >= MaxSeries {
		values = make([]string, v.labels)
		for i := range values {
			values[i] = other
		}
	} else {
		v.known[key] = true
	}
	return v.make(values)
}

func (m *Metrics) vec(d *twolane.Metric) (*vec, error) {
	if v := m.vecs[d.Name]; v != nil {
		return v, nil
	}
	v := &vec{labels: len(d.Labels), known: map[string]bool{}}
	var err error
	switch d.Kind {
	case twolane.Counter:
		var c *prometheus.CounterVec
		c, err = register(m.reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels))
		v.make = func(values []string) twolane.Series { return counter{c.WithLabelValues(values...)} }
	case twolane.Gauge:
		var g *prometheus.GaugeVec
		g, err = register(m.reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.Name, Help: d.Help}, d.Labels))
		v.make = func(values []string) twolane.Series { return gauge{g.WithLabelValues(values...)} }
	case twolane.Histogram:
		var h *prometheus.HistogramVec
		h, err = register(m.reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: d.Buckets,
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100}, d.Labels))
		v.make = func(values []string) twolane.Series { return histogram{h.WithLabelValues(values...)} }
	default:
		return nil, fmt.Errorf("prom: metric %s is of unknown kind %d", d.Name, d.Kind)
	}
	if err != nil {
		return nil, fmt.Errorf("prom: metric %s: %w", d.Name, err)
	}
	m.vecs[d.Name] = v
	if v.labels == 0 {
		v.make(nil) // there from the start, at zero
	}
	return v, nil
}

// register registers c, or returns the equal one that is registered already.
func register[C prometheus.Collector](reg prometheus.Registerer, c C) (C, error) {
	err := reg.Register(c)
	if there, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if old, ok := there.ExistingCollector.(C); ok {
			return old, nil
		}
	}
	return c, err
}

// The three kinds of series. A method that does not belong to the kind does nothing.
type (
	counter   struct{ prometheus.Counter }
	gauge     struct{ prometheus.Gauge }
	histogram struct{ prometheus.Observer }
)

func (counter) Set(float64)     {}
func (counter) Observe(float64) {}
func (gauge) Observe(float64)   {}
func (histogram) Add(float64)   {}
func (histogram) Set(float64)   {}
