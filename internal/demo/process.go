package demo

import (
	"encoding/json"
	"io"
	"os/exec"
	"sync"
)

// process is a worker in a process of its own. Its standard input is the line to this process: the first line tells it what to do,
// and when the input ends (because this process says so, or is gone) it drains and ends.
type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	once sync.Once
}

// startProcess starts cmd, which runs [RunWorkerProcess]; what it says goes to messages.
func startProcess(cmd *exec.Cmd, spec workerSpec, messages io.Writer) (*process, error) {
	detach(cmd)
	cmd.Stdout, cmd.Stderr = messages, messages
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, in: in}
	// A process that cannot read its orders ends, and wait says why.
	_ = json.NewEncoder(in).Encode(spec)
	return p, nil
}

func (p *process) stop() {
	p.once.Do(func() { _ = p.in.Close() }) // it fails only if the process is gone already
}

func (p *process) kill() error { return p.cmd.Process.Kill() }

func (p *process) wait() error { return p.cmd.Wait() }
