package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// gatherOf runs batches that take a second of fake time and notes what came together.
func gatherOf(most int) (*gather[int, int], *[][]int) {
	batches := &[][]int{}
	g := &gather[int, int]{most: most, heaviest: 1 << 20, weigh: func(*int) int { return 1 }}
	g.run = func(ctx context.Context, items []int) ([]int, error) {
		*batches = append(*batches, slices.Clone(items))
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		res := make([]int, len(items))
		for i, n := range items {
			if n < 0 {
				return nil, errors.New("refused")
			}
			res[i] = 10 * n
		}
		return res, nil
	}
	return g, batches
}

func TestGatherWhileInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, batches := gatherOf(100)
		for i := range 10 {
			go func() {
				res, err := g.do(t.Context(), []int{i, i + 100})
				if err != nil || !slices.Equal(res, []int{10 * i, 10*i + 1000}) {
					t.Errorf("%d: %v %v", i, res, err)
				}
			}()
			synctest.Wait()
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if len(*batches) != 2 || len((*batches)[0]) != 2 || len((*batches)[1]) != 18 {
			t.Errorf("batches %v: the first goes at once, the others together", *batches)
		}
		if g.busy || len(g.queue) > 0 {
			t.Error("not idle at the end")
		}
	})
}

func TestGatherKeepsToTheBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, batches := gatherOf(4)
		for i := range 8 {
			go func() {
				if _, err := g.do(t.Context(), []int{i, i, i}); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, b := range *batches {
			if len(b) != 3 {
				t.Errorf("a batch of %d: three fit, six do not", len(b))
			}
		}
		if len(*batches) != 8 {
			t.Errorf("%d batches", len(*batches))
		}
	})
}

// A caller that goes away does not take the others with it, wherever it stands: in the queue, at its head, or in the batch that runs.
func TestGatherCallersThatLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := gatherOf(100)
		var done, left atomic.Int32
		call := func(n int, timeout time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			go func() {
				defer cancel()
				start := time.Now()
				res, err := g.do(ctx, []int{n})
				switch {
				case err == nil && res[0] == 10*n:
					done.Add(1)
				case errors.Is(err, context.DeadlineExceeded):
					if left.Add(1); time.Since(start) != timeout {
						t.Errorf("%d left after %v, not %v", n, time.Since(start), timeout)
					}
				default:
					t.Errorf("%d: %v %v", n, res, err)
				}
			}()
			synctest.Wait()
		}
		call(1, time.Hour)             // runs alone for a second
		call(2, 500*time.Millisecond)  // leaves the queue from its head
		call(3, 1500*time.Millisecond) // leads the second batch, and leaves it half-way
		call(4, time.Hour)             // stays
		call(5, 1700*time.Millisecond) // leaves the second batch
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if done.Load() != 2 || left.Load() != 3 {
			t.Errorf("%d done, %d left", done.Load(), left.Load())
		}
		// Everybody left: the batch is cancelled, and the next call is not kept waiting.
		call(6, time.Hour)
		call(7, 1100*time.Millisecond)
		call(8, 1200*time.Millisecond)
		time.Sleep(1300 * time.Millisecond)
		start := time.Now()
		if _, err := g.do(t.Context(), []int{9}); err != nil || time.Since(start) > time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if g.busy || len(g.queue) > 0 {
			t.Error("not idle at the end")
		}
	})
}

func TestGatherErrorIsEverybodys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := gatherOf(100)
		var failed atomic.Int32
		for _, n := range []int{1, -2, 3} {
			go func() {
				if _, err := g.do(t.Context(), []int{n}); err != nil {
					failed.Add(1)
				}
			}()
			synctest.Wait()
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if failed.Load() != 2 {
			t.Errorf("%d failed; the one that ran alone did not", failed.Load())
		}
	})
}
