package cloudsim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

func serve(t *testing.T, change func(*Config)) (*Cloud, *Client) {
	t.Helper()
	c := newCloud(t, func(cfg *Config) {
		cfg.StartMin, cfg.StartMax, cfg.DescribeMin, cfg.DescribeMax = 0, 0, 0, 0
		cfg.TaskMin, cfg.TaskMax = time.Hour, time.Hour
		cfg.Rate, cfg.Burst = 1e6, 1e6
		if change != nil {
			change(cfg)
		}
	})
	s, err := Serve(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	cl := NewClient(s.URL(), "w1")
	t.Cleanup(func() {
		cl.Close()
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c, cl
}

func TestHTTP(t *testing.T) {
	c, cl := serve(t, nil)
	ctx := t.Context()
	end, err := cl.Begin(ctx, "intake", []string{"c1"})
	if err != nil {
		t.Fatal(err)
	}
	task, err := cl.Start(ctx, "c1", "c1")
	if err != nil {
		t.Fatal(err)
	}
	if n := c.Stats(time.Now()).Invocations["w1/intake"]; n != 1 {
		t.Errorf("%d invocations are alive", n)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if n := len(c.Stats(time.Now()).Invocations); n != 0 {
		t.Errorf("%d invocations are alive after the end", n)
	}
	tasks, err := cl.Describe(ctx, []string{task.ID, "nothing"})
	if err != nil || tasks[0] != (Task{task.ID, Running}) || tasks[1].Status != Unknown {
		t.Errorf("describe: %v %v", tasks, err)
	}
	if task, err = cl.Delete(ctx, task.ID); err != nil || task.Status != Deleted {
		t.Errorf("delete: %v %v", task, err)
	}
	if calls := c.Stats(time.Now()).Calls; calls != 3 {
		t.Errorf("start, describe, delete were counted as %d calls; announcements cost nothing", calls)
	}
	if _, err := cl.Start(ctx, "", "c1"); err == nil {
		t.Error("a start without a key was accepted")
	}
}

func TestHTTPThrottles(t *testing.T) {
	c, cl := serve(t, func(cfg *Config) { cfg.Rate, cfg.Burst = 0.5, 1 })
	if _, err := cl.Start(t.Context(), "a", "a"); err != nil {
		t.Fatal(err)
	}
	_, err := cl.Start(t.Context(), "b", "b")
	e, ok := errors.AsType[*APIError](err)
	if !ok || !e.Throttled() || e.RetryAfter < time.Second || e.RetryAfter > 2*time.Second {
		t.Fatalf("the second call at 0.5/s: %v", err)
	}
	if s := c.Stats(time.Now()); s.Throttled != 1 || s.Started != 1 {
		t.Errorf("books: %+v", s)
	}
}

// Half of the failures hide an effect, and the key makes the retry find it.
func TestHTTPFaults(t *testing.T) {
	c, cl := serve(t, func(cfg *Config) { cfg.ErrorRate, cfg.Seed = 0.5, 1 })
	var wg sync.WaitGroup
	var mu sync.Mutex
	status := map[int]int{}
	for i := range 40 {
		wg.Go(func() {
			key := fmt.Sprint("c", i)
			for {
				_, err := cl.Start(t.Context(), key, key)
				if err == nil {
					return
				}
				e, ok := errors.AsType[*APIError](err)
				if !ok {
					t.Error(err)
					return
				}
				mu.Lock()
				status[e.Status]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	s := c.Stats(time.Now())
	if s.Started != 40 || s.Launched != 40 || s.DuplicateRuns != 0 {
		t.Errorf("books: %+v", s)
	}
	if status[http.StatusInternalServerError] == 0 || status[http.StatusBadGateway] == 0 {
		t.Errorf("failures before and after the effect: %v", status)
	}
}

func TestHTTPBeginAfterTheContextEnded(t *testing.T) {
	c, cl := serve(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	end, err := cl.Begin(ctx, "intake", []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := end(); err != nil {
		t.Errorf("the end of a cancelled invocation was not told: %v", err)
	}
	if _, err := cl.Begin(ctx, "intake", []string{"a"}); err == nil {
		t.Error("an ended context could begin")
	}
	if n := len(c.Stats(time.Now()).Invocations); n != 0 {
		t.Errorf("%d invocations are alive", n)
	}
}
