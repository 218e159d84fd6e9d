package twolane_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twolane/twolane"
)

// Delays lie in the upper half of their range, never beyond the cap, and never overflow.
func TestF089_BackoffDraws(t *testing.T) {
	for _, b := range []twolane.Backoff{{}, {Base: 10 * time.Millisecond}, {Base: time.Hour}, {Base: time.Second, Max: time.Second}, {Base: 3, Max: 1 << 62}} {
		base, most := b.Base, b.Max
		if base == 0 {
			base = time.Second
		}
		if most == 0 {
			most = max(base, 5*time.Minute)
		}
		for _, n := range []int{1, 2, 3, 5, 9, 10, 30, 62, 63, 64, 1000, 1_000_000} {
			full := most
			if n <= 40 && base<<(n-1) > 0 && base<<(n-1)>>(n-1) == base {
				full = min(most, base<<(n-1))
			}
			for range 1000 {
				if d := b.Delay(n, rand.Float64()); d < full/2 || d > full {
					t.Fatalf("%+v failure %d: %v is not between %v and %v", b, n, d, full/2, full)
				}
			}
		}
	}
}

// A retry that would come after the deadline is not scheduled: the command ends now.
func TestF089_NoRetryBeyondTheDeadline(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
			twolane.HandleFunc(w, "a", func(ctx context.Context, j *job) (any, error) { return nil, errors.New("no") })
		})
		start := time.Now()
		c := r.wait(r.submit(twolane.Submission{Type: "a", Deadline: start.Add(10 * sec)})...)[0]
		if c.Status != twolane.StatusFailed || c.Reason != twolane.ReasonDeadline || time.Since(start) >= 10*sec {
			r.Errorf("%v %s after %v", c.Status, c.Reason, time.Since(start))
		}
	})
}

func TestF088_RetriesSpread(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		var at box[[]time.Duration]
		start := time.Now()
		r.work(twolane.WorkerConfig{Concurrency: twolane.Lanes{Intake: 500, Repoll: 1}}, func(w *twolane.Worker) {
			twolane.Handle(w, "a", handler{Backoff: twolane.Backoff{Base: time.Minute, Max: time.Minute}, Execute: func(ctx context.Context, j *job) (twolane.Outcome, error) {
				if j.Failures() == 0 {
					return twolane.Outcome{}, errors.New("no")
				}
				at.with(func(v *[]time.Duration) { *v = append(*v, time.Since(start)) })
				return twolane.Done(nil), nil
			}})
		})
		r.wait(r.many(1000, twolane.Submission{Type: "a"})...)
		in := map[int]int{}
		for _, d := range at.get() {
			in[int(d/time.Second)]++
		}
		for s, n := range in {
			if n > 70 { // 1,000 over 30 s are 33 a second; 70 is six standard deviations away
				r.Errorf("%d of 1000 retries in second %d", n, s)
			}
		}
	})
}

func TestF090_RetryAfter(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"0": 0, "-1": 0, "1": sec, "86400": 24 * time.Hour, "1000000000000000000": 24 * time.Hour, "99999999999999999999999999": 24 * time.Hour,
		"": 0, "soon": 0, "1.5": 0, " 7 ": 7 * sec,
		"Wed, 02 Jan 2030 03:05:05 GMT": time.Minute, "Tue, 01 Jan 2030 03:05:05 GMT": 0, "Wednesday, 02-Jan-30 03:04:15 GMT": 10 * sec,
		"Wed Jan  2 03:04:15 2030": 10 * sec, "Sat, 02 Jan 2100 03:05:05 GMT": 24 * time.Hour,
	} {
		if got := twolane.ParseRetryAfter(header, now); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
	if twolane.RetryAfter(nil, sec) != nil {
		t.Error("RetryAfter(nil) is an error")
	}
	for _, c := range []struct{ after, least, most time.Duration }{
		{0, sec / 2, sec}, {-sec, sec / 2, sec}, {sec / 4, sec / 2, sec}, {time.Minute, time.Minute, time.Minute}, {1 << 62, 24 * time.Hour, 24 * time.Hour},
	} {
		t.Run(c.after.String(), func(t *testing.T) {
			rigged(t, 0, func(r *rig) {
				no := errors.New("no")
				var again time.Time
				r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
					twolane.HandleFunc(w, "a", func(ctx context.Context, j *job) (any, error) {
						if j.Failures() > 0 {
							again = time.Now()
							return nil, nil
						}
						return nil, fmt.Errorf("calling: %w", twolane.RetryAfter(no, c.after))
					})
				})
				start := time.Now()
				id := r.submit(twolane.Submission{Type: "a"})[0]
				if c.after > time.Hour {
					time.Sleep(sec)
					if d := r.get(id).NextRun.Sub(start); d < c.least || d > c.most+20*time.Millisecond {
						r.Errorf("will be retried after %v, want %v", d, c.least)
					}
					return
				}
				cmd := r.wait(id)[0]
				if d := again.Sub(start); d < c.least || d > c.most+20*time.Millisecond {
					r.Errorf("retried after %v, want %v to %v", d, c.least, c.most)
				}
				if cmd.Starts != 2 {
					r.Errorf("%d starts", cmd.Starts)
				}
			})
		})
	}
}

func TestF094_SnoozesAreNoFailures(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		var failed, again time.Time
		r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
			twolane.Handle(w, "a", handler{Execute: func(ctx context.Context, j *job) (twolane.Outcome, error) {
				switch {
				case j.Starts() <= 500:
					return twolane.Snooze(sec), nil
				case j.Failures() == 0:
					failed = time.Now()
					return twolane.Outcome{}, errors.New("no")
				}
				again = time.Now()
				return twolane.Done(nil), nil
			}})
		})
		c := r.wait(r.submit(twolane.Submission{Type: "a", MaxFailures: 2})...)[0]
		if d := again.Sub(failed); d < sec/2 || d > sec+20*time.Millisecond || c.Starts != 502 || c.Status != twolane.StatusSucceeded {
			r.Errorf("retried %v after its first failure, %d starts, %v", d, c.Starts, c.Status)
		}
	})
}

// After an error a poll comes after its interval or the backoff, whichever is longer.
func TestErrorInCheck(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		var at []time.Time
		r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
			twolane.Handle(w, "a", handler{Poll: 10 * sec,
				Execute: func(context.Context, *job) (twolane.Outcome, error) { return twolane.Processing([]byte("s"), 0), nil },
				Check: func(ctx context.Context, j *job) (twolane.Outcome, error) {
					at = append(at, time.Now())
					if string(j.State) != "s" {
						r.Errorf("state %q", j.State)
					}
					if len(at) < 8 {
						return twolane.Outcome{}, errors.New("no")
					}
					return twolane.Done(nil), nil
				},
			})
		})
		start := time.Now()
		c := r.wait(r.submit(twolane.Submission{Type: "a"})...)[0]
		if d := at[0].Sub(start); d < 10*sec || d > 10*sec+50*time.Millisecond {
			r.Errorf("first poll after %v", d)
		}
		for i := 1; i < len(at); i++ {
			full := sec << (i - 1)
			if d := at[i].Sub(at[i-1]); d < max(10*sec, full/2)-time.Millisecond || d > max(10*sec, full)+50*time.Millisecond {
				r.Errorf("poll %d came %v after an error", i, d)
			}
		}
		if c.Polls != 8 || c.Failures != 0 {
			r.Errorf("polls %d failures %d", c.Polls, c.Failures)
		}
	})
}

// Throttled costs no failure, waits as told, and lowers the rate of its type alone.
func TestThrottledSlowsItsTypeDown(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		var noted box[[]time.Duration]
		var throttle atomic.Bool
		throttle.Store(true)
		begin := time.Now()
		r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
			twolane.Handle(w, "api", handler{Execute: func(ctx context.Context, j *job) (twolane.Outcome, error) {
				noted.with(func(v *[]time.Duration) { *v = append(*v, time.Since(begin)) })
				if throttle.Load() {
					return twolane.Throttled(sec), nil
				}
				return twolane.Done(nil), nil
			}})
			twolane.HandleFunc(w, "other", r.sleeps(0))
		})
		ids := r.many(100, twolane.Submission{Type: "api"})
		time.Sleep(sec / 2)
		throttle.Store(false)
		start := time.Now()
		r.wait(r.many(100, twolane.Submission{Type: "other"})...)
		if d := time.Since(start); d > sec/10 {
			r.Errorf("another type waited %v", d)
		}
		for _, c := range r.wait(ids...) {
			if c.Failures != 0 {
				r.Errorf("throttling counted as %d failures", c.Failures)
			}
		}
		// 100 starts in 10 s are 10 a second; half of it is what is left at first, and it grows from there.
		starts := noted.get()
		inFirst := len(starts) - 100
		early := 0
		for _, d := range starts[inFirst:] {
			if d < 2*sec {
				early++
			}
		}
		if early > 20 {
			r.Errorf("%d starts within 2 s of being throttled", early)
		}
		if last := slices.Max(starts); last < 3*sec || last > 30*sec {
			r.Errorf("the last of 100 started after %v", last)
		}
	})
}
