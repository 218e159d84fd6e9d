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
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, filepath.Join(dir, "twolane")); err != nil { // by this name the test binary is the program
		t.Fatal(err)
	}
	transport := filepath.Join(dir, "transport.json")
	text := `{"queues":[{"queue_name":"request-sortedset","igw_base_url":"` + gateway.URL + `","igw_bas_url":"typo"},
		{"queue_name":"gated","igw_base_url":"` + gateway.URL + `","gate_type":"redis","gate_params":{"address":"` + srv.URL() + `"}},
		{"queue_name":"leased","igw_base_url":"` + gateway.URL + `","worker_pool_id":"leased"}]}`
	pools := filepath.Join(dir, "pools.json")
	if err := os.WriteFile(pools, []byte(`[{"id":"default","workers":3},{"id":"leased","workers":1,"gate_type":"redis-leased-rate","gate_params":{"address":"`+srv.URL()+`","control_key":"k"}}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(transport, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	health, metrics := freePort(t), freePort(t)
	cmd := exec.Command(filepath.Join(dir, "twolane"), "inference", "-transport", "redis-sortedset", "--transport-config-file="+transport,
		"--pool-config-file", pools, "--health-port", strconv.Itoa(health), "--metrics-port", strconv.Itoa(metrics), "--drain-timeout=2s")
	cmd.Env = []string{"REDIS_URL=" + srv.URL(), "HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer cmd.Process.Kill()
	get := func(port int, path string) (int, string) {
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
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if code, body := get(health, "/readyz"); code == 200 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("not ready: %d %s\n%s", code, body, log.String())
		}
	}
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
		code, body := get(metrics, "/metrics")
		missing := slices.DeleteFunc(slices.Clone(named), func(name string) bool { return strings.Contains(body, "# TYPE "+name+" ") })
		if code == 200 && len(missing) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Errorf("metrics: %d, %d bytes, and none of %q", code, len(body), missing)
			break
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it ended with %v\n%s", err, log.String())
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it does not end")
	}
	if s := log.String(); !strings.Contains(s, "the key queues[0].igw_bas_url is unknown") || strings.Contains(s, `"level":"ERROR"`) {
		t.Error(s)
	}
}
