package redistest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Bounds for a loaded machine; a healthy one needs a hundredth.
const (
	startTimeout = 30 * time.Second
	stopTimeout  = 20 * time.Second
	probeEvery   = 5 * time.Millisecond
)

// Server is one Redis process and the folder and port that it keeps over its restarts. Its methods may be called from
// several goroutines. Errors carry the end of the server's log.
type Server struct {
	spec
	bin   string
	port  int
	args  []string
	admin bool // whether the administrator exists

	mu   sync.Mutex
	proc *process // the current or last run; nil before the first
	want bool     // whether it should be running
}

// spec is what is known of a server before its start.
type spec struct {
	dir            string
	user, password string // what URL shows
	tls            *Certificates
}

// Run starts a server in dir, which must exist and belongs to the server from then on. The options are arguments of
// redis-server and come after the defaults (loopback only, --save "" --appendonly no, debug commands allowed). ctx
// bounds the start only; the caller ends the server with Stop or Kill. Run installs nothing: without a server program
// it answers [ErrNoServer].
func Run(ctx context.Context, dir string, opts ...string) (*Server, error) {
	return run(ctx, spec{dir: dir}, opts)
}

func run(ctx context.Context, want spec, opts []string) (*Server, error) {
	bin, err := findServer()
	if err != nil {
		return nil, err
	}
	var last error
	for range 5 { // another process may take the port between the draw and the bind
		s := &Server{spec: want, bin: bin}
		if s.port, err = freePort(); err != nil {
			return nil, err
		}
		if err := s.setArgs(opts); err != nil {
			return nil, err
		}
		err := s.start(ctx)
		if err == nil {
			return s, nil
		}
		last = err
		if !strings.Contains(err.Error(), "Address already in use") {
			break
		}
	}
	return nil, last
}

func (s *Server) setArgs(opts []string) error {
	listen := []string{"--port", strconv.Itoa(s.port)}
	if s.tls != nil {
		listen = append([]string{"--port", "0", "--tls-port", strconv.Itoa(s.port)}, s.tls.serverArgs()...)
	}
	s.args = append(listen, "--bind", "127.0.0.1", "--dir", s.dir, "--daemonize", "no",
		"--save", "", "--appendonly", "no", "--enable-debug-command", "yes")
	if slices.Contains(opts, "--user") || slices.Contains(opts, "--requirepass") {
		s.admin = true
		s.args = append(s.args, "--user", adminUser, "on", ">"+adminPassword, "~*", "&*", "+@all")
	}
	if slices.Contains(opts, "--cluster-enabled") {
		bus, err := freePort()
		if err != nil {
			return err
		}
		s.args = append(s.args, "--cluster-port", strconv.Itoa(bus))
	}
	s.args = append(s.args, opts...)
	return nil
}

// start starts a process and waits until it answers. The caller holds mu or owns s alone.
func (s *Server) start(ctx context.Context) error {
	p, err := startProcess(s.bin, s.dir, s.args)
	if err != nil {
		return fmt.Errorf("redistest: start %s: %w", s.bin, err)
	}
	s.proc = p
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var last error
	for {
		if last = s.probe(ctx, p.cmd.Process.Pid); last == nil {
			s.want = true
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("redistest: %s ended at its start: %v\n%s", s.bin, p.err, p.tail())
		case <-ctx.Done():
			_ = p.cmd.Process.Kill() // it may have ended by itself; done tells
			<-p.done
			return fmt.Errorf("redistest: %s does not answer on %s: %w (%w)\n%s", s.bin, s.Addr(), last, ctx.Err(), p.tail())
		case <-time.After(probeEvery):
		}
	}
}

// probe asks the port whether it is served, ready, and by the process pid.
func (s *Server) probe(ctx context.Context, pid int) error {
	if _, err := s.Do(ctx, "PING"); err != nil {
		return err
	}
	info, err := s.Info(ctx, "server")
	if err != nil {
		return err
	}
	if got := info["process_id"]; got != strconv.Itoa(pid) {
		return fmt.Errorf("port %d is served by process %s, not by %d", s.port, got, pid)
	}
	return nil
}

// Addr is host:port.
func (s *Server) Addr() string { return hostPort(s.port) }

// Port is the port of Addr. It stays the same over restarts.
func (s *Server) Port() int { return s.port }

// Dir is the server's folder: data files, server.log.
func (s *Server) Dir() string { return s.dir }

// URL is redis://[user:password@]host:port, with the scheme rediss for a TLS server.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", Host: s.Addr()}
	if s.tls != nil {
		u.Scheme = "rediss"
	}
	if s.password != "" {
		u.User = url.UserPassword(s.user, s.password)
	}
	return u.String()
}

// TLS is the certificates of a server that was started by [StartTLS], else nil.
func (s *Server) TLS() *Certificates { return s.tls }

// Pid is the process id of the running server, 0 when it is not running.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || s.proc.ended() {
		return 0
	}
	return s.proc.cmd.Process.Pid
}

// Stop ends the server with SIGTERM, as an operator would, and waits for its end. A paused server is resumed first.
// Stopping a server that does not run does nothing.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop()
}

func (s *Server) stop() error {
	s.want = false
	if s.proc == nil || s.proc.ended() {
		return nil
	}
	p := s.proc
	if err := ignoreDone(p.cmd.Process.Signal(syscall.SIGTERM)); err != nil {
		return fmt.Errorf("redistest: stop: %w", err)
	}
	// A stopped process sees SIGTERM only after SIGCONT.
	if err := ignoreDone(signalContinue(p.cmd.Process)); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("redistest: stop: %w", err)
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
		err := s.kill()
		return errors.Join(fmt.Errorf("redistest: %s ignored SIGTERM for %v\n%s", s.Addr(), stopTimeout, p.tail()), err)
	}
}

// Kill ends the server with SIGKILL, paused or not, and waits for its end. Killing a server that does not run does
// nothing.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kill()
}

func (s *Server) kill() error {
	s.want = false
	if s.proc == nil || s.proc.ended() {
		return nil
	}
	if err := ignoreDone(s.proc.cmd.Process.Kill()); err != nil {
		return fmt.Errorf("redistest: kill: %w", err)
	}
	<-s.proc.done
	return nil
}

// Restart starts the server again on the same port and folder, after a Stop if it still runs, and waits until it
// answers, loaded data included.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.stop(); err != nil {
		return err
	}
	return s.start(ctx)
}

// Pause stops the process with SIGSTOP and returns when it stands still: connections stay open and nothing is answered.
func (s *Server) Pause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signal("pause", signalStop, true)
}

// Resume lets a paused process run on (SIGCONT).
func (s *Server) Resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signal("resume", signalContinue, false)
}

func (s *Server) signal(verb string, send func(*os.Process) error, stopped bool) error {
	if s.proc == nil || s.proc.ended() {
		return fmt.Errorf("redistest: %s: %s does not run", verb, s.Addr())
	}
	if err := send(s.proc.cmd.Process); err != nil {
		return fmt.Errorf("redistest: %s: %w", verb, err)
	}
	deadline := time.Now().Add(stopTimeout)
	for {
		is, err := isStopped(s.proc.cmd.Process.Pid)
		if err != nil {
			return fmt.Errorf("redistest: %s: %w", verb, err)
		}
		if is == stopped {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("redistest: %s: the signal had no effect for %v", verb, stopTimeout)
		}
		time.Sleep(time.Millisecond) // the kernel offers no event for this
	}
}

// died reports a server that ended although nobody stopped it.
func (s *Server) died() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.want && s.proc.ended() {
		return fmt.Errorf("redistest: %s ended by itself: %v\n%s", s.Addr(), s.proc.err, s.proc.tail())
	}
	return nil
}

func ignoreDone(err error) error {
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
