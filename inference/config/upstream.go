package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twolane/twolane/store"
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
		return fmt.Errorf("%s: %w", what, readable(raw, err))
	}
	for _, path := range unknown(raw, v, "") {
		c.warn("%s: the key %s is unknown and has no effect", what, path)
	}
	return nil
}

func (c *Config) warn(format string, a ...any) {
	c.Warnings = append(c.Warnings, fmt.Sprintf(format, a...))
}

// gateOf reads a gate; nil is none. Parameters of no gate are no gate, and so not to be started with.
func gateOf(field, typ string, params json.RawMessage) (*Gate, error) {
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
	switch {
	case typ == "" && len(g.Params) > 0:
		return nil, invalid(field+".gate_type", "is missing, and there are gate_params: without it there would be no gate")
	case typ == "":
		return nil, nil
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
	u.began = t
	u.withoutEffect(c)
	c.Serve = Serve{HealthPort: u.HealthPort, MetricsPort: u.MetricsPort, MetricsAuth: "auto", UpstreamNames: true, BacklogPoll: u.BacklogPoll,
		Reload: max(u.WatchInterval, u.old.watch)}
	switch {
	case !u.MetricsAuth:
		c.Serve.MetricsAuth = "off"
	case u.fs.Changed("metrics-endpoint-auth"):
		c.Serve.MetricsAuth = "on"
	}
	c.HTTP.Timeout, c.Drain = u.Timeout, u.Drain
	c.HTTP.CAFile, c.HTTP.CertFile, c.HTTP.KeyFile, c.HTTP.SkipVerify = u.CA, u.Cert, u.Key, u.SkipVerify
	c.Gates = Gates{Strict: u.StrictGates, Prometheus: Prometheus{URL: u.PrometheusURL}, CacheTTL: u.CacheTTL, Wait: u.GateWait}
	if u.CacheTTL == 0 { // nothing kept, there; here gates ask by themselves, not when a request comes
		c.Gates.CacheTTL = time.Second
	}
	u.logging(c)
	for _, read := range []func(*Config) error{u.pools, u.policy, u.transforms} {
		if err := read(c); err != nil {
			return nil, err
		}
	}
	if err := c.take(t); err != nil {
		return nil, err
	}
	if err := c.connection(env); err != nil {
		return nil, err
	}
	err = c.Complete()
	if e, ok := errors.AsType[*store.InvalidError](err); ok && flagOf[e.Field] != "" {
		err = invalid("--"+flagOf[e.Field], "%s", e.Detail)
	}
	return c, err
}

// flagOf are the flags of fields that have one.
var flagOf = map[string]string{
	"http.timeout": "request-timeout", "drain": "drain-timeout", "serve.health_port": "health-port", "serve.metrics_port": "metrics-port",
	"serve.backlog_poll": "metrics-backlog-poll-interval", "serve.reload": "transport-config-watch-interval", "gates.cache_ttl": "prometheus-cache-ttl",
	"gates.wait_timeout": "gate-wait-timeout", "http.cert_file": "tls-cert",
}

// Queues reads the queues again from their file, for a running processor with configuration c, and says what in them is unknown. Nothing else in the file may
// have changed.
func (u *Upstream) Queues(c *Config) (queues []Queue, warnings []string, err error) {
	fresh := &Config{Pools: c.Pools, Intake: c.Intake, Dispatch: c.Dispatch}
	t, err := u.transport(fresh)
	if err != nil {
		return nil, nil, err
	}
	if err := onlyQueuesDiffer(*u.began, *t, "json"); err != nil {
		return nil, nil, err
	}
	if fresh.Queues, err = t.queues(); err != nil {
		return nil, nil, err
	}
	return fresh.Queues, fresh.Warnings, fresh.CompleteQueues()
}

// onlyQueuesDiffer refuses another difference between two structs than in their queues, and names it as their tags do.
func onlyQueuesDiffer[T any](a, b T, tag string) error {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		name, _, _ := strings.Cut(x.Type().Field(i).Tag.Get(tag), ",")
		if name != "queues" && name != "-" && !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			return invalid(name, "has changed; only the queues may change while it runs")
		}
	}
	return nil
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
	t := &transport{}
	if err := u.read(t, c, how); err != nil {
		return nil, err
	}
	t.Retry, t.Result, t.PollMS, t.Batch = cmp.Or(t.Retry, "retry-sortedset"), cmp.Or(t.Result, "result-list"), cmp.Or(t.PollMS, 1000), cmp.Or(t.Batch, 10)
	return t, nil
}

func (u *Upstream) read(t *transport, c *Config, how string) error {
	switch {
	case u.TransportJSON != "" && u.TransportFile != "":
		return errors.New("--transport-config and --transport-config-file are both set; give one")
	case u.TransportJSON != "":
		return c.readJSON("transport config", []byte(u.TransportJSON), t)
	case u.TransportFile != "":
		raw, err := os.ReadFile(u.TransportFile)
		if err != nil {
			return err
		}
		return c.readJSON(u.TransportFile, raw, t)
	case how == "--transport" && u.fs.Changed("transport") && !u.usesOld():
		return errors.New("--transport-config or --transport-config-file is needed")
	}
	if u.PoolFile != "" && u.old.set.queues == "" && u.old.set.queuesFile == "" {
		return errors.New("--pool-config-file needs --transport-config or --transport-config-file")
	}
	return u.old.fill(t, c)
}

// usesOld reports whether a deprecated flag of the transport is set.
func (u *Upstream) usesOld() (is bool) {
	for _, f := range []string{"igw-base-url", "queues-config", "queues-config-file"} {
		is = is || u.fs.Changed("redis.ss."+f)
	}
	return is
}

// take copies the transport into c.
func (c *Config) take(t *transport) (err error) {
	c.Redis = Redis{URL: t.URL, Mode: t.Mode, Addrs: t.Addrs, Master: t.Master}
	c.Results.Queue, c.Intake.RetryQueue = t.Result, t.Retry
	if t.PollMS < 0 {
		return invalid("poll_interval_ms", "%d is negative", t.PollMS)
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
	switch {
	case slices.ContainsFunc(c.Pools, func(p Pool) bool { return p.ID == DefaultPool }):
		if u.fs.Changed("concurrency") {
			c.warn("--concurrency has no effect: %s says how many workers the pool default has", u.PoolFile)
		}
	case u.Concurrency < 1:
		return invalid("--concurrency", "%d is not above 0", u.Concurrency)
	default:
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
	case "debug", "info", "warn", "error":
		c.Log.Level = l
	case "panic":
		c.Log.Level = "error"
	default:
		if n, err := strconv.Atoi(l); err == nil && n > 0 {
			c.Log.Level = "debug"
		} else {
			c.warn("--zap-log-level %q is unknown and has no effect", l)
		}
	}
	switch u.zapEncoder {
	case "json":
		c.Log.Format = "json"
	case "console":
		c.Log.Format = "text"
	case "":
	default:
		c.warn("--zap-encoder %q is unknown and has no effect", u.zapEncoder)
	}
}
