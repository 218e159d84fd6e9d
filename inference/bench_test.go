package inference

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twolane/twolane/inference/config"
	"github.com/twolane/twolane/inference/wire"
)

// leanGateway answers every request after a time with as little work as possible: it shares the machine with what is measured. A sleep takes longer than
// it says, by up to a millisecond; the gateway sleeps that much less, so that it takes its time in the mean.
func leanGateway(t testing.TB, takes time.Duration) string {
	var over, total, n atomic.Int64
	t.Cleanup(func() {
		t.Logf("the gateway took %.2f ms in the mean", float64(total.Load())/1e6/float64(max(1, n.Load())))
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"ok\":true}")
	serve := func(c net.Conn) {
		defer c.Close()
		r := bufio.NewReaderSize(c, 4096)
		for {
			length := 0
			for {
				line, err := r.ReadSlice('\n')
				if err != nil {
					return
				}
				if len(line) <= 2 {
					break
				}
				if v, ok := strings.CutPrefix(string(line), "Content-Length: "); ok {
					if length, err = strconv.Atoi(strings.TrimSpace(v)); err != nil {
						return
					}
				}
			}
			if _, err := io.CopyN(io.Discard, r, int64(length)); err != nil {
				return
			}
			if began := time.Now(); takes > 0 {
				time.Sleep(takes - time.Duration(over.Load()))
				took := time.Since(began)
				over.Add(int64(took-takes) / 64)
				total.Add(int64(took))
				n.Add(1)
			}
			if _, err := c.Write(answer); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return "http://" + ln.Addr().String()
}

// measure is asked for by its name: TWOLANE_BENCH=1 go test ./inference -run Measure -v
func measured(t *testing.T) {
	if os.Getenv("TWOLANE_BENCH") == "" {
		t.Skip("a measurement: set TWOLANE_BENCH=1, on a quiet machine")
	}
}

// throughput puts n requests into the set, lets a processor with so many workers answer them, and returns the rate between a tenth and nine tenths of the way.
func throughput(t *testing.T, n, workers int, takes time.Duration) float64 {
	r := newRig(t, func(c *config.Config) {
		c.Pools = []config.Pool{{ID: config.DefaultPool, Workers: workers}}
		c.Queues[0].BaseURL = leanGateway(t, takes)
	})
	r.fill(n)
	r.start(r.cfg)
	done := func() int {
		v, err := strconv.Atoi(r.do("LLEN", "res-a")[0])
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	wait := func(k int) (time.Time, int) {
		for {
			if d := done(); d >= k {
				return time.Now(), d
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	from, a := wait(n / 10)
	var u0, u1 syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u0)
	to, b := wait(n * 9 / 10)
	syscall.Getrusage(syscall.RUSAGE_SELF, &u1)
	t.Logf("this process, gateway included: %.0f us of CPU for each request", float64(u1.Utime.Nano()+u1.Stime.Nano()-u0.Utime.Nano()-u0.Stime.Nano())/1e3/float64(b-a))
	for _, l := range r.do("INFO", "commandstats", "cpu") {
		for line := range strings.Lines(l) {
			if strings.Contains(line, "evalsha") || strings.Contains(line, "used_cpu_") || strings.Contains(line, "spublish") || strings.Contains(line, "cmdstat_get") {
				t.Log(strings.TrimSpace(line))
			}
		}
	}
	wait(n)
	return float64(b-a) / to.Sub(from).Seconds()
}

// fill puts requests into the set, a thousand in a call.
func (r *rig) fill(n int) { r.fillWith(n, "req") }

func (r *rig) fillWith(n int, prefix string) {
	r.Helper()
	for i := 0; i < n; i += 1000 {
		r.fillMembers("q-a", min(1000, n-i), func(j int) *wire.Member { return member(fmt.Sprint(prefix, "-", i+j), time.Hour, nil) })
	}
}

func (r *rig) fillMembers(set string, n int, make func(int) *wire.Member) {
	r.Helper()
	z := r.redis.B().Zadd().Key(set).ScoreMember()
	for j := range n {
		m := make(j)
		raw, err := m.Bytes()
		if err != nil {
			r.Fatal(err)
		}
		z = z.ScoreMember(float64(m.Data.Deadline), string(raw))
	}
	if err := r.redis.Do(r.Context(), z.Build()).Error(); err != nil {
		r.Fatal(err)
	}
}

func TestMeasureDefaults(t *testing.T) {
	measured(t)
	rate := throughput(t, 20_000, 64, 50*time.Millisecond)
	t.Logf("64 workers, gateway 50 ms: %.0f/s, %.1f %% of 1280/s", rate, rate/12.80)
}

func TestMeasureDispatch(t *testing.T) {
	measured(t)
	t.Logf("512 workers, gateway 1 ms: %.0f/s", throughput(t, 100_000, 512, time.Millisecond))
}

// TestMeasureLatency submits 100 requests per second and takes the time from the submit to the record, without the gateway's.
func TestMeasureLatency(t *testing.T) {
	measured(t)
	const takes = 5 * time.Millisecond
	r := newRig(t, func(c *config.Config) {
		c.Queues[0].BaseURL = leanGateway(t, takes)
	})
	r.start(r.cfg)
	const n = 2000
	began := map[string]time.Time{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	var took []time.Duration
	wg.Go(func() {
		for range n {
			kv, err := r.redis.Do(r.Context(), r.redis.B().Brpop().Key("res-a").Timeout(10).Build()).AsStrSlice()
			at := time.Now()
			if err != nil {
				t.Error(err)
				return
			}
			var res wire.Result
			if err := json.Unmarshal([]byte(kv[1]), &res); err != nil {
				t.Error(err)
			}
			mu.Lock()
			took = append(took, at.Sub(began[res.ID])-takes)
			mu.Unlock()
		}
	})
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := range n {
		<-tick.C
		m := member(fmt.Sprint("req-", i), time.Minute, nil)
		mu.Lock()
		began[m.Data.ID] = time.Now()
		mu.Unlock()
		r.submit(m)
	}
	wg.Wait()
	slices.SortFunc(took, func(a, b time.Duration) int { return cmp.Compare(a, b) })
	t.Logf("100 requests/s: added latency p50 %v, p99 %v, most %v", took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
}
