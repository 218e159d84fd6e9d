package redistest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// process is one run of the server program. One goroutine, bound to its thread, starts the child and waits for its
// end: the parent-death signal is sent when that thread ends, so the thread must live as long as the child.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has ended and was reaped
	err  error         // how it ended; read after done
	log  string        // file that holds its output, appended by every run in the folder
}

func startProcess(bin, dir string, args []string) (*process, error) {
	logPath := filepath.Join(dir, "server.log")
	out, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(bin, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = childAttr()
	p := &process{cmd: cmd, done: make(chan struct{}), log: logPath}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		_ = out.Close() // the child has its own copy
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// tail is the end of the server's log, for messages.
func (p *process) tail() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return "(no log: " + err.Error() + ")"
	}
	const keep = 2 << 10
	if len(data) > keep {
		data = data[len(data)-keep:]
	}
	return string(bytes.TrimSpace(data))
}
