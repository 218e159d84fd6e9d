package inference

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/twolane/twolane/inference/config"
	"github.com/twolane/twolane/inference/wire"
)

// buffer is a log that a test reads.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// An outage of Redis is told in the log, for the intake and for the results, and so is its end; good operation logs no errors (28).
func TestFault47And28Log(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) {
		c.Store.URL = "sqlite:" + t.TempDir() + "/q.db"
		c.Queues[0].Gate = quotaGate("redis-quota", config.Params{"limit": 1, "mode": "concurrency"})
	})
	var log buffer
	r.startWith(r.cfg, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, nil)
	r.submit(member("a", time.Minute, by("alice")))
	r.results("res-a", 1, 10*time.Second)
	if s := log.String(); strings.Contains(s, "ERROR") || strings.Contains(s, "WARN") {
		t.Errorf("good operation says\n%s", s)
	}
	release := make(chan struct{})
	r.gate.answer = func(w http.ResponseWriter, _ *http.Request, body string) {
		<-release
		io.WriteString(w, body)
	}
	r.submit(member("b", time.Minute, by("alice")))
	r.until("it is in flight", 10*time.Second, func() bool { return r.gate.count() == 2 })
	if err := r.srv.Stop(); err != nil {
		t.Fatal(err)
	}
	close(release)
	r.until("both are told", 20*time.Second, func() bool {
		s := log.String()
		return strings.Contains(s, "requests cannot be taken") && strings.Contains(s, "results cannot be delivered")
	})
	if err := r.srv.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.until("the end is told", 20*time.Second, func() bool {
		s := log.String()
		return strings.Contains(s, "requests are taken again") && strings.Contains(s, "results are delivered again")
	})
	if x := r.results("res-a", 1, 10*time.Second)[0]; x.ID != "b" || x.StatusCode != 200 {
		t.Errorf("%+v", x)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	p := r.start(r.cfg)
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		p.Health().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	if code, body := get("/healthz"); code != 200 || body != "{\"status\":\"ok\"}\n" {
		t.Errorf("%d %s", code, body)
	}
	r.until("it is ready", 10*time.Second, func() bool { code, _ := get("/readyz"); return code == 200 })
	if err := r.srv.Pause(); err != nil {
		t.Fatal(err)
	}
	if code, body := get("/readyz"); code != 503 || !strings.Contains(body, "Redis does not answer") {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := get("/healthz"); code != 200 {
		t.Errorf("%d", code)
	}
	if err := r.srv.Resume(); err != nil {
		t.Fatal(err)
	}
	r.until("it is ready again", 20*time.Second, func() bool { code, _ := get("/readyz"); return code == 200 })
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	if code, body := get("/readyz"); code != 503 || !strings.Contains(body, "stopping") {
		t.Errorf("%d %s", code, body)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) {
		c.Serve.BacklogPoll = 50 * time.Millisecond
		c.Queues = append(c.Queues, config.Queue{ID: "none", Name: "q-none", BaseURL: c.Queues[0].BaseURL, Gate: &config.Gate{Type: "redis", Params: config.Params{"address": c.Redis.URL}}})
	})
	r.gate.answer = func(w http.ResponseWriter, req *http.Request, _ string) {
		switch {
		case req.URL.Path == "/400":
			w.WriteHeader(http.StatusBadRequest)
		case req.URL.Path == "/429" && r.gate.count() < 5:
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			io.WriteString(w, `{"choices":[{"text":"the \"usage\": {\"prompt_tokens\":9}"}],"usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}}`)
		}
	}
	p := r.start(r.cfg)
	for i, path := range []string{"/", "/", "/400", "/429"} {
		r.submit(member("a", time.Minute, func(m *wire.Member) { m.Data.Endpoint = path }))
		r.until("it was sent", 20*time.Second, func() bool { return r.gate.count() > i })
	}
	r.submit(member("late", -time.Minute, nil))
	r.do("ZADD", "q-a", "1", "no request")
	r.results("res-a", 5, 20*time.Second)
	r.until("the dead letter is ended", 10*time.Second, func() bool { return p.numbers.ofID("q-a").dead.Load() == 1 })
	reg := prometheus.NewRegistry()
	if err := reg.Register(p.Collector()); err != nil {
		t.Fatal(err)
	}
	labels := `{pool_name="default",queue_id="q-a",queue_name="q-a"`
	want := map[string]string{
		"llm_d_async_async_request_total" + labels + "}":                                  "4",
		"llm_d_async_async_request_retries_total" + labels + "}":                          "1",
		"llm_d_async_async_successful_requests_total" + labels + "}":                      "3",
		"llm_d_async_async_failed_requests_total" + labels + "}":                          "1",
		"llm_d_async_async_exceeded_deadline_requests_total" + labels + "}":               "1",
		"llm_d_async_async_shedded_requests_total" + labels + "}":                         "1",
		"llm_d_async_async_dispatched_requests_total" + labels + "}":                      "5",
		"llm_d_async_async_inflight_requests" + labels + "}":                              "0",
		"llm_d_async_async_broker_backlog" + labels + "}":                                 "0",
		"llm_d_async_async_inference_latency_time_millis_count" + labels + "}":            "5",
		"llm_d_async_async_queue_residence_time_millis_count" + labels + "}":              "4",
		`llm_d_async_async_tokens_total{direction="input",` + labels[1:] + "}":            "21",
		`llm_d_async_async_tokens_total{direction="output",` + labels[1:] + "}":           "15",
		`llm_d_async_async_pool_worker_limit{pool_name="default"}`:                        "64",
		"llm_d_async_async_gate_wait_requeues_total" + labels + "}":                       "0",
		"twolane_inference_requests_taken_total" + labels + "}":                           "5",
		"twolane_inference_dead_letters_total" + labels + "}":                             "1",
		`twolane_inference_requests_ended_total{outcome="ok",` + labels[1:] + "}":         "3",
		`twolane_inference_requests_ended_total{outcome="http_error",` + labels[1:] + "}": "1",
	}
	r.until("the numbers are there", 10*time.Second, func() bool { p.backlog.mu.Lock(); defer p.backlog.mu.Unlock(); return p.backlog.sets != nil })
	got := exposition(t, reg)
	for name, v := range want {
		if got[name] != v {
			t.Errorf("%s is %q, want %s", name, got[name], v)
		}
	}
	none := `queue_id="none",queue_name="q-none"`
	if v := got[`llm_d_async_async_gate_decisions_total{pool_name="default",`+none+`,reason="gate_closed"}`]; v == "" {
		t.Errorf("no decisions of the gate: %q", v)
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range problems {
		if !strings.HasPrefix(x.Metric, "llm_d_async_") {
			t.Errorf("%s: %s", x.Metric, x.Text)
		}
	}
	p.cfg.Serve.UpstreamNames = false
	for name := range exposition(t, reg) {
		if strings.HasPrefix(name, "llm_d") {
			t.Errorf("%s is shown although the switch is off", name)
		}
	}

}

// exposition reads the text format: name and labels, and the value.
func exposition(t *testing.T, reg *prometheus.Registry) map[string]string {
	t.Helper()
	fams, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range fams {
		for _, m := range f.Metric {
			var ls []string
			for _, l := range m.Label {
				ls = append(ls, l.GetName()+`="`+l.GetValue()+`"`)
			}
			name := f.GetName()
			v := m.GetCounter().GetValue() + m.GetGauge().GetValue()
			if m.Histogram != nil {
				name, v = name+"_count", float64(m.Histogram.GetSampleCount())
			}
			if len(ls) > 0 {
				name += "{" + strings.Join(ls, ",") + "}"
			}
			out[name] = strconv.FormatFloat(v, 'g', -1, 64)
		}
	}
	return out
}

// Queues come, change and go while it runs; what cannot be read leaves those in force.
func TestReload(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) { c.Serve.Reload = 50 * time.Millisecond })
	var mu sync.Mutex
	queues, fails := r.cfg.Queues, error(nil)
	set := func(qs []config.Queue, err error) {
		mu.Lock()
		defer mu.Unlock()
		queues, fails = qs, err
	}
	p := r.startWith(r.cfg, Options{Queues: func() ([]config.Queue, error) {
		mu.Lock()
		defer mu.Unlock()
		return append([]config.Queue(nil), queues...), fails
	}}, nil)
	to := func(q string) func(*wire.Member) { return func(m *wire.Member) { m.Internal.RequestQueue = q } }
	r.submit(member("a", time.Minute, nil))
	r.results("res-a", 1, 10*time.Second)
	// Another one comes, and the first one changes, while a request is in flight.
	release := make(chan struct{})
	r.gate.answer = func(_ http.ResponseWriter, req *http.Request, _ string) {
		if req.URL.Path == "/hold" {
			<-release
		}
	}
	r.submit(member("held", time.Minute, func(m *wire.Member) { m.Data.Endpoint = "/hold" }))
	r.until("it is in flight", 10*time.Second, func() bool { return r.gate.count() == 2 })
	complete := &config.Config{Pools: r.cfg.Pools, Intake: r.cfg.Intake, Queues: []config.Queue{
		{Name: "q-a", BaseURL: r.gate.URL, Path: "/changed"}, {Name: "q-new", BaseURL: r.gate.URL}}}
	if err := complete.CompleteQueues(); err != nil {
		t.Fatal(err)
	}
	set(complete.Queues, nil)
	r.submit(member("b", time.Minute, to("q-new")))
	r.results("res-a", 1, 10*time.Second)
	r.until("the change holds", 10*time.Second, func() bool {
		r.submit(member("c", time.Minute, nil))
		r.results("res-a", 1, 10*time.Second)
		seen := r.gate.seen()
		return seen[len(seen)-1].path == "/changed"
	})
	bad := append([]config.Queue(nil), complete.Queues...)
	bad[0].Path, bad[0].Gate = "/bad", &config.Gate{Type: "prometheus-query", Params: config.Params{"query": "q"}} // there is no Prometheus to ask
	for _, what := range []func(){func() { set(nil, io.ErrUnexpectedEOF) }, func() { set(bad, nil) }} {
		what()
		n := p.numbers.reloadBad.Load()
		r.until("it was refused", 10*time.Second, func() bool { return p.numbers.reloadBad.Load() > n+1 })
		r.submit(member("refused", time.Minute, nil))
		r.results("res-a", 1, 10*time.Second)
		if seen := r.gate.seen(); seen[len(seen)-1].path != "/changed" {
			t.Errorf("a refused change holds: %s", seen[len(seen)-1].path)
		}
	}
	r.submit(member("d", time.Minute, to("q-new")))
	r.results("res-a", 1, 10*time.Second)
	close(release)
	if x := r.results("res-a", 1, 10*time.Second)[0]; x.ID != "held" || x.StatusCode != 200 {
		t.Errorf("%+v", x)
	}
	// One goes: its requests stay in their set.
	set(complete.Queues[:1], nil)
	r.until("it is gone", 10*time.Second, func() bool { return p.queue("q-new") == nil })
	time.Sleep(100 * time.Millisecond)
	r.submit(member("e", time.Minute, to("q-new")), member("f", time.Minute, nil))
	if x := r.results("res-a", 1, 10*time.Second)[0]; x.ID != "f" || r.do("ZCARD", "q-new")[0] != "1" {
		t.Errorf("%+v", x)
	}
	if p.numbers.reloadOK.Load() == 0 || p.numbers.reloadBad.Load() == 0 {
		t.Error("reloads are not counted")
	}
	reg := prometheus.NewRegistry()
	if err := reg.Register(p.Collector()); err != nil {
		t.Fatal(err)
	}
	got := exposition(t, reg)
	for _, name := range []string{`llm_d_async_async_queue_config_reloads_total{result="success"}`, `llm_d_async_async_queue_config_reloads_total{result="error"}`,
		"llm_d_async_async_queue_config_last_success_timestamp_seconds", `twolane_inference_queue_reloads_total{result="error"}`} {
		if got[name] == "0" || got[name] == "" {
			t.Errorf("%s is %q", name, got[name])
		}
	}
}
