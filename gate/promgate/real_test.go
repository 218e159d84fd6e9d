package promgate_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twolane/twolane/gate"
	"github.com/twolane/twolane/gate/promgate"
	"github.com/twolane/twolane/internal/promtest"
	"github.com/twolane/twolane/internal/redistest"
	"github.com/twolane/twolane/store"
)

// exporter shows what a test sets.
type exporter struct {
	mu   sync.Mutex
	text string
}

func (e *exporter) set(lines ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.text = strings.Join(lines, "\n") + "\n"
}

func (e *exporter) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	_, _ = w.Write([]byte(e.text))
}

// real is a Prometheus that scrapes an exporter.
func real(t *testing.T) (*promtest.Server, *exporter) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	e := &exporter{}
	e.set("up_to_date 1")
	srv := httptest.NewServer(e)
	t.Cleanup(srv.Close)
	return promtest.Start(t, "", strings.TrimPrefix(srv.URL, "http://")), e
}

func client(t *testing.T, cfg promgate.ClientConfig) *promgate.Client {
	t.Helper()
	if cfg.Cache == 0 {
		cfg.Cache = -1
	}
	c, err := promgate.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// eventually waits until ok, and says what was there at the end if it does not come.
func eventually(t *testing.T, what string, ok func() (bool, string)) {
	t.Helper()
	last := ""
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var done bool
		if done, last = ok(); done {
			return
		}
	}
	t.Fatalf("%s: %s", what, last)
}

// running runs a gate as a worker does.
func running(t *testing.T, m *gate.Meter) *gate.Meter {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { m.Run(ctx) })
	t.Cleanup(func() { stop(); wg.Wait() })
	return m
}

// reads waits until a gate has a budget.
func reads(t *testing.T, what string, m *gate.Meter, budget float64) gate.Reading {
	t.Helper()
	var r gate.Reading
	eventually(t, what, func() (bool, string) {
		r = m.Read(time.Now(), gate.Scope{Permits: 10})
		return r.Budget > budget-1e-9 && r.Budget < budget+1e-9, fmt.Sprintf("budget %v, want %v: %+v", r.Budget, budget, r)
	})
	return r
}

// lost waits until a gate has no reading.
func lost(t *testing.T, what string, m *gate.Meter) {
	t.Helper()
	eventually(t, what, func() (bool, string) {
		r := m.Read(time.Now(), gate.Scope{Permits: 10})
		return r.Reason == gate.NoReading && r.Budget == 0 && !r.Up, fmt.Sprintf("%+v", r)
	})
}

var quick = promgate.Timing{Every: 50 * time.Millisecond, Stale: time.Second}

func TestRealQueries(t *testing.T) {
	p, e := real(t)
	c := client(t, promgate.ClientConfig{URL: p.URL})
	e.set(`free{pool="a"} 0.25`, `free{pool="b"} 0.75`)
	ask := func(expr string) (float64, error) {
		s, err := c.Query(t.Context(), expr)
		return s.Value, err
	}
	eventually(t, "the first scrape", func() (bool, string) {
		v, err := ask(`free{pool="a"}`)
		return err == nil && v == 0.25, fmt.Sprint(v, err)
	})
	for expr, want := range map[string]float64{`max(free)`: 0.75, `0.5`: 0.5, `scalar(free{pool="b"})`: 0.75, `sum(free)`: 1, `vector(-1)`: -1} {
		if v, err := ask(expr); err != nil || v != want {
			t.Errorf("%s: %v %v, want %v", expr, v, err, want)
		}
	}
	for expr, want := range map[string]error{
		`free`: promgate.ErrManySeries, `nothing`: promgate.ErrNoSeries, `vector(NaN)`: promgate.ErrNoNumber, `scalar(nothing)`: promgate.ErrNoNumber,
		`max(free) / 0`: promgate.ErrNoNumber, `"text"`: promgate.ErrNoNumber, `free[1m]`: promgate.ErrNoNumber,
	} {
		if v, err := ask(expr); !errors.Is(err, want) {
			t.Errorf("%s: %v %v, want %v", expr, v, err, want)
		}
	}
	if _, err := ask(`max(free`); err == nil || !strings.Contains(err.Error(), "bad_data") {
		t.Errorf("a broken expression: %v", err)
	}
}

// The gate of a query, through its life: it opens, it closes, Prometheus goes away and comes back.
func TestRealPrometheusGoesAndComesBack(t *testing.T) {
	p, e := real(t)
	e.set("free 0.5")
	m, err := promgate.NewQuery(client(t, promgate.ClientConfig{URL: p.URL, Timeout: time.Second}), promgate.QueryConfig{Query: "free", Timing: quick})
	if err != nil {
		t.Fatal(err)
	}
	if r := m.Read(time.Now(), gate.Scope{}); r.Budget != 0 || r.Up || r.Reason != gate.NoReading {
		t.Errorf("before the first answer: %+v", r)
	}
	running(t, m)
	if r := reads(t, "open", m, 0.5); !r.Up || r.Lag != 15*time.Second {
		t.Errorf("%+v", r)
	}
	e.set("free 7")
	reads(t, "clamped", m, 1)
	e.set("free -7")
	reads(t, "closed", m, 0)
	e.set("free 0.5")
	reads(t, "open again", m, 0.5)
	e.set("other 1")
	if r := reads(t, "the series is gone", m, 0); r.Up || !strings.Contains(r.Detail, "no series") {
		t.Errorf("%+v", r)
	}
	e.set("free 0.5")
	reads(t, "the series is back", m, 0.5)
	p.Stop()
	if r := reads(t, "Prometheus is gone", m, 0); r.Up || r.Reason != gate.NoReading || !strings.Contains(r.Detail, "refused") {
		t.Errorf("%+v", r)
	}
	p.Restart(t)
	if r := reads(t, "Prometheus is back", m, 0.5); !r.Up {
		t.Errorf("%+v", r)
	}
}

func TestRealSaturation(t *testing.T) {
	p, e := real(t)
	c := client(t, promgate.ClientConfig{URL: p.URL})
	m, err := promgate.NewSaturation(c, promgate.SaturationConfig{PoolConfig: promgate.PoolConfig{Pool: `llama-"7b"`, Namespace: "ns"}, Threshold: 0.6, Timing: quick})
	if err != nil {
		t.Fatal(err)
	}
	running(t, m)
	series := func(name, pool, ns string, v float64) string {
		return fmt.Sprintf(`%s{inference_pool=%q,namespace=%q,replica="%v"} %v`, name, pool, ns, v, v)
	}
	const old, renamed = "inference_extension_flow_control_pool_saturation", "llm_d_epp_flow_control_pool_saturation"
	e.set(series(old, `llama-"7b"`, "ns", 0.2), series(old, `llama-"7b"`, "other", 0.9), series(old, "qwen", "ns", 0.9))
	if r := reads(t, "by its old name", m, 0.4); r.Value != 0.2 || r.Threshold != 0.6 {
		t.Errorf("%+v", r)
	}
	e.set(series(old, `llama-"7b"`, "ns", 0.1), series(renamed, `llama-"7b"`, "ns", 0.3), series(renamed, `llama-"7b"`, "ns", 0.5))
	reads(t, "two replicas, by the new name", m, 0.1)
	e.set(series(renamed, `llama-"7b"`, "ns", 0.6))
	if r := reads(t, "at the threshold", m, 0); r.Reason == gate.NoReading || !r.Up {
		t.Errorf("%+v", r)
	}
	e.set(series(renamed, "qwen", "ns", 0))
	lost(t, "no such pool", m)
}

// The cascade uses the first of its sources that answers, and both names of each.
func TestRealBudgetCascade(t *testing.T) {
	p, e := real(t)
	c := client(t, promgate.ClientConfig{URL: p.URL})
	m, err := promgate.NewBudget(c, promgate.BudgetConfig{PoolConfig: promgate.PoolConfig{Pool: "p"}, MaxConcurrency: 10, Baseline: new(0.1), Timing: quick})
	if err != nil {
		t.Fatal(err)
	}
	running(t, m)
	pods, podsNew := `inference_pool_ready_pods{name="p"} 4`, `llm_d_epp_ready_endpoints{name="p",replica="1"} 4`
	running := `vllm:num_requests_running{inference_pool="p",pod="1"} 10` + "\n" + `vllm:num_requests_running{inference_pool="p",pod="2"} 10`
	perPod := `inference_pool_per_pod_queue_size{name="p",pod="1"} 2` + "\n" + `inference_pool_per_pod_queue_size{name="p",pod="2"} 4`
	flow := `inference_extension_flow_control_queue_size{inference_pool="p",priority="0"} 3` + "\n" + `inference_extension_flow_control_queue_size{inference_pool="p",priority="1"} 1`
	e.set(pods, running)
	if r := reads(t, "running requests", m, 0.4); !strings.Contains(r.Detail, "running requests") || r.Value != 0.5 || r.Threshold != 0.9 { // 1 - 20/40 - 0.1
		t.Errorf("%+v", r)
	}
	e.set(pods, running, perPod)
	reads(t, "queues of the pods", m, 0.6) // 1 - 3/10 - 0.1
	e.set(pods, podsNew, `llm_d_epp_ready_endpoints{name="p",replica="2"} 4`, running, perPod, flow, strings.ReplaceAll(flow, "inference_extension_", "llm_d_epp_"))
	if r := reads(t, "the flow control queue, by both names", m, 0.8); !strings.Contains(r.Detail, "flow control") { // 1 - 4/40 - 0.1
		t.Errorf("%+v", r)
	}
	e.set(strings.Replace(pods, "4", "0", 1), `inference_extension_flow_control_queue_size{inference_pool="p"} 0`)
	lost(t, "no pods", m)
	e.set(pods, `inference_extension_flow_control_queue_size{inference_pool="p"} 4`)
	reads(t, "pods again", m, 0.8)
	e.set(pods, `inference_extension_flow_control_queue_size{inference_pool="p"} 36`)
	if r := reads(t, "nothing but the baseline is left", m, 0); r.Reason == gate.NoReading || !r.Up {
		t.Errorf("%+v", r)
	}
}

// A server that wants TLS and a password gets both, and the file of the password may be replaced.
func TestRealTLSAndPassword(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	dir := t.TempDir()
	certs, err := redistest.MakeCertificates(dir)
	if err != nil {
		t.Fatal(err)
	}
	web := fmt.Sprintf("tls_server_config: {cert_file: %q, key_file: %q, client_ca_file: %q, client_auth_type: RequireAndVerifyClientCert}\n",
		certs.ServerCertFile, certs.ServerKeyFile, certs.CAFile) +
		"basic_auth_users:\n  reader: $2b$04$dk49RwwW/wV8AFtlDqO7q.R3wBmqpu1KnqVZTlknD/fbu5DB09D2S\n" // sesame
	p := promtest.Start(t, web)
	file := filepath.Join(dir, "password")
	write := func(s string) {
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("sesame\n")
	cfg := promgate.ClientConfig{URL: p.URL, User: "reader", PasswordFile: file, CAFile: certs.CAFile, CertFile: certs.ClientCertFile, KeyFile: certs.ClientKeyFile}
	c := client(t, cfg)
	eventually(t, "an answer", func() (bool, string) { // at first it is not ready
		s, err := c.Query(t.Context(), "vector(42)")
		return err == nil && s.Value == 42, fmt.Sprint(s, err)
	})
	write("wrong")
	if _, err := c.Query(t.Context(), "vector(42)"); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("with a wrong password: %v", err)
	}
	write("sesame")
	if _, err := c.Query(t.Context(), "vector(42)"); err != nil {
		t.Errorf("after the file was put right: %v", err)
	}
	bare := cfg
	bare.CertFile, bare.KeyFile = "", ""
	if _, err := client(t, bare).Query(t.Context(), "vector(42)"); err == nil {
		t.Error("answered without a certificate")
	}
	bare = cfg
	bare.CAFile = ""
	if _, err := client(t, bare).Query(t.Context(), "vector(42)"); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("with an authority that nobody knows: %v", err)
	}
	bare.SkipVerify = true
	if _, err := client(t, bare).Query(t.Context(), "vector(42)"); err != nil {
		t.Errorf("without verification: %v", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for field, cfg := range map[string]promgate.ClientConfig{
		"url": {}, "bearer_file": {URL: "http://x", BearerFile: "/nowhere"}, "password_file": {URL: "http://x", User: "u"}, "key_file": {URL: "https://x", CertFile: "c"},
		"ca_file": {URL: "https://x", CAFile: "/nowhere"}, "skip_verify": {URL: "https://x", SkipVerify: true, CAFile: "c"}, "timeout": {URL: "http://x", Timeout: -1},
	} {
		_, err := promgate.NewClient(cfg)
		if e, ok := errors.AsType[*store.InvalidError](err); !ok || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, u := range []string{"ftp://x", "x:9090", "http://", "http://user:secret@x", "http://x:y z", "https://x y"} {
		_, err := promgate.NewClient(promgate.ClientConfig{URL: u})
		if e, ok := errors.AsType[*store.InvalidError](err); !ok || e.Field != "url" || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", u, err)
		}
	}
	c := client(t, promgate.ClientConfig{URL: "http://127.0.0.1:1"})
	for field, err := range map[string]error{
		"query":           second(promgate.NewQuery(c, promgate.QueryConfig{})),
		"pool":            second(promgate.NewSaturation(c, promgate.SaturationConfig{})),
		"threshold":       second(promgate.NewSaturation(c, promgate.SaturationConfig{PoolConfig: promgate.PoolConfig{Pool: "p"}, Threshold: 7})),
		"baseline":        second(promgate.NewBudget(c, promgate.BudgetConfig{PoolConfig: promgate.PoolConfig{Pool: "p"}, Baseline: new(1.0)})),
		"max_concurrency": second(promgate.NewBudget(c, promgate.BudgetConfig{PoolConfig: promgate.PoolConfig{Pool: "p"}, MaxConcurrency: 0.5})),
		"fallback":        second(promgate.NewQuery(c, promgate.QueryConfig{Query: "x", Timing: promgate.Timing{Fallback: new(2.0)}})),
		"step":            second(promgate.NewQuery(c, promgate.QueryConfig{Query: "x", Timing: promgate.Timing{Lag: -1, Step: 0.5}})),
		"stale":           second(promgate.NewQuery(c, promgate.QueryConfig{Query: "x", Timing: promgate.Timing{Every: time.Minute, Stale: time.Second}})),
	} {
		if e, ok := errors.AsType[*store.InvalidError](err); !ok || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func second(_ *gate.Meter, err error) error { return err }
