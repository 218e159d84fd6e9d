package promgate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twolane/twolane/gate"
)

// Timing is what all gates of this package have in common; zero values are the defaults.
type Timing struct {
	Every time.Duration // between two questions; 0 means 5 s
	Stale time.Duration // from which age an answer is no reading any more; 0 means three times Every, at least 15 s
	// Lag is how long it takes until Prometheus shows what was started: a scrape interval or two. 0 means 15 s; less than 0 says that
	// the number is no measurement of what runs, but a share of the permits.
	Lag time.Duration
	// Step is the largest share of the permits that one step opens; 0 means a quarter.
	Step float64
	// Fallback is the budget while there is no reading; nil means 0, closed.
	Fallback *float64
}

func (t *Timing) meter(ask func(context.Context) (gate.Sample, error), timeout time.Duration, threshold float64, budget func(float64) float64) (*gate.Meter, error) {
	lag := t.Lag
	switch {
	case lag == 0:
		lag = 15 * time.Second
	case lag < 0:
		lag = 0
	}
	every := t.Every
	if every == 0 {
		every = 5 * time.Second
	}
	return gate.NewMeter(gate.MeterConfig{
		Ask: ask, Budget: budget, Threshold: threshold, Fallback: t.Fallback, Every: every, Timeout: timeout, Stale: t.Stale, Lag: lag, Step: t.Step,
	})
}

// QueryConfig are the settings of [NewQuery].
type QueryConfig struct {
	Query string // an expression with one number in [0,1], which is the budget
	Timing
}

// NewQuery returns a gate whose budget is the value of an expression.
func NewQuery(c *Client, cfg QueryConfig) (*gate.Meter, error) {
	if strings.TrimSpace(cfg.Query) == "" {
		return nil, invalid("query", "is missing")
	}
	return cfg.meter(func(ctx context.Context) (gate.Sample, error) { return c.Query(ctx, cfg.Query) }, c.timeout, gate.None, nil)
}

// PoolConfig names an inference pool of llm-d.
type PoolConfig struct {
	Pool      string
	Namespace string // empty: all that have such a pool
}

func (p *PoolConfig) check() error {
	if p.Pool == "" {
		return invalid("pool", "is missing")
	}
	return nil
}

// of aggregates the series of the pool by the first of several names that there are any of: a metric that was renamed is often there by both.
func (p *PoolConfig) of(aggregate, label string, names ...string) string {
	var all []string
	for _, name := range names {
		s := fmt.Sprintf(`%s(%s{%s=%s`, aggregate, name, label, strconv.Quote(p.Pool))
		if p.Namespace != "" {
			s += ",namespace=" + strconv.Quote(p.Namespace)
		}
		all = append(all, s+"})")
	}
	if len(all) == 1 {
		return all[0]
	}
	return "(" + strings.Join(all, " or ") + ")"
}

// SaturationConfig are the settings of [NewSaturation].
type SaturationConfig struct {
	PoolConfig
	// Threshold is the saturation from which the gate is closed; 0 means 0.8.
	Threshold float64
	Timing
}

// NewSaturation returns a gate on the saturation of a pool, as its endpoint picker says: closed from the threshold on, and open below by what is
// left to it. Where several replicas of the endpoint picker report it, the highest counts.
func NewSaturation(c *Client, cfg SaturationConfig) (*gate.Meter, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Threshold == 0 {
		cfg.Threshold = 0.8
	}
	if !(cfg.Threshold > 0 && cfg.Threshold <= 1) {
		return nil, invalid("threshold", "%v is not above 0 and at most 1", cfg.Threshold)
	}
	query := cfg.of("max", "inference_pool", "llm_d_epp_flow_control_pool_saturation", "inference_extension_flow_control_pool_saturation")
	return cfg.meter(func(ctx context.Context) (gate.Sample, error) { return c.Query(ctx, query) }, c.timeout,
		cfg.Threshold, func(v float64) float64 { return cfg.Threshold - v })
}

// BudgetConfig are the settings of [NewBudget].
type BudgetConfig struct {
	PoolConfig
	// MaxConcurrency is how many requests one ready pod takes; 0 means 100.
	MaxConcurrency float64
	// Baseline is the share of the pool that is kept for others; nil means 0.05.
	Baseline *float64
	Timing
}

// NewBudget returns a gate on how full a pool is, by the first of three expressions that has an answer: the queue of the endpoint picker's flow
// control, the queues of the pods, and what the model servers run, each against what the ready pods take. It is closed while no more than the baseline
// is left.
func NewBudget(c *Client, cfg BudgetConfig) (*gate.Meter, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.MaxConcurrency == 0 {
		cfg.MaxConcurrency = 100
	}
	baseline := 0.05
	if cfg.Baseline != nil {
		baseline = *cfg.Baseline
	}
	switch {
	case !(cfg.MaxConcurrency >= 1 && cfg.MaxConcurrency <= 1e9):
		return nil, invalid("max_concurrency", "%v is not between 1 and 1e9", cfg.MaxConcurrency)
	case !(baseline >= 0 && baseline < 1):
		return nil, invalid("baseline", "%v is not between 0 and 1, 1 excluded", baseline)
	}
	n := strconv.FormatFloat(cfg.MaxConcurrency, 'g', -1, 64)
	capacity := "(" + cfg.of("max", "name", "llm_d_epp_ready_endpoints", "inference_pool_ready_pods") + " * " + n + ")"
	cascade := []struct{ name, query string }{
		{"flow control queue", cfg.of("sum", "inference_pool", "llm_d_epp_flow_control_queue_size", "inference_extension_flow_control_queue_size") + " / " + capacity},
		{"queues of the pods", cfg.of("avg", "name", "llm_d_epp_per_endpoint_queue_size", "inference_pool_per_pod_queue_size") + " / " + n},
		{"running requests", cfg.of("sum", "inference_pool", "vllm:num_requests_running") + " / " + capacity},
	}
	ask := func(ctx context.Context) (gate.Sample, error) {
		var errs []error
		for _, q := range cascade {
			s, err := c.Query(ctx, q.query)
			switch {
			case err == nil:
				if s.Detail != "" {
					s.Detail = ", " + s.Detail
				}
				s.Detail = "by the " + q.name + s.Detail
				return s, nil
			case !errors.Is(err, ErrNoSeries) && !errors.Is(err, ErrNoNumber): // no pods make NaN
				return s, err
			}
			errs = append(errs, fmt.Errorf("%s: %w", q.name, err))
		}
		return gate.Sample{}, errors.Join(errs...)
	}
	return cfg.meter(ask, 3*c.timeout, 1-baseline, func(v float64) float64 { return 1 - v - baseline })
}
