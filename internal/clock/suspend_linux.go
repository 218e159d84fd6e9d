package clock

import (
	"syscall"
	"time"
	"unsafe"
)

// Clock ids of clock_gettime(2).
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// suspended is how long the machine was suspended since it booted.
func suspended() time.Duration {
	boot, ok1 := gettime(clockBoottime)
	mono, ok2 := gettime(clockMonotonic)
	if !ok1 || !ok2 {
		return 0
	}
	return max(0, boot-mono)
}

func gettime(id uintptr) (time.Duration, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano()), errno == 0
}
