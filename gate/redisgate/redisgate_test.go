package redisgate_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/gate"
	"github.com/twolane/twolane/gate/redisgate"
	"github.com/twolane/twolane/internal/redistest"
	"github.com/twolane/twolane/store"
)

func run(t *testing.T, g gate.Runner) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { g.Run(ctx) })
	t.Cleanup(func() { stop(); wg.Wait() })
}

func reads(t *testing.T, what string, g gate.Gate, ok func(r gate.Reading) bool) gate.Reading {
	t.Helper()
	var r gate.Reading
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if r = g.Read(time.Now(), gate.Scope{Permits: 100}); ok(r) {
			return r
		}
	}
	t.Errorf("%s: %+v", what, r)
	return r
}

func open(budget float64) func(gate.Reading) bool {
	return func(r gate.Reading) bool { return r.Up && min(r.Budget, 1) == budget }
}

func lost(detail string) func(gate.Reading) bool {
	return func(r gate.Reading) bool {
		return !r.Up && r.Budget == 0 && r.Reason == gate.NoReading && strings.Contains(r.Detail, detail)
	}
}

// do runs a command on a server.
func do(t *testing.T, s *redistest.Server, args ...string) {
	t.Helper()
	if _, err := s.Do(t.Context(), args...); err != nil {
		t.Fatal(err)
	}
}

func TestBudgetKey(t *testing.T) {
	s := redistest.Start(t)
	set := func(v string) { do(t, s, "SET", "dispatch-gate-budget", v) }
	cfg := redisgate.BudgetConfig{Open: s.Client, Every: 20 * time.Millisecond, Timeout: 500 * time.Millisecond, Stale: 300 * time.Millisecond}
	g, err := redisgate.NewBudget(cfg)
	if err != nil {
		t.Fatal(err)
	}
	run(t, g)
	reads(t, "no key", g, lost("no key"))
	cfg.Missing, cfg.Fallback = new(0.75), new(0.125)
	lenient, err := redisgate.NewBudget(cfg)
	if err != nil {
		t.Fatal(err)
	}
	run(t, lenient)
	reads(t, "no key, with a budget for that", lenient, open(0.75))
	for v, want := range map[string]float64{"0.5": 0.5, "1": 1, "0": 0, " 0.25\n": 0.25, "1e-1": 0.1} {
		set(v)
		reads(t, v, g, open(want))
		reads(t, v, lenient, open(want))
	}
	for _, v := range []string{"NaN", "1.5", "-0.1", "open", "", "+Inf"} {
		set(v)
		reads(t, v, g, lost("is no number between 0 and 1"))
		if r := reads(t, v, lenient, func(r gate.Reading) bool { return r.Budget == 0.125 }); r.Up || r.Reason != gate.NoReading {
			t.Errorf("a fallback that does not show: %+v", r)
		}
	}
	do(t, s, "DEL", "dispatch-gate-budget")
	do(t, s, "LPUSH", "dispatch-gate-budget", "0.5")
	reads(t, "a key of another type", g, lost("WRONGTYPE"))
}

// A gate may start before its Redis, outlives its outages and its hangs, and never makes anybody wait.
func TestRedisGoesAndComesBack(t *testing.T) {
	s := redistest.Start(t)
	do(t, s, "SET", "k", "0.5")
	do(t, s, "SAVE")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	g, err := redisgate.NewBudget(redisgate.BudgetConfig{Open: s.Client, Key: "k", Every: 20 * time.Millisecond, Timeout: 300 * time.Millisecond, Stale: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	run(t, g)
	reads(t, "not there yet", g, lost("refused"))
	up := func() {
		t.Helper()
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		reads(t, "up", g, open(0.5))
	}
	up()
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	reads(t, "gone", g, lost(""))
	up()
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	reads(t, "hangs", g, lost("no answer in 300ms"))
	if d := time.Since(begin); d > 10*time.Second {
		t.Errorf("it took %v", d)
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	reads(t, "goes on", g, open(0.5))
}

// A server with users and TLS.
func TestRedisWithSecrets(t *testing.T) {
	s := redistest.StartUser(t, "reader", "sesame", []string{"~k", "+get", "+hello", "+client"})
	do(t, s, "SET", "k", "0.5")
	with := func(password string) redisgate.Open {
		return func() (rueidis.Client, error) {
			return rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr()}, Username: "reader", Password: password, DisableCache: true, ForceSingleClient: true})
		}
	}
	for password, ok := range map[string]func(gate.Reading) bool{"sesame": open(0.5), "wrong": lost("WRONGPASS")} {
		g, err := redisgate.NewBudget(redisgate.BudgetConfig{Open: with(password), Key: "k", Every: 20 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		run(t, g)
		reads(t, password, g, ok)
	}
}

// The lease of a rate: what is written is what holds, until it is over by the clock of Redis.
func TestLeasedRate(t *testing.T) {
	s := redistest.Start(t)
	g, err := redisgate.NewLeasedRate(redisgate.LeaseConfig{
		Open: s.Client, ControlKey: "ctl", PoolID: "pool", BurstSeconds: 2, Every: 20 * time.Millisecond, Timeout: 500 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, g)
	reads(t, "no lease", g, lost("no lease"))
	lease := func(version, pool, rps string, d time.Duration) {
		do(t, s, "DEL", "ctl")
		do(t, s, "HSET", "ctl", "api_version", version, "pool_id", pool, "max_admission_rps", rps,
			"valid_until_unix_ms", strconv.FormatInt(time.Now().Add(d).UnixMilli(), 10), "decision_id", "tick-42")
	}
	const v1 = "llm-d.ai/v1alpha1"
	lease(v1, "pool", "12.5", time.Hour)
	if r := reads(t, "a lease", g, open(1)); r.Value != 12.5 || !strings.Contains(r.Detail, "tick-42") {
		t.Errorf("%+v", r)
	}
	p, ok := g.Pace(time.Now())
	if !ok || p.Rate != 12.5 || p.Burst != 25 || time.Until(p.Until) < 59*time.Minute {
		t.Errorf("%+v %v", p, ok)
	}
	lease(v1, "pool", "0", time.Hour)
	if r := reads(t, "a pause", g, open(0)); r.Reason == gate.NoReading {
		t.Errorf("%+v", r)
	}
	if p, ok := g.Pace(time.Now()); ok {
		t.Errorf("a pause has the rate %+v", p)
	}
	for _, c := range [][4]string{
		{"v2", "pool", "5", "version"}, {v1, "other", "5", "pool"}, {v1, "pool", "-1", "rate"}, {v1, "pool", "NaN", "rate"}, {v1, "pool", "", "rate"},
	} {
		lease(v1, "pool", "5", time.Hour)
		reads(t, "good", g, open(1))
		lease(c[0], c[1], c[2], time.Hour)
		// A lease that is taken back does not hold for as long as it once said.
		reads(t, fmt.Sprint(c), g, lost(c[3]))
		if p, ok := g.Pace(time.Now()); ok {
			t.Errorf("%q has the rate %+v", c, p)
		}
	}
	lease(v1, "pool", "5", 400*time.Millisecond)
	reads(t, "short", g, open(1))
	begin := time.Now()
	reads(t, "over", g, lost("over"))
	if d := time.Since(begin); d > 2*time.Second {
		t.Errorf("it ended after %v", d)
	}
	if _, ok := g.Pace(time.Now()); ok {
		t.Error("a lease that is over has a rate")
	}
}

func TestConfigIsChecked(t *testing.T) {
	o := redisgate.Open(func() (rueidis.Client, error) { return nil, errors.New("no") })
	budget := func(c redisgate.BudgetConfig) error { _, err := redisgate.NewBudget(c); return err }
	lease := func(c redisgate.LeaseConfig) error { _, err := redisgate.NewLeasedRate(c); return err }
	for field, errs := range map[string][]error{
		"url": {budget(redisgate.BudgetConfig{}), lease(redisgate.LeaseConfig{ControlKey: "k"})}, "control_key": {lease(redisgate.LeaseConfig{Open: o})},
		"missing": {budget(redisgate.BudgetConfig{Open: o, Missing: new(2.0)})}, "fallback": {budget(redisgate.BudgetConfig{Open: o, Fallback: new(-1.0)})},
		"burst_seconds": {lease(redisgate.LeaseConfig{Open: o, ControlKey: "k", BurstSeconds: -1})}, "step": {budget(redisgate.BudgetConfig{Open: o, Step: 0.5})},
	} {
		for _, err := range errs {
			if e, ok := errors.AsType[*store.InvalidError](err); !ok || e.Field != field {
				t.Errorf("%s: %v", field, err)
			}
		}
	}
}
