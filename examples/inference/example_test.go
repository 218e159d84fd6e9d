package inference

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The example runs as it stands, and what comes out is what its README says.
func TestRun(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // it builds two programs
	defer cancel()
	cmd := exec.CommandContext(ctx, "./run.sh")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it stops what it has started
	cmd.WaitDelay = 30 * time.Second
	cmd.Env = os.Environ()
	for _, name := range []string{"REDIS_PORT", "GATEWAY_PORT", "HEALTH_PORT", "METRICS_PORT"} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", name, ln.Addr().(*net.TCPAddr).Port))
		ln.Close()
	}
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, log.String())
	}
	text := string(out)
	ends := map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^\{.*\}$`).FindAllString(text, -1) {
		var r struct {
			ID   string `json:"id"`
			Code int    `json:"status_code"`
			Err  string `json:"error_code"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		ends[r.ID] = fmt.Sprintf("%d%s", r.Code, r.Err)
	}
	want := map[string]string{"bob-1": "200", "bob-2": "200", "late": "0DEADLINE_EXCEEDED", "regretted": "0CANCELLED", "broken": "0INVALID_REQUEST"}
	for i := range 12 {
		want[fmt.Sprint("alice-", i+1)] = "200"
	}
	for id, end := range want {
		if ends[id] != end {
			t.Errorf("%s ended with %q, want %q", id, ends[id], end)
		}
	}
	for _, re := range []string{`request_total\{.*queue_id="team-a".*\} 16\n`, `successful_requests_total\{.*\} 14\n`, `request_retries_total\{.*\} [1-9]`, `dead_letters_total\{.*\} 1\n`, `== stop\n$`} {
		if !regexp.MustCompile(re).MatchString(text) {
			t.Errorf("no %s in\n%s", re, text)
		}
	}
	if strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "msg=drained") {
		t.Error(log.String())
	}
}
