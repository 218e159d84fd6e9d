package inference

import (
	"net/http"
	"testing"
	"time"

	"github.com/twolane/twolane/inference/config"
	"github.com/twolane/twolane/inference/wire"
)

// A request goes the whole way, and what comes out is what goes in.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.start(r.cfg)
	ok := member("req-1", time.Minute, func(m *wire.Member) {
		m.Data.Payload = []byte(`{"z":1,"a":9007199254740993,"prompt":"a\u003cb \u0026 é"}`)
		m.Data.Headers = map[string]string{"X-Foo": "1", "content-type": "application/x-mine"}
		m.Data.Metadata = map[string]string{"userid": "alice"}
		m.Data.Endpoint = "/v1/chat/completions?x=1&y=a%2Fb"
	})
	r.submit(ok)
	got := r.results("res-a", 1, 10*time.Second)[0]
	want := wire.Result{ID: "req-1", StatusCode: 200, Payload: string(ok.Data.Payload), Token: ok.Internal.Token}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	calls := r.gate.seen()
	if len(calls) != 1 {
		t.Fatalf("%d calls", len(calls))
	}
	c := calls[0]
	if c.path != "/v1/chat/completions?x=1&y=a%2Fb" || c.body != string(ok.Data.Payload) || c.header.Get("X-Foo") != "1" ||
		c.header.Get("Content-Type") != "application/x-mine" || c.header.Get("x-llm-d-inference-fairness-id") != "alice" {
		t.Errorf("%+v", c)
	}
	r.until("the keys of the request go", 5*time.Second, func() bool { return r.do("EXISTS", wire.ActiveKey("req-1"), "q-a")[0] == "0" })
}

func TestAnswersOfTheGateway(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.gate.answer = func(w http.ResponseWriter, req *http.Request, body string) {
		switch req.URL.Path {
		case "/400":
			http.Error(w, "bad", http.StatusBadRequest)
		case "/302":
			http.Redirect(w, req, "http://127.0.0.1:1/elsewhere", http.StatusFound)
		case "/503":
			if len(r.gate.seen()) < 3 {
				http.Error(w, "no", http.StatusServiceUnavailable)
			}
		}
	}
	r.start(r.cfg)
	for _, path := range []string{"/400", "/302"} {
		r.submit(member("a", time.Minute, func(m *wire.Member) { m.Data.Endpoint = path }))
		if got := r.results("res-a", 1, 10*time.Second)[0]; got.StatusCode != map[string]int{"/400": 400, "/302": 302}[path] || got.ErrorCode != "" {
			t.Errorf("%s: %+v", path, got)
		}
	}
	r.gate.mu.Lock()
	r.gate.calls = nil
	r.gate.mu.Unlock()
	r.submit(member("a", time.Minute, func(m *wire.Member) { m.Data.Endpoint = "/503" }))
	if got := r.results("res-a", 1, 20*time.Second)[0]; got.StatusCode != 200 {
		t.Errorf("%+v", got)
	}
	if n := r.gate.count(); n != 3 {
		t.Errorf("%d calls, want 3", n)
	}
}

// A request that waits, and one that is in flight, end within a second of their cancel; one with the same id submitted after that is another one.
func TestFault41CancelInFlight(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) { c.Pools = []config.Pool{{ID: config.DefaultPool, Workers: 1}} })
	ended := make(chan time.Time, 1)
	r.gate.answer = func(w http.ResponseWriter, req *http.Request, body string) {
		if req.URL.Path == "/long" {
			<-req.Context().Done()
			ended <- time.Now()
		}
	}
	r.start(r.cfg)
	long := member("long", time.Minute, func(m *wire.Member) { m.Data.Endpoint = "/long" })
	r.submit(long)
	r.until("the first is in flight", 10*time.Second, func() bool { return r.gate.count() == 1 })
	waits := member("waits", 2*time.Minute, nil)
	r.submit(waits)
	r.until("the second waits in the store", 10*time.Second, func() bool { return r.do("ZCARD", "q-a")[0] == "0" })
	began := time.Now()
	r.cancel("waits")
	if got := r.results("res-a", 1, 5*time.Second)[0]; got != *wire.Failure("waits", waits.Internal.Token, wire.CodeCancelled, "cancelled") || time.Since(began) > time.Second {
		t.Errorf("after %v: %+v", time.Since(began), got)
	}
	again := member("long", time.Minute, nil)
	r.cancel("long")
	began = time.Now()
	if got := r.results("res-a", 1, 5*time.Second)[0]; got != *wire.Failure("long", long.Internal.Token, wire.CodeCancelled, "cancelled") {
		t.Errorf("%+v", got)
	}
	if d := (<-ended).Sub(began); d > time.Second {
		t.Errorf("the gateway was told after %v", d)
	}
	r.submit(again)
	if got := r.results("res-a", 1, 5*time.Second)[0]; got.StatusCode != http.StatusOK || got.Token != again.Internal.Token {
		t.Errorf("%+v", got)
	}
	r.until("the marks go", 5*time.Second, func() bool {
		return r.do("EXISTS", wire.ActiveKey("long"), wire.CancelKey("long"), wire.ActiveKey("waits"), wire.CancelKey("waits"))[0] == "0"
	})
}
