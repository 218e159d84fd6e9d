// Package promtest runs real Prometheus servers for tests: each in a folder and on a port of its own, gone with the test.
package promtest

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Bin is the Prometheus program: that of TWOLANE_PROMETHEUS, or the one in the path. The test is skipped if there is none.
func Bin(t testing.TB) string {
	t.Helper()
	if bin := os.Getenv("TWOLANE_PROMETHEUS"); bin != "" {
		return bin
	}
	bin, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("there is no prometheus in the path. Install it (Debian: apt-get install prometheus), or name one in TWOLANE_PROMETHEUS")
	}
	return bin
}

// Server is a Prometheus.
type Server struct {
	URL string // of its API
	bin string
	dir string
	arg []string
	cmd *exec.Cmd
	end chan error
}

// Start runs a server that scrapes the metrics at targets, host and port each, every 200 ms. web is its file of TLS and users, "" for neither. It is ready when Start returns.
func Start(t testing.TB, web string, targets ...string) *Server {
	t.Helper()
	s := &Server{bin: Bin(t), dir: t.TempDir()}
	config := "global: {scrape_interval: 200ms, scrape_timeout: 200ms}\nscrape_configs:\n- job_name: test\n  static_configs:\n  - targets: ['" +
		strings.Join(targets, "', '") + "']\n"
	if err := os.WriteFile(filepath.Join(s.dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	s.URL = "http://" + addr
	s.arg = []string{"--config.file=" + filepath.Join(s.dir, "prometheus.yml"), "--storage.tsdb.path=" + filepath.Join(s.dir, "data"), "--web.listen-address=" + addr}
	if web != "" {
		file := filepath.Join(s.dir, "web.yml")
		if err := os.WriteFile(file, []byte(web), 0o600); err != nil {
			t.Fatal(err)
		}
		s.arg = append(s.arg, "--web.config.file="+file)
		if strings.Contains(web, "tls_server_config") {
			s.URL = "https://" + addr
		}
	}
	t.Cleanup(func() { s.Stop() })
	s.Restart(t)
	return s
}

// Restart starts a server that was stopped, on the same port.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	var out bytes.Buffer
	s.cmd = exec.Command(s.bin, s.arg...)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.dir, &out, &out
	s.cmd.SysProcAttr = childAttr()
	end := make(chan error, 1)
	started := make(chan error)
	go func() {
		stay() // the child is to die with this thread, which must not die before it
		err := s.cmd.Start()
		started <- err
		if err == nil {
			end <- s.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	s.end = end
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		select {
		case err := <-end:
			t.Fatalf("prometheus has ended: %v\n%s", err, out.Bytes())
		default:
		}
		if s.answers() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("prometheus does not answer for 30 s")
		}
	}
}

// answers reports whether something answers on the port that speaks HTTP, whatever it says about who may ask.
func (s *Server) answers() bool {
	if strings.HasPrefix(s.URL, "https") {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "https://"))
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}
	res, err := http.Get(s.URL + "/-/ready")
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK || res.StatusCode == http.StatusUnauthorized
}

// Stop kills the server and waits for its end. It may be called again.
func (s *Server) Stop() {
	if s.end == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.end
	s.end = nil
}

func (s *Server) String() string { return fmt.Sprintf("prometheus at %s", s.URL) }
