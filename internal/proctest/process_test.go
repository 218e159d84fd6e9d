package proctest

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// process is a worker process of a test. It dies with the test, whatever becomes of that.
type process struct {
	name string
	e    *env
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how; read after done
	log  string
}

// start starts a worker process; its first heartbeat is not waited for.
func (e *env) start(sp spec) *process {
	e.t.Helper()
	sp.Store, sp.Journal = cmp.Or(sp.Store, e.url), filepath.Join(e.dir, sp.Proc+".journal")
	sp.V = e.v
	if sp.Permits == 0 {
		sp.Permits = 5
	}
	if sp.Drain == 0 {
		sp.Drain = 4 * e.v
	}
	orders, err := json.Marshal(sp)
	e.must(err)
	out, err := os.Create(filepath.Join(e.dir, sp.Proc+".log"))
	e.must(err)
	f, err := os.OpenFile(sp.Journal, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) // it is read before the process writes
	e.must(err)
	e.must(f.Close())
	p := &process{name: sp.Proc, e: e, done: make(chan struct{}), log: out.Name()}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), envSpec+"="+string(orders))
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() { // the kernel looks at the thread that forked, so it lives as long as the child
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		_ = out.Close()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.done)
		}
	}()
	e.must(<-started)
	e.follow(sp.Journal)
	e.procs = append(e.procs, p)
	return p
}

// startReady starts worker processes and waits until each is registered.
func (e *env) startReady(sps ...spec) []*process {
	e.t.Helper()
	var ps []*process
	for _, sp := range sps {
		ps = append(ps, e.start(sp))
	}
	for _, p := range ps {
		e.until(p.name+" to be ready", 30*time.Second, func() bool { return e.count(evReady, p.name) > 0 })
	}
	return ps
}

// kill ends processes with SIGKILL, all at once, and returns when they were dead.
func (e *env) kill(ps ...*process) time.Time {
	e.t.Helper()
	sent := now()
	for _, p := range ps {
		e.must(p.cmd.Process.Kill())
	}
	for _, p := range ps {
		<-p.done
		e.j.add(event{Kind: evKill, Sent: sent, Text: p.name})
	}
	return time.Now()
}

// term asks a process to drain.
func (p *process) term() {
	p.e.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		p.e.must(err)
	}
}

// wait waits for the end of a process that was asked to drain and reports how it ended.
func (p *process) wait() error {
	p.e.t.Helper()
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		p.e.t.Errorf("%s does not end after SIGTERM\n%s", p.name, lastOf(p.log))
		p.e.kill(p)
	}
	return p.err
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop stops a process (SIGSTOP). The books say that it is stopped before it runs no more, and cont says that it runs after it did not.
func (p *process) stop() {
	p.e.j.add(event{Kind: evStop, Text: p.name})
	p.e.must(p.cmd.Process.Signal(syscall.SIGSTOP))
}

func (p *process) cont() {
	p.e.j.add(event{Kind: evResume, Text: p.name})
	p.e.must(p.cmd.Process.Signal(syscall.SIGCONT))
}

// end drains what still runs, and fails the test for each process that ends badly although nobody killed it.
func (e *env) end() {
	e.t.Helper()
	e.until("every process to know SIGTERM", 30*time.Second, func() bool {
		return !slices.ContainsFunc(e.procs, func(p *process) bool { return !p.ended() && e.count(evReady, p.name) == 0 })
	})
	for _, p := range e.procs {
		p.term()
	}
	for _, p := range e.procs {
		err := p.wait()
		e.read()
		if err != nil && !e.killed(p.name) && !e.starved(p.name) {
			e.t.Errorf("%s ended with %v\n%s", p.name, err, lastOf(p.log))
		}
	}
}

// starved reports whether a process was left with something at the end of its drain on a machine that gave it no time,
// or by a store that never answers some calls.
func (e *env) starved(proc string) bool {
	for i := range e.events {
		if ev := &e.events[i]; ev.Kind == evDown && ev.Proc == proc && strings.HasPrefix(ev.Text, "drain ended after ") {
			return e.spoiled && strings.HasSuffix(ev.Text, ": a claim was not answered") || e.stall(ev.At-int64(4*e.v), ev.At) > 0
		}
	}
	return false
}

func lastOf(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	const most = 4 << 10
	return string(data[max(0, len(data)-most):])
}

// must fails the test.
func (e *env) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}
