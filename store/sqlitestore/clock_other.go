//go:build !linux

package sqlitestore

import (
	"time"

	"github.com/twolane/twolane/store"
)

// machineClock is a clock that all processes of the machine share. Where no other is at hand it is the wall clock, whose steps rule.Clocks bears.
func machineClock() store.Millis { return store.At(time.Now()) }
