package cloudsim

import "time"

// bucket is a token bucket.
type bucket struct {
	rate, burst, tokens float64
	last                time.Time
}

// take takes a token, or says when there will be one.
func (b *bucket) take(now time.Time) (bool, time.Duration) {
	if !b.last.IsZero() && now.After(b.last) {
		b.tokens = min(b.burst, b.tokens+now.Sub(b.last).Seconds()*b.rate)
	}
	if b.last.IsZero() || now.After(b.last) {
		b.last = now
	}
	if b.tokens >= 1 {
		b.tokens--
		return true, 0
	}
	return false, time.Duration((1 - b.tokens) / b.rate * float64(time.Second))
}

// window counts events in the last span.
type window struct {
	span time.Duration
	at   []time.Time // oldest first
}

// add counts an event at now and returns how many lie in (now-span, now].
func (w *window) add(now time.Time) int {
	if n := len(w.at); n > 0 && now.Before(w.at[n-1]) {
		now = w.at[n-1] // calls that arrive together may take their times out of order
	}
	w.at = append(w.at, now)
	return w.count(now)
}

func (w *window) count(now time.Time) int {
	gone := 0
	for gone < len(w.at) && now.Sub(w.at[gone]) >= w.span {
		gone++
	}
	w.at = w.at[gone:]
	return len(w.at)
}
