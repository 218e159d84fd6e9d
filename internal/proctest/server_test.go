package proctest

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/internal/redistest"
	"github.com/twolane/twolane/store"
)

// forgets is how long before its end by SIGKILL a server with appendfsync everysec may have acknowledged what it then has forgotten. What it has
// handed to the kernel survives the end of the process; but while a flush of the second before is under way it keeps new writes to itself,
// for up to two seconds.
const forgets = 2 * time.Second

// outage is one kind of trouble between workers and their server.
type outage struct {
	hit, heal func()
	lossy     bool          // the server may forget
	long      bool          // longer than a worker may believe in its leases: its health must say so
	within    time.Duration // of the heal work goes on; 0 means resume
}

// endure lets workers and a stream of commands go through an outage. Afterwards work goes on, at full concurrency, and nothing has counted
// as a failure of a command.
func (e *env) endure(o outage, workers ...spec) {
	t := e.t
	t.Helper()
	e.startReady(workers...)
	held := e.submit("hold", 4, params{Until: e.file("go")})
	e.until("four to run", 20*time.Second, func() bool { return e.running(held) })
	s := e.stream()
	time.Sleep(e.v / 2)

	from := time.Now()
	e.j.add(event{Kind: evFault})
	o.hit()
	o.heal()
	healed := time.Now()
	e.j.add(event{Kind: evHeal})
	if o.lossy {
		e.lossy = append(e.lossy, window{from.Add(-forgets).UnixNano(), healed.UnixNano()})
	}

	on := e.until("work to go on", 30*time.Second, func() bool {
		return slices.ContainsFunc(e.invocations(), func(inv *invocation) bool { return inv.start > healed.UnixNano() })
	})
	most := o.within
	if most == 0 {
		most = e.resume()
	}
	t.Logf("out for %v; work went on %v after it", healed.Sub(from).Round(time.Millisecond), on.Sub(healed).Round(time.Millisecond))
	if most += e.stall(healed.UnixNano(), on.UnixNano()); on.Sub(healed) > most {
		t.Errorf("work went on %v after the outage, want within %v", on.Sub(healed), most)
	}

	// Permits of what ran when it began are not lost.
	s.stop()
	e.touch("go")
	e.ended(30 * time.Second)
	permits := 0
	for _, w := range workers {
		permits += w.Permits
	}
	for try := 1; ; try++ { // one of them may still be on its way back
		since := now()
		e.submit("work", 3*permits, params{Ms: 300})
		e.ended(20 * time.Second)
		e.read()
		if n := e.widest(since); n == permits {
			break
		} else if try == 10 {
			t.Errorf("after the outage %d commands run at once, want %d", n, permits)
			break
		}
	}

	if o.long {
		for _, w := range workers {
			if !slices.ContainsFunc(e.events, func(ev event) bool { return ev.Kind == evHealth && ev.Proc == w.Proc && ev.Text != "[]" }) {
				t.Errorf("%s never said that it was not well", w.Proc)
			}
		}
	}
	e.finish(time.Second)
	for _, r := range e.get() {
		if r.cmd != nil && (r.cmd.Failures != 0 || r.cmd.Status != store.Succeeded) {
			t.Errorf("%s, want SUCCEEDED without a failure", r)
		}
		if r.cmd != nil && slices.ContainsFunc(r.cmd.Events, func(ev store.Event) bool { return ev.Kind == store.EventError }) {
			t.Errorf("an attempt of %s was used up: %+v", r, r.cmd.Events)
		}
	}
}

// submits is a stream of commands, one every fiftieth of a second times 2.5.
type submits struct {
	e    *env
	quit chan struct{}
	ids  chan []string
}

// stream submits a command every 50 ms until it is stopped. A submit that the store does not take counts for nothing.
func (e *env) stream() *submits {
	s := &submits{e: e, quit: make(chan struct{}), ids: make(chan []string, 1)}
	go func() {
		var ids []string
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-s.quit:
				s.ids <- ids
				return
			case <-tick.C:
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			id := fmt.Sprintf("stream-%d", n)
			if _, err := e.c.Submit(ctx, twolane.Submission{Type: "work", ID: id, Params: params{Ms: 5}}); err == nil {
				ids = append(ids, id)
			}
			cancel()
		}
	}()
	return s
}

// stop ends the stream; what was acknowledged belongs to the books.
func (s *submits) stop() {
	close(s.quit)
	s.e.ids = append(s.e.ids, <-s.ids...)
}

func twoWorkers(storeURL string) []spec {
	return []spec{{Proc: "a", Permits: 5, Store: storeURL}, {Proc: "b", Permits: 5, Store: storeURL}}
}

// TestF016_F018_ServerRestarts: redis-server ends by SIGTERM, having written everything down, and starts again.
func TestF016_F018_ServerRestarts(t *testing.T) {
	t.Parallel()
	srv := ownRedis(t)
	e := onRedis(t, srv.URL())
	e.endure(outage{hit: func() { e.must(srv.Stop()) }, heal: func() { time.Sleep(e.v / 2); e.must(srv.Restart(t.Context())) }}, twoWorkers("")...)
}

// TestF016_F018_ServerKilled: redis-server is killed and starts again from its file.
func TestF016_F018_ServerKilled(t *testing.T) {
	t.Parallel()
	srv := ownRedis(t)
	e := onRedis(t, srv.URL())
	e.endure(outage{lossy: true, hit: func() { e.must(srv.Kill()) }, heal: func() { time.Sleep(e.v / 2); e.must(srv.Restart(t.Context())) }}, twoWorkers("")...)
}

// TestF016_ServerPaused: the server answers nothing for longer than the visibility timeout and then everything.
func TestF016_ServerPaused(t *testing.T) {
	t.Parallel()
	srv := ownRedis(t)
	e := onRedis(t, srv.URL())
	e.endure(outage{long: true, hit: func() { e.must(srv.Pause()); time.Sleep(2*e.v + e.v/2) }, heal: func() { e.must(srv.Resume()) }}, twoWorkers("")...)
}

// TestF016_F018_ConnectionsKilled: every connection is killed, again and again.
func TestF016_F018_ConnectionsKilled(t *testing.T) {
	t.Parallel()
	srv := ownRedis(t)
	e := onRedis(t, srv.URL())
	e.endure(outage{hit: func() {
		for range 20 {
			for _, kind := range []string{"normal", "pubsub"} {
				_, err := srv.Do(t.Context(), "CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
				e.must(err)
			}
			time.Sleep(e.v / 10)
		}
	}, heal: func() {}}, twoWorkers("")...)
}

// TestF016_F019_BlackHole: the way to the server goes silent for longer than the visibility timeout, without an end of any connection. Meanwhile the
// age of what waits rises for whoever can ask.
func TestF016_F019_BlackHole(t *testing.T) {
	t.Parallel()
	srv := sharedRedis(t)
	e := onRedis(t, srv.URL())
	p := newProxy(t, srv.Addr())
	e.endure(outage{long: true, hit: func() {
		p.cut()
		time.Sleep(2 * e.v)
		e.waiting(e.v)
	}, heal: func() { p.heal(false) }}, twoWorkers(e.through(p, ""))...)
}

// TestF019_DeadConnections: as above, but the connections of before stay dead for ever: only new ones bring anything.
func TestF019_DeadConnections(t *testing.T) {
	t.Parallel()
	srv := sharedRedis(t)
	e := onRedis(t, srv.URL())
	p := newProxy(t, srv.Addr())
	e.endure(outage{long: true, within: 10 * time.Second, hit: func() {
		p.cut()
		time.Sleep(2 * e.v)
		e.waiting(e.v)
	}, heal: func() { p.heal(true) }}, twoWorkers(e.through(p, "&timeout=1s"))...)
}

// TestF079_FailOver: sentinels make the replica the master while work goes on; the old master answers READONLY. No attempt is used.
func TestF079_F016_FailOver(t *testing.T) {
	t.Parallel()
	set := redistest.StartSentinel(t, 1, "--appendonly", "yes", "--appendfsync", "everysec")
	e := onRedis(t, "redis://"+strings.Join(set.Addrs(), ",")+"?master="+redistest.MasterName)
	e.endure(outage{lossy: true, within: 10 * time.Second, hit: func() {
		var err error
		for range 5 { // sentinels give up on one that takes too long, and say nothing
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
			err = set.Failover(ctx)
			cancel()
			if err == nil {
				break
			}
		}
		e.must(err)
	}, heal: func() {}}, twoWorkers("")...)
}

// TestF038_CutWorkerRegistersAgain: one worker is cut off for so long that its registration lapses and its work is run by the other. When it is
// back it registers again and claims again; of its old leases each is refused, and none is taken from the other.
func TestF038_CutWorkerRegistersAgain(t *testing.T) {
	t.Parallel()
	srv := sharedRedis(t)
	e := onRedis(t, srv.URL())
	p := newProxy(t, srv.Addr())
	e.startReady(spec{Proc: "cut", Store: e.through(p, "")})
	ids := e.submit("deaf", 3, params{Until: e.file("go")})
	e.until("all to run", 20*time.Second, func() bool { return e.running(ids) })
	e.startReady(spec{Proc: "other"})
	e.until("two workers to be registered", 20*time.Second, func() bool { return e.workers() == 2 })
	p.cut()
	at := time.Now()
	e.resumed(ids, at)
	e.until("the registration to lapse", 20*time.Second, func() bool { return e.workers() == 1 })
	e.touch("go")
	e.ended(20 * time.Second)
	p.heal(false)
	e.until("the worker to be back", 20*time.Second, func() bool { return e.workers() == 2 && len(e.states("cut", ids)) == len(ids) })
	for id, state := range e.states("cut", ids) {
		if state != store.SettleLost.String() && state != store.SettleUnknown.String() {
			t.Errorf("the old owner's settle of %s was answered %q", id, state)
		}
	}
	e.end1("other")
	more := e.submit("work", 5, params{Ms: 1})
	e.until("the worker that was cut off to settle new commands", 20*time.Second, func() bool { return len(e.states("cut", more)) == len(more) })
	e.finish(time.Second)
}

// through is the URL of this namespace by way of a proxy.
func (e *env) through(p *proxy, more string) string {
	u, err := url.Parse(e.url)
	e.must(err)
	return p.url() + "?" + u.RawQuery + more
}

// workers counts the live workers.
func (e *env) workers() int {
	e.t.Helper()
	s, err := e.c.Stats(e.t.Context())
	e.must(err)
	return len(s.Workers)
}

// waiting checks that what waits in vain is seen to.
func (e *env) waiting(least time.Duration) {
	e.t.Helper()
	s, err := e.c.Stats(e.t.Context(), twolane.DefaultQueue)
	e.must(err)
	if l := s.Queues[0].Lanes[twolane.Intake]; l.Eligible == 0 || l.Oldest < least {
		e.t.Errorf("%d commands are eligible, the oldest since %v; want some, since at least %v", l.Eligible, l.Oldest, least)
	}
}
