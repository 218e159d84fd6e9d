package storetest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/faultstore"
	"github.com/twolane/twolane/store/memstore"
)

// randomBudget is how long [RunRandom] draws new sequences; a duration in the environment variable TWOLANE_RANDOM replaces it.
const randomBudget = 10 * time.Second

// RunRandom makes random sequences of operations on the store that h opens and, step by step, on memstore, which answers by definition. The
// clocks of both go together: forward, back and by long outages. Answers may be lost after the step was made; the call is then repeated. A
// claim may grant less than the model only while it says that there is more; once it does not, both must agree on every command, and after
// maintenance on lists and numbers too. Choices among equals are the store's: where they would show, both are asked for all there is.
//
// Other sequences follow in which limits come, change and go; there it is asked after each step whether what it
// did is allowed, by what a limit is.
func RunRandom(t *testing.T, h Harness) {
	budget := randomBudget
	if s := os.Getenv("TWOLANE_RANDOM"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatalf("TWOLANE_RANDOM: %v", err)
		}
		budget = d
	}
	for name, value := range map[string]string{"rapid.steps": "50", "rapid.nofailfile": "true"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() == f.DefValue {
			if err := f.Value.Set(value); err != nil {
				t.Fatal(err)
			}
		}
	}
	start, n, failed := time.Now(), 0, false
	for round := 0; round == 0 || !failed && os.Getenv("TWOLANE_RANDOM") != "" && time.Since(start) < budget; round++ {
		rapid.Check(t, func(rt *rapid.T) {
			if !failed && n > 0 && time.Since(start) > budget {
				return // while a failure is being shrunk every sequence counts
			}
			n++
			d := newDuo(t, rt, h)
			defer func() {
				failed = failed || rt.Failed()
				d.close()
			}()
			rt.Repeat(map[string]func(*rapid.T){
				"submit": d.submit, "submit more": d.submit, "advance": d.advance, "maintain": d.maintain, "renew": d.renew,
				"claim intake": d.claimIntake, "claim intake again": d.claimIntake, "claim repoll": d.claimRepoll, "repeat claim": d.repeatClaim,
				"settle": d.settle, "settle more": d.settle, "cancel": d.cancel, "act": d.act, "act on filter": d.actOnFilter,
				"configure": d.configure, "outbox": d.outbox,
				"": d.agree,
			})
		})
	}
	t.Logf("%d sequences in %v", n, time.Since(start).Round(time.Millisecond))
	t.Run("limits", func(t *testing.T) { randomLimits(t, h, budget) })
}

// duo is the store under test beside the model.
type duo struct {
	t      *testing.T
	rt     *rapid.T // of the step under way
	ctx    context.Context
	s      store.Store // behind faults
	faults *faultstore.Faults
	m      store.Store
	now    store.Millis
	v      time.Duration
	lease  store.Millis // lease clock of s minus that of m
	unique store.Millis // drawn times are made distinct with it
	nonces int
	order  store.Order
	rate   store.Rate // of the intake lanes; it stays, since a store may begin anew with what is left of a bucket when a rate changes
	pairs  []pair     // every lease that was ever granted
	last   map[string]store.ClaimRequest
	gone   map[string]bool // workers that have taken themselves off
	// dirty says that time has moved since the last maintenance of both.
	dirty bool
}

// pair is one lease under its two names.
type pair struct {
	id, worker string
	lane       store.Lane
	s, m       store.LeaseName
}

var (
	randomIDs     = names("c", 16)
	randomKids    = names("k", 4)
	randomAll     = append(append([]string{}, randomIDs...), randomKids...)
	randomQueues  = []string{"qa", "qb"}
	randomTypes   = []string{"ta", "tb"}
	randomWorkers = []string{"w1", "w2", "w3"}
)

func names(prefix string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%s%02d", prefix, i))
	}
	return all
}

func newDuo(t *testing.T, rt *rapid.T, h Harness) *duo {
	d := &duo{
		t: t, rt: rt, ctx: context.Background(), faults: faultstore.New(1), m: memstore.New(), now: epoch, v: store.DefaultV,
		last: map[string]store.ClaimRequest{}, gone: map[string]bool{},
	}
	d.s = d.faults.Wrap(h.Open(t))
	d.setClock()
	d.both(func(s store.Store) { d.drain(s) })
	a, b := d.stats(d.s), d.stats(d.m)
	if a.Run != b.Run {
		rt.Fatalf("a new namespace whose clock was set forward to %d has run clock %d", epoch, a.Run)
	}
	d.lease = a.LeaseAt - b.LeaseAt
	d.order = rapid.SampledFrom([]store.Order{store.ByPriority, store.ByDeadline}).Draw(rt, "order")
	d.rate = rapid.SampledFrom([]store.Rate{{}, {}, {Limit: 0.1, Burst: 1}, {Limit: 1, Burst: 3}, {Limit: 7}}).Draw(rt, "rate")
	q := store.QueueConfig{Order: d.order, Rates: [2]store.Rate{d.rate}}
	d.setConfig(store.Config{Queues: map[string]store.QueueConfig{"qa": q, "qb": q}})
	return d
}

func (d *duo) close() {
	r, err := d.s.Audit(d.ctx)
	if err != nil {
		d.t.Errorf("audit: %v", err)
	} else if len(r.Violations) > 0 {
		d.rt.Errorf("audit found %q", r.Violations)
	}
	if err := d.s.Close(); err != nil {
		d.t.Errorf("close: %v", err)
	}
	_ = d.m.Close() // memory never fails
}

func (d *duo) both(f func(s store.Store)) { f(d.s); f(d.m) }

func (d *duo) ok(err error) {
	if err != nil {
		d.rt.Fatal(err)
	}
}

func (d *duo) setClock() {
	d.both(func(s store.Store) { d.ok(s.(store.Clocker).SetClock(d.ctx, d.now)) })
	d.dirty = true
}

func (d *duo) stats(s store.Store) store.Stats {
	st, err := s.Stats(d.ctx, store.StatsRequest{Queues: randomQueues, Groups: []string{"g1", "g2"}})
	d.ok(err)
	return st
}

// drain does maintenance until there is no more.
func (d *duo) drain(s store.Store) {
	for i := 0; ; i++ {
		r, err := s.Maintain(d.ctx)
		d.ok(err)
		if !r.More {
			return
		}
		if i > 1000 {
			d.rt.Fatal("maintenance never ends")
		}
	}
}

// lossy says whether the next call of an operation on the store under test loses its answer.
func (d *duo) lossy(op faultstore.Op) bool {
	if rapid.IntRange(0, 6).Draw(d.rt, "lost") > 0 {
		return false
	}
	d.faults.Inject(faultstore.Rule{Ops: []faultstore.Op{op}, Fault: faultstore.DropReply, Count: 1})
	return true
}

// call makes a call, and makes it once more if its answer is lost.
func call[R any](d *duo, lost bool, f func() (R, error)) R {
	r, err := f()
	if lost {
		if err == nil {
			d.rt.Fatal("a call whose answer was to be lost has one")
		}
		r, err = f()
	}
	d.ok(err)
	return r
}

// far returns the time d from now, moved by milliseconds so that no two that are drawn are equal.
func (d *duo) far(dur time.Duration) store.Millis {
	d.unique++
	return d.now.Add(dur)/1000*1000 + d.unique%1000
}

// later returns a duration of about dur that ends at a time of its own.
func (d *duo) later(dur time.Duration) time.Duration { return max(0, d.far(dur).Sub(d.now)) }

func (d *duo) maintain(rt *rapid.T) {
	d.rt = rt
	d.both(d.drain)
	d.dirty = false
	d.runSuspects()
	d.agreeOnNumbers()
}

func (d *duo) advance(rt *rapid.T) {
	d.rt = rt
	d.now = d.now.Add(rapid.SampledFrom([]time.Duration{
		time.Millisecond, 100 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 5 * time.Second, 5 * time.Second, 11 * time.Second,
		time.Minute, 10 * time.Minute, time.Hour, 25 * time.Hour, -time.Second, -time.Minute, -time.Hour,
	}).Draw(rt, "step"))
	d.now += store.Millis(rapid.IntRange(0, 300).Draw(rt, "ms"))
	d.setClock()
}
