//go:build !linux

package promtest

import "syscall"

func childAttr() *syscall.SysProcAttr { return nil }

func stay() {}
