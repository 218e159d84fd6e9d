package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// parse reads a command line as twolane inference does.
func parse(t *testing.T, env map[string]string, args ...string) (*Config, error) {
	t.Helper()
	fs := pflag.NewFlagSet("inference", pflag.ContinueOnError)
	u := NewUpstream(fs)
	if err := fs.Parse(u.Normalise(args)); err != nil {
		return nil, err
	}
	return u.Config(func(name string) string { return env[name] })
}

func must1(t *testing.T, env map[string]string, args ...string) *Config {
	t.Helper()
	c, err := parse(t, env, args...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const oneQueue = `{"url":"redis://r:1","queues":[{"queue_name":"q","igw_base_url":"http://gw"}]}`

func TestUpstreamDefaults(t *testing.T) {
	c := must1(t, nil, "--transport", "redis-sortedset", "--transport-config", oneQueue)
	want := Default()
	want.Redis.URL = "redis://r:1"
	want.Queues = []Queue{{ID: "q", Name: "q", Pool: "default", Path: "/v1/completions", BaseURL: "http://gw"}}
	want.Pools = []Pool{{ID: "default", Workers: 64}}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
	if c.HTTP.Timeout != 5*time.Minute || c.Drain != 2*time.Minute || c.Results.Queue != "result-list" || c.Intake.RetryQueue != "retry-sortedset" {
		t.Errorf("%+v", c)
	}
}

func TestUpstreamEverything(t *testing.T) {
	pools := file(t, `[{"id":"default","workers":3},{"id":"gold","workers":5,"gate_type":"wait-on-refuse","gate_params":{"gate":"{\"gate_type\":\"redis-quota\",\"gate_params\":{\"address\":\"r:1\",\"limit\":\"7\",\"mode\":\"concurrency\"}}"}}]`)
	transport := file(t, `{"URL":"redis://:pw@r:1/2","retry_queue_name":"retry","result_queue_name":"res","poll_interval_ms":50,"batch_size":64,
		"claim_lease_ttl_seconds":300,"claim_reclaim_interval_ms":15000,"mode":"standalone",
		"queues":[{"id":"a","queue_name":"qa","result_queue_name":"ra","result_ttl_seconds":60,"worker_pool_id":"gold","inference_objective":"o",
		"request_path_url":"/v1/chat","igw_base_url":"https://gw/base","gate_type":"constant","labels":{"tier":"batch"}},{"queue_name":"qb","igw_base_url":"http://gw"}]}`)
	policy := file(t, `{"type":"tier-priority","parameters":{"priority_header":"","fairness_header":"x-f","fairness_attribute":"team","tier_label":"t","lane_objectives":{"reserved-batch":"o5"},"ageing":"30s"}}`)
	transforms := file(t, `{"requestTransforms":[{"name":"n","type":"gcs_uri_multipart","parameters":{"providers":["p"]}}]}`)
	c := must1(t, nil, "-transport=redis-sortedset", "-transport-config-file", transport, "--pool-config-file", pools, "--request-merge-policy-config", policy,
		"--transform-config-file", transforms, "--health-port=1", "--metrics-port", "2", "--metrics-endpoint-auth=false", "--concurrency=9",
		"--request-timeout=3s", "--drain-timeout", "7s", "--metrics-backlog-poll-interval=1s", "--tls-insecure-skip-verify", "--prometheus-url", "http://p",
		"--prometheus-cache-ttl=2s", "--transport-config-watch-interval=4s", "--gate-wait-timeout=0", "--strict-gates", "-v=5", "--zap-devel", "--zap-encoder=console",
		"--tls-ca-cert", "ca", "--tls-cert", "c", "--tls-key", "k", "--zap-time-encoding", "iso8601")
	want := Default()
	want.Redis = Redis{URL: "redis://:pw@r:1/2", Mode: "standalone"}
	want.Queues = []Queue{
		{ID: "a", Name: "qa", ResultQueue: "ra", ResultTTL: 60, Pool: "gold", Objective: "o", Path: "/v1/chat", BaseURL: "https://gw/base",
			Gate: &Gate{Type: "constant"}, Labels: map[string]string{"tier": "batch"}},
		{ID: "qb", Name: "qb", Pool: "default", Path: "/v1/completions", BaseURL: "http://gw"},
	}
	want.Pools = []Pool{{ID: "default", Workers: 3}, {ID: "gold", Workers: 5, Gate: &Gate{Type: "wait-on-refuse", Params: Params{
		"gate": `{"gate_type":"redis-quota","gate_params":{"address":"r:1","limit":"7","mode":"concurrency"}}`}}}}
	want.Dispatch.Policy, want.Dispatch.PriorityHeader, want.Dispatch.FairnessHeader, want.Dispatch.FairnessAttribute = TierPriority, "", "x-f", "team"
	want.Dispatch.TierLabel, want.Dispatch.LaneObjectives, want.Dispatch.Ageing = "t", map[string]string{"reserved-batch": "o5"}, 30*time.Second
	want.Transforms = []Transform{{Name: "n", Type: GCSMultipart, Providers: []string{"p"}}}
	want.HTTP.Timeout, want.HTTP.CAFile, want.HTTP.CertFile, want.HTTP.KeyFile, want.HTTP.SkipVerify = 3*time.Second, "ca", "c", "k", true
	want.Drain = 7 * time.Second
	want.Results.Queue, want.Intake.RetryQueue, want.Intake.Poll = "res", "retry", 50*time.Millisecond
	want.Gates = Gates{Strict: true, Prometheus: Prometheus{URL: "http://p"}, CacheTTL: 2 * time.Second}
	want.Serve = Serve{HealthPort: 1, MetricsPort: 2, MetricsAuth: "off", UpstreamNames: true, BacklogPoll: time.Second, Reload: 4 * time.Second}
	want.Log = Log{Level: "debug", Format: "text"}
	want.Warnings = []string{"--concurrency has no effect: " + pools + " says how many workers the pool default has"}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
}

func TestUpstreamConnectionFromTheEnvironment(t *testing.T) {
	c := must1(t, map[string]string{"REDIS_URL": "redis://env:1"}, "--transport", "redis-sortedset", "--transport-config", `{"queues":[]}`)
	if c.Redis.URL != "redis://env:1" || len(c.Queues) != 0 {
		t.Errorf("%+v", c.Redis)
	}
}

func TestUpstreamDeprecatedNames(t *testing.T) {
	env := map[string]string{"REDIS_URL": "redis://env:1"}
	c := must1(t, env, "--message-queue-impl", "redis-sortedset", "--redis.ss.igw-base-url", "http://gw", "--redis.ss.inference-objective", "o",
		"--redis.ss.request-path-url", "/p", "--redis.ss.gate-type", "redis-quota", "--redis.ss.gate-params", `{"address":"r:1","limit":3}`,
		"--redis.ss.poll-interval-ms", "20", "--redis.ss.batch-size=50", "--redis.ss.result-queue-name", "rr", "--redis.retry-queue-name", "rt")
	if len(c.Queues) != 1 {
		t.Fatalf("%+v", c.Queues)
	}
	q := c.Queues[0]
	if q.Name != "request-sortedset" || q.BaseURL != "http://gw" || q.Objective != "o" || q.Path != "/p" || q.Gate == nil || q.Gate.Params.Text("limit", "") != "3" ||
		c.Results.Queue != "rr" || c.Intake.RetryQueue != "rt" || c.Intake.Poll != 20*time.Millisecond || c.Redis.URL != "redis://env:1" {
		t.Errorf("%+v %+v", q, c)
	}
	list := file(t, `[{"queue_name":"a","igw_base_url":"http://gw"},{"queue_name":"b","igw_base_url":"http://gw"}]`)
	c = must1(t, nil, "--message-queue-impl", "redis-sortedset", "--redis.url", "redis://flag:1", "--redis.ss.queues-config-file", list, "--redis-tracing")
	if len(c.Queues) != 2 || c.Queues[1].ID != "b" || c.Redis.URL != "redis://flag:1" || !slices.Equal(c.Warnings, []string{"enable_tracing has no effect"}) {
		t.Errorf("%+v %q", c.Queues, c.Warnings)
	}
	if c := must1(t, env, "--transport", "redis-sortedset", "--redis.ss.queues-config", `{"queues":[{"queue_name":"a","igw_base_url":"http://gw"}]}`); len(c.Queues) != 1 {
		t.Errorf("%+v", c.Queues)
	}
}

func TestUpstreamRefuses(t *testing.T) {
	env := map[string]string{"REDIS_URL": "redis://env:1"}
	config := func(json string) []string {
		return []string{"--transport", "redis-sortedset", "--transport-config", json}
	}
	queue := func(rest string) []string {
		return config(`{"queues":[{"queue_name":"q","igw_base_url":"http://gw"` + rest + `}]}`)
	}
	for want, args := range map[string][]string{
		"default: its messages":      {},
		"--transport gcp-pubsub":     {"--transport", "gcp-pubsub"},
		"--message-queue-impl gcp":   {"--message-queue-impl", "gcp-pubsub-gated"},
		`"kafka" is unknown`:         {"--transport", "kafka"},
		"is needed":                  {"--transport", "redis-sortedset"},
		"both set":                   append(config(oneQueue), "--transport-config-file", "x"),
		"needs --transport-config":   {"--message-queue-impl", "redis-sortedset", "--pool-config-file", "x"},
		"no such file":               {"--transport", "redis-sortedset", "--transport-config-file", "/none"},
		"transport config: ":         config(`{`),
		"queue_name":                 config(`{"queues":[{"igw_base_url":"http://gw"}]}`),
		"igw_base_url: is missing":   config(`{"queues":[{"queue_name":"q"}]}`),
		"neither http nor https":     config(`{"queues":[{"queue_name":"q","igw_base_url":"file:///etc"}]}`),
		"there is no pool":           queue(`,"worker_pool_id":"none"`), // 45: a panic there
		`"q" is there twice`:         config(`{"queues":[{"queue_name":"q","igw_base_url":"http://gw"},{"id":"b","queue_name":"q","igw_base_url":"http://gw"}]}`),
		"is the retry queue":         config(`{"queues":[{"queue_name":"retry-sortedset","igw_base_url":"http://gw"}]}`),
		"is no gate":                 queue(`,"gate_type":"redis-qouta"`), // 23: an open gate there, as the next six
		"is no parameter":            queue(`,"gate_type":"redis-quota","gate_params":{"address":"x","limit":1,"limmit":2}`),
		"none of rate-limit":         queue(`,"gate_type":"redis-quota","gate_params":{"address":"x","limit":1,"mode":"ratelimit"}`),
		"limit: is missing":          queue(`,"gate_type":"redis-quota","gate_params":{"address":"x"}`),
		"neither gate_type nor":      queue(`,"gate_type":"wait-on-refuse","gate_params":{"gate":{"gate_typ":"constant"}}`),
		"composite[1].gate_type":     queue(`,"gate_type":"composite","gate_params":{"gates":[{"gate_type":"constant"},{"gate_type":"nope"}]}`),
		"wait-on-refuse[0].gate_par": queue(`,"gate_type":"wait-on-refuse","gate_params":{"gate":{"gate_type":"constant","gate_params":{"x":1}}}`),
		"not a whole number":         queue(`,"gate_type":"local-max-concurrency","gate_params":{"limit":0.5}`),
		"is no number":               queue(`,"gate_type":"prometheus-query","gate_params":{"query":"x","fallback":"high"}`),
		"unknown flag":               {"--no-such-flag"},
		"poll_interval_ms":           config(`{"poll_interval_ms":-1,"queues":[]}`),
		"gate_type: is missing":      queue(`,"gate_typ":"redis-quota","gate_params":{"address":"x","limit":1}`),
		"address: is missing":        queue(`,"gate_type":"redis","gate_params":{"address":""}`),
		"which has none":             queue(`,"gate_type":"constant","gate_params":{"x":1}`),
		"tier_label: \"sla\" is not": append(queue(`,"gate_type":"aimd","gate_params":{"tier_label":"sla"}`), "--request-merge-policy-config-file", file(t, `{"type":"tier-priority"}`)),
		"line 2: queues.labels is a number, and must be a string": config("{\"queues\":[{\"queue_name\":\"q\",\n\"labels\":{\"a\":1}}]}"),
		"line 2: invalid character":                               config("{\n]}"),
		"--concurrency: 0 is not above 0":                         append(config(oneQueue), "--concurrency", "0"),
		"--drain-timeout: is not above 0":                         append(config(oneQueue), "--drain-timeout", "0"),
		"--metrics-port: is that of health_port":                  append(config(oneQueue), "--metrics-port", "8081"),
		"unknown field":                                           append(config(oneQueue), "--request-merge-policy-config-file", file(t, `{"typ":"x"}`)),
		"neither random-robin":                                    append(config(oneQueue), "--request-merge-policy-config-file", file(t, `{"type":"lifo"}`)),
		"lane_objectives":                                         append(config(oneQueue), "--request-merge-policy-config-file", file(t, `{"type":"tier-priority","parameters":{"lane_objectives":{"batch-reserved":"x"}}}`)),
		"transforms[0].type":                                      append(config(oneQueue), "--transform-config-file", file(t, `{"requestTransforms":[{"type":"s3"}]}`)),
		"pools[1].id":                                             append(config(oneQueue), "--pool-config-file", file(t, `[{"id":"a","workers":1},{"id":"a","workers":1}]`)),
		"pools[0].workers":                                        append(config(oneQueue), "--pool-config-file", file(t, `[{"id":"a","workers":0}]`)),
		"--tls-cert: and key_file":                                append(config(oneQueue), "--tls-cert", "x"),
	} {
		if c, err := parse(t, env, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q; %v", args, err, want, c)
		}
	}
	if _, err := parse(t, nil, config(`{"queues":[]}`)...); err == nil || !strings.Contains(err.Error(), "REDIS_URL") {
		t.Errorf("without a URL: %v", err)
	}
}

// 45: what nobody reads is named, once.
func TestFault45UnknownKeysAreNamed(t *testing.T) {
	pools := file(t, `[{"id":"default","workers":1,"wrkers":2}]`)
	c := must1(t, nil, "--transport", "redis-sortedset", "--transport-config", `{"url":"redis://r","pol_interval_ms":3,"queues":[{"queue_name":"q","igw_base_url":"http://gw","lables":{},"Labels":{"a":"b"}}]}`, "--pool-config-file", pools)
	want := []string{"transport config: the key pol_interval_ms is unknown and has no effect", "transport config: the key queues[0].lables is unknown and has no effect",
		pools + ": the key [0].wrkers is unknown and has no effect"}
	if !slices.Equal(c.Warnings, want) {
		t.Errorf("%q", c.Warnings)
	}
}

// What llm-d-async takes for its default is the default, and what switches something off there does so here.
func TestUpstreamZeroes(t *testing.T) {
	c := must1(t, nil, "--transport", "redis-sortedset", "--metrics-backlog-poll-interval", "0", "--prometheus-cache-ttl=0s", "--transport-config",
		`{"url":"redis://r:1","retry_queue_name":"","result_queue_name":"","poll_interval_ms":0,"batch_size":0,"queues":[
		{"id":"","queue_name":"q","igw_base_url":"http://gw","worker_pool_id":"","request_path_url":"","gate_type":"","gate_params":{}}]}`)
	want := Default()
	want.Redis.URL, want.Serve.BacklogPoll, want.Gates.CacheTTL = "redis://r:1", 0, time.Second
	want.Queues = []Queue{{ID: "q", Name: "q", Pool: "default", Path: "/v1/completions", BaseURL: "http://gw"}}
	want.Pools = []Pool{{ID: "default", Workers: 64}}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
}

// A flag that is taken and means nothing is told, once; where two say the same, llm-d-async's order holds.
func TestUpstreamFlagsWithoutEffect(t *testing.T) {
	list := file(t, `[{"queue_name":"f","igw_base_url":"http://gw"}]`)
	for _, c := range []struct {
		args, queue string
		want        []string
	}{
		{"--transport redis-sortedset --transport-config " + oneQueue + " --redis.url redis://x --redis.ss.batch-size 3 --pubsub.project-id p --redis-tracing --message-queue-impl x", "q",
			[]string{"--message-queue-impl has no effect beside --transport", "--pubsub.project-id has no effect: it is of another transport",
				"--redis-tracing has no effect beside a transport config", "--redis.ss.batch-size has no effect beside a transport config",
				"--redis.url has no effect beside a transport config"}},
		{"--message-queue-impl redis-sortedset --redis.url redis://x --redis.igw-base-url http://x --redis.ss.igw-base-url http://gw --gate.pmetric.is-gmp --gate.prometheus.url u", "request-sortedset",
			[]string{"--gate.pmetric.is-gmp has no effect", "--gate.prometheus.url has no effect", "--redis.igw-base-url has no effect: it is of another transport"}},
		{`--message-queue-impl redis-sortedset --redis.url redis://x --redis.ss.queues-config [{"queue_name":"i","igw_base_url":"http://gw"}] --redis.ss.queues-config-file ` + list + " --redis.ss.gate-type nope", "i",
			[]string{"--redis.ss.gate-type has no effect beside --redis.ss.queues-config", "--redis.ss.queues-config-file has no effect beside --redis.ss.queues-config"}},
		{"--message-queue-impl redis-sortedset --redis.url redis://x --redis.ss.queues-config-file " + list + " --redis.ss.queues-config-watch-interval 3s --transport-config-watch-interval 4s", "f",
			[]string{"--transport-config-watch-interval has no effect without --transport-config-file"}},
		{"--transport redis-sortedset --transport-config " + oneQueue + " --concurrency 9 --zap-encoder xml --zap-log-level loud --request-merge-policy-config /none --pool-config-file " +
			file(t, `[{"id":"default","workers":3}]`) + " --request-merge-policy-config-file " + file(t, `{"type":"random-robin"}`), "q", nil},
	} {
		got := must1(t, nil, strings.Fields(c.args)...)
		if c.want == nil {
			if len(got.Warnings) != 4 || got.Pools[0].Workers != 3 {
				t.Errorf("%s: %q", c.args, got.Warnings)
			}
		} else if !slices.Equal(got.Warnings, c.want) {
			t.Errorf("%s: %q", c.args, got.Warnings)
		}
		if len(got.Queues) != 1 || got.Queues[0].Name != c.queue {
			t.Errorf("%s: %+v", c.args, got.Queues)
		}
		if strings.Contains(c.args, "queues-config-watch") && got.Serve.Reload != 3*time.Second {
			t.Errorf("reload %v", got.Serve.Reload)
		}
	}
}

// Where the policy does not look at tiers, gates say which label has them.
func TestTierLabelOfGates(t *testing.T) {
	c := must1(t, nil, "--transport", "redis-sortedset", "--transport-config", `{"url":"redis://r","queues":[{"queue_name":"q","igw_base_url":"http://gw",
		"gate_type":"tier-priority-admission","gate_params":{"saturation_gate":"constant","tier_label":"sla"}}]}`)
	if c.Dispatch.TierLabel != "sla" {
		t.Errorf("%q", c.Dispatch.TierLabel)
	}
}

func TestUpstreamReloadsQueues(t *testing.T) {
	path := file(t, oneQueue)
	fs := pflag.NewFlagSet("inference", pflag.ContinueOnError)
	u := NewUpstream(fs)
	if err := fs.Parse([]string{"--transport", "redis-sortedset", "--transport-config-file", path}); err != nil {
		t.Fatal(err)
	}
	c, err := u.Config(func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"url":"redis://r:1","queues":[{"queue_name":"q","igw_base_url":"http://gw"},{"queue_name":"r","igw_base_url":"http://gw"}]}`: "",
		`{"url":"redis://r:1","queues":[]}`:                                                                     "",
		`{"url":"redis://r:1","queues":[{"queue_name":"q"}]}`:                                                   "igw_base_url",
		`{"url":"redis://r:1","queues":[{"queue_name":"q","igw_base_url":"http://gw","worker_pool_id":"new"}]}`: "no pool",
		`{"url":"redis://r:1","batch_size":20,"queues":[]}`:                                                     "batch_size: has changed",
		`{"url":"redis://r:2","queues":[]}`:                                                                     "url: has changed",
		`{"url":"redis://r:1","queus":[]}`:                                                                      "",
		`{`:                                                                                                     "JSON",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		qs, warnings, err := u.Queues(c)
		if want := strings.Contains(text, "queus"); (len(warnings) == 1) != want {
			t.Errorf("%s: %q", text, warnings)
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v %v, want %q", text, qs, err, want)
		}
	}
}
