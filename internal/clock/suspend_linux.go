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

// suspended is how long the machine was suspended since it booted. A reading between which the process did not run is made again: its two
// clocks would differ by that time.
func suspended() time.Duration {
	best, width := time.Duration(0), time.Duration(-1)
	for range 5 {
		mono, ok1 := gettime(clockMonotonic)
		boot, ok2 := gettime(clockBoottime)
		after, ok3 := gettime(clockMonotonic)
		if !ok1 || !ok2 || !ok3 {
			return 0
		}
		if w := after - mono; width < 0 || w < width {
			best, width = boot-mono-w/2, w
		}
		if width < 500*time.Microsecond {
			break
		}
	}
	return max(0, best)
}

func gettime(id uintptr) (time.Duration, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano()), errno == 0
}
