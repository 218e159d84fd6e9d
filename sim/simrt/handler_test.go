package simrt

import (
	"context"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/twolane/twolane"
)

type params struct{ N int }
type state struct{ Round int }
type job = *twolane.Job[params, state]

var errHandler = errors.New("handler failed")

// dice are the choices of one invocation: the seed, the command and the number of the invocation decide.
func (m *member) dice(j job) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(j.ID()))
	return rand.New(rand.NewPCG(m.w.seed^h.Sum64(), uint64(j.Starts())))
}

func (m *member) handlers() {
	w := m.worker
	twolane.Handle(w, "quick", twolane.Handler[params, state]{Execute: m.work, Backoff: backoff})
	twolane.Handle(w, "long", twolane.Handler[params, state]{Execute: m.work, Check: m.work, Backoff: backoff})
	twolane.Handle(w, "hook", twolane.Handler[params, state]{Execute: m.work, Check: m.work, Backoff: backoff, Cancel: func(ctx context.Context, j job) error {
		if !m.w.isHealed() && m.dice(j).IntN(2) == 0 {
			return errHandler
		}
		return nil
	}})
	twolane.Handle(w, "batch", twolane.Handler[params, state]{ExecuteBatch: m.batch, CheckBatch: m.batch, BatchSize: 4, Backoff: backoff})
}

var backoff = twolane.Backoff{Base: 200 * time.Millisecond, Max: 5 * time.Second}

// work is one invocation of one command.
func (m *member) work(ctx context.Context, j job) (twolane.Outcome, error) {
	r := m.dice(j)
	m.spend(ctx, r)
	return m.outcome(ctx, j, r)
}

// spend takes time, most times until the context ends.
func (m *member) spend(ctx context.Context, r *rand.Rand) {
	d := time.Duration(r.IntN(200)) * time.Millisecond
	if r.IntN(6) == 0 {
		d *= 50
	}
	if m.w.isHealed() || !m.w.calm && r.IntN(8) == 0 { // rude
		time.Sleep(min(d, 9*time.Second))
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (m *member) outcome(ctx context.Context, j job, r *rand.Rand) (twolane.Outcome, error) {
	if err := ctx.Err(); err != nil && r.IntN(4) > 0 {
		return twolane.Outcome{}, context.Cause(ctx)
	}
	if m.w.isHealed() {
		return twolane.Done(state{j.State.Round}), nil
	}
	_ = j.Progress(params{r.IntN(9)}) // ErrLeaseLost is what the context says too
	switch x := r.IntN(100); {
	case x < 35 && j.Type() != "quick":
		return twolane.Processing(state{j.State.Round + 1}, time.Duration(100+r.IntN(3000))*time.Millisecond), nil
	case x < 50:
		return twolane.Outcome{}, errHandler
	case x < 53:
		panic("handler panics")
	case x < 55:
		runtime.Goexit()
	case x < 60:
		return twolane.Fail(errHandler), nil
	case x < 66:
		return twolane.Snooze(time.Duration(r.IntN(2000)) * time.Millisecond), nil
	case x < 69 && !m.w.calm:
		return twolane.Throttled(time.Duration(r.IntN(2000)) * time.Millisecond), nil
	case x < 72:
		return twolane.Done(make([]byte, 2<<20)), nil // too large
	case x < 76:
		sub := twolane.Submission{ID: j.ID() + ".f", Type: "quick", Queue: "a", Params: params{1}}
		m.w.add(sub)
		return twolane.Done(nil, sub), nil
	}
	return twolane.Done(state{j.State.Round}), nil
}

// batch answers for some jobs early, for some at the end, and for some not at all.
func (m *member) batch(ctx context.Context, jobs []job) error {
	r := m.dice(jobs[0])
	for i, j := range jobs {
		if r.IntN(3) == 0 {
			j.Answer(m.outcome(j.Context(), j, m.dice(j)))
		}
		if i == 0 {
			m.spend(ctx, r)
		}
	}
	if r.IntN(8) == 0 && !m.w.isHealed() {
		return errHandler
	}
	for _, j := range jobs {
		if m.w.isHealed() || r.IntN(10) > 0 {
			j.Answer(m.outcome(j.Context(), j, m.dice(j)))
		}
	}
	return nil
}
