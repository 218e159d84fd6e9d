package dispatch

import "time"

const (
	firstPause = 200 * time.Millisecond
	lastPause  = 5 * time.Second
)

// backoff spaces the tries of one loop while the store fails.
type backoff struct {
	n     int           // failures in a row
	after time.Duration // no try before it
	since time.Duration // the first failure of the row
}

// fail notes a failure; u in [0,1) spreads the pause over its upper half.
func (b *backoff) fail(now time.Duration, u float64) {
	if b.n == 0 {
		b.since = now
	}
	b.n++
	d := lastPause
	if b.n < 6 {
		d = min(d, firstPause<<(b.n-1))
	}
	b.after = now + d/2 + time.Duration(u*float64(d/2))
}

// ok notes a success and returns how long the row of failures was that it ends.
func (b *backoff) ok(now time.Duration) time.Duration {
	if b.n == 0 {
		return 0
	}
	d := now - b.since
	*b = backoff{}
	return max(d, 1)
}

// rate counts events of the last ten seconds, by second.
type rate struct {
	count  [10]int
	second int64
}

const rateWindow = 10

func (r *rate) add(now time.Duration) {
	r.roll(now)
	r.count[r.second%rateWindow]++
}

// perSecond is the mean over the window.
func (r *rate) perSecond(now time.Duration) float64 {
	r.roll(now)
	n := 0
	for _, c := range r.count {
		n += c
	}
	return float64(n) / rateWindow
}

func (r *rate) roll(now time.Duration) {
	s := int64(now / time.Second)
	for i := max(r.second+1, s-rateWindow+1); i <= s; i++ {
		r.count[i%rateWindow] = 0
	}
	r.second = max(r.second, s)
}
