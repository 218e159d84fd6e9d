package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestNowGoesOnInSuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept time.Duration
		c := newClock(func() time.Duration { return 5*time.Second + slept })
		time.Sleep(time.Second)
		if got := c.Now(); got != time.Second {
			t.Fatalf("Now() = %v after a second, want 1s", got)
		}
		slept = 10 * time.Minute
		time.Sleep(recheck)
		if got, want := c.Now(), time.Second+recheck+10*time.Minute; got != want {
			t.Fatalf("Now() = %v after a suspend of 10 minutes, want %v", got, want)
		}
		slept -= 3 * time.Second // a reading that went back must not take the clock back
		time.Sleep(recheck)
		if got, want := c.Now(), time.Second+2*recheck+10*time.Minute; got != want {
			t.Fatalf("Now() = %v, want %v: it went back", got, want)
		}
	})
}

func TestNowIgnoresTheReadingsOwnDifference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := time.Duration(0)
		c := newClock(func() time.Duration { n += 10 * time.Microsecond; return n })
		for range 20 {
			time.Sleep(recheck)
			if got, want := c.Now(), time.Since(c.origin); got != want {
				t.Fatalf("Now() = %v, want %v", got, want)
			}
		}
	})
}

func TestNowOnTheRealClock(t *testing.T) {
	c := New()
	last := c.Now()
	for range 1000 {
		now := c.Now()
		if now < last || now > last+time.Minute {
			t.Fatalf("Now() went from %v to %v", last, now)
		}
		last = now
	}
}

func BenchmarkNow(b *testing.B) {
	c := New()
	for b.Loop() {
		c.Now()
	}
}

func BenchmarkSuspended(b *testing.B) {
	for b.Loop() {
		suspended()
	}
}
