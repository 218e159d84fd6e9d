package faultstore

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Faults decides over the calls of every store that it wraps. Create it with [New]; its methods may be called at any time.
type Faults struct {
	// Sleep waits for d or until ctx ends, and says why it ended early. It may be replaced before the first Wrap; nil means real timers.
	Sleep func(ctx context.Context, d time.Duration) error

	seed uint64

	mu     sync.Mutex
	rules  []*active
	next   uint64 // number of the next rule
	calls  map[Op]int
	hit    map[Op]int
	healed chan struct{}
}

type active struct {
	Rule
	number  uint64
	skipped int
	hits    int
}

// New returns Faults without a rule: every call passes.
func New(seed uint64) *Faults {
	return &Faults{seed: seed, calls: map[Op]int{}, hit: map[Op]int{}, healed: make(chan struct{})}
}

// Inject adds rules.
func (f *Faults) Inject(rules ...Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range rules {
		f.rules = append(f.rules, &active{Rule: r, number: f.next})
		f.next++
	}
}

// Heal takes every rule away and lets the calls that hang go on.
func (f *Faults) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
	close(f.healed)
	f.healed = make(chan struct{})
}

// Calls is how often an operation was called, whatever became of it.
func (f *Faults) Calls(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

// Hits is how many calls of an operation got a fault.
func (f *Faults) Hits(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hit[op]
}

// verdict is what is to be done with one call.
type verdict struct {
	fault  Fault // 0: nothing
	err    error
	delay  time.Duration
	healed <-chan struct{}
}

func (f *Faults) decide(op Op, req any) verdict {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[op]++
	call := Call{Op: op, N: f.calls[op], Req: req}
	for _, r := range f.rules {
		if !r.about(op) || r.Count > 0 && r.hits >= r.Count || r.Match != nil && !r.Match(call) || !f.chance(r, call) {
			continue
		}
		if r.skipped < r.Skip {
			r.skipped++
			continue
		}
		r.hits++
		f.hit[op]++
		v := verdict{fault: r.Fault, err: r.Err, delay: r.Delay, healed: f.healed}
		if v.err == nil {
			v.err = ErrInjected
		}
		return v
	}
	return verdict{}
}

func (a *active) about(op Op) bool {
	if len(a.Ops) == 0 {
		return slices.Contains(Ops, op)
	}
	return slices.Contains(a.Ops, op)
}

// chance draws for one call of one rule from the seed alone: calls of other operations beside it do not change it.
func (f *Faults) chance(r *active, c Call) bool {
	if r.P <= 0 {
		return true
	}
	h := f.seed
	for _, b := range []byte(c.Op) {
		h = (h ^ uint64(b)) * 1099511628211 // FNV-1a
	}
	return rand.New(rand.NewPCG(h, r.number<<32^uint64(c.N))).Float64() < r.P
}

func (f *Faults) sleep(ctx context.Context, d time.Duration) error {
	if f.Sleep != nil {
		return f.Sleep(ctx, d)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// do makes one call under the rules.
func do[R any](ctx context.Context, f *Faults, op Op, req any, call func() (R, error)) (R, error) {
	var none R
	v := f.decide(op, req)
	switch v.fault {
	case FailBefore:
		return none, v.err
	case DropReply:
		if _, err := call(); err != nil {
			return none, err
		}
		return none, v.err
	case Delay:
		if err := f.sleep(ctx, v.delay); err != nil {
			return none, err
		}
	case Hang:
		select {
		case <-v.healed:
		case <-ctx.Done():
			return none, context.Cause(ctx)
		}
	case HangReply:
		r, err := call()
		select {
		case <-v.healed:
			return r, err
		case <-ctx.Done():
			return none, context.Cause(ctx)
		}
	}
	return call()
}
