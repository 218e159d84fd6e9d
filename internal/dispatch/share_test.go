package dispatch

import (
	"fmt"
	"testing"
	"time"

	"github.com/twolane/twolane/store"
)

// market plays queues with a backlog each for a core: it serves claims as a store does, in the order of the wants.
type market struct {
	*driver
	backlog map[string]int
	started map[string]int
	calls   int
}

func newMarket(t *testing.T, permits int, policy Policy, backlog map[string]int, queues ...Queue) *market {
	m := &market{backlog: backlog, started: map[string]int{}}
	m.driver = newDriver(t, func(c *Config) {
		c.Queues, c.Policy, c.Permits = queues, policy, [2]int{permits, 0}
		c.Types[0].Lanes = [2]bool{true, false}
	})
	return m
}

// serve answers the claim in flight, and those that follow at once.
func (m *market) serve() {
	m.Helper()
	for m.claim != nil {
		m.calls++
		call := m.claim
		m.claim = nil
		r := store.ClaimReply{Wants: make([]store.WantReport, len(call.Req.Wants))}
		left := call.Req.Free[0]
		for i, w := range call.Req.Wants {
			rep := &r.Wants[i]
			for rep.Granted < w.Max && left > 0 && m.backlog[w.Queue] > 0 {
				m.backlog[w.Queue]--
				m.started[w.Queue]++
				left--
				rep.Granted++
				g := m.cmds(fmt.Sprint("c", m.token))
				g[0].Items[0].Queue = w.Queue
				r.Grants = append(r.Grants, g...)
			}
			if rep.Granted < w.Max && left > 0 {
				rep.Why = store.WhyEmpty
			}
		}
		if got := m.started; call.Req.Free[0] < 0 {
			m.Fatal(got)
		}
		m.c.Claimed(m.now, call, r, nil)
		m.step()
		if m.c.held[0] > m.c.cfg.Permits[0] {
			m.Fatalf("%d permits held of %d", m.c.held[0], m.c.cfg.Permits[0])
		}
	}
}

// turn ends n invocations, oldest first, and serves what follows.
func (m *market) turn(n int) {
	m.Helper()
	for range n {
		if len(m.live) > 0 {
			m.end(m.live[0], store.OutcomeDone)
		}
		if m.settle != nil {
			m.settled(store.SettleDone, nil)
		}
	}
	m.serve()
}

func TestShares(t *testing.T) {
	many := func() map[string]int { return map[string]int{"a": 1e6, "b": 1e6, "c": 1e6} }
	for _, c := range []struct {
		name    string
		policy  Policy
		backlog map[string]int
		queues  []Queue
		want    map[string]float64 // of 1,000 starts
	}{
		{"round robin", RoundRobin, many(), []Queue{{Name: "a"}, {Name: "b"}, {Name: "c"}}, map[string]float64{"a": 333, "b": 333, "c": 333}},
		{"weighted", Weighted, many(), []Queue{{Name: "a", Weight: 1}, {Name: "b", Weight: 2}, {Name: "c", Weight: 7}}, map[string]float64{"a": 100, "b": 200, "c": 700}},
		{"strict", Strict, many(), []Queue{{Name: "a"}, {Name: "b"}, {Name: "c"}}, map[string]float64{"a": 1000}},
		{"one of three has work", RoundRobin, map[string]int{"c": 1e6}, []Queue{{Name: "a"}, {Name: "b"}, {Name: "c"}}, map[string]float64{"c": 1000}},
		{"weighted, one idle", Weighted, map[string]int{"a": 1e6, "b": 1e6}, []Queue{{Name: "a", Weight: 1}, {Name: "b", Weight: 1}, {Name: "c", Weight: 100}}, map[string]float64{"a": 500, "b": 500}},
		{"strict with a reserve", Strict, many(), []Queue{{Name: "a"}, {Name: "b", Reserve: 2}, {Name: "c"}}, map[string]float64{"a": 800, "b": 200}},
	} {
		for _, permits := range []int{10, 100} {
			if permits == 100 && c.name == "strict with a reserve" {
				continue // 2 of 100 would be another share
			}
			t.Run(fmt.Sprint(c.name, permits), func(t *testing.T) {
				b := map[string]int{}
				for k, v := range c.backlog {
					b[k] = v
				}
				m := newMarket(t, permits, c.policy, b, c.queues...)
				m.serve()
				for m.token < 1000 {
					m.turn(permits / 5)
				}
				for _, q := range c.queues {
					got, want := float64(m.started[q.Name])*1000/float64(m.token), c.want[q.Name]
					if got < want-30 || got > want+30 {
						t.Errorf("queue %s: %.0f of 1000 starts, want %.0f", q.Name, got, want)
					}
				}
				if m.c.free(0) != 0 {
					t.Errorf("%d permits free beside a backlog", m.c.free(0))
				}
			})
		}
	}
}

// A reserve is never used by others, and a queue with one starts at once though the rest is full.
func TestF037_ReserveForACriticalQueue(t *testing.T) {
	m := newMarket(t, 4, RoundRobin, map[string]int{"low": 100}, Queue{Name: "low"}, Queue{Name: "critical", Reserve: 1})
	m.serve()
	if m.started["low"] != 3 {
		t.Fatalf("low has %d of 4 permits, want 3", m.started["low"])
	}
	m.backlog["critical"] = 1
	m.sleep(1100 * time.Millisecond)
	m.serve()
	if m.started["critical"] != 1 {
		t.Fatal("critical has not started within a poll")
	}
	if m.c.held[0] != 4 {
		t.Fatalf("%d held", m.c.held[0])
	}
	// Without work of its own the reserve stays free.
	for range 50 {
		m.turn(2)
		if n := m.c.share.held[0][0]; n > 3 {
			t.Fatalf("low holds %d permits", n)
		}
	}
	if m.calls > 200 {
		t.Errorf("%d claims for 100 commands", m.calls)
	}
}

// Idle queues cost one claim in a poll interval, however many there are and whatever is reserved.
func TestIdleClaims(t *testing.T) {
	var qs []Queue
	for i := range 20 {
		qs = append(qs, Queue{Name: fmt.Sprint("q", i), Reserve: i % 2})
	}
	m := newMarket(t, 100, RoundRobin, map[string]int{}, qs...)
	m.serve()
	for m.now < time.Minute {
		m.sleep(100 * time.Millisecond)
		m.serve()
		m.renewed(nil)
	}
	if m.calls > 70 {
		t.Errorf("%d claims in a minute without work", m.calls)
	}
}

func TestTurnsCountIntake(t *testing.T) {
	m := newMarket(t, 10, RoundRobin, map[string]int{"a": 1000, "b": 1000}, Queue{Name: "a"}, Queue{Name: "b"})
	m.serve()
	for range 20 {
		m.turn(3)
	}
	for q, name := range []string{"a", "b"} {
		if m.c.share.turns[q] != m.started[name] {
			t.Errorf("queue %s: turn %d after %d starts", name, m.c.share.turns[q], m.started[name])
		}
	}
}
