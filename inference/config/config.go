package config

import (
	"time"
)

// Config is all of it. Its YAML form is our configuration file.
type Config struct {
	Redis    Redis    `yaml:"redis"`
	Store    Store    `yaml:"store,omitempty"`
	Queues   []Queue  `yaml:"queues"`
	Pools    []Pool   `yaml:"pools,omitempty"`
	Dispatch Dispatch `yaml:"dispatch,omitempty"`
	HTTP     HTTP     `yaml:"http,omitempty"`
	Results  Results  `yaml:"results,omitempty"`
	Intake   Intake   `yaml:"intake,omitempty"`
	Gates    Gates    `yaml:"gates,omitempty"`
	Serve    Serve    `yaml:"serve,omitempty"`
	// Transforms change bodies on their way to the gateway, the first that applies.
	Transforms []Transform `yaml:"transforms,omitempty"`
	// Drain is how long the requests that run may take to end when the processor stops.
	Drain time.Duration `yaml:"drain,omitempty"`
	Log   Log           `yaml:"log,omitempty"`

	// Warnings are sentences about what was read and has no effect.
	Warnings []string `yaml:"-"`
}

// Redis is where producers put requests and read results.
type Redis struct {
	URL     string   `yaml:"url,omitempty"`
	URLFile string   `yaml:"url_file,omitempty"` // a file that holds it
	Mode    string   `yaml:"mode,omitempty"`     // standalone, sentinel or cluster; empty: as the URL says
	Addrs   []string `yaml:"addrs,omitempty"`    // of sentinels or of nodes of a cluster, beside the URL's
	Master  string   `yaml:"master_name,omitempty"`
}

// Store is where requests are kept from intake to result.
type Store struct {
	// URL is one of openstore's forms. Empty is the producers' Redis.
	URL string `yaml:"url,omitempty"`
	// Namespace is that of the store on the producers' Redis.
	Namespace string `yaml:"namespace,omitempty"`
	// Visibility is how long a dead processor's requests wait for another one.
	Visibility time.Duration `yaml:"visibility,omitempty"`
	// Keep is how long the record of an answered request is kept for a look, and KeepCount how many of a pool.
	Keep      time.Duration `yaml:"keep"`
	KeepCount int           `yaml:"keep_count"`
	// KeepDead is the same of members that are no requests.
	KeepDead time.Duration `yaml:"keep_dead"`
}

// Queue is one set of requests.
type Queue struct {
	ID          string            `yaml:"id,omitempty"` // empty: the name
	Name        string            `yaml:"queue_name"`
	ResultQueue string            `yaml:"result_queue_name,omitempty"` // wins over what requests say
	ResultTTL   int64             `yaml:"result_ttl_seconds,omitempty"`
	Pool        string            `yaml:"worker_pool_id,omitempty"`
	Objective   string            `yaml:"inference_objective,omitempty"`
	Path        string            `yaml:"request_path_url,omitempty"`
	BaseURL     string            `yaml:"igw_base_url"`
	Gate        *Gate             `yaml:"gate,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
}

// Pool is a number of requests that may be in flight from one process.
type Pool struct {
	ID      string `yaml:"id"`
	Workers int    `yaml:"workers"`
	Gate    *Gate  `yaml:"gate,omitempty"`
}

// DefaultPool is the pool of queues that name none.
const DefaultPool = "default"

// Policies of dispatch.
const (
	RandomRobin  = "random-robin"  // the earliest deadline of all queues of a pool
	TierPriority = "tier-priority" // six lanes by class and tier, the first that has work
)

// Dispatch says which request of a pool goes next, and what the gateway is told about it.
type Dispatch struct {
	Policy string `yaml:"policy,omitempty"`
	// Fair serves the queues of a pool in turn, each by deadline. TierPriority always does, within a lane.
	Fair bool `yaml:"fair,omitempty"`
	// Ageing, with TierPriority, gives each lane a share, so that a lower one that has waited for so long gets its turn. 0 is strict.
	Ageing time.Duration `yaml:"ageing,omitempty"`

	TierLabel         string `yaml:"tier_label"`
	FairnessHeader    string `yaml:"fairness_header"`
	FairnessAttribute string `yaml:"fairness_attribute"`
	PriorityHeader    string `yaml:"priority_header"`
	// ObjectiveHeaders carry the objective of the queue, or of the lane if LaneObjectives has it.
	ObjectiveHeaders []string          `yaml:"objective_headers"`
	LaneObjectives   map[string]string `yaml:"lane_objectives,omitempty"`
}

const defaultTierLabel = "tier"

// LaneNames are the lanes of TierPriority, the first one first.
var LaneNames = []string{"reserved-interactive", "reserved-async", "reserved-batch", "overflow-interactive", "overflow-async", "overflow-batch"}

// HTTP is how requests are sent.
type HTTP struct {
	Timeout time.Duration `yaml:"timeout,omitempty"` // of one attempt
	// MaxAttempts ends a request with the last answer; 0 is until the deadline.
	MaxAttempts int           `yaml:"max_attempts,omitempty"`
	BackoffBase time.Duration `yaml:"backoff_base,omitempty"`
	BackoffMax  time.Duration `yaml:"backoff_max,omitempty"`
	// MaxResponse is the largest body taken, in bytes; a longer one ends its request.
	MaxResponse int64 `yaml:"max_response,omitempty"`

	CAFile     string `yaml:"ca_file,omitempty"`
	CertFile   string `yaml:"cert_file,omitempty"`
	KeyFile    string `yaml:"key_file,omitempty"`
	SkipVerify bool   `yaml:"skip_verify,omitempty"`
}

// Results is where answers go.
type Results struct {
	Queue string `yaml:"queue,omitempty"` // of requests whose queue and producer name none
}

// Claimed says what is done about the claims that a newer llm-d-async has left.
const (
	ClaimedLapsed = "lapsed" // take those that have lapsed
	ClaimedAll    = "all"    // take all, because nobody else runs
	ClaimedIgnore = "ignore"
)

// Intake is how requests are taken from their sets.
type Intake struct {
	RetryQueue string        `yaml:"retry_queue,omitempty"` // of llm-d-async, drained
	Claimed    string        `yaml:"claimed,omitempty"`
	Poll       time.Duration `yaml:"poll,omitempty"`  // between two looks where changes are not told
	Batch      int           `yaml:"batch,omitempty"` // members in one look, at most
	// MaxWaiting stops the intake of a queue while so many of its requests wait in the store; 0 is no bound.
	MaxWaiting int `yaml:"max_waiting,omitempty"`
}

// Gates are settings of all gates.
type Gates struct {
	// Strict closes gates without a reading, whatever their fallback says.
	Strict     bool       `yaml:"strict,omitempty"`
	Prometheus Prometheus `yaml:"prometheus,omitempty"`
	// CacheTTL is the time between two questions, to Prometheus and to endpoints.
	CacheTTL time.Duration `yaml:"cache_ttl,omitempty"`
	// Wait is how long a request may wait for a gate of its pool before others go first; 0 is until its deadline.
	Wait time.Duration `yaml:"wait_timeout"`
}

// Prometheus is the server that gates ask. Secrets are in files, which are read again for each question.
type Prometheus struct {
	URL          string `yaml:"url,omitempty"`
	BearerFile   string `yaml:"bearer_file,omitempty"`
	User         string `yaml:"user,omitempty"`
	PasswordFile string `yaml:"password_file,omitempty"`
	CAFile       string `yaml:"ca_file,omitempty"`
}

// Serve is where the processor shows itself.
type Serve struct {
	HealthPort  int `yaml:"health_port"`
	MetricsPort int `yaml:"metrics_port"`
	// MetricsAuth asks Kubernetes whether a reader may: on, off, or auto: on in a cluster.
	MetricsAuth string `yaml:"metrics_auth,omitempty"`
	// UpstreamNames shows the metrics of llm-d-async beside ours.
	UpstreamNames bool `yaml:"upstream_metrics"`
	// BacklogPoll is how often the sets are counted for metrics; 0 never.
	BacklogPoll time.Duration `yaml:"backlog_poll"`
	// Reload is how often the queues are read again from their file; 0 never.
	Reload time.Duration `yaml:"reload,omitempty"`
}

// Transform changes bodies.
type Transform struct {
	Name      string   `yaml:"name,omitempty"`
	Type      string   `yaml:"type"`
	Providers []string `yaml:"providers,omitempty"`
}

// GCSMultipart is the only type of a transform.
const GCSMultipart = "gcs_uri_multipart"

// Log is what is said while it runs.
type Log struct {
	Level  string `yaml:"level,omitempty"`  // debug, info, warn, error
	Format string `yaml:"format,omitempty"` // text or json; empty: text on a terminal
}

// Default is what is in force where nothing is said.
func Default() *Config {
	return &Config{
		Store: Store{Namespace: "inference", Keep: 10 * time.Minute, KeepCount: 10_000, KeepDead: 7 * 24 * time.Hour},
		Dispatch: Dispatch{
			Policy: RandomRobin, TierLabel: defaultTierLabel, FairnessHeader: "x-llm-d-inference-fairness-id", FairnessAttribute: "userid",
			PriorityHeader: "x-gateway-priority", ObjectiveHeaders: []string{"x-gateway-inference-objective", "x-llm-d-inference-objective"},
		},
		HTTP:    HTTP{Timeout: 5 * time.Minute, BackoffBase: time.Second, BackoffMax: 8 * time.Second, MaxResponse: 16 << 20},
		Results: Results{Queue: "result-list"},
		Intake:  Intake{RetryQueue: "retry-sortedset", Claimed: ClaimedLapsed, Poll: time.Second, Batch: 500},
		Gates:   Gates{CacheTTL: 5 * time.Second, Wait: 5 * time.Minute},
		Serve:   Serve{HealthPort: 8081, MetricsPort: 9090, MetricsAuth: "auto", UpstreamNames: true, BacklogPoll: 15 * time.Second},
		Drain:   2 * time.Minute,
		Log:     Log{Level: "info"},
	}
}
