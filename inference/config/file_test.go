package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const everything = `
redis: {url: "redis://r:1", mode: sentinel, master_name: m, addrs: ["s:1"]}
store: {url: "sqlite:q.db", namespace: n, visibility: 10s, keep: 1h, keep_count: 5, keep_dead: 2h}
queues:
  - id: a
    queue_name: qa
    result_queue_name: ra
    result_ttl_seconds: 60
    worker_pool_id: gold
    inference_objective: o
    request_path_url: /v1/chat
    igw_base_url: https://gw
    labels: {tier: batch}
    gate:
      type: composite
      params:
        gates:
          - {type: redis-quota, params: {address: "r:1", limit: 3, mode: concurrency}}
          - {gate_type: constant}
pools:
  - {id: gold, workers: 5, gate: {type: aimd, params: {min_window: 2, hold_duration: 2s}}}
dispatch: {policy: tier-priority, ageing: 30s, tier_label: t, fairness_header: "", fairness_attribute: team, priority_header: x-p, objective_headers: [x-o], lane_objectives: {reserved-async: y}}
http: {timeout: 1m, max_attempts: 4, backoff_base: 100ms, backoff_max: 2s, max_response: 4096, ca_file: ca, cert_file: c, key_file: k, skip_verify: true}
results: {queue: res}
intake: {retry_queue: rt, claimed: all, poll: 2s, batch: 7, max_waiting: 9}
gates: {strict: true, prometheus: {url: "http://p", bearer_file: f, ca_file: ca}, cache_ttl: 1s, wait_timeout: 2m}
serve: {health_port: 1, metrics_port: 2, metrics_auth: "off", upstream_metrics: false, backlog_poll: 5s, reload: 10s}
transforms: [{name: x, type: gcs_uri_multipart, providers: [p]}]
drain: 9s
log: {level: warn, format: json}
`

// What --check prints is a configuration, and the same one.
func TestFileRoundTrip(t *testing.T) {
	for name, text := range map[string]string{
		"everything": everything,
		"nothing": "redis: {url: \"redis://r:1\"}\nqueues: []\nstore: {keep: 0s, keep_count: 0, keep_dead: 0s}\nserve: {health_port: 0, metrics_port: 0, backlog_poll: 0s}\n" +
			"gates: {wait_timeout: 0s}\ndispatch: {tier_label: \"\", fairness_attribute: \"\", objective_headers: []}\n",
		"least": "redis: {url: \"redis://r:1\"}\nqueues: [{queue_name: q, igw_base_url: \"http://gw\"}]\n",
	} {
		c, err := Read([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := c.Complete(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again, err := Read([]byte(c.String()))
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, c)
		}
		if err := again.Complete(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.String(), again.String()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(c, again); diff != "" && name != "everything" { // which has a gate within a gate, under two names
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestFileIsStrict(t *testing.T) {
	for text, want := range map[string]string{
		"redis: {ulr: x}": "line 1: the key ulr is unknown",
		"drain: 1s\npools:\n- {id: a, workers: 1, gate: {type: composite, params: {gates: [{type: constant},\n  {type: redis-quota, params: {address: x,\n  limit: 0}}]}}}": "line 5: gate.composite[1].gate_params.limit: is 0",
		"drain: 1s\nqueues:\n- queue_name: q\n  igw_base_url: http://x\n  gate:\n    type: redis-quota\n    params:\n      address: x\n      limmit: 3\n":                   "line 9: gate.gate_params.limmit: is no parameter",
		"queues: [{queue_name: q, igw_base_url: \"http://x\", gate: {\ntype: constent}}]":                                                                                   "line 2: gate.gate_type: \"constent\" is no gate",
		"queues: [{name: q}]":         "name",
		"queue: []":                   "queue",
		"drain: 30":                   "30 has no unit, as 30s has",
		"drain: soon":                 "time.Duration",
		"drain: 1s\n---\ndrain: 2s\n": "more than one document",
		"queues: [{queue_name: q, igw_base_url: \"http://x\", gate: {type: constant, parms: {}}}]": "parms",
		"queues: [{queue_name: q, igw_base_url: \"http://x\", gate: {type: constent}}]":            "constent",
		"queues: [{queue_name: q, igw_base_url: \"http://x\", gate: {params: {}}}]":                "gate_type is missing",
		"dispatch: {policy: random-robin, ageing: 3s}":                                             "ageing",
		"redis: {mode: sentinel}":   "master_name",
		"redis: {mode: cloud}":      "cloud",
		"http: {backoff_max: 10ms}": "backoff_max",
		"intake: {claimed: some}":   "claimed",
	} {
		path := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadFile(path, func(string) string { return "redis://r:1" }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestFileReloadsQueues(t *testing.T) {
	const q = "queues: [{queue_name: q, igw_base_url: \"http://x\"}]\n"
	path := filepath.Join(t.TempDir(), "c.yaml")
	read := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := func(string) string { return "redis://r:1" }
	read(q)
	began, err := ReadFile(path, env)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"queues: [{queue_name: r, igw_base_url: \"http://x\"}]": "", "queues: []": "", q + "drain: 2m": "", q + "drain: 3m": "drain: has changed",
		q + "pools: [{id: a, workers: 1}]": "pools: has changed", "quues: []": "line 1: the key quues is unknown",
	} {
		read(text)
		if _, err := Queues(path, began, env); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// The file that docs/inference.md shows is one.
func TestFileOfThePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "inference.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, ok := strings.Cut(text, "```")
	if !ok {
		t.Fatal("the page shows no file")
	}
	c, err := Read([]byte(text))
	if err == nil {
		err = c.Complete()
	}
	if err != nil || len(c.Queues) != 1 || c.Queues[0].Gate == nil || c.Serve.Reload == 0 {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestFileHidesSecrets(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "url"), []byte("redis://ann:secret@r:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(path, []byte("redis: {url_file: "+filepath.Join(dir, "url")+"}\nstore: {url: \"redis://bob:secret@s:1\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := ReadFile(path, os.Getenv)
	if err != nil || c.Redis.URL != "redis://ann:secret@r:1" {
		t.Fatalf("%+v %v", c, err)
	}
	if text := c.String(); strings.Contains(text, "secret") {
		t.Error(text)
	}
}
