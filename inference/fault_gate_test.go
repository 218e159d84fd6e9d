package inference

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twolane/twolane/inference/config"
	"github.com/twolane/twolane/inference/wire"
	"github.com/twolane/twolane/internal/redistest"
)

func by(user string) func(*wire.Member) {
	return func(m *wire.Member) { m.Data.Metadata = map[string]string{"userid": user} }
}

// A quota is exact at any place where it is named: on a queue, behind wait-on-refuse, in a composite, on a pool.
func TestFault22QuotaIsExact(t *testing.T) {
	quota := map[string]any{"gate_type": "redis-quota", "gate_params": map[string]any{"address": "unused:1", "limit": "1", "mode": "concurrency"}}
	for name, change := range map[string]func(*config.Config){
		"queue": func(c *config.Config) {
			c.Queues[0].Gate = quotaGate("redis-quota", quota["gate_params"].(map[string]any))
		},
		"wait-on-refuse": func(c *config.Config) {
			c.Queues[0].Gate = &config.Gate{Type: "wait-on-refuse", Params: config.Params{"gate": quota}}
		},
		"composite": func(c *config.Config) {
			c.Queues[0].Gate = &config.Gate{Type: "composite", Params: config.Params{"gates": []any{map[string]any{"gate_type": "constant"}, quota}}}
		},
		"pool": func(c *config.Config) {
			c.Pools = []config.Pool{{ID: "default", Workers: 8, Gate: &config.Gate{Type: "wait-on-refuse", Params: config.Params{"gate": quota}}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, change)
			r.gate.answer = func(w http.ResponseWriter, _ *http.Request, _ string) { time.Sleep(20 * time.Millisecond) }
			r.start(r.cfg)
			for i := range 12 {
				r.submit(member(fmt.Sprint("a", i), time.Minute, by("alice")))
			}
			r.results("res-a", 12, 20*time.Second)
			if r.gate.most != 1 {
				t.Errorf("%d at once", r.gate.most)
			}
			// Who has no attribute is not counted.
			for i := range 8 {
				r.submit(member(fmt.Sprint("b", i), time.Minute, nil))
			}
			r.results("res-a", 8, 20*time.Second)
			if r.gate.most < 2 {
				t.Error("requests without the attribute are counted")
			}
		})
	}
}

// A request that is longer than the window of its quota, with no other traffic, keeps its slot; one whose processor dies gives it back.
func TestFault24And25LongRequestsAndCrashes(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) {
		c.Store.Visibility = time.Second
		c.Queues[0].Gate = quotaGate("redis-quota", config.Params{"limit": 1, "mode": "concurrency", "window": "1s"})
	})
	release := make(chan struct{})
	var first atomic.Bool
	r.gate.answer = func(w http.ResponseWriter, req *http.Request, _ string) {
		if first.CompareAndSwap(false, true) {
			select {
			case <-release:
			case <-req.Context().Done():
			}
		}
	}
	victim := r.process(r.cfg)
	r.submit(member("a", time.Minute, by("alice")), member("b", time.Minute, by("alice")))
	r.until("one is in flight", 20*time.Second, func() bool { return r.gate.count() == 1 })
	time.Sleep(3 * time.Second) // three windows, and three leases
	if n := r.gate.count(); n != 1 {
		t.Errorf("%d were sent while one was running", n)
	}
	r.kill(victim)
	close(release)
	r.start(r.cfg)
	began := time.Now()
	r.results("res-a", 2, 20*time.Second)
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("the slot of a dead processor came back after %v", d)
	}
	if r.gate.most > 2 {
		t.Errorf("%d at once", r.gate.most)
	}
}

// Two requests with the same id each have a slot of their own, and failures give theirs back: the quota never leaks.
func TestFault27And48SlotsAreNeverLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) {
		c.Queues[0].Gate = quotaGate("redis-quota", config.Params{"limit": 2, "mode": "concurrency"})
		c.HTTP.BackoffBase = 100 * time.Millisecond
	})
	var n atomic.Int64
	r.gate.answer = func(w http.ResponseWriter, _ *http.Request, _ string) {
		time.Sleep(10 * time.Millisecond)
		switch n.Add(1) % 4 {
		case 0:
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			w.WriteHeader(http.StatusBadRequest)
		}
	}
	p := r.start(r.cfg)
	for range 40 {
		r.submit(member("same", time.Minute, by("alice")))
	}
	r.results("res-a", 40, 60*time.Second)
	if r.gate.most > 2 {
		t.Errorf("%d at once", r.gate.most)
	}
	st, err := p.Client().Limit(t.Context(), "quota:userid", "alice")
	if err != nil || st.Members != 0 || st.Lines != 0 {
		t.Errorf("%+v %v", st, err)
	}
}

// A rate limit admits what it says in a window, whatever starts at the same moment.
func TestFault26RateLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) {
		c.Queues[0].Gate = quotaGate("redis-quota", config.Params{"limit": 10, "window": "1s"})
	})
	r.start(r.cfg)
	for i := range 35 {
		r.submit(member(fmt.Sprint("a", i), time.Minute, by("alice")))
	}
	r.results("res-a", 35, 20*time.Second)
	calls := r.gate.seen()
	for i := range calls {
		n := 0
		for _, c := range calls[i:] {
			if c.at.Sub(calls[i].at) < 900*time.Millisecond {
				n++
			}
		}
		if n > 12 {
			t.Fatalf("%d calls within a second", n)
		}
	}
	if d := calls[len(calls)-1].at.Sub(calls[0].at); d > 6*time.Second {
		t.Errorf("35 requests at 10/s took %v", d)
	}
}

// fakePrometheus answers queries with a number, or not at all.
func fakePrometheus(t *testing.T) (url string, value *atomic.Value) {
	value = &atomic.Value{}
	value.Store("")
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		v := value.Load().(string)
		if v == "" {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "vector", "result": []any{map[string]any{"value": []any{1, v}}}}})
	}))
	t.Cleanup(srv.Close)
	return srv.URL, value
}

// The documented fallbacks hold, and --strict-gates closes them: with Prometheus away the saturation gate is open, the budget gate closed.
func TestFault29Fallbacks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind   string
		strict bool
		open   bool
	}{
		{"prometheus-saturation", false, true}, {"prometheus-saturation", true, false}, {"prometheus-budget", false, false}, {"prometheus-query", false, false},
		{"redis", false, true}, {"redis", true, false},
	} {
		t.Run(fmt.Sprint(c.kind, c.strict), func(t *testing.T) {
			t.Parallel()
			prom, value := fakePrometheus(t)
			r := newRig(t, func(cfg *config.Config) {
				params := config.Params{"pool": "p", "query": "q"}
				switch c.kind {
				case "prometheus-query":
					delete(params, "pool")
				case "redis":
					params = config.Params{"address": cfg.Redis.URL}
				default:
					delete(params, "query")
				}
				cfg.Queues[0].Gate = &config.Gate{Type: c.kind, Params: params}
				cfg.Gates.Strict, cfg.Gates.Prometheus.URL, cfg.Gates.CacheTTL = c.strict, prom, 100*time.Millisecond
			})
			r.start(r.cfg)
			r.submit(member("a", time.Minute, nil))
			if c.open {
				r.results("res-a", 1, 10*time.Second)
				return
			}
			time.Sleep(700 * time.Millisecond)
			if n := r.gate.count(); n != 0 {
				t.Errorf("%d calls by a gate without a reading", n)
			}
			// Nothing has failed by it (31): the request waits, and goes when there is a reading.
			value.Store(map[string]string{"prometheus-saturation": "0.1", "prometheus-budget": "0.1", "prometheus-query": "1"}[c.kind])
			if c.kind == "redis" {
				r.do("SET", "dispatch-gate-budget", "1")
			}
			if x := r.results("res-a", 1, 20*time.Second)[0]; x.StatusCode != 200 {
				t.Errorf("%+v", x)
			}
		})
	}
}

// While the pool is saturated an interactive request over its quota is dropped, with a record that says so; a reserved one waits.
func TestFault32TierDrop(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) {
		c.Dispatch.Policy = config.TierPriority
		c.Queues[0].Labels = map[string]string{"tier": "interactive"}
		c.Queues[0].Gate = quotaGate("redis-quota", config.Params{"limit": 1, "mode": "concurrency", "gating_mode": "classifying"})
		c.Pools = []config.Pool{{ID: "default", Workers: 8, Gate: &config.Gate{Type: "tier-priority-admission", Params: config.Params{
			"saturation_gate": "redis", "saturation_gate_params": map[string]any{"address": c.Redis.URL}}}}}
	})
	r.do("SET", "dispatch-gate-budget", "0")
	r.start(r.cfg)
	for i := range 5 {
		r.submit(member(fmt.Sprint("a", i), time.Minute, by("alice")))
	}
	// Whether one is within its quota is told when it is claimed: one that waits leaves room for another one to wait.
	for _, x := range r.results("res-a", 3, 15*time.Second) {
		if x.ErrorCode != wire.CodeGateDropped || x.Payload != `{"error": "Too Many Requests", "code": 429}` || x.Token == "" || x.StatusCode != 0 {
			t.Errorf("%+v", x)
		}
	}
	r.do("SET", "dispatch-gate-budget", "1")
	served := 0
	for _, x := range r.results("res-a", 2, 20*time.Second) {
		if x.StatusCode == 200 {
			served++
		}
	}
	if served == 0 {
		t.Error("nobody was let wait")
	}
}

// A quota that classifies puts those over it into the overflow lane, once, and they are sent as overflow.
func TestClassifyingQuota(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) {
		c.Dispatch.Policy = config.TierPriority
		c.Queues[0].Labels = map[string]string{"tier": "async"}
		c.Queues[0].Gate = quotaGate("redis-quota", config.Params{"limit": 2, "mode": "concurrency", "gating_mode": "classifying"})
	})
	release := make(chan struct{})
	r.gate.answer = func(w http.ResponseWriter, _ *http.Request, _ string) { <-release }
	r.start(r.cfg)
	for i := range 10 {
		r.submit(member(fmt.Sprint("a", i), time.Minute, by("alice")))
	}
	r.until("all are in flight", 15*time.Second, func() bool { return r.gate.count() == 10 })
	close(release)
	r.results("res-a", 10, 15*time.Second)
	byLane := map[string]int{}
	for _, c := range r.gate.seen() {
		byLane[c.header.Get("x-gateway-priority")]++
	}
	if byLane["1"] != 2 || byLane["4"] != 8 {
		t.Errorf("%v", byLane)
	}
}

// The Redis of a gate may have a password.
func TestFault33GateRedisWithPassword(t *testing.T) {
	t.Parallel()
	guarded := redistest.StartUser(t, "ann", "secret", nil)
	if _, err := guarded.Do(t.Context(), "SET", "dispatch-gate-budget", "1"); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(c *config.Config) {
		c.Gates.Strict = true
		c.Queues[0].Gate = &config.Gate{Type: "redis", Params: config.Params{"address": guarded.URL()}}
	})
	r.start(r.cfg)
	r.submit(member("a", time.Minute, nil))
	r.results("res-a", 1, 10*time.Second)
}

// A gateway that fails for a while is not called by everything that waits, loses nobody's slot, and has its full load again soon after it has come back.
func TestGatewayFailsUnderLoad(t *testing.T) {
	t.Parallel()
	const limit = 20
	outage, least := 4*time.Second, 0.4 // beside other tests
	if full() {
		outage, least = time.Minute, 0.6 // with the race detector
	}
	r := newRig(t, func(c *config.Config) {
		c.Queues[0].Gate = quotaGate("redis-quota", config.Params{"limit": limit, "mode": "concurrency"})
	})
	const possible = limit / 0.05 // per second
	var up atomic.Bool
	up.Store(true)
	r.gate.answer = func(w http.ResponseWriter, _ *http.Request, body string) {
		if !up.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		time.Sleep(50 * time.Millisecond)
		io.WriteString(w, body)
	}
	p := r.start(r.cfg)
	stop := make(chan struct{})
	stopped := make(chan int)
	go func() {
		sent := 0
		defer func() { stopped <- sent }()
		for tick := time.NewTicker(time.Duration(4 / possible * float64(time.Second))); ; { // a quarter of what so many at once take
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
			}
			r.submit(member(fmt.Sprint("m", sent), 10*time.Minute, by("alice")))
			sent++
		}
	}()
	time.Sleep(2 * time.Second)
	before := r.gate.count()
	up.Store(false)
	time.Sleep(outage)
	during := float64(r.gate.count()-before) / outage.Seconds()
	up.Store(true)
	back := time.Now()
	count := func() int { return int(p.numbers.ofID("q-a").ends[endedOK].Load()) }
	// The backlog of the outage is worked off at the full rate, so the rate that tells of full throughput is well over what comes in.
	rate := 0.0
	r.until("full throughput", 10*time.Second, func() bool {
		a, from := count(), time.Now()
		time.Sleep(500 * time.Millisecond)
		rate = float64(count()-a) / time.Since(from).Seconds()
		return rate > least*possible
	})
	t.Logf("%.0f calls per second during the outage, %.0f of %.0f requests per second %v after it", during, rate, possible, time.Since(back).Round(100*time.Millisecond))
	if during > 60 {
		t.Errorf("%.0f calls per second to a gateway that fails", during)
	}
	close(stop)
	sent := <-stopped
	r.results("res-a", sent, 60*time.Second)
	if st, err := p.Client().Limit(t.Context(), "quota:userid", "alice"); err != nil || st.Members != 0 {
		t.Errorf("%+v %v", st, err)
	}
	if r.gate.most > limit {
		t.Errorf("%d at once", r.gate.most)
	}
}

// A rate that classifies tells who is over it when a request is taken.
func TestClassifyingRate(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) {
		c.Dispatch.Policy = config.TierPriority
		c.Queues[0].Labels = map[string]string{"tier": "interactive"}
		c.Queues[0].Gate = quotaGate("redis-quota", config.Params{"limit": 3, "window": "10m", "gating_mode": "classifying"})
	})
	r.start(r.cfg)
	for i := range 10 {
		r.submit(member(fmt.Sprint("a", i), time.Minute, by("alice")), member(fmt.Sprint("n", i), time.Minute, nil))
	}
	r.results("res-a", 20, 15*time.Second)
	byLane := map[string]int{}
	for _, c := range r.gate.seen() {
		byLane[c.header.Get("x-llm-d-inference-fairness-id")+c.header.Get("x-gateway-priority")]++
	}
	if byLane["alice0"] != 3 || byLane["alice3"] != 7 || byLane["3"] != 10 {
		t.Errorf("%v", byLane)
	}
}
