package inference

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/inference/config"
	"github.com/twolane/twolane/inference/wire"
)

// A member whose deadline has passed is answered, also with its last response if there was one.
func TestFault03DeadlinePassed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	late := member("late", -time.Minute, nil)
	r.submit(late)
	r.start(r.cfg)
	if got := r.results("res-a", 1, 10*time.Second)[0]; got != *wire.Failure("late", late.Internal.Token, wire.CodeDeadline, "deadline exceeded") {
		t.Errorf("%+v", got)
	}
	if r.gate.count() != 0 {
		t.Error("it was sent")
	}
	r.gate.answer = func(w http.ResponseWriter, _ *http.Request, _ string) {
		http.Error(w, "busy", http.StatusServiceUnavailable)
	}
	r.submit(member("busy", 3*time.Second, nil))
	if got := r.results("res-a", 1, 10*time.Second)[0]; got.ID != "busy" || got.StatusCode != 503 || got.Payload != "busy\n" {
		t.Errorf("%+v", got)
	}
	if n := r.gate.count(); n < 2 || n > 12 {
		t.Errorf("%d calls in three seconds", n)
	}
}

// What is no request is kept with its bytes, counted, and answered where an id can be read.
func TestFault04Unparsable(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	p := r.start(r.cfg)
	token := newToken()
	bad := []string{
		`{"internal":{"request_token":"` + token + `","result_queue_name":"res-a"},"request_kind":"plain","data":{"id":"a","deadline":1.5}}`,
		`{"request_kind":"plain","data":{"id":"b","deadline":0}}`,
		`null`, "\x00\xff not JSON",
		`{"internal":{"result_queue_name":"res-a"},"request_kind":"plain","data":{"id":"cut","payl`,
	}
	for i, m := range bad {
		r.do("ZADD", "q-a", strconv.Itoa(i), m)
	}
	got := map[string]wire.Result{}
	for _, x := range r.results("res-a", 2, 10*time.Second) {
		got[x.ID] = x
	}
	got["b"] = r.results("result-list", 1, 10*time.Second)[0]
	if a := got["a"]; a.Token != token || a.ErrorCode != wire.CodeInvalid || a.StatusCode != 0 {
		t.Errorf("%+v", a)
	}
	if got["b"].ErrorCode != wire.CodeInvalid || got["cut"].ErrorCode != wire.CodeInvalid {
		t.Errorf("%+v", got)
	}
	kept := map[string]bool{}
	r.until("all are kept", 10*time.Second, func() bool {
		clear(kept)
		for c, err := range p.Client().All(t.Context(), twolane.ListOptions{Filter: twolane.Filter{Queue: deadName, Status: twolane.StatusFailed}}) {
			if err != nil {
				t.Fatal(err)
			}
			full, err := p.Client().Get(t.Context(), c.ID)
			if err != nil {
				t.Fatal(err)
			}
			kept[string(full.Params)] = full.Error != ""
		}
		return len(kept) == len(bad)
	})
	for _, m := range bad {
		if !kept[m] {
			t.Errorf("%q is not kept with a reason", m)
		}
	}
	if n := p.numbers.ofID("q-a").dead.Load(); n != int64(len(bad)) {
		t.Errorf("%d are counted", n)
	}
	r.until("the set is empty", 5*time.Second, func() bool { return r.do("ZCARD", "q-a")[0] == "0" })
}

// The retry set of llm-d-async is taken as it is: due or not, parsable or not, of all queues at once; what is nobody's stays.
func TestFault06And16RetrySet(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) {
		c.Queues = append(c.Queues, config.Queue{ID: "team-b", Name: "q-b", BaseURL: c.Queues[0].BaseURL})
	})
	const n = 300
	for i := range n {
		m := member(fmt.Sprint("r", i), time.Minute, func(m *wire.Member) {
			m.Internal.RetryCount = 3
			if i%2 == 1 {
				m.Internal.QueueID, m.Internal.RequestQueue = "team-b", "gone"
			}
		})
		raw, err := m.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		r.do("ZADD", "retry-sortedset", fmt.Sprintf("%f", float64(time.Now().UnixMilli())/1000-1), string(raw))
	}
	soon := member("soon", time.Minute, nil)
	raw, err := soon.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	due := time.Now().Add(2500 * time.Millisecond)
	r.do("ZADD", "retry-sortedset", fmt.Sprintf("%.3f", float64(due.UnixMilli())/1000), string(raw))
	r.do("ZADD", "retry-sortedset", "1", `{"internal":{"request_queue_name":"foreign"},"request_kind":"plain","data":{"id":"x","deadline":99999999999}}`)
	r.do("ZADD", "retry-sortedset", "2", `{"data":{"id":"bad"}}`)
	r.start(r.cfg)
	began := time.Now()
	for _, x := range r.results("res-a", n, 30*time.Second) {
		if x.StatusCode != 200 || x.ID == "soon" {
			t.Errorf("%+v", x)
		}
	}
	took := time.Since(began)
	if took > 15*time.Second { // ten in a second make thirty
		t.Errorf("%d retries took %v", n, took)
	}
	if x := r.results("res-a", 1, 10*time.Second)[0]; x.ID != "soon" || time.Now().Before(due) || time.Since(due) > 2*time.Second+took {
		t.Errorf("%+v at %v, due at %v", x, time.Now(), due)
	}
	if x := r.results("result-list", 1, 10*time.Second)[0]; x.ID != "bad" || x.ErrorCode != wire.CodeInvalid {
		t.Errorf("%+v", x)
	}
	if left := r.do("ZRANGE", "retry-sortedset", "0", "-1"); len(left) != 1 {
		t.Errorf("left: %q", left)
	}
}

// Claims that a newer llm-d-async has left are taken when they have lapsed, and not before.
func TestClaimsAreTakenOver(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	now := time.Now().Unix()
	for id, lapses := range map[string]int64{"old": now - 1, "live": now + 4} {
		m := member(id, time.Minute, nil)
		raw, err := m.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		claim := id + "\x00" + m.Internal.Token
		r.do("HSET", "q-a:claimed", claim, string(raw))
		r.do("HSET", "q-a:claim-owners", claim, "0123456789abcdef")
		r.do("ZADD", "q-a:claims-idx", fmt.Sprint(lapses), claim)
	}
	r.start(r.cfg)
	if x := r.results("res-a", 1, 3*time.Second)[0]; x.ID != "old" {
		t.Errorf("%+v", x)
	}
	r.until("one claim is left", 3*time.Second, func() bool { return r.do("HLEN", "q-a:claimed")[0] == "1" }) // it is removed behind its result
	if x := r.results("res-a", 1, 10*time.Second)[0]; x.ID != "live" || time.Now().Unix() < now+4 {
		t.Errorf("%+v", x)
	}
	r.until("nothing is left", 5*time.Second, func() bool { return r.do("EXISTS", "q-a:claimed", "q-a:claim-owners", "q-a:claims-idx")[0] == "0" })
}

// A request that is cut by the end of the drain is given back at once, and another processor sends it: nothing is lost, and nobody waits for a lease.
func TestFault08And13DrainGivesBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) { c.Drain, c.Store.Visibility = 2*time.Second, 20*time.Second })
	r.gate.answer = func(w http.ResponseWriter, req *http.Request, body string) {
		if req.URL.Path == "/slow" && r.gate.count() == 2 { // the first call of it
			<-req.Context().Done()
			return
		}
		io.WriteString(w, body)
	}
	first := r.start(r.cfg)
	second := r.start(r.config(func(c *config.Config) { c.Drain, c.Store.Visibility, c.Pools = 2*time.Second, 20*time.Second, nil }))
	r.submit(member("quick", time.Minute, nil))
	r.results("res-a", 1, 10*time.Second)
	slow := member("slow", time.Minute, func(m *wire.Member) { m.Data.Endpoint = "/slow" })
	r.submit(slow)
	r.until("it is in flight", 10*time.Second, func() bool { return r.gate.count() == 2 })
	who := first
	if second.numbers.ofID("q-a").flying.Load() == 1 {
		who = second
	}
	began := time.Now()
	if err := who.stop(); err != nil {
		t.Error(err)
	}
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("the drain took %v", d)
	}
	if x := r.results("res-a", 1, 3*time.Second)[0]; x.ID != "slow" || x.StatusCode != 200 || x.Token != slow.Internal.Token {
		t.Errorf("%+v", x)
	}
	if reasons := who.NotReady(t.Context()); len(reasons) != 1 {
		t.Errorf("it is not ready for %q", reasons)
	}
}

// A request ends after so many failures, with the last response, if the operator wants that.
func TestFault11AttemptsCap(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) { c.HTTP.MaxAttempts, c.HTTP.BackoffBase = 3, 10*time.Millisecond })
	r.gate.answer = func(w http.ResponseWriter, _ *http.Request, _ string) { http.Error(w, "no", http.StatusBadGateway) }
	p := r.start(r.cfg)
	m := member("a", time.Minute, nil)
	r.submit(m)
	if x := r.results("res-a", 1, 10*time.Second)[0]; x.StatusCode != 502 || x.Payload != "no\n" || r.gate.count() != 3 {
		t.Errorf("%+v after %d calls", x, r.gate.count())
	}
	// It stays for a look.
	c, err := p.Client().Get(t.Context(), CommandID("a", m.Internal.Token))
	if err != nil || c.Status != twolane.StatusFailed || c.Failures != 2 || len(c.Result) == 0 {
		t.Errorf("%+v %v", c, err)
	}
}

// The same request in the set and in the retry set, or copied by an operator, is one request.
func TestFault12OneRequestByToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	m := member("a", time.Minute, nil)
	r.submit(m)
	copied := *m
	copied.Internal.RetryCount, copied.Internal.QueueID = 1, "q-a"
	raw, err := copied.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	r.do("ZADD", "retry-sortedset", "1", string(raw))
	p := r.start(r.cfg)
	r.results("res-a", 1, 10*time.Second)
	r.submit(m)
	r.until("both sets are empty", 10*time.Second, func() bool { return r.do("EXISTS", "q-a", "retry-sortedset")[0] == "0" })
	if n := r.gate.count(); n != 1 || r.do("LLEN", "res-a")[0] != "0" {
		t.Errorf("%d calls", n)
	}
	if n := p.numbers.ofID("q-a").duplicates.Load(); n != 2 {
		t.Errorf("%d duplicates were counted", n)
	}
}

// A request without a token is run for each time that it is submitted.
func TestWithoutToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.start(r.cfg)
	m := member("a", time.Minute, func(m *wire.Member) { m.Internal.Token = "" })
	raw, err := m.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		r.do("ZADD", "q-a", fmt.Sprint(m.Data.Deadline), string(raw))
		if x := r.results("res-a", 1, 10*time.Second)[0]; x.StatusCode != 200 || x.Token != "" {
			t.Errorf("%d: %+v", i, x)
		}
	}
	if n := r.gate.count(); n != 3 {
		t.Errorf("%d calls", n)
	}
}

// A payload that did not come with the member is read from its key, and goes with the result.
func TestPayloadKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.start(r.cfg)
	m := member("a", time.Minute, func(m *wire.Member) { m.Data.Payload = nil })
	body := `{"seed":9007199254740993,"p":"` + string(make([]byte, 0)) + `<>"}`
	r.do("SET", wire.PayloadKey("a", m.Internal.Token), body)
	r.submit(m)
	if x := r.results("res-a", 1, 10*time.Second)[0]; x.Payload != body {
		t.Errorf("%+v", x)
	}
	r.until("the key goes", 5*time.Second, func() bool { return r.do("EXISTS", wire.PayloadKey("a", m.Internal.Token))[0] == "0" })
	gone := member("b", time.Minute, func(m *wire.Member) { m.Data.Payload = nil })
	r.submit(gone)
	if x := r.results("res-a", 1, 10*time.Second)[0]; x.ErrorCode != wire.CodeUnavailable || x.ID != "b" {
		t.Errorf("%+v", x)
	}
}

// What is too large for the store goes beside it.
func TestLargeRequestsAndResponses(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"redis", "sqlite"} {
		t.Run(kind, func(t *testing.T) {
			r := newRig(t, func(c *config.Config) {
				if kind == "sqlite" {
					c.Store.URL = "sqlite:" + t.TempDir() + "/q.db"
				}
			})
			r.start(r.cfg)
			big := make([]byte, 3<<20)
			for i := range big {
				big[i] = 'a' + byte(i%26)
			}
			m := member("big", time.Minute, func(m *wire.Member) { m.Data.Payload = []byte(`{"p":"` + string(big) + `"}`) })
			r.submit(m)
			if x := r.results("res-a", 1, 20*time.Second)[0]; x.Payload != string(m.Data.Payload) || x.StatusCode != 200 {
				t.Errorf("%d bytes came back, status %d", len(x.Payload), x.StatusCode)
			}
			r.until("nothing is left beside", 5*time.Second, func() bool {
				return r.do("EXISTS", blobKey(CommandID("big", m.Internal.Token)), recordKey(CommandID("big", m.Internal.Token)))[0] == "0"
			})
		})
	}
}

// Results go where they should by the documented order, and lists get their time.
func TestFault43Routing(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) {
		c.Queues = append(c.Queues, config.Queue{Name: "q-b", BaseURL: c.Queues[0].BaseURL, ResultQueue: "forced", ResultTTL: 100})
	})
	r.start(r.cfg)
	for list, change := range map[string]func(*wire.Member){
		"own": func(m *wire.Member) { m.Internal.ResultQueue = "own" },
		"result-list": func(m *wire.Member) {
			m.Internal.ResultQueue, m.Data.ResultQueue, m.Kind = "", "not this", wire.KindRedis
		},
		"forced": func(m *wire.Member) { m.Internal.RequestQueue, m.Internal.ResultQueue = "q-b", "own" },
		"resolved": func(m *wire.Member) {
			m.Internal.RequestQueue, m.Internal.ResultQueue, m.Internal.RoutingResolved = "q-b", "resolved", true
		},
	} {
		m := member(list, time.Minute, change)
		r.submit(m)
		r.until(list, 10*time.Second, func() bool { return r.do("LLEN", list)[0] == "1" })
		ttl := r.do("TTL", list)[0]
		if want := m.Internal.RequestQueue == "q-b"; (ttl != "-1") != want {
			t.Errorf("%s lives for %s seconds", list, ttl)
		}
		if x := r.results(list, 1, time.Second)[0]; x.ID != list || x.Token != m.Internal.Token {
			t.Errorf("%+v", x)
		}
	}
	// A list that is none delays its own results, and nobody else's.
	r.do("SET", "taken", "1")
	r.submit(member("stuck", time.Minute, func(m *wire.Member) { m.Internal.ResultQueue = "taken" }), member("fine", time.Minute, nil))
	r.results("res-a", 1, 10*time.Second)
	r.do("DEL", "taken")
	if x := r.results("taken", 1, 15*time.Second)[0]; x.ID != "stuck" || x.StatusCode != 200 {
		t.Errorf("%+v", x)
	}
}
