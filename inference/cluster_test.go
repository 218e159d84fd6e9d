package inference

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/twolane/twolane/inference/config"
	"github.com/twolane/twolane/inference/wire"
	"github.com/twolane/twolane/internal/openstore"
	"github.com/twolane/twolane/internal/redistest"
)

// On a cluster sets, lists and the store are in slots of their own: requests, retries, claims, cancels and large ones still end in a record each.
func TestCluster(t *testing.T) {
	c := redistest.StartCluster(t)
	r := &rig{TB: t, gate: newGateway(t)}
	var err error
	if r.redis, err = openstore.RedisClient(c.URL()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.redis.Close)
	r.gate.answer = func(w http.ResponseWriter, req *http.Request, body string) {
		if req.URL.Path == "/slow" {
			<-req.Context().Done()
			return
		}
		fmt.Fprint(w, len(body))
	}
	r.cfg = config.Default()
	r.cfg.Redis = config.Redis{Mode: "cluster", Addrs: c.Addrs()} // as newer llm-d-async says it
	r.cfg.Queues = []config.Queue{{Name: "q-a", BaseURL: r.gate.URL}, {Name: "q-b", BaseURL: r.gate.URL}}
	r.cfg.Drain = 2 * time.Second
	if err := r.cfg.Complete(); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(r.cfg); err != nil {
		t.Fatal(err)
	}
	p := r.start(r.cfg)
	if p.oneStep {
		t.Error("one step over slots")
	}
	put := func(set string, m *wire.Member) *wire.Member {
		t.Helper()
		raw, err := m.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		r.do("SET", wire.ActiveKey(m.Data.ID), m.Internal.Token, "EX", "60")
		r.do("ZADD", set, fmt.Sprint(m.Data.Deadline), string(raw))
		return m
	}
	const n = 20
	for i := range n {
		set := []string{"q-a", "q-b"}[i%2]
		put(set, member(fmt.Sprint("m", i), time.Minute, func(m *wire.Member) { m.Internal.RequestQueue = set }))
	}
	retry := member("retry", time.Minute, func(m *wire.Member) { m.Internal.RetryCount = 1 })
	raw, err := retry.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	r.do("ZADD", "retry-sortedset", "1", string(raw))
	claimed := member("claimed", time.Minute, nil)
	if raw, err = claimed.Bytes(); err != nil {
		t.Fatal(err)
	}
	keys := wire.Claims("q-a", true)
	r.do("HSET", keys.Claimed, "claimed", string(raw))
	r.do("ZADD", keys.Expiry, "1", "claimed")
	put("q-a", member("large", time.Minute, func(m *wire.Member) { m.Data.Payload = fmt.Appendf(nil, `{"p":"%01000000d"}`, 0) }))
	r.do("ZADD", "q-a", "1", `{"internal":{"result_queue_name":"res-a"},"request_kind":"plain","data":{"id":"bad","deadline":0}}`)
	slow := put("q-b", member("slow", time.Minute, func(m *wire.Member) { m.Data.Endpoint, m.Internal.RequestQueue = "/slow", "q-b" }))
	r.until("it is in flight", 20*time.Second, func() bool { return p.numbers.ofID("q-b").flying.Load() == 1 })
	r.do("SET", wire.CancelKey("slow"), slow.Internal.Token, "EX", "60")
	ends := map[string]string{}
	for len(ends) < n+5 { // at least once each
		x := r.results("res-a", 1, 20*time.Second)[0]
		ends[x.ID] = fmt.Sprintf("%d%s %s", x.StatusCode, x.ErrorCode, x.Payload)
	}
	for id, want := range map[string]string{"large": "200 1000008", "bad": "0INVALID_REQUEST", "slow": "0CANCELLED", "retry": "200", "claimed": "200", "m0": "200", "m19": "200"} {
		if got := ends[id]; len(got) < len(want) || got[:len(want)] != want {
			t.Errorf("%s ended with %.80s, want %s", id, got, want)
		}
	}
	r.until("nothing is left", 10*time.Second, func() bool {
		for _, key := range []string{"q-a", "q-b", "retry-sortedset", keys.Claimed, keys.Expiry, wire.ActiveKey("m0"), wire.CancelKey("slow")} {
			if r.do("EXISTS", key)[0] != "0" {
				return false
			}
		}
		return true
	})
}
