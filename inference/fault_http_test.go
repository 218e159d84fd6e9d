package inference

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twolane/twolane/inference/config"
	"github.com/twolane/twolane/inference/wire"
)

// A gateway that is not there yet is tried again.
func TestFault35ConnectionRefused(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	r := newRig(t, func(c *config.Config) { c.Queues[0].BaseURL = "http://" + addr })
	r.start(r.cfg)
	m := member("a", time.Minute, nil)
	r.submit(m)
	r.until("it was tried", 10*time.Second, func() bool { return r.do("ZCARD", "q-a")[0] == "0" })
	time.Sleep(200 * time.Millisecond) // the gateway is down for a while
	if ln, err = net.Listen("tcp", addr); err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })}
	go srv.Serve(ln)
	defer srv.Close()
	if x := r.results("res-a", 1, 15*time.Second)[0]; x.StatusCode != 200 || x.Payload != "ok" {
		t.Errorf("%+v", x)
	}
	// One that stays away ends in the deadline, and a dropped connection is as good as none.
	srv.Close()
	r.submit(member("b", 2*time.Second, nil))
	if x := r.results("res-a", 1, 15*time.Second)[0]; x.ErrorCode != wire.CodeDeadline || x.Payload != `{"error":"deadline exceeded"}` {
		t.Errorf("%+v", x)
	}
}

// An endpoint keeps its query, and never leads to another host or out of the path of the gateway.
func TestFault37Endpoints(t *testing.T) {
	p := &Processor{cfg: config.Default()}
	for _, c := range []struct{ base, path, endpoint, want string }{
		{"http://gw", "/v1/completions", "", "http://gw/v1/completions"},
		{"http://gw/", "/v1/completions", "/v1/chat?x=1&y=%2F", "http://gw/v1/chat?x=1&y=%2F"},
		{"http://gw/base", "v1", "", "http://gw/base/v1"},
		{"http://gw/base?key=1", "/v1", "/a?b=2", "http://gw/base/a?key=1&b=2"},
		{"http://gw/base?key=1", "/v1", "", "http://gw/base/v1?key=1"},
		{"http://gw", "/v1", "/a%2Fb", "http://gw/a%2Fb"},
		{"http://gw", "/v1", "/a/../b", "http://gw/b"},
		{"http://gw", "/v1", "//evil/x", "http://gw/evil/x"},
		{"http://gw", "/v1", "http://evil/x", "http://gw/http:/evil/x"},
		{"http://gw", "/v1", "@evil/x", "http://gw/@evil/x"},
		{"http://gw", "/v1", "/x#y", "http://gw/x%23y"},
		{"http://gw/base", "/v1", "../admin", ""},
		{"http://gw/base", "/v1", "/%2e%2e/admin", ""},
		{"http://gw/base", "/v1", "/../basement", ""},
		{"http://gw", "/v1", "/a\r\nHost: evil", ""},
	} {
		q, err := p.newQueue(config.Queue{ID: "q", BaseURL: c.base, Path: c.path})
		if err != nil {
			t.Fatal(err)
		}
		got, err := q.target(c.endpoint)
		if (err != nil) != (c.want == "") || got != c.want {
			t.Errorf("%s + %q is %q, %v; want %q", c.base, c.endpoint, got, err, c.want)
		}
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) { c.Queues[0].Objective = "obj" })
	r.start(r.cfg)
	r.submit(member("a", time.Minute, func(m *wire.Member) {
		m.Data.Headers = map[string]string{"X-Gateway-Inference-Objective": "mine", "X-LLM-D-Inference-Fairness-ID": "spoof", "Authorization": "Bearer x"}
		m.Data.Metadata = map[string]string{"userid": "alice", "traceparent": "00-a1b2c3d4e5f6a7b8c9d0e1f2a3b4c5d6-1234567890abcdef-01", "tracestate": "v=1"}
	}))
	r.results("res-a", 1, 10*time.Second)
	h := r.gate.seen()[0].header
	for name, want := range map[string]string{
		"Content-Type": "application/json", "X-Gateway-Inference-Objective": "mine", "X-Llm-D-Inference-Objective": "obj",
		"X-Llm-D-Inference-Fairness-Id": "alice", "Authorization": "Bearer x",
		"Traceparent": "00-a1b2c3d4e5f6a7b8c9d0e1f2a3b4c5d6-1234567890abcdef-01", "Tracestate": "v=1", // 39
	} {
		if got := h.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for name, v := range map[string]string{"Host": "evil", "X Y": "1", "X": "a\r\nb: c"} {
		r.submit(member("bad", time.Minute, func(m *wire.Member) { m.Data.Headers = map[string]string{name: v} }))
		if x := r.results("res-a", 1, 10*time.Second)[0]; x.ErrorCode != wire.CodeInvalid {
			t.Errorf("%s: %+v", name, x)
		}
	}
	if n := r.gate.count(); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// A response that is too large ends its request, and is not read to its end.
func TestFault38ResponseCap(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) { c.HTTP.MaxResponse = 4096 })
	r.gate.answer = func(w http.ResponseWriter, req *http.Request, _ string) {
		if n, err := strconv.Atoi(req.URL.Query().Get("length")); err == nil {
			w.Header().Set("Content-Length", strconv.Itoa(n))
			io.WriteString(w, strings.Repeat("x", n))
			return
		}
		for req.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat("x", 1<<16)); err != nil {
				return
			}
		}
	}
	r.start(r.cfg)
	for endpoint, ok := range map[string]bool{"/?length=4096": true, "/?length=4097": false, "/endless": false} {
		r.submit(member("a", time.Minute, func(m *wire.Member) { m.Data.Endpoint = endpoint }))
		x := r.results("res-a", 1, 10*time.Second)[0]
		if ok != (x.StatusCode == 200 && len(x.Payload) == 4096) || ok == (x.ErrorCode == wire.CodeInference) {
			t.Errorf("%s: %d bytes, %+v", endpoint, len(x.Payload), x.ErrorCode)
		}
	}
}

// A deadline is kept to the millisecond: not earlier, and not much later.
func TestFault40DeadlineToTheMillisecond(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	ended := make(chan time.Time, 1)
	r.gate.answer = func(_ http.ResponseWriter, req *http.Request, _ string) {
		<-req.Context().Done()
		ended <- time.Now()
	}
	r.start(r.cfg)
	m := member("a", 2*time.Second, nil)
	end := time.Unix(m.Data.Deadline, 0)
	r.submit(m)
	if x := r.results("res-a", 1, 10*time.Second)[0]; x.ErrorCode != wire.CodeDeadline {
		t.Errorf("%+v", x)
	}
	late := (<-ended).Sub(end)
	t.Logf("the gateway was cut off %v after the deadline", late)
	if late < -5*time.Millisecond || late > 250*time.Millisecond {
		t.Error("that is not at the deadline")
	}
}

// Pushback is obeyed: 429 and 503 with Retry-After wait for as long as they say, within half of what is left; 503 without is an ordinary retry.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) { // a queue for each case: what throttles one leaves the others alone
		for i := range 5 {
			c.Queues = append(c.Queues, config.Queue{Name: fmt.Sprint("q-", i), BaseURL: c.Queues[0].BaseURL})
		}
	})
	r.gate.answer = func(w http.ResponseWriter, req *http.Request, _ string) {
		n := 0
		for _, c := range r.gate.seen() {
			if c.path == req.RequestURI {
				n++
			}
		}
		if n > 1 {
			return
		}
		q := req.URL.Query()
		if v := q.Get("after"); v != "" {
			w.Header().Set("Retry-After", v)
		}
		code, _ := strconv.Atoi(q.Get("code")) // the test's own
		w.WriteHeader(code)
	}
	r.start(r.cfg)
	cases := []struct {
		code      int
		after     string
		within    time.Duration
		least, up time.Duration
	}{
		{429, "", 20 * time.Second, 400 * time.Millisecond, 3 * time.Second}, {503, "", 20 * time.Second, 400 * time.Millisecond, 3 * time.Second},
		{429, "2", 20 * time.Second, 1900 * time.Millisecond, 5 * time.Second}, {503, "2", 20 * time.Second, 1900 * time.Millisecond, 5 * time.Second},
		{500, "3600", 9 * time.Second, 2500 * time.Millisecond, 7 * time.Second}, // half of what is left
	}
	id := func(i int) string { return fmt.Sprint(cases[i].code, "-", cases[i].after) }
	for i, c := range cases {
		r.submit(member(id(i), c.within, func(m *wire.Member) {
			m.Internal.RequestQueue, m.Data.Endpoint = fmt.Sprint("q-", i), fmt.Sprintf("/%s?code=%d&after=%s", id(i), c.code, c.after)
		}))
	}
	for _, x := range r.results("res-a", len(cases), 25*time.Second) {
		if x.StatusCode != 200 {
			t.Errorf("%+v", x)
		}
	}
	for i, c := range cases {
		var at []time.Time
		for _, call := range r.gate.seen() {
			if strings.HasPrefix(call.path, "/"+id(i)+"?") {
				at = append(at, call.at)
			}
		}
		if len(at) != 2 || at[1].Sub(at[0]) < c.least || at[1].Sub(at[0]) > c.up {
			t.Errorf("%s: calls at %v", id(i), at)
		}
	}
}
