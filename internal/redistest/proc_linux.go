package redistest

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// childAttr makes the child die with its parent. The kernel looks at the thread that forked, see [process].
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

func signalStop(p *os.Process) error     { return p.Signal(syscall.SIGSTOP) }
func signalContinue(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// isStopped tells whether all of the process stands still.
func isStopped(pid int) (bool, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false, err
	}
	// pid (name) state ...: the name may hold anything, the last ")" ends it.
	_, rest, found := bytes.Cut(stat[bytes.LastIndexByte(stat, ')'):], []byte(" "))
	return found && len(rest) > 0 && (rest[0] == 'T' || rest[0] == 't'), nil
}
