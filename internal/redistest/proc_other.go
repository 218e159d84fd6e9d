//go:build !linux

package redistest

import (
	"errors"
	"os"
	"syscall"
)

func childAttr() *syscall.SysProcAttr { return nil }

func signalStop(*os.Process) error     { return errors.ErrUnsupported }
func signalContinue(*os.Process) error { return errors.ErrUnsupported }
func isStopped(int) (bool, error)      { return false, errors.ErrUnsupported }
