package inference

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/inference/config"
	"github.com/twolane/twolane/inference/wire"
	"github.com/twolane/twolane/internal/redistest"
	"github.com/twolane/twolane/store/faultstore"
)

// A request that a closed gate keeps waiting is nowhere on its way: the gate's Redis, the producers' Redis and the store may be away meanwhile.
func TestFault05And31WaitingIsNoWay(t *testing.T) {
	t.Parallel()
	gates := redistest.Start(t)
	r := newRig(t, func(c *config.Config) {
		c.Store.URL = "sqlite:" + t.TempDir() + "/q.db"
		c.Queues[0].Gate = &config.Gate{Type: "redis", Params: config.Params{"address": gates.URL()}}
	})
	set := func(budget string) {
		if _, err := gates.Do(t.Context(), "SET", "dispatch-gate-budget", budget); err != nil {
			t.Fatal(err)
		}
	}
	set("0")
	faults := faultstore.New(1)
	r.startOn(r.cfg, faults.Wrap)
	const n = 20
	for i := range n {
		r.submit(member(fmt.Sprint("m", i), time.Minute, nil))
	}
	r.until("all are taken", 10*time.Second, func() bool { return r.do("EXISTS", "q-a")[0] == "0" })
	if err := gates.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := r.srv.Pause(); err != nil {
		t.Fatal(err)
	}
	faults.Inject(faultstore.Rule{Ops: []faultstore.Op{faultstore.Claim, faultstore.Renew}, Fault: faultstore.FailBefore, Count: 5})
	time.Sleep(3 * time.Second) // the outage
	if n := r.gate.count(); n != 0 {
		t.Errorf("%d calls with a closed gate", n)
	}
	if err := r.srv.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := gates.Resume(); err != nil {
		t.Fatal(err)
	}
	set("1")
	seen := map[string]bool{}
	for _, x := range r.results("res-a", n, 30*time.Second) {
		if x.StatusCode != 200 || seen[x.ID] {
			t.Errorf("%+v", x)
		}
		seen[x.ID] = true
	}
	if r.gate.count() != n {
		t.Errorf("%d calls", r.gate.count())
	}
}

// Whatever becomes of a step of the intake, or of its reply, a member stays where it was until the store has it, and is one request when it is taken twice.
func TestFault06And06bLostSteps(t *testing.T) {
	t.Parallel()
	for _, fault := range []faultstore.Fault{faultstore.FailBefore, faultstore.DropReply} {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			const n = 40
			for i := range n {
				m := member(fmt.Sprint("m", i), time.Minute, nil)
				if i%2 == 0 {
					r.submit(m)
					continue
				}
				m.Internal.RetryCount = 1
				raw, err := m.Bytes()
				if err != nil {
					t.Fatal(err)
				}
				r.do("ZADD", "retry-sortedset", "1", string(raw))
			}
			faults := faultstore.New(1)
			faults.Inject(faultstore.Rule{Ops: []faultstore.Op{faultstore.Submit}, Fault: fault})
			r.startOn(r.cfg, faults.Wrap)
			r.until("steps fail, and not only once", 30*time.Second, func() bool { return faults.Hits(faultstore.Submit) >= 12 })
			if members := r.do("ZCARD", "q-a")[0]; members != strconv.Itoa(n/2) {
				t.Errorf("%s members are left, and the store has told of none", members)
			}
			faults.Heal()
			faults.Inject(faultstore.Rule{Ops: []faultstore.Op{faultstore.Claim, faultstore.Settle}, Fault: fault, Count: 6})
			tokens := map[string]bool{}
			for _, x := range r.results("res-a", n, 40*time.Second) {
				if x.StatusCode != 200 || tokens[x.Token] {
					t.Errorf("%+v", x)
				}
				tokens[x.Token] = true
			}
			r.until("the sets are empty", 10*time.Second, func() bool { return r.do("EXISTS", "q-a", "retry-sortedset")[0] == "0" })
			if left := r.do("LLEN", "res-a")[0]; left != "0" {
				t.Errorf("%s results too many", left)
			}
		})
	}
}

// A result that a consumer took and lost can be read again by the id and the token of its request.
func TestFault07ResultByID(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	p := r.start(r.cfg)
	m := member("a", time.Minute, nil)
	r.submit(m)
	popped := r.results("res-a", 1, 10*time.Second)[0]
	c, err := p.Client().Get(t.Context(), CommandID("a", m.Internal.Token))
	if err != nil {
		t.Fatal(err)
	}
	var kept wire.Result
	if err := json.Unmarshal(c.Result, &kept); err != nil || kept != popped || kept.StatusCode != 200 {
		t.Errorf("%+v %v, popped was %+v", kept, err, popped)
	}
}

// Requests are taken, claimed, settled and delivered in batches: the server gets far fewer calls than there are requests.
func TestFault15Batches(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) {
		c.Pools = []config.Pool{{ID: config.DefaultPool, Workers: 200}}
		c.Serve.BacklogPoll = 0
	})
	r.gate.answer = func(w http.ResponseWriter, _ *http.Request, body string) {
		time.Sleep(20 * time.Millisecond)
		io.WriteString(w, body)
	}
	const n = 2000
	r.fill(n)
	calls := func() (sum int) {
		for _, l := range r.do("INFO", "commandstats") {
			for line := range strings.Lines(l) {
				name, rest, _ := strings.Cut(line, ":calls=")
				switch strings.TrimPrefix(name, "cmdstat_") {
				case "zrange", "mget", "evalsha", "eval", "fcall", "multi", "ping", "hmget", "hget": // what is sent, and not what scripts do
					v, _, _ := strings.Cut(rest, ",")
					c, err := strconv.Atoi(v)
					if err != nil {
						t.Fatal(err)
					}
					sum += c
				}
			}
		}
		return sum
	}
	before := calls()
	r.start(r.cfg)
	r.results("res-a", n, 40*time.Second)
	if got := calls() - before; got > n*3/2 { // there: two and more for each, one after the other
		t.Errorf("%d calls for %d requests", got, n)
	} else {
		t.Logf("%d calls for %d requests", got, n)
	}
}

// Two requests with the same id: the producers' keys know the token of the second one alone; each can be cancelled by its own id in the store.
func TestFault42BothGenerationsCanBeCancelled(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.gate.answer = func(_ http.ResponseWriter, req *http.Request, _ string) { <-req.Context().Done() }
	p := r.start(r.cfg)
	first, second := member("a", time.Minute, nil), member("a", time.Minute, nil)
	r.submit(first)
	r.until("the first is in flight", 10*time.Second, func() bool { return r.gate.count() == 1 })
	r.submit(second)
	r.until("both are in flight", 10*time.Second, func() bool { return r.gate.count() == 2 })
	if _, err := p.Client().Cancel(t.Context(), []string{CommandID("a", first.Internal.Token)}, nil); err != nil {
		t.Fatal(err)
	}
	if x := r.results("res-a", 1, 5*time.Second)[0]; x.ErrorCode != wire.CodeCancelled || x.Token != first.Internal.Token {
		t.Errorf("%+v", x)
	}
	r.cancel("a")
	if x := r.results("res-a", 1, 5*time.Second)[0]; x.ErrorCode != wire.CodeCancelled || x.Token != second.Internal.Token {
		t.Errorf("%+v", x)
	}
}

// A request that takes its processor with it, each time, ends with the fifth and says why; others are answered meanwhile. The pauses between grow to
// minutes, so the namespace is made to end it with the third unless there is time.
func TestFault11Poison(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) { c.Store.Visibility = time.Second })
	var poison atomic.Int64
	r.gate.answer = func(_ http.ResponseWriter, req *http.Request, _ string) {
		if req.URL.Path == "/poison" {
			poison.Add(1)
			<-req.Context().Done()
		}
	}
	losses := int64(5)
	if !full() {
		losses = 3
		r.configure(func(c *twolane.Config) {
			name := queueName(config.DefaultPool, -1)
			q := c.Queues[name]
			q.MaxLosses = int(losses)
			c.Queues[name] = q
		})
	}
	m := member("poison", 5*time.Minute, func(m *wire.Member) { m.Data.Endpoint = "/poison" })
	r.submit(m)
	for i := range losses {
		victim := r.process(r.cfg)
		r.until("it has the request", 40*time.Second, func() bool { return poison.Load() == i+1 })
		r.submit(member(fmt.Sprint("neighbour", i), 5*time.Minute, nil))
		if x := r.results("res-a", 1, 30*time.Second)[0]; x.StatusCode != 200 {
			t.Errorf("%+v", x)
		}
		r.kill(victim)
	}
	r.start(r.cfg)
	if x := r.results("res-a", 1, 40*time.Second)[0]; x != *wire.Failure("poison", m.Internal.Token, wire.CodeInference, "the processor died each time it sent the request") {
		t.Errorf("%+v", x)
	}
	if n := poison.Load(); n != losses {
		t.Errorf("it was sent %d times", n)
	}
}
