package scrape_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twolane/twolane/gate"
	"github.com/twolane/twolane/gate/scrape"
	"github.com/twolane/twolane/store"
)

// endpoint shows metrics, or does what no endpoint should.
type endpoint struct {
	*testing.T
	mu   sync.Mutex
	does http.HandlerFunc
	addr string
	srv  *http.Server
	done chan struct{}
}

func newEndpoint(t *testing.T) *endpoint {
	t.Helper()
	e := &endpoint{T: t, done: make(chan struct{})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e.addr = l.Addr().String()
	e.serve(l)
	t.Cleanup(func() { close(e.done); e.disappear() })
	return e
}

func (e *endpoint) serve(l net.Listener) {
	e.srv = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		f := e.does
		e.mu.Unlock()
		f(w, r)
	})}
	srv := e.srv
	go func() { _ = srv.Serve(l) }() // it ends with Close
}

func (e *endpoint) disappear() { _ = e.srv.Close() }

func (e *endpoint) comeBack() {
	l, err := net.Listen("tcp", e.addr)
	if err != nil {
		e.Fatal(err)
	}
	e.serve(l)
}

func (e *endpoint) set(f http.HandlerFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.does = f
}

func (e *endpoint) show(lines ...string) {
	e.set(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write([]byte(strings.Join(lines, "\n") + "\n"))
	})
}

func (e *endpoint) url() string { return "http://" + e.addr + "/metrics" }

func running(t *testing.T, cfg scrape.Config) *gate.Meter {
	t.Helper()
	cfg.Every, cfg.Stale, cfg.Timeout = 20*time.Millisecond, 300*time.Millisecond, 100*time.Millisecond
	m, err := scrape.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { m.Run(ctx) })
	t.Cleanup(func() { stop(); wg.Wait() })
	return m
}

func reads(t *testing.T, what string, m *gate.Meter, ok func(r gate.Reading) bool) {
	t.Helper()
	var r gate.Reading
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if r = m.Read(time.Now(), gate.Scope{Permits: 100}); ok(r) {
			return
		}
	}
	t.Errorf("%s: %+v", what, r)
}

func open(budget float64) func(gate.Reading) bool {
	return func(r gate.Reading) bool { return r.Up && r.Budget > budget-1e-9 && r.Budget < budget+1e-9 }
}

func lost(detail string) func(gate.Reading) bool {
	return func(r gate.Reading) bool {
		return !r.Up && r.Budget == 0 && r.Reason == gate.NoReading && strings.Contains(r.Detail, detail)
	}
}

// An endpoint that hangs, lies, disappears and comes back: the gate is closed meanwhile, says why, and opens again.
func TestEndpointMisbehaves(t *testing.T) {
	e := newEndpoint(t)
	e.show("# TYPE saturation gauge", "saturation 0.25")
	m := running(t, scrape.Config{URL: e.url(), Metric: "saturation"})
	good := func() {
		t.Helper()
		e.show("# TYPE saturation gauge", "saturation 0.25")
		reads(t, "good again", m, open(0.75))
	}
	good()
	text := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = w.Write([]byte(s))
		}
	}
	for _, c := range []struct {
		name string
		does http.HandlerFunc
		want string
	}{
		{"hangs", func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-e.done:
			case <-r.Context().Done():
			}
		}, "no answer in 100ms"},
		{"hangs in the middle", func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte("saturation "))
			w.(http.Flusher).Flush()
			select {
			case <-e.done:
			case <-r.Context().Done():
			}
		}, "no answer in 100ms"},
		{"a page", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write([]byte("<html>saturation 0.1</html>"))
		}, "text/html"},
		{"a page that says it is text", text("<html>\nsaturation 0.1\n</html>\n"), "cannot be read"},
		{"JSON as text", text(`{"saturation": 0.1}`), "cannot be read"},
		{"an error", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "saturation 0.1", http.StatusInternalServerError)
		}, "status 500"},
		{"NaN", text("saturation NaN\n"), "no number"},
		{"infinite", text("saturation +Inf\n"), "no number"},
		{"negative", text("saturation -3\n"), "negative"},
		{"no such metric", text("saturation_total 0.1\nother 1\n"), "not there"},
		{"nothing", text(""), "not there"},
		{"twice the same", text("saturation 0.1\nsaturation{} 0.1\n# TYPE saturation gauge\n"), "cannot be read"},
		{"endless", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			block := []byte(strings.Repeat("# filler filler filler filler filler filler filler filler filler\n", 1000))
			for r.Context().Err() == nil {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}, ""},
		{"led away", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.2:1/", http.StatusFound)
		}, "redirects"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e.set(c.does)
			reads(t, c.name, m, lost(c.want))
			good()
		})
	}
	e.disappear()
	reads(t, "it disappears", m, lost("refused"))
	e.comeBack()
	good()
	e.set(text("saturation 17\n"))
	reads(t, "over the top", m, open(0))
}

func TestHugeScrapes(t *testing.T) {
	e := newEndpoint(t)
	e.set(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("saturation 0.5\n" + strings.Repeat("# filler\n", 1000)))
	})
	m := running(t, scrape.Config{URL: e.url(), Metric: "saturation", Endpoint: scrape.Endpoint{MaxBytes: 1000}})
	reads(t, "too large", m, lost("more than 1000 bytes"))
}

func TestSeries(t *testing.T) {
	e, pods := newEndpoint(t), newEndpoint(t)
	e.show(`waiting{model="m",pod="1"} 3`, `waiting{model="m",pod="2"} 5`, `waiting{model="n",pod="1"} 100`)
	pods.show(`ready{name="p"} 4`, `ready{name="q"} 9`)
	m := map[string]string{"model": "m"}
	for name, c := range map[string]struct {
		cfg    scrape.Config
		budget float64
	}{
		"counts are added up":        {scrape.Config{Labels: m, MaxPerPod: 20}, 0.6},
		"less the baseline":          {scrape.Config{Labels: m, MaxPerPod: 20, Baseline: 0.1}, 0.5},
		"over pods":                  {scrape.Config{Labels: m, MaxPerPod: 10, PodsURL: pods.url(), PodsMetric: "ready", PodsLabels: map[string]string{"name": "p"}}, 0.8},
		"counted":                    {scrape.Config{Labels: m, MaxPerPod: 10, PodsURL: pods.url(), PodsMetric: "ready", PodsLabels: map[string]string{"name": "p"}, Counted: true}, 0.32},
		"a value for what is absent": {scrape.Config{Labels: map[string]string{"model": "new"}, MaxPerPod: 20, Absent: new(0.0)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.URL, c.cfg.Metric = e.url(), "waiting"
			reads(t, name, running(t, c.cfg), open(c.budget))
		})
	}
	e.show(`saturation{replica="1"} 0.2`, `saturation{replica="2"} 0.6`, `left{replica="1"} 0.2`, `left{replica="2"} 0.6`)
	reads(t, "the fullest counts", running(t, scrape.Config{URL: e.url(), Metric: "saturation"}), open(0.4))
	reads(t, "the least counts", running(t, scrape.Config{URL: e.url(), Metric: "left", Type: scrape.Budget, Baseline: 0.1}), open(0.1))
	pods.show(`ready{name="p"} 0`)
	cfg := scrape.Config{URL: e.url(), Metric: "saturation", MaxPerPod: 10, PodsURL: pods.url(), PodsMetric: "ready"}
	reads(t, "no pods", running(t, cfg), lost("number of pods"))
}

func TestSecretsAndConfig(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("saturation 0.5\n")) }))
	defer srv.Close()
	reads(t, "an authority that nobody knows", running(t, scrape.Config{URL: srv.URL, Metric: "saturation"}), lost("certificate"))
	reads(t, "without verification", running(t, scrape.Config{URL: srv.URL, Metric: "saturation", Endpoint: scrape.Endpoint{SkipVerify: true}}), open(0.5))
	ok := scrape.Config{URL: "http://x", Metric: "m"}
	for field, change := range map[string]func(*scrape.Config){
		"url": func(c *scrape.Config) { c.URL = "" }, "metric": func(c *scrape.Config) { c.Metric = "" }, "value_type": func(c *scrape.Config) { c.Type = "x" },
		"max_count_per_pod": func(c *scrape.Config) { c.MaxPerPod = -1 }, "baseline": func(c *scrape.Config) { c.Baseline = 1 },
		"pods_metric": func(c *scrape.Config) { c.PodsURL = "http://y" }, "pods_labels": func(c *scrape.Config) { c.PodsLabels = map[string]string{"a": "b"} },
		"pods_url": func(c *scrape.Config) { c.PodsURL, c.PodsMetric = "http://y", "m" }, "admission": func(c *scrape.Config) { c.Counted = true },
		"absent_value": func(c *scrape.Config) { c.Absent = new(-1.0) }, "bearer_file": func(c *scrape.Config) { c.BearerFile = "/nowhere" },
		"lag": func(c *scrape.Config) { c.Lag = -1 },
	} {
		cfg := ok
		change(&cfg)
		_, err := scrape.New(cfg)
		if e, ok := errors.AsType[*store.InvalidError](err); !ok || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	cfg := ok
	cfg.PodsURL, cfg.PodsMetric, cfg.MaxPerPod = "ftp://y", "m", 3
	if _, err := scrape.New(cfg); !strings.Contains(fmt.Sprint(err), "pods_url") {
		t.Error(err)
	}
}
