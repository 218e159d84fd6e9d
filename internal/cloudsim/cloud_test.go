package cloudsim

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(d time.Duration) time.Time { return t0.Add(d) }

func newCloud(t *testing.T, change func(*Config)) *Cloud {
	t.Helper()
	cfg := Defaults()
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestStartHonoursTheKey(t *testing.T) {
	c := newCloud(t, nil)
	a := c.Start(at(0), "k1", "c1")
	if b := c.Start(at(time.Second), "k1", "c1"); b != a {
		t.Errorf("the same key made %+v and then %+v", a, b)
	}
	if s := c.Stats(at(time.Second)); s.Started != 1 || s.Launched != 1 || s.DuplicateRuns != 0 {
		t.Errorf("one task was started, the books say %+v", s)
	}
	// A second key for the same command is what an idempotency key exists to prevent.
	if b := c.Start(at(time.Second), "k2", "c1"); b.ID == a.ID {
		t.Errorf("another key found task %s", b.ID)
	}
	s := c.Stats(at(time.Second))
	if s.DuplicateRuns != 1 || s.Launched != 1 || s.Started != 2 {
		t.Errorf("a second task of a command: %+v", s)
	}
	if len(s.Duplicates) != 1 || !strings.Contains(s.Duplicates[0], "c1") {
		t.Errorf("duplicates are described as %q", s.Duplicates)
	}
}

func TestTaskLife(t *testing.T) {
	c := newCloud(t, func(c *Config) { c.TaskMin, c.TaskMax = 10*time.Second, 20*time.Second })
	var ids []string
	for i := range 50 {
		ids = append(ids, c.Start(at(0), fmt.Sprint("k", i), fmt.Sprint("c", i)).ID)
	}
	count := func(now time.Time) map[Status]int {
		tasks, err := c.Describe(now, append([]string{"nothing"}, ids...))
		if err != nil {
			t.Fatal(err)
		}
		n := map[Status]int{}
		for _, task := range tasks {
			n[task.Status]++
		}
		return n
	}
	if n := count(at(10*time.Second - 1)); n[Running] != 50 || n[Unknown] != 1 {
		t.Errorf("before 10 s: %v", n)
	}
	if n := count(at(15 * time.Second)); n[Running] < 10 || n[Done] < 10 {
		t.Errorf("durations do not spread over 10 to 20 s: at 15 s %v", n)
	}
	if n := count(at(20 * time.Second)); n[Done] != 50 {
		t.Errorf("after 20 s: %v", n)
	}
	if s := c.Stats(at(20 * time.Second)); s.LiveMax != 50 || s.Live != 0 || s.Finished != 50 {
		t.Errorf("books: %+v", s)
	}
	if _, err := c.Describe(at(0), make([]string, MaxDescribe+1)); err == nil {
		t.Error("101 ids were accepted")
	}
}

func TestDelete(t *testing.T) {
	c := newCloud(t, nil)
	a, b := c.Start(at(0), "a", "a"), c.Start(at(0), "b", "b")
	if got, ok := c.Delete(at(time.Second), a.ID); !ok || got.Status != Deleted {
		t.Errorf("delete of a running task: %+v %v", got, ok)
	}
	if got, ok := c.Delete(at(time.Minute), b.ID); !ok || got.Status != Done {
		t.Errorf("delete of an ended task: %+v %v", got, ok)
	}
	if _, ok := c.Delete(at(0), "nothing"); ok {
		t.Error("an unknown id was deleted")
	}
	if s := c.Stats(at(time.Minute)); s.Deleted != 1 || s.Finished != 1 || s.Live != 0 {
		t.Errorf("books: %+v", s)
	}
}

func TestBucketAndWindow(t *testing.T) {
	c := newCloud(t, func(c *Config) { c.Rate, c.Burst = 40, 10 })
	admitted := 0
	for range 15 {
		if ok, wait := c.Admit(at(0)); ok {
			admitted++
		} else if wait != 25*time.Millisecond {
			t.Errorf("the next token of 40/s is said to be %v away", wait)
		}
	}
	if admitted != 10 {
		t.Errorf("burst 10 admitted %d", admitted)
	}
	if ok, _ := c.Admit(at(25 * time.Millisecond)); !ok {
		t.Error("no token after 1/40 s")
	}
	for i := range 400 { // ten seconds at exactly the rate
		if ok, _ := c.Admit(at(time.Minute + time.Duration(i)*25*time.Millisecond)); !ok {
			t.Fatalf("call %d at the rate was throttled", i)
		}
	}
	s := c.Stats(at(time.Minute + 399*25*time.Millisecond))
	if s.Calls != 416 || s.Throttled != 5 || s.CallsPerSecond != 40 || s.CallsPerSecondMax != 40 {
		t.Errorf("books: %+v", s)
	}
}

func TestInvocations(t *testing.T) {
	began := 0
	c := newCloud(t, func(c *Config) { c.OnBegin = func(time.Time, string, string) { began++ } })
	c.Begin(at(0), "w1", "intake", "i1", []string{"a", "b"})
	c.Begin(at(0), "w1", "intake", "i1", []string{"a", "b"}) // repeated announcement
	c.Begin(at(0), "w2", "repoll", "i2", []string{"c"})
	if s := c.Stats(at(0)); s.DuplicateRuns != 0 || s.Invocations["w1/intake"] != 1 || s.Invocations["w2/repoll"] != 1 {
		t.Errorf("books: %+v", s)
	}
	c.Begin(at(0), "w2", "intake", "i3", []string{"b"})
	if s := c.Stats(at(0)); s.DuplicateRuns != 1 {
		t.Errorf("b is alive twice: %+v", s)
	}
	c.End("i3")
	c.WorkerGone("w1")
	c.End("i1") // too late, and harmless
	c.Begin(at(0), "w2", "intake", "i4", []string{"a", "b"})
	c.End("i5") // overtakes its begin
	c.Begin(at(0), "w2", "intake", "i5", []string{"a"})
	s := c.Stats(at(0))
	if s.DuplicateRuns != 1 || s.Invocations["w1/intake"] != 0 || s.Invocations["w2/intake"] != 1 {
		t.Errorf("after w1 is gone: %+v", s)
	}
	if s.Began["intake"] != 3 || s.Began["repoll"] != 1 || c.Stats(at(time.Second)).Began["intake"] != 0 {
		t.Errorf("began in the last second: %v", s.Began)
	}
	if began != 4 {
		t.Errorf("OnBegin was told of %d invocations", began)
	}
}

func TestDrawsDoNotDependOnOrder(t *testing.T) {
	cfg := func(c *Config) { c.ErrorRate, c.Seed = 0.3, 7 }
	a, b := newCloud(t, cfg), newCloud(t, cfg)
	plans := map[string]Plan{}
	faults := map[Fault]int{}
	for i := range 1000 {
		key := fmt.Sprint("k", i)
		plans[key] = a.Plan("start", key)
		faults[plans[key].Fault]++
		if l := plans[key].Latency; l < 50*time.Millisecond || l >= 500*time.Millisecond {
			t.Fatalf("latency %v", l)
		}
	}
	for i := range 1000 {
		key := fmt.Sprint("k", 999-i)
		if p := b.Plan("start", key); p != plans[key] {
			t.Fatalf("%s: %+v in one order, %+v in another", key, plans[key], p)
		}
	}
	if n := faults[FaultBefore]; n < 100 || n > 200 {
		t.Errorf("%d of 1000 calls failed before the effect, want about 150", n)
	}
	if n := faults[FaultAfter]; n < 100 || n > 200 {
		t.Errorf("%d of 1000 calls failed after the effect, want about 150", n)
	}
	if s := a.Stats(t0); s.Errors != faults[FaultBefore]+faults[FaultAfter] {
		t.Errorf("books: %d errors", s.Errors)
	}
	first := a.Plan("start", "again")
	differs := false
	for range 20 { // a retry of a failed call must not fail for ever
		differs = differs || a.Plan("start", "again") != first
	}
	if !differs {
		t.Error("every call of one key draws the same")
	}
}

func TestValidate(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"rate":       func(c *Config) { c.Rate = 0 },
		"burst":      func(c *Config) { c.Burst = 0 },
		"task":       func(c *Config) { c.TaskMax = c.TaskMin - 1 },
		"start":      func(c *Config) { c.StartMin = -1 },
		"error rate": func(c *Config) { c.ErrorRate = 1 },
	} {
		cfg := Defaults()
		change(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("a bad %s was accepted", name)
		}
	}
}
