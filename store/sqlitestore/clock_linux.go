package sqlitestore

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/twolane/twolane/store"
)

// machineClock is a clock that all processes of the machine share, that never steps, and that goes on during suspend.
func machineClock() store.Millis {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return store.At(time.Now()) // not on any kernel that runs Go
	}
	return store.Millis(ts.Nano() / int64(time.Millisecond))
}
