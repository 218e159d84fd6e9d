package config

import (
	"time"

	"github.com/spf13/pflag"
)

// Upstream is what the flags of llm-d-async say. Its zero value is not usable: see [NewUpstream].
type Upstream struct {
	fs *pflag.FlagSet

	Verbosity     int
	HealthPort    int
	MetricsPort   int
	MetricsAuth   bool
	Concurrency   int
	Timeout       time.Duration
	Drain         time.Duration
	PoolFile      string
	Transport     string
	TransportJSON string
	TransportFile string
	PolicyFile    string
	BacklogPoll   time.Duration
	CA, Cert, Key string
	SkipVerify    bool
	TransformFile string
	PrometheusURL string
	CacheTTL      time.Duration
	WatchInterval time.Duration
	GateWait      time.Duration
	StrictGates   bool

	zapLevel, zapEncoder string
	old                  deprecated
	began                *transport // what Config read, for Queues
}

// deprecated are the names that flags had before there was a transport config.
type deprecated struct {
	impl    string
	url     string
	tracing bool
	retry   string
	redis   deprecatedQueue // of redis-pubsub, as far as other transports read it
	set     deprecatedQueue // of redis-sortedset
	pollMS  int
	batch   int
	gate    string
	params  string
	policy  string
	watch   time.Duration
}

type deprecatedQueue struct {
	base, path, objective, request, result, queues, queuesFile string
}

// NewUpstream declares the flags in fs. After fs was parsed, [Upstream.Config] reads them.
func NewUpstream(fs *pflag.FlagSet) *Upstream {
	u := &Upstream{fs: fs}
	fs.IntVarP(&u.Verbosity, "v", "v", 2, "how much is logged; 4 and more is debug")
	fs.IntVar(&u.HealthPort, "health-port", 8081, "port of /healthz and /readyz")
	fs.IntVar(&u.MetricsPort, "metrics-port", 9090, "port of /metrics; 0 serves none")
	fs.BoolVar(&u.MetricsAuth, "metrics-endpoint-auth", true, "in Kubernetes, ask it whether a reader of metrics may")
	fs.IntVar(&u.Concurrency, "concurrency", 64, "workers of the pool default")
	fs.DurationVar(&u.Timeout, "request-timeout", 5*time.Minute, "of one attempt")
	fs.DurationVar(&u.Drain, "drain-timeout", 2*time.Minute, "how long requests in flight may take to end after SIGTERM")
	fs.StringVar(&u.PoolFile, "pool-config-file", "", "JSON file of worker pools")
	fs.StringVar(&u.Transport, "transport", "redis-pubsub", "redis-sortedset is the one that is supported")
	fs.StringVar(&u.TransportJSON, "transport-config", "", "JSON configuration of the transport")
	fs.StringVar(&u.TransportFile, "transport-config-file", "", "file of it")
	fs.StringVar(&u.PolicyFile, "request-merge-policy-config-file", "", "JSON file of the merge policy")
	fs.StringVar(&u.old.policy, "request-merge-policy-config", "", "older name of request-merge-policy-config-file")
	fs.DurationVar(&u.BacklogPoll, "metrics-backlog-poll-interval", 15*time.Second, "how often backlogs are counted; 0 never")
	fs.StringVar(&u.CA, "tls-ca-cert", "", "PEM file of the authorities that sign the gateway's certificate")
	fs.StringVar(&u.Cert, "tls-cert", "", "PEM file of the client certificate")
	fs.StringVar(&u.Key, "tls-key", "", "PEM file of its key")
	fs.BoolVar(&u.SkipVerify, "tls-insecure-skip-verify", false, "do not check the gateway's certificate")
	fs.StringVar(&u.TransformFile, "transform-config-file", "", "JSON file of request transforms")
	fs.StringVar(&u.PrometheusURL, "prometheus-url", "", "Prometheus that gates ask")
	fs.DurationVar(&u.CacheTTL, "prometheus-cache-ttl", 5*time.Second, "how often gates ask; 0 once a second")
	fs.DurationVar(&u.WatchInterval, "transport-config-watch-interval", 0, "how often the queues are read again from their file; 0 never")
	fs.DurationVar(&u.GateWait, "gate-wait-timeout", 5*time.Minute, "how long a request waits for its pool's gate until others go first; 0 until its deadline")
	fs.BoolVar(&u.StrictGates, "strict-gates", false, "close gates that have no reading, whatever their fallback says")

	fs.StringVar(&u.zapLevel, "zap-log-level", "", "debug, info, error or a number")
	fs.StringVar(&u.zapEncoder, "zap-encoder", "", "json or console")
	for _, f := range []string{"zap-devel", "zap-stacktrace-level", "zap-time-encoding"} {
		fs.String(f, "", "has no effect")
	}
	fs.Lookup("zap-devel").NoOptDefVal = "true"

	o := &u.old
	fs.StringVar(&o.impl, "message-queue-impl", "", "older name of transport")
	fs.StringVar(&o.url, "redis.url", "", "of the transport config: url")
	fs.BoolVar(&o.tracing, "redis-tracing", false, "of the transport config: enable_tracing")
	fs.StringVar(&o.retry, "redis.retry-queue-name", "retry-sortedset", "of the transport config: retry_queue_name")
	o.redis.declare(fs, "redis.", "request-queue", "result-queue")
	o.set.declare(fs, "redis.ss.", "request-sortedset", "result-list")
	fs.IntVar(&o.pollMS, "redis.ss.poll-interval-ms", 1000, "of the transport config: poll_interval_ms")
	fs.IntVar(&o.batch, "redis.ss.batch-size", 10, "of the transport config: batch_size")
	fs.StringVar(&o.gate, "redis.ss.gate-type", "", "of a queue: gate_type")
	fs.StringVar(&o.params, "redis.ss.gate-params", "", "of a queue: gate_params")
	fs.DurationVar(&o.watch, "redis.ss.queues-config-watch-interval", 0, "how often the queues are read again from redis.ss.queues-config-file; 0 never")
	fs.Bool("gate.pmetric.is-gmp", false, "has no effect")
	for _, f := range []string{"gate.prometheus.url", "gate.pmetric.gmp.project-id", "gate.prometheus.model-name"} {
		fs.String(f, "", "has no effect")
	}
	for _, f := range []string{"igw-base-url", "project-id", "request-path-url", "inference-objective", "request-subscriber-id", "result-topic-id",
		"topics-config-file", "batch-size"} {
		fs.String("pubsub."+f, "", "of the transport gcp-pubsub, which is not supported")
	}
	for _, f := range []string{"message-queue-impl", "redis.url", "redis-tracing", "redis.retry-queue-name", "redis.ss.poll-interval-ms",
		"redis.ss.batch-size", "redis.ss.gate-type", "redis.ss.gate-params", "request-merge-policy-config", "zap-devel", "zap-stacktrace-level", "zap-time-encoding"} {
		fs.Lookup(f).Hidden = true
	}
	fs.VisitAll(func(f *pflag.Flag) {
		for _, p := range []string{"pubsub.", "redis.", "gate."} {
			if len(f.Name) > len(p) && f.Name[:len(p)] == p {
				f.Hidden = true
			}
		}
	})
	return u
}

func (q *deprecatedQueue) declare(fs *pflag.FlagSet, prefix, request, result string) {
	fs.StringVar(&q.base, prefix+"igw-base-url", "", "of a queue: igw_base_url")
	fs.StringVar(&q.path, prefix+"request-path-url", "/v1/completions", "of a queue: request_path_url")
	fs.StringVar(&q.objective, prefix+"inference-objective", "", "of a queue: inference_objective")
	fs.StringVar(&q.request, prefix+"request-queue-name", request, "of a queue: queue_name")
	fs.StringVar(&q.result, prefix+"result-queue-name", result, "of the transport config: result_queue_name")
	fs.StringVar(&q.queues, prefix+"queues-config", "", "of the transport config: queues")
	fs.StringVar(&q.queuesFile, prefix+"queues-config-file", "", "file of it")
}

// Normalise turns -name, as llm-d-async's flags may be written, into --name.
func (u *Upstream) Normalise(args []string) []string {
	out := make([]string, 0, len(args))
	for i, a := range args {
		if a == "--" {
			return append(out, args[i:]...)
		}
		if len(a) > 2 && a[0] == '-' && a[1] != '-' {
			name := a[1:]
			for j := range name {
				if name[j] == '=' {
					name = name[:j]
					break
				}
			}
			if u.fs.Lookup(name) != nil {
				a = "-" + a
			}
		}
		out = append(out, a)
	}
	return out
}
