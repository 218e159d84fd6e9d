package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("REDISTEST_ORPHAN_DIR"); dir != "" {
		orphan(dir)
	}
	Main(m)
}

func TestStartGivesSeparateServersWithTheDefaults(t *testing.T) {
	a, b := Start(t), Start(t, "--appendonly", "yes")
	if a.Addr() == b.Addr() || a.Pid() == b.Pid() {
		t.Fatalf("two servers share an address or a process: %s %d, %s %d", a.Addr(), a.Pid(), b.Addr(), b.Pid())
	}
	for _, c := range []struct {
		srv        *Server
		name, want string
	}{
		{a, "save", ""}, {a, "appendonly", "no"}, {b, "appendonly", "yes"}, {a, "bind", "127.0.0.1"}, {a, "dir", a.Dir()},
	} {
		if got, err := c.srv.config(t.Context(), c.name); err != nil || got != c.want {
			t.Errorf("config %s = %q, %v, want %q", c.name, got, err, c.want)
		}
	}
	if a.URL() != "redis://"+a.Addr() {
		t.Errorf("URL = %q", a.URL())
	}
}

func TestRestartKeepsPortAndAppendOnlyData(t *testing.T) {
	ctx := t.Context()
	for name, end := range map[string]func(*Server) error{"stop": (*Server).Stop, "kill": (*Server).Kill} {
		t.Run(name, func(t *testing.T) {
			srv := Start(t, "--appendonly", "yes", "--appendfsync", "always")
			addr, pid := srv.Addr(), srv.Pid()
			mustDo(t, srv, "SET", "k", "v")
			if err := end(srv); err != nil {
				t.Fatal(err)
			}
			if srv.Pid() != 0 {
				t.Error("a stopped server has a pid")
			}
			if _, err := srv.Do(ctx, "PING"); err == nil {
				t.Error("a stopped server answers")
			}
			if err := srv.Restart(ctx); err != nil {
				t.Fatal(err)
			}
			if srv.Addr() != addr || srv.Pid() == pid || srv.Pid() == 0 {
				t.Errorf("after the restart: %s pid %d, before %s pid %d", srv.Addr(), srv.Pid(), addr, pid)
			}
			if got := mustDo(t, srv, "GET", "k"); got != "v" {
				t.Errorf("GET k = %q, want v", got)
			}
		})
	}
}

func TestRestartOfARunningServerStopsItFirst(t *testing.T) {
	srv := Start(t)
	pid := srv.Pid()
	mustDo(t, srv, "SET", "k", "v")
	if err := srv.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if srv.Pid() == pid {
		t.Error("the process is the same")
	}
	if got := mustDo(t, srv, "EXISTS", "k"); got != "0" {
		t.Errorf("EXISTS k = %q: data survived without persistence", got)
	}
}

func TestPauseKeepsConnectionsAndAnswersNothing(t *testing.T) {
	srv := Start(t)
	c, err := srv.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := srv.Pause(); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() { answer <- c.Do(t.Context(), c.B().Ping().Build()).Error() }()
	select {
	case err := <-answer:
		t.Errorf("a paused server answered (%v)", err)
	case <-time.After(100 * time.Millisecond):
	}
	if err := srv.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := <-answer; err != nil {
		t.Errorf("the call in flight failed after the pause: %v", err)
	}
	if err := srv.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := srv.Stop(); err != nil {
		t.Errorf("stop of a paused server: %v", err)
	}
	if err := srv.Pause(); err == nil {
		t.Error("a server that does not run was paused")
	}
}

func TestRunNamesTheReasonWhenTheServerDoesNotStart(t *testing.T) {
	if err := ensureServer(); err != nil {
		t.Fatal(err)
	}
	_, err := Run(t.Context(), t.TempDir(), "--no-such-directive", "1")
	if err == nil || !strings.Contains(err.Error(), "no-such-directive") {
		t.Errorf("Run with a bad option: %v", err)
	}
	t.Setenv(EnvServer, filepath.Join(t.TempDir(), "nothing"))
	if _, err := Run(t.Context(), t.TempDir()); !errors.Is(err, ErrNoServer) {
		t.Errorf("Run without a program: %v, want ErrNoServer", err)
	}
	t.Setenv(EnvServer, "")
	t.Setenv("PATH", t.TempDir())
	if _, err := Run(t.Context(), t.TempDir()); !errors.Is(err, ErrNoServer) || !strings.Contains(err.Error(), "apt-get install") {
		t.Errorf("Run with an empty PATH: %v, want ErrNoServer and what to type", err)
	}
}

func TestTheServerOfAnotherProcessIsNotMistakenForOurs(t *testing.T) {
	srv := Start(t)
	if err := srv.probe(t.Context(), srv.Pid()); err != nil {
		t.Errorf("probe of our own server: %v", err)
	}
	if err := srv.probe(t.Context(), os.Getpid()); err == nil {
		t.Error("probe accepted a server with another process id")
	}
}

func TestDiedNoticesAnEndThatNobodyAskedFor(t *testing.T) {
	srv := Start(t)
	if err := srv.died(); err != nil {
		t.Fatalf("a running server: %v", err)
	}
	if err := syscall.Kill(srv.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-srv.proc.done
	if err := srv.died(); err == nil {
		t.Error("a server that was killed from outside is not reported")
	}
	if err := srv.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := srv.died(); err != nil {
		t.Errorf("after Kill: %v", err)
	}
}

func TestSharedIsOneServer(t *testing.T) {
	a, b := Shared(t), Shared(t)
	if a != b {
		t.Error("two shared servers")
	}
	mustDo(t, a, "PING")
}

func TestUserIsTheOnlyWayIn(t *testing.T) {
	srv := StartUser(t, "ann", "s3cret/?", []string{"~ann:*", "+@all"})
	for range 2 {
		if err := ping(t.Context(), srv.URL(), nil); err != nil {
			t.Errorf("the user of the URL: %v", err)
		}
		if err := ping(t.Context(), "redis://"+srv.Addr(), nil); err == nil {
			t.Error("the default user may enter")
		}
		if err := srv.Restart(t.Context()); err != nil { // users survive it
			t.Fatal(err)
		}
	}
}

func TestTLS(t *testing.T) {
	srv := StartTLS(t, "--tls-auth-clients", "yes")
	if !strings.HasPrefix(srv.URL(), "rediss://") {
		t.Errorf("URL = %q", srv.URL())
	}
	if err := ping(t.Context(), srv.URL(), srv.TLS()); err != nil {
		t.Errorf("with the client certificate: %v", err)
	}
	bare := *srv.TLS()
	bare.client.Certificate, bare.client.PrivateKey = nil, nil
	if err := ping(t.Context(), srv.URL(), &bare); err == nil {
		t.Error("no certificate was needed")
	}
	if err := ping(t.Context(), "redis://"+srv.Addr(), nil); err == nil {
		t.Error("plain text was accepted")
	}
	other, err := MakeCertificates(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := ping(t.Context(), srv.URL(), other); err == nil {
		t.Error("a client of another authority trusts the server")
	}
}

// A test binary that is killed must not leave its servers behind.
func TestServerDiesWithItsParent(t *testing.T) {
	if err := ensureServer(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "REDISTEST_ORPHAN_DIR="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	_, scanErr := fmt.Fscan(out, &pid)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed, as wanted
	if scanErr != nil {
		t.Fatalf("the child told no pid: %v", scanErr)
	}
	err = until(t.Context(), "the orphan's end", func(context.Context) error {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if errors.Is(err, os.ErrNotExist) || strings.Contains(string(stat), ") Z ") {
			return nil
		}
		return errors.Join(err, fmt.Errorf("process %d lives", pid))
	})
	if err != nil {
		t.Error(err)
	}
}

// orphan is the child of TestServerDiesWithItsParent.
func orphan(dir string) {
	srv, err := Run(context.Background(), dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(srv.Pid())
	select {}
}

func mustDo(t *testing.T, srv *Server, args ...string) string {
	t.Helper()
	msg, err := srv.Do(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := msg.AsInt64(); err == nil {
		return strconv.FormatInt(n, 10)
	}
	text, err := msg.ToString()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// ping goes through a URL as a user of it would.
func ping(ctx context.Context, url string, certs *Certificates) error {
	opt, err := rueidis.ParseURL(url)
	if err != nil {
		return err
	}
	opt.DisableCache, opt.DisableRetry = true, true
	opt.Dialer.Timeout = 2 * time.Second
	if certs != nil {
		opt.TLSConfig = certs.Client()
	}
	c, err := rueidis.NewClient(opt)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Do(ctx, c.B().Ping().Build()).Error()
}

// wantError is a check that a command is refused with an error code.
func wantError(srv *Server, code string, args ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := srv.Do(ctx, args...)
		if e, ok := errors.AsType[*rueidis.RedisError](err); ok && strings.HasPrefix(e.Error(), code+" ") {
			return nil
		}
		return fmt.Errorf("%v on %s: %w, want %s", args, srv.Addr(), err, code)
	}
}
