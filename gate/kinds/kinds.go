// Package kinds knows every type of a gate that this module has, for programs that read them from a file.
//
//	bindings, err := gate.NewBindings("gates", list, kinds.All(kinds.Options{}))
package kinds

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/gate"
	"github.com/twolane/twolane/gate/promgate"
	"github.com/twolane/twolane/gate/redisgate"
	"github.com/twolane/twolane/gate/scrape"
	"github.com/twolane/twolane/internal/openstore"
	"github.com/twolane/twolane/store"
)

// Options are what gates use that say nothing else.
type Options struct {
	Prometheus promgate.ClientConfig // URL may be empty: then each gate has to name one
	RedisURL   string                // in the form of a redis store
}

// All returns every type. Gates of one configuration that ask the same Prometheus in the same way share a client, with its cache.
func All(o Options) gate.Kinds {
	s := &shared{o: o, clients: map[string]*promgate.Client{}}
	return gate.Pure().With(gate.Kinds{
		"prometheus-query":      s.query,
		"prometheus-saturation": s.saturation,
		"prometheus-budget":     s.budget,
		"endpoint-scrape":       endpoint,
		"redis-budget":          s.redisBudget,
		"redis-leased-rate":     s.leasedRate,
	})
}

type shared struct {
	o       Options
	mu      sync.Mutex
	clients map[string]*promgate.Client
}

func asGate[G gate.Gate](g G, err error) (gate.Gate, error) {
	if err != nil {
		return nil, err
	}
	return g, nil
}

func (s *shared) client(p *gate.Params) (*promgate.Client, error) {
	d := s.o.Prometheus
	c := promgate.ClientConfig{
		URL: p.String("url", d.URL), BearerFile: p.String("bearer_file", d.BearerFile), User: p.String("user", d.User),
		PasswordFile: p.String("password_file", d.PasswordFile), Headers: p.Map("headers"), CAFile: p.String("ca_file", d.CAFile),
		CertFile: p.String("cert_file", d.CertFile), KeyFile: p.String("key_file", d.KeyFile), ServerName: p.String("server_name", d.ServerName),
		SkipVerify: p.Bool("skip_verify", d.SkipVerify), Timeout: p.Duration("timeout", d.Timeout), Cache: p.Duration("cache", d.Cache),
	}
	if c.Headers == nil {
		c.Headers = d.Headers
	}
	id := fmt.Sprintf("%+v", c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients[id] == nil {
		client, err := promgate.NewClient(c)
		if err != nil {
			return nil, err
		}
		s.clients[id] = client
	}
	return s.clients[id], nil
}

func timing(p *gate.Params) promgate.Timing {
	return promgate.Timing{
		Every: p.Time("every"), Stale: p.Time("stale"), Lag: lag(p), Step: p.Above("step"), Fallback: p.Number("fallback"),
	}
}

// lag reads how late a value shows what was started; 0s says that it does not measure it.
func lag(p *gate.Params) time.Duration {
	d := p.Duration("lag", 0)
	if s := p.String("lag", ""); s != "" && d == 0 {
		return -1
	}
	return d
}

func (s *shared) query(p *gate.Params) (gate.Gate, error) {
	c, err := s.client(p)
	cfg := promgate.QueryConfig{Query: p.Need("query"), Timing: timing(p)}
	if err != nil {
		return nil, err
	}
	return asGate(promgate.NewQuery(c, cfg))
}

func pool(p *gate.Params) promgate.PoolConfig {
	return promgate.PoolConfig{Pool: p.Need("pool"), Namespace: p.String("namespace", "")}
}

func (s *shared) saturation(p *gate.Params) (gate.Gate, error) {
	c, err := s.client(p)
	cfg := promgate.SaturationConfig{PoolConfig: pool(p), Threshold: p.Above("threshold"), Timing: timing(p)}
	if err != nil {
		return nil, err
	}
	return asGate(promgate.NewSaturation(c, cfg))
}

func (s *shared) budget(p *gate.Params) (gate.Gate, error) {
	c, err := s.client(p)
	cfg := promgate.BudgetConfig{PoolConfig: pool(p), MaxConcurrency: p.Above("max_concurrency"), Baseline: p.Number("baseline"), Timing: timing(p)}
	if err != nil {
		return nil, err
	}
	return asGate(promgate.NewBudget(c, cfg))
}

func endpoint(p *gate.Params) (gate.Gate, error) {
	cfg := scrape.Config{
		Endpoint: scrape.Endpoint{
			BearerFile: p.String("bearer_file", ""), User: p.String("user", ""), PasswordFile: p.String("password_file", ""), Headers: p.Map("headers"),
			CAFile: p.String("ca_file", ""), CertFile: p.String("cert_file", ""), KeyFile: p.String("key_file", ""), ServerName: p.String("server_name", ""),
			SkipVerify: p.Bool("skip_verify", false), Timeout: p.Time("timeout"), MaxBytes: int64(p.Above("max_bytes")),
		},
		URL: p.Need("url"), Metric: p.Need("metric"), Labels: p.Map("labels"), Type: scrape.ValueType(p.String("value_type", "")),
		MaxPerPod: p.Float("max_count_per_pod", 0), PodsURL: p.String("pods_url", ""), PodsMetric: p.String("pods_metric", ""), PodsLabels: p.Map("pods_labels"),
		Baseline: p.Float("baseline", 0), Absent: p.Number("absent_value"), Every: p.Time("every"), Stale: p.Time("stale"), Lag: p.Time("lag"),
		Step: p.Above("step"), Fallback: p.Number("fallback"),
	}
	switch a := p.String("admission", "budget"); a {
	case "budget":
	case "counted":
		cfg.Counted = true
	default:
		p.Fail("admission", "%q is neither budget nor counted", a)
	}
	return asGate(scrape.New(cfg))
}

// open reads where the Redis of a gate is: url, or address with what else there is to say.
func (s *shared) open(p *gate.Params) (redisgate.Open, error) {
	raw := p.String("url", "")
	if raw == "" {
		raw = s.o.RedisURL
	}
	if raw == "" {
		return nil, &store.InvalidError{Field: "url", Detail: "is missing"}
	}
	if !strings.Contains(raw, "://") {
		raw = "redis://" + raw
	}
	if _, err := openstore.RedisOptions(raw); err != nil {
		return nil, &store.InvalidError{Field: "url", Detail: err.Error()}
	}
	return func() (rueidis.Client, error) { return openstore.RedisClient(raw) }, nil
}

func (s *shared) redisBudget(p *gate.Params) (gate.Gate, error) {
	open, err := s.open(p)
	cfg := redisgate.BudgetConfig{
		Open: open, Key: p.String("key", ""), Missing: p.Number("missing"), Fallback: p.Number("fallback"), Every: p.Time("every"),
		Timeout: p.Time("timeout"), Stale: p.Time("stale"), Lag: p.Duration("lag", 0), Step: p.Above("step"),
	}
	if err != nil {
		return nil, err
	}
	return asGate(redisgate.NewBudget(cfg))
}

func (s *shared) leasedRate(p *gate.Params) (gate.Gate, error) {
	open, err := s.open(p)
	cfg := redisgate.LeaseConfig{
		Open: open, ControlKey: p.Need("control_key"), PoolID: p.String("pool_id", ""), BurstSeconds: p.Above("burst_seconds"),
		Every: p.Time("every"), Timeout: p.Time("timeout"),
	}
	if err != nil {
		return nil, err
	}
	return asGate(redisgate.NewLeasedRate(cfg))
}
