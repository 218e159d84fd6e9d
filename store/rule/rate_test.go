package rule_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// A full bucket has its whole burst, and whoever comes back when told gets a token, whatever the rate and the moment.
func TestBucketNeverWedges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := store.Rate{Limit: math.Pow(10, rapid.Float64Range(-5, 6).Draw(t, "log10 of limit")), Burst: rapid.IntRange(1, 20).Draw(t, "burst")}
		run := store.Millis(rapid.Int64Range(1_600_000_000_000, 4_000_000_000_000).Draw(t, "run"))
		b, got, wait := rule.Bucket(0).Take(rate, run, rate.Burst+1)
		if got != rate.Burst || wait <= 0 {
			t.Fatalf("a full bucket of burst %d gave %d, wait %v", rate.Burst, got, wait)
		}
		for range 20 {
			run = run.Add(wait)
			if b, got, wait = b.Take(rate, run, 1); got != 1 {
				t.Fatalf("came back when told and got nothing; now told %v", wait)
			}
			if b, got, wait = b.Take(rate, run, 1_000_000); wait <= 0 {
				t.Fatalf("an emptied bucket names no wait after it gave %d", got)
			}
		}
	})
}

// In any window the bucket gives at most rate x t + burst.
func TestBucketBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := store.Rate{Limit: rapid.Float64Range(0.1, 500).Draw(t, "limit"), Burst: rapid.IntRange(1, 20).Draw(t, "burst")}
		type took struct {
			at store.Millis
			n  int
		}
		var all []took
		run, b := store.Millis(2_000_000_000_000), rule.Bucket(0)
		for range 60 {
			run = run.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
			var got int
			b, got, _ = b.Take(rate, run, rapid.IntRange(1, 50).Draw(t, "n"))
			all = append(all, took{run, got})
		}
		for i := range all {
			sum := 0
			for _, x := range all[i:] {
				sum += x.n
				if most := rate.Limit*x.at.Sub(all[i].at).Seconds() + float64(rate.Burst); float64(sum) > most+1e-3 {
					t.Fatalf("%d tokens in %v at %v/s, burst %d", sum, x.at.Sub(all[i].at), rate.Limit, rate.Burst)
				}
			}
		}
	})
}
