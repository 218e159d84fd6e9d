package twolane

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Backoff says how long a failed command waits: Base doubled for each failure in a row after the first, at most Max, of which a random
// part of the upper half is taken. The zero value is 1 second to 5 minutes.
type Backoff struct {
	Base, Max time.Duration
}

const (
	defaultBackoffBase = time.Second
	defaultBackoffMax  = 5 * time.Minute
	maxRetryAfter      = 24 * time.Hour
)

// Delay is the wait after the n-th failure in a row (from 1); u in [0,1) is where in the upper half of the range it lies.
func (b Backoff) Delay(n int, u float64) time.Duration {
	base, most := b.Base, b.Max
	if base <= 0 {
		base = defaultBackoffBase
	}
	if most <= 0 {
		most = max(base, defaultBackoffMax)
	}
	d := most
	if shift := max(n, 1) - 1; shift < 62 && base <= most>>shift {
		d = base << shift
	}
	return d/2 + time.Duration(u*float64(d-d/2))
}

// delay is the wait after err as the n-th failure in a row: the backoff, or longer if err asks for it.
func (b Backoff) delay(n int, err error) time.Duration {
	d := b.Delay(n, rand.Float64())
	if after, ok := errors.AsType[*retryAfterError](err); ok {
		d = max(d, min(after.d, maxRetryAfter))
	}
	return d
}

type retryAfterError struct {
	err error
	d   time.Duration
}

func (e *retryAfterError) Error() string { return e.err.Error() }
func (e *retryAfterError) Unwrap() error { return e.err }

// RetryAfter lets a handler's error be retried not before after, as an HTTP Retry-After asks for. At most 24 hours are honoured; less
// than the backoff is not.
func RetryAfter(err error, after time.Duration) error {
	if err == nil {
		return nil
	}
	return &retryAfterError{err, after}
}

// ParseRetryAfter reads the value of an HTTP Retry-After header: seconds or a date. What is no such value, or lies in the past, is 0; more than
// a day is a day.
func ParseRetryAfter(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	if n, err := strconv.ParseUint(header, 10, 64); err == nil {
		return time.Duration(min(n, uint64(maxRetryAfter/time.Second))) * time.Second
	} else if errors.Is(err, strconv.ErrRange) {
		return maxRetryAfter
	}
	for _, layout := range [...]string{"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC850, time.ANSIC} { // those of RFC 9110, 5.6.7
		if at, err := time.Parse(layout, header); err == nil {
			return min(max(0, at.Sub(now)), maxRetryAfter)
		}
	}
	return 0
}
