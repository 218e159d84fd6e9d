package inference

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/twolane/twolane/inference/config"
)

// What would stop the start is found without starting; gates that can be made and quotas that differ are told.
func TestCheck(t *testing.T) {
	quota := func(attribute string, limit int) map[string]any {
		return map[string]any{"gate_type": "redis-quota", "gate_params": map[string]any{"address": "x", "attribute": attribute, "limit": limit, "mode": "concurrency"}}
	}
	gated := func(kind string, params config.Params) func(*config.Config) {
		return func(c *config.Config) { c.Queues[0].Gate = &config.Gate{Type: kind, Params: params} }
	}
	for want, change := range map[string]func(*config.Config){
		"queues.q-a: prometheus-budget needs --prometheus-url": gated("prometheus-budget", config.Params{"pool": "p"}),
		"pools.default.wait-on-refuse[0]: prometheus-saturation needs": func(c *config.Config) {
			c.Pools[0].Gate = &config.Gate{Type: "wait-on-refuse", Params: config.Params{"gate": `{"gate_type":"prometheus-saturation","gate_params":{"pool":"p"}}`}}
		},
		"gate_params.address":   gated("redis", config.Params{"address": "a b"}),
		"more than four quotas": gated("composite", config.Params{"gates": []any{quota("a", 1), quota("b", 1), quota("c", 1), quota("d", 1), quota("e", 1)}}),
		"a rate is for a whole pool": func(c *config.Config) {
			gated("redis-leased-rate", config.Params{"address": "x", "control_key": "k"})(c)
			c.Queues = append(c.Queues, config.Queue{Name: "q-b", BaseURL: "http://gw"})
		},
		"/none/ca.pem": func(c *config.Config) { c.HTTP.CAFile = "/none/ca.pem" },
		"redis.url":    func(c *config.Config) { c.Redis.URL = "http://r" },
		"store.url":    func(c *config.Config) { c.Store.URL = "postgres://x:secret@y" },
		"no http or https address": func(c *config.Config) {
			gated("prometheus-query", config.Params{"query": "q"})(c)
			c.Gates.Prometheus.URL = "not a URL"
		},
	} {
		cfg := checkConfig(t, change)
		if w, err := Check(cfg); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v %q", want, err, w)
		}
	}
	w, err := Check(checkConfig(t, func(c *config.Config) { c.Queues = nil }))
	if err != nil || len(w) != 1 || !strings.Contains(w[0], "no queue") {
		t.Errorf("%q %v", w, err)
	}
	w, err = Check(checkConfig(t, func(c *config.Config) {
		c.Redis.URL = "redis://r:1?pool_size=3"
		c.Queues[0].Gate = &config.Gate{Type: "composite", Params: config.Params{"gates": []any{quota("userid", 1)}}}
		c.Queues = append(c.Queues, config.Queue{Name: "q-b", BaseURL: "http://gw", Gate: &config.Gate{Type: "composite", Params: config.Params{"gates": []any{quota("userid", 2)}}}})
	}))
	if err != nil || len(w) != 2 || !strings.Contains(w[0], "pool_size") || !strings.Contains(w[1], "quota:userid") {
		t.Errorf("%q %v", w, err)
	}
}

func checkConfig(t *testing.T, change func(*config.Config)) *config.Config {
	t.Helper()
	cfg := config.Default()
	cfg.Redis.URL, cfg.Queues, cfg.Pools = "redis://r:1", []config.Queue{{Name: "q-a", BaseURL: "http://gw"}}, []config.Pool{{ID: "default", Workers: 2}}
	change(cfg)
	if err := cfg.Complete(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// The lease of a pool's rate is shown by llm-d-async's names: its rate, whether it holds, and until when.
func TestMetricsOfLeasedRate(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) {
		c.Pools = []config.Pool{{ID: "default", Workers: 4, Gate: &config.Gate{Type: "wait-on-refuse", Params: config.Params{"gate": map[string]any{
			"gate_type": "redis-leased-rate", "gate_params": map[string]any{"address": c.Redis.URL, "control_key": "lease"}}}}}}
	})
	p := r.start(r.cfg)
	reg := prometheus.NewRegistry()
	if err := reg.Register(p.Collector()); err != nil {
		t.Fatal(err)
	}
	shows := func(name, v string) func() bool {
		return func() bool {
			return exposition(t, reg)["llm_d_async_async_drain_limit_"+name+`{pool_name="default"}`] == v
		}
	}
	r.until("no lease is shown", 10*time.Second, shows("lease_valid", "0"))
	r.submit(member("a", time.Minute, nil))
	until := time.Now().Add(time.Hour).UnixMilli() / 1000 * 1000
	r.do("HSET", "lease", "api_version", "llm-d.ai/v1alpha1", "pool_id", "default", "max_admission_rps", "12.5", "valid_until_unix_ms", fmt.Sprint(until), "decision_id", "d")
	r.until("the lease is shown", 10*time.Second, shows("lease_valid", "1"))
	r.results("res-a", 1, 20*time.Second)
	got := exposition(t, reg)
	if got[`llm_d_async_async_drain_limit_rps{pool_name="default"}`] != "12.5" {
		t.Errorf("%q", got[`llm_d_async_async_drain_limit_rps{pool_name="default"}`])
	}
	if end := got[`llm_d_async_async_drain_limit_valid_until_seconds{pool_name="default"}`]; !strings.HasPrefix(end, fmt.Sprintf("%.5g", float64(until)/1000)[:5]) {
		t.Errorf("it ends at %s, not %d", end, until/1000)
	}
	r.do("HSET", "lease", "max_admission_rps", "0") // a pause is a lease that holds
	r.until("the pause is shown", 10*time.Second, shows("rps", "0"))
	if !shows("lease_valid", "1")() {
		t.Error("a pause is no lease")
	}
	r.do("DEL", "lease")
	r.until("it is gone", 10*time.Second, shows("lease_valid", "0"))
}
