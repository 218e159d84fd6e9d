//go:build unix

package demo

import (
	"os/exec"
	"syscall"
)

// detach keeps the Ctrl-C of a terminal from a worker process: it is this process that stops it.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
