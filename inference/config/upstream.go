package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// transport is the configuration of redis-sortedset.
type transport struct {
	URL          string         `json:"url"`
	Mode         string         `json:"mode"`
	Addrs        []string       `json:"addrs"`
	Master       string         `json:"master_name"`
	Retry        string         `json:"retry_queue_name"`
	Result       string         `json:"result_queue_name"`
	PollMS       int            `json:"poll_interval_ms"`
	Batch        int            `json:"batch_size"`
	Tracing      bool           `json:"enable_tracing"`
	ClaimTTL     int            `json:"claim_lease_ttl_seconds"`
	ClaimReclaim int            `json:"claim_reclaim_interval_ms"`
	Queues       []upstreamItem `json:"queues"`
}

// upstreamItem is one of the queues.
type upstreamItem struct {
	ID        string            `json:"id"`
	Name      string            `json:"queue_name"`
	Result    string            `json:"result_queue_name"`
	ResultTTL int64             `json:"result_ttl_seconds"`
	Pool      string            `json:"worker_pool_id"`
	Objective string            `json:"inference_objective"`
	Path      string            `json:"request_path_url"`
	BaseURL   string            `json:"igw_base_url"`
	Gate      string            `json:"gate_type"`
	Params    json.RawMessage   `json:"gate_params"`
	Labels    map[string]string `json:"labels"`
}

type upstreamPool struct {
	ID      string          `json:"id"`
	Workers int             `json:"workers"`
	Gate    string          `json:"gate_type"`
	Params  json.RawMessage `json:"gate_params"`
}

type upstreamTransforms struct {
	Transforms []struct {
		Name       string `json:"name"`
		Type       string `json:"type"`
		Parameters struct {
			Providers texts `json:"providers"`
		} `json:"parameters"`
	} `json:"requestTransforms"`
}

// texts is a list of texts, or one.
type texts []string

func (t *texts) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = texts{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(t))
}

// readJSON reads a value as llm-d-async does, with a warning for each key that nobody reads.
func (c *Config) readJSON(what string, raw []byte, v any) error {
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	for _, path := range unknown(raw, v, "") {
		c.warn("%s: the key %s is unknown and has no effect", what, path)
	}
	return nil
}

func (c *Config) warn(format string, a ...any) {
	c.Warnings = append(c.Warnings, fmt.Sprintf(format, a...))
}

func gateOf(field, typ string, params json.RawMessage) (*Gate, error) {
	if typ == "" {
		return nil, nil
	}
	g := &Gate{Type: typ}
	if len(params) > 0 && string(params) != "null" {
		var v any
		if err := decodeJSON(params, &v); err != nil {
			return nil, invalid(field+".gate_params", "%w", err)
		}
		var err error
		if g.Params, err = object(v); err != nil {
			return nil, invalid(field+".gate_params", "%w", err)
		}
	}
	return g, nil
}

// Config reads what the flags and their files say. env is asked for REDIS_URL. The answer is complete.
func (u *Upstream) Config(env func(string) string) (*Config, error) {
	c := Default()
	t, err := u.transport(c)
	if err != nil {
		return nil, err
	}
	c.Serve = Serve{HealthPort: u.HealthPort, MetricsPort: u.MetricsPort, MetricsAuth: "auto", UpstreamNames: true, BacklogPoll: u.BacklogPoll,
		Reload: u.WatchInterval}
	switch {
	case !u.MetricsAuth:
		c.Serve.MetricsAuth = "off"
	case u.fs.Changed("metrics-endpoint-auth"):
		c.Serve.MetricsAuth = "on"
	}
	c.HTTP.Timeout, c.Drain = u.Timeout, u.Drain
	c.HTTP.CAFile, c.HTTP.CertFile, c.HTTP.KeyFile, c.HTTP.SkipVerify = u.CA, u.Cert, u.Key, u.SkipVerify
	c.Gates = Gates{Strict: u.StrictGates, Prometheus: Prometheus{URL: u.PrometheusURL}, CacheTTL: u.CacheTTL, Wait: u.GateWait}
	u.logging(c)
	for _, read := range []func(*Config) error{u.pools, u.policy, u.transforms} {
		if err := read(c); err != nil {
			return nil, err
		}
	}
	if u.WatchInterval > 0 && u.TransportFile == "" {
		c.warn("transport-config-watch-interval has no effect without transport-config-file")
		c.Serve.Reload = 0
	}
	if err := c.take(t); err != nil {
		return nil, err
	}
	if err := c.connection(env); err != nil {
		return nil, err
	}
	return c, c.Complete()
}

// Queues reads the queues again from the transport config file, for a running processor with configuration c. The rest of the file is not looked at.
func (u *Upstream) Queues(c *Config) ([]Queue, error) {
	fresh := &Config{Pools: c.Pools, Intake: c.Intake}
	t, err := u.transport(fresh)
	if err != nil {
		return nil, err
	}
	if fresh.Queues, err = t.queues(); err != nil {
		return nil, err
	}
	return fresh.Queues, fresh.CompleteQueues()
}

// transport finds the transport and reads its configuration.
func (u *Upstream) transport(c *Config) (*transport, error) {
	name, how := u.Transport, "--transport"
	if !u.fs.Changed("transport") && u.old.impl != "" {
		name, how = u.old.impl, "--message-queue-impl"
	}
	switch name {
	case "redis-sortedset":
	case "redis-pubsub":
		return nil, fmt.Errorf("%s %s is not supported, and it is llm-d-async's default: its messages are lost when nobody listens. Use redis-sortedset", how, name)
	case "gcp-pubsub", "gcp-pubsub-gated":
		return nil, fmt.Errorf("%s %s is not supported. Use redis-sortedset", how, name)
	default:
		return nil, fmt.Errorf("%s %q is unknown. Use redis-sortedset", how, name)
	}
	t := &transport{Retry: "retry-sortedset", Result: "result-list", PollMS: 1000, Batch: 10}
	switch {
	case u.TransportJSON != "" && u.TransportFile != "":
		return nil, errors.New("--transport-config and --transport-config-file are both set; give one")
	case u.TransportJSON != "":
		return t, c.readJSON("transport config", []byte(u.TransportJSON), t)
	case u.TransportFile != "":
		raw, err := os.ReadFile(u.TransportFile)
		if err != nil {
			return nil, err
		}
		return t, c.readJSON(u.TransportFile, raw, t)
	case how == "--transport" && u.fs.Changed("transport") && !u.usesOld():
		return nil, errors.New("--transport-config or --transport-config-file is needed")
	}
	if u.PoolFile != "" {
		return nil, errors.New("--pool-config-file needs --transport-config or --transport-config-file")
	}
	return t, u.old.fill(t, c)
}

// usesOld reports whether a deprecated flag of the transport is set.
func (u *Upstream) usesOld() (is bool) {
	for _, f := range []string{"igw-base-url", "queues-config", "queues-config-file"} {
		is = is || u.fs.Changed("redis.ss."+f)
	}
	return is
}

// fill does for deprecated flags what a transport config does.
func (o *deprecated) fill(t *transport, c *Config) error {
	t.URL, t.Retry, t.Result, t.PollMS, t.Batch, t.Tracing = o.url, o.retry, o.set.result, o.pollMS, o.batch, o.tracing
	raw := []byte(o.set.queues)
	if o.set.queuesFile != "" {
		if len(raw) > 0 {
			return errors.New("--redis.ss.queues-config and --redis.ss.queues-config-file are both set; give one")
		}
		var err error
		if raw, err = os.ReadFile(o.set.queuesFile); err != nil {
			return err
		}
	}
	if len(raw) > 0 {
		if trimmed := strings.TrimSpace(string(raw)); strings.HasPrefix(trimmed, "{") {
			var in struct {
				Queues []upstreamItem `json:"queues"`
			}
			err := c.readJSON("queues config", raw, &in)
			t.Queues = in.Queues
			return err
		}
		return c.readJSON("queues config", raw, &t.Queues)
	}
	q := upstreamItem{Name: o.set.request, BaseURL: o.set.base, Path: o.set.path, Objective: o.set.objective, Gate: o.gate, Params: json.RawMessage(o.params)}
	t.Queues = []upstreamItem{q}
	return nil
}

// take copies the transport into c.
func (c *Config) take(t *transport) (err error) {
	c.Redis = Redis{URL: t.URL, Mode: t.Mode, Addrs: t.Addrs, Master: t.Master}
	c.Results.Queue, c.Intake.RetryQueue = t.Result, t.Retry
	if t.PollMS <= 0 {
		return invalid("poll_interval_ms", "%d is not above 0", t.PollMS)
	}
	c.Intake.Poll = time.Duration(t.PollMS) * time.Millisecond
	c.Intake.Batch = min(max(c.Intake.Batch, t.Batch), 500)
	if t.Tracing {
		c.warn("enable_tracing has no effect")
	}
	c.Queues, err = t.queues()
	return err
}

func (t *transport) queues() ([]Queue, error) {
	queues := make([]Queue, len(t.Queues))
	for i, q := range t.Queues {
		g, err := gateOf(fmt.Sprintf("queues[%d]", i), q.Gate, q.Params)
		if err != nil {
			return nil, err
		}
		queues[i] = Queue{ID: q.ID, Name: q.Name, ResultQueue: q.Result, ResultTTL: q.ResultTTL, Pool: q.Pool, Objective: q.Objective, Path: q.Path,
			BaseURL: q.BaseURL, Gate: g, Labels: q.Labels}
	}
	return queues, nil
}

func (u *Upstream) pools(c *Config) error {
	c.Pools = []Pool{}
	if u.PoolFile != "" {
		raw, err := os.ReadFile(u.PoolFile)
		if err != nil {
			return err
		}
		var pools []upstreamPool
		if err := c.readJSON(u.PoolFile, raw, &pools); err != nil {
			return err
		}
		for i, p := range pools {
			g, err := gateOf(fmt.Sprintf("pools[%d]", i), p.Gate, p.Params)
			if err != nil {
				return err
			}
			c.Pools = append(c.Pools, Pool{ID: p.ID, Workers: p.Workers, Gate: g})
		}
	}
	if !slices.ContainsFunc(c.Pools, func(p Pool) bool { return p.ID == DefaultPool }) {
		c.Pools = append(c.Pools, Pool{ID: DefaultPool, Workers: u.Concurrency})
	}
	return nil
}

func (u *Upstream) transforms(c *Config) error {
	if u.TransformFile == "" {
		return nil
	}
	raw, err := os.ReadFile(u.TransformFile)
	if err != nil {
		return err
	}
	var in upstreamTransforms
	if err := c.readJSON(u.TransformFile, raw, &in); err != nil {
		return err
	}
	for _, t := range in.Transforms {
		c.Transforms = append(c.Transforms, Transform{Name: t.Name, Type: t.Type, Providers: t.Parameters.Providers})
	}
	return nil
}

func (u *Upstream) logging(c *Config) {
	if u.Verbosity >= 4 {
		c.Log.Level = "debug"
	}
	switch l := u.zapLevel; l {
	case "":
	case "debug", "info", "error":
		c.Log.Level = l
	default:
		if n, err := strconv.Atoi(l); err == nil && n > 0 {
			c.Log.Level = "debug"
		} else {
			c.warn("zap-log-level %q is unknown and has no effect", l)
		}
	}
	switch u.zapEncoder {
	case "json":
		c.Log.Format = "json"
	case "console":
		c.Log.Format = "text"
	}
}
