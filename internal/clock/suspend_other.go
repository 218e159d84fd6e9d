//go:build !linux

package clock

import "time"

// suspended is not known here. On macOS and Windows Go's monotonic clock is the one the system offers.
func suspended() time.Duration { return 0 }
