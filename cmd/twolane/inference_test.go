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
	text := `{"queues":[{"queue_name":"request-sortedset","igw_base_url":"` + gateway.URL + `","igw_bas_url":"typo"}]}`
	if err := os.WriteFile(transport, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	health, metrics := freePort(t), freePort(t)
	cmd := exec.Command(filepath.Join(dir, "twolane"), "inference", "-transport", "redis-sortedset", "--transport-config-file="+transport,
		"--health-port", strconv.Itoa(health), "--metrics-port", strconv.Itoa(metrics), "--drain-timeout=2s")
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
	if code, body := get(metrics, "/metrics"); code != 200 || !strings.Contains(body, "llm_d_async_async_successful_requests_total{") || !strings.Contains(body, "twolane_workers{") ||
		!strings.Contains(body, "twolane_inference_requests_taken_total{") {
		t.Errorf("metrics: %d, %d bytes", code, len(body))
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
