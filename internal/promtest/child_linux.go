package promtest

import (
	"runtime"
	"syscall"
)

// childAttr makes the child die with its parent. The kernel looks at the thread that forked.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

func stay() { runtime.LockOSThread() }
