package sqlitestore

import (
	"context"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/sqlitestore/internal/lite"
)

// Server time is the machine's own clock plus a shift that is kept in the file, so that all processes agree on it whatever the wall clock did
// between their starts. A process that opens the file sets the shift if the wall clock says something else; later steps of the wall clock change
// nothing.

// maxDrift is how far, in milliseconds, the wall clock may be off before a process that opens the file corrects the shift.
const maxDrift = 500

// clockView is how server time follows from the machine's clock. A test may fix it.
type clockView struct{ shift, fixed store.Millis }

// server is the server time.
func (v clockView) server() store.Millis {
	if v.fixed != 0 {
		return v.fixed
	}
	return machineClock() + v.shift
}

// timepiece is a reading of the machine's clock, which costs a system call; for a short while the time since does as well.
type timepiece struct {
	clockView
	tick store.Millis
	at   time.Time
}

// server is the server time.
func (r *timepiece) server() store.Millis {
	if r.fixed != 0 {
		return r.fixed
	}
	return r.tick + store.Millis(time.Since(r.at).Milliseconds()) + r.shift
}

func wallShift() store.Millis { return store.At(time.Now()) - machineClock() }

func abs(n int64) int64 { return max(n, -n) }

// retryBusy repeats f, which others may be in the way of, until the context ends.
func retryBusy(ctx context.Context, f func() error) error {
	for pause := time.Millisecond; ; pause = min(pause*2, 20*time.Millisecond) {
		err := f()
		if !lite.Is(err, lite.Busy) {
			return err
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C:
		}
	}
}
