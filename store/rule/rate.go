package rule

import (
	"math"
	"time"

	"github.com/twolane/twolane/store"
)

// Bucket is the state of a rate: the theoretical arrival time of the next token in milliseconds on the run clock
// (the generic cell rate algorithm, ITU-T I.371). 0 is a full bucket.
type Bucket float64

// Take takes up to n tokens and returns how many it got and how long until the next one. Tokens are never given back. The caller keeps the
// bucket also when it got none: what an older rate had put far ahead was cut back.
func (b Bucket) Take(r store.Rate, run store.Millis, n int) (Bucket, int, time.Duration) {
	if r.Limit <= 0 {
		return b, n, 0
	}
	step := 1000 / r.Limit
	burst := float64(max(1, r.Burst))
	now := float64(run)
	// A bucket that lies more than one burst ahead was written by another configuration: it is cut back.
	ahead := min(max(float64(b)-now, 0), burst*step)
	got := min(n, int((burst*step-ahead+grain)/step))
	ahead += float64(got) * step
	wait := time.Duration(0)
	if got < n {
		wait = time.Duration(math.Ceil(ahead-(burst-1)*step)) * time.Millisecond
	}
	return Bucket(now + ahead), got, wait
}

// grain in milliseconds is more than a float64 of today's milliseconds can be off by; without it a full bucket may have no token.
const grain = 0.0005

// Force takes one token without waiting for it, as a cancel visit does.
func (b Bucket) Force(r store.Rate, run store.Millis) Bucket {
	if r.Limit <= 0 {
		return b
	}
	step := 1000 / r.Limit
	return Bucket(min(max(float64(b), float64(run))+step, float64(run)+float64(max(1, r.Burst))*step))
}

// Throttle is the state of the rate that throttling has lowered for one (queue, lane, type). The zero value does not exist.
type Throttle struct {
	Rate   float64      // starts per second at time At
	Ceil   float64      // half of what was throttled first after a quiet second: up to it the way back doubles
	At     store.Millis // run clock of the last change
	Halved store.Millis // run clock of the last halving
	Bucket Bucket
}

// Throttled lowers the rate after an answer that the far side is overloaded: at most one halving in 10 s. observed is how many starts per
// second all workers make together, lane the configured rate; the smaller one that is known is halved.
func (t Throttle) Throttled(run store.Millis, observed float64, lane store.Rate) Throttle {
	base := observed
	if lane.Limit > 0 && (base <= 0 || lane.Limit < base) {
		base = lane.Limit
	}
	ceil := t.Ceil // throttles in a row lower the rate again and again; the way back goes by where the row began
	if t.Rate > 0 {
		if base = t.Now(run); base > t.Rate {
			ceil = 0
		}
		if run-t.Halved < 10_000 { // no second halving, but this second was not without a throttle
			t.Rate, t.At = base, run
			if ceil == 0 {
				t.Ceil = max(base/2, minThrottle)
			}
			return t
		}
	}
	if base <= 0 {
		base = 1
	}
	half := max(base/2, minThrottle)
	return Throttle{Rate: half, Ceil: max(ceil, half), At: run, Halved: run, Bucket: t.Bucket}
}

const minThrottle = 0.1 // starts per second: a throttled type is probed at least every ten seconds

// Now is the rate at a moment: it doubles for each whole second without a throttle up to Ceil, then grows by a tenth per second.
func (t Throttle) Now(run store.Millis) float64 {
	s := float64(max(0, run-t.At) / 1000)
	r := t.Rate
	for ; s > 0 && r < t.Ceil; s-- {
		r = min(r*2, t.Ceil)
	}
	return r * math.Pow(1.1, min(s, 200))
}

// Gone reports whether the rate has grown so far that it is forgotten: eight times what was left after the last halving.
func (t Throttle) Gone(run store.Millis) bool { return t.Rate > 0 && t.Now(run) >= 8*t.Ceil }

// Force takes one token without waiting for it.
func (t Throttle) Force(run store.Millis) Throttle {
	if t.Rate > 0 {
		t.Bucket = t.Bucket.Force(store.Rate{Limit: t.Now(run), Burst: 1}, run)
	}
	return t
}

// Take takes up to n tokens at the present rate.
func (t Throttle) Take(run store.Millis, n int) (Throttle, int, time.Duration) {
	if t.Rate <= 0 || t.Gone(run) {
		return Throttle{}, n, 0
	}
	b, got, wait := t.Bucket.Take(store.Rate{Limit: t.Now(run), Burst: 1}, run, n)
	t.Bucket = b
	return t, got, wait
}
