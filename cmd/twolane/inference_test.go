package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twolane/twolane/inference/wire"
	"github.com/twolane/twolane/internal/redistest"
)

func freePort(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

// theirMetrics are llm-d-async's that have a meaning here.
var theirMetrics = []string{
	"broker_backlog", "broker_backlog_source_available", "deadline_proximity_millis", "dispatch_budget", "dispatched_requests_total", "drain_limit_lease_valid",
	"drain_limit_rps", "drain_limit_valid_until_seconds", "exceeded_deadline_requests_total", "failed_requests_total", "gate_decisions_total",
	"gate_metric_source_available", "gate_metric_threshold", "gate_metric_value", "gate_wait_requeues_total", "inference_latency_time_millis", "inflight_requests",
	"pool_worker_limit", "queue_config_last_success_timestamp_seconds", "queue_config_reloads_total", "queue_depth", "queue_residence_time_millis",
	"request_retries_total", "request_total", "shedded_requests_total", "successful_requests_total", "tokens_total",
}

// documentedMetrics are the metrics that docs/inference.md tells to look at.
func documentedMetrics(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "inference.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\b(twolane|llm_d_async|async)_[a-z_]+[a-z]\b`).FindAllString(string(text), -1) {
		if strings.HasPrefix(m, "async_") {
			m = "llm_d_async_" + m
		}
		switch m {
		case "llm_d_async_async_message_latency_time_millis", "llm_d_async_async_aimd", "twolane_gate": // told to be not there, and a prefix
		default:
			names = append(names, m)
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) < 15 {
		t.Errorf("only %q were found", names)
	}
	return names
}

// The program runs on a plain machine with llm-d-async's flags and file, answers requests, shows itself, and ends well on SIGTERM.
func TestFault46InferenceRunsAnywhere(t *testing.T) {
	srv := redistest.Start(t)
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "answer") }))
	defer gateway.Close()
	dir := t.TempDir()
	text := `{"queues":[{"queue_name":"request-sortedset","igw_base_url":"` + gateway.URL + `","igw_bas_url":"typo"},
		{"queue_name":"gated","igw_base_url":"` + gateway.URL + `","gate_type":"redis","gate_params":{"address":"` + srv.URL() + `"}},
		{"queue_name":"leased","igw_base_url":"` + gateway.URL + `","worker_pool_id":"leased"}]}`
	pools := filepath.Join(dir, "pools.json")
	if err := os.WriteFile(pools, []byte(`[{"id":"default","workers":3},{"id":"leased","workers":1,"gate_type":"redis-leased-rate","gate_params":{"address":"`+srv.URL()+`","control_key":"k"}}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startInference(t, srv.URL(), text, "--pool-config-file", pools)
	p.untilReady()
	deadline := time.Now().Add(time.Minute).Unix()
	m := wire.Member{Kind: wire.KindPlain, Data: &wire.Data{ID: "a", Deadline: deadline, Payload: json.RawMessage(`{}`)}}
	raw, err := m.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := srv.Do(t.Context(), "ZADD", "request-sortedset", strconv.FormatInt(deadline, 10), string(raw)); err != nil {
		t.Fatal(err)
	}
	msg, err := srv.Do(t.Context(), "BRPOP", "result-list", "10")
	if err != nil {
		t.Fatal(err)
	}
	if kv, err := msg.AsStrSlice(); err != nil || kv[1] != `{"id":"a","status_code":200,"payload":"answer"}` {
		t.Errorf("%q %v", kv, err)
	}
	named := documentedMetrics(t)
	for _, name := range theirMetrics {
		named = append(named, "llm_d_async_async_"+name)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) { // some are there after the first look
		code, body := p.get(p.metrics, "/metrics")
		missing := slices.DeleteFunc(slices.Clone(named), func(name string) bool { return strings.Contains(body, "# TYPE "+name+" ") })
		if code == 200 && len(missing) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Errorf("metrics: %d, %d bytes, and none of %q", code, len(body), missing)
			break
		}
	}
	if s := p.stop(); !strings.Contains(s, "the key queues[0].igw_bas_url is unknown") || strings.Contains(s, `"level":"ERROR"`) {
		t.Error(s)
	}
}

// A Redis that comes up after the processor is waited for: the process lives and is not ready, and ends well when it is stopped meanwhile.
func TestInferenceWaitsForRedis(t *testing.T) {
	srv := redistest.Start(t)
	if err := srv.Stop(); err != nil {
		t.Fatal(err)
	}
	const text = `{"queues":[{"queue_name":"q","igw_base_url":"http://127.0.0.1:1"}]}`
	waits := func(p *program) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			code, body := p.get(p.health, "/readyz")
			if code == 503 && strings.Contains(body, "waited for") {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%d %s", code, body)
			}
		}
		if code, body := p.get(p.health, "/healthz"); code != 200 || body != `{"status":"ok"}`+"\n" {
			t.Errorf("%d %s", code, body)
		}
	}
	p := startInference(t, srv.URL(), text)
	waits(p)
	if s := p.stop(); strings.Count(s, "waited for") != 1 {
		t.Error(s)
	}
	p = startInference(t, srv.URL(), text)
	waits(p)
	if err := srv.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.untilReady()
	if s := p.stop(); !strings.Contains(s, "Redis answers") {
		t.Error(s)
	}
}

// program is twolane inference as a process, with llm-d-async's flags.
type program struct {
	*testing.T
	cmd             *exec.Cmd
	health, metrics int
	log             strings.Builder
	ended           chan error
}

func startInference(t *testing.T, redis, transport string, more ...string) *program {
	t.Helper()
	dir := t.TempDir()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, filepath.Join(dir, "twolane")); err != nil { // by this name the test binary is the program
		t.Fatal(err)
	}
	file := filepath.Join(dir, "transport.json")
	if err := os.WriteFile(file, []byte(transport), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &program{T: t, health: freePort(t), metrics: freePort(t), ended: make(chan error, 1)}
	p.cmd = exec.Command(filepath.Join(dir, "twolane"), append([]string{"inference", "-transport", "redis-sortedset", "--transport-config-file=" + file,
		"--health-port", strconv.Itoa(p.health), "--metrics-port", strconv.Itoa(p.metrics), "--drain-timeout=2s"}, more...)...)
	p.cmd.Env = []string{"REDIS_URL=" + redis, "HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	p.cmd.Stderr = &p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // it has ended, unless the test has failed
	return p
}

func (p *program) get(port int, path string) (int, string) {
	res, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(b)
}

func (p *program) untilReady() {
	p.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if code, body := p.get(p.health, "/readyz"); code == 200 {
			return
		} else if time.Now().After(end) {
			p.Fatalf("not ready: %d %s", code, body)
		}
	}
}

// stop stops it as Kubernetes does, and returns what it has said.
func (p *program) stop() string {
	p.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.Fatal(err)
	}
	select {
	case err := <-p.ended:
		if err != nil {
			p.Errorf("it ended with %v\n%s", err, p.log.String())
		}
	case <-time.After(20 * time.Second):
		p.Fatal("it does not end")
	}
	return p.log.String()
}
