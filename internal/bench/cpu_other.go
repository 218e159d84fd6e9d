//go:build !unix

package bench

import "time"

// processCPU is not known here; rows leave it out.
func processCPU() (time.Duration, error) { return 0, nil }
