package scrape

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/twolane/twolane/gate"
	"github.com/twolane/twolane/gate/internal/web"
	"github.com/twolane/twolane/store"
)

// ValueType is what the metric says.
type ValueType string

const (
	Saturation ValueType = "saturation" // how full it is, or with MaxPerPod how much is in it; "" is the same
	Budget     ValueType = "budget"     // how much is left, in [0,1]
)

// Endpoint says how to reach what shows the metrics. Secrets come from files, which are read again for each request.
type Endpoint struct {
	// BearerFile is a file with a bearer token. User and PasswordFile are those of basic authentication.
	BearerFile, User, PasswordFile string
	Headers                        map[string]string
	// CAFile is a PEM file of the authorities that sign the server's certificate; CertFile and KeyFile are the client's own certificate.
	CAFile, CertFile, KeyFile, ServerName string
	SkipVerify                            bool
	Timeout                               time.Duration // of one scrape; 0 means 10 s
	MaxBytes                              int64         // of one scrape; 0 means 8 MiB
}

// Config are the settings of [New].
type Config struct {
	Endpoint
	URL    string
	Metric string
	Labels map[string]string // that a series must have; those that fit are added up if MaxPerPod is set, else the fullest counts
	Type   ValueType
	// MaxPerPod is how much one pod takes; the value is then a count and the saturation is it over MaxPerPod times the number of pods. 0
	// says that the value is the saturation itself.
	MaxPerPod float64
	// PodsURL, PodsMetric and PodsLabels say where the number of pods is; without them there is one.
	PodsURL, PodsMetric string
	PodsLabels          map[string]string
	// Baseline is the share that is kept for others.
	Baseline float64
	// Absent is the value of a metric that a good scrape does not have; nil means no reading.
	Absent *float64
	// Counted lets a step be as many invocations as there is room for, rounded down. It needs MaxPerPod.
	Counted bool

	Every    time.Duration // between two scrapes; 0 means 5 s
	Stale    time.Duration // from which age a value is no reading any more; 0 means three times Every, at least 15 s
	Lag      time.Duration // until the metric shows what was started; 0 means 5 s
	Step     float64       // the largest share of the permits that one step opens; 0 means a quarter
	Fallback *float64      // the budget while there is no reading; nil means 0, closed
}

// New returns a gate that is open by what the metric leaves, less the baseline. The error names the field.
func New(cfg Config) (*gate.Meter, error) {
	s := &scraper{cfg: cfg}
	if err := s.check(); err != nil {
		return nil, err
	}
	var err error
	if s.main, err = cfg.client(cfg.URL); err != nil {
		return nil, err
	}
	if cfg.PodsURL != "" {
		if s.pods, err = cfg.client(cfg.PodsURL); err != nil {
			if e, ok := errors.AsType[*store.InvalidError](err); ok {
				return nil, invalid("pods_"+e.Field, "%s", e.Detail)
			}
			return nil, err
		}
	}
	lag, every, timeout := cfg.Lag, cfg.Every, cfg.Timeout
	if lag == 0 {
		lag = 5 * time.Second
	}
	if every == 0 {
		every = 5 * time.Second
	}
	if timeout == 0 {
		timeout = 10 * time.Second
	}
	if s.pods != nil {
		timeout *= 2
	}
	m := gate.MeterConfig{
		Ask: s.ask, Counted: cfg.Counted, Fallback: cfg.Fallback, Every: every, Timeout: timeout, Stale: cfg.Stale, Lag: lag, Step: cfg.Step,
		Threshold: 1 - cfg.Baseline, Budget: func(v float64) float64 { return 1 - v - cfg.Baseline },
	}
	if cfg.Type == Budget {
		m.Threshold, m.Budget = cfg.Baseline, func(v float64) float64 { return v - cfg.Baseline }
	}
	return gate.NewMeter(m)
}

func (c *Config) client(url string) (*web.Client, error) {
	most := c.MaxBytes
	if most == 0 {
		most = 8 << 20
	}
	return web.New(web.Config{
		URL: url, BearerFile: c.BearerFile, User: c.User, PasswordFile: c.PasswordFile, Headers: c.Headers, CAFile: c.CAFile, CertFile: c.CertFile,
		KeyFile: c.KeyFile, ServerName: c.ServerName, SkipVerify: c.SkipVerify, Timeout: c.Timeout, MaxBytes: most,
	})
}

func invalid(field, format string, a ...any) error {
	return &store.InvalidError{Field: field, Detail: fmt.Sprintf(format, a...)}
}

// scraper asks one endpoint for a value, and one for the number of pods.
type scraper struct {
	cfg        Config
	main, pods *web.Client
}

func (s *scraper) check() error {
	c := &s.cfg
	switch {
	case c.Metric == "":
		return invalid("metric", "is missing")
	case c.Type != "" && c.Type != Saturation && c.Type != Budget:
		return invalid("value_type", "%q is neither %q nor %q", c.Type, Saturation, Budget)
	case !(c.MaxPerPod >= 0) || math.IsInf(c.MaxPerPod, 0):
		return invalid("max_count_per_pod", "%v is no count", c.MaxPerPod)
	case c.Type == Budget && c.MaxPerPod > 0:
		return invalid("max_count_per_pod", "is set, but the value is a budget")
	case !(c.Baseline >= 0 && c.Baseline < 1):
		return invalid("baseline", "%v is not between 0 and 1, 1 excluded", c.Baseline)
	case (c.PodsURL == "") != (c.PodsMetric == ""):
		return invalid("pods_metric", "and pods_url are needed together")
	case c.PodsURL == "" && len(c.PodsLabels) > 0:
		return invalid("pods_labels", "are set without pods_url")
	case c.PodsURL != "" && c.MaxPerPod == 0:
		return invalid("pods_url", "is set, but max_count_per_pod is not: the number of pods is not used")
	case c.Counted && c.MaxPerPod == 0:
		return invalid("admission", "is counted, but max_count_per_pod is not set: there is nothing to count")
	case c.Absent != nil && (math.IsNaN(*c.Absent) || math.IsInf(*c.Absent, 0) || *c.Absent < 0):
		return invalid("absent_value", "%v is no value", *c.Absent)
	}
	return nil
}

var errAbsent = errors.New("the metric is not there")

func (s *scraper) ask(ctx context.Context) (gate.Sample, error) {
	sum, extreme, err := read(ctx, s.main, s.cfg.Metric, s.cfg.Labels, s.cfg.Type == Budget)
	if errors.Is(err, errAbsent) && s.cfg.Absent != nil {
		sum, extreme, err = *s.cfg.Absent, *s.cfg.Absent, nil
	}
	if err != nil {
		return gate.Sample{}, err
	}
	if s.cfg.MaxPerPod == 0 {
		return gate.Sample{Value: extreme}, nil
	}
	pods := 1.0
	if s.pods != nil {
		if _, pods, err = read(ctx, s.pods, s.cfg.PodsMetric, s.cfg.PodsLabels, false); err != nil {
			return gate.Sample{}, fmt.Errorf("number of pods: %w", err)
		}
		if pods < 1 {
			return gate.Sample{}, fmt.Errorf("number of pods: it is %v", pods)
		}
	}
	capacity := pods * s.cfg.MaxPerPod
	return gate.Sample{Value: sum / capacity, Capacity: capacity}, nil
}

// read scrapes an endpoint and returns the sum and the largest (or smallest) of the series that fit.
func read(ctx context.Context, c *web.Client, metric string, labels map[string]string, smallest bool) (sum, extreme float64, err error) {
	a, err := c.Get(ctx, "text/plain;version=0.0.4;q=1,*/*;q=0.1")
	if err != nil {
		return 0, 0, err
	}
	fail := func(format string, args ...any) (float64, float64, error) {
		return 0, 0, fmt.Errorf("%s: %w", c.URL(), fmt.Errorf(format, args...))
	}
	if a.Status != http.StatusOK {
		return fail("status %d", a.Status)
	}
	if a.Type != "" && a.Type != "text/plain" && a.Type != "application/openmetrics-text" {
		return fail("it answers with %s, not with metrics", a.Type)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(a.Body))
	if err != nil {
		return fail("the metrics cannot be read: %w", err)
	}
	n := 0
	for _, m := range families[metric].GetMetric() {
		if !fits(m, labels) {
			continue
		}
		v, ok := value(m)
		if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
			return fail("%s has a value that is no number", metric)
		}
		if v < 0 {
			return fail("%s is %v, and cannot be negative", metric, v)
		}
		if n++; n == 1 || smallest && v < extreme || !smallest && v > extreme {
			extreme = v
		}
		sum += v
	}
	if n == 0 {
		return fail("%w: %s with labels %v", errAbsent, metric, slices.Sorted(maps.Keys(labels)))
	}
	return sum, extreme, nil
}

func fits(m *dto.Metric, labels map[string]string) bool {
	n := 0
	for _, l := range m.Label {
		if want, ok := labels[l.GetName()]; ok {
			if l.GetValue() != want {
				return false
			}
			n++
		}
	}
	return n == len(labels)
}

func value(m *dto.Metric) (float64, bool) {
	switch {
	case m.Gauge != nil:
		return m.Gauge.GetValue(), true
	case m.Counter != nil:
		return m.Counter.GetValue(), true
	case m.Untyped != nil:
		return m.Untyped.GetValue(), true
	}
	return 0, false
}
