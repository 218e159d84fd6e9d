package faults

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/gate"
	"github.com/twolane/twolane/internal/redistest"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/faultstore"
	"github.com/twolane/twolane/store/memstore"
)

// anywhere runs f with workers on each kind of store: on memory in fake time, on the others as time goes.
func anywhere(t *testing.T, v time.Duration, f func(r *rig)) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { on(t, memstore.New(), v, f) })
	})
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); on(t, openSQLite(t), v, f) })
	t.Run("redis", func(t *testing.T) { t.Parallel(); on(t, openRedis(t, redistest.Shared(t).URL()), v, f) })
}

// until waits for what other goroutines do.
func (r *rig) until(what string, ok func() bool) {
	r.Helper()
	for range 2000 {
		if ok() {
			return
		}
		time.Sleep(10 * milli)
	}
	r.Fatalf("waited in vain for %s", what)
}

// leaving are the ways in which a handler leaves its first command: it is in none of them leased afterwards.
var leaving = map[string]func(ctx context.Context, r *rig, j *job) (twolane.Outcome, error){
	"done":      func(context.Context, *rig, *job) (twolane.Outcome, error) { return twolane.Done("x"), nil },
	"fail":      func(context.Context, *rig, *job) (twolane.Outcome, error) { return twolane.Fail(errors.New("no")), nil },
	"drop":      func(context.Context, *rig, *job) (twolane.Outcome, error) { return twolane.Drop("x"), nil },
	"error":     func(context.Context, *rig, *job) (twolane.Outcome, error) { return twolane.Outcome{}, errors.New("no") },
	"neither":   func(context.Context, *rig, *job) (twolane.Outcome, error) { return twolane.Outcome{}, nil },
	"panic":     func(context.Context, *rig, *job) (twolane.Outcome, error) { panic("boom") },
	"snooze":    func(context.Context, *rig, *job) (twolane.Outcome, error) { return twolane.Snooze(time.Hour), nil },
	"throttled": func(context.Context, *rig, *job) (twolane.Outcome, error) { return twolane.Throttled(time.Hour), nil },
	"too-large": func(context.Context, *rig, *job) (twolane.Outcome, error) {
		return twolane.Done(strings.Repeat("x", 2<<20)), nil
	},
	"park": func(context.Context, *rig, *job) (twolane.Outcome, error) {
		return twolane.Processing("", time.Hour), nil
	},
	"deadline": waits, "max-run": waits, "cancel": waits, "force": waits, "delete": waits, "purge": waits, "killed": waits, "drained": waits,
	"deaf": func(_ context.Context, _ *rig, j *job) (twolane.Outcome, error) { // its lease ends as a loss
		if j.Starts() > 1 {
			return twolane.Done("x"), nil
		}
		time.Sleep(4 * sec)
		return twolane.Outcome{}, nil
	},
}

// waits waits for the end of its context; once more started it is done.
func waits(ctx context.Context, _ *rig, j *job) (twolane.Outcome, error) {
	if j.Starts() > 1 {
		return twolane.Done("x"), nil
	}
	<-ctx.Done()
	return twolane.Outcome{}, context.Cause(ctx)
}

// Whatever becomes of an invocation, by its handler or by others: its slots are given back in the step that ends it, under a limit of 1 of each scope, and
// the next command of the key runs. Only what is parked, or may still run elsewhere, keeps a slot of scope command.
func TestF004_F007_HandlersUnderLimits(t *testing.T) {
	anywhere(t, sec, func(r *rig) {
		for name, scope := range map[string]twolane.Scope{"inv": twolane.ScopeInvocation, "cmd": twolane.ScopeCommand} {
			r.ok(r.client.SetLimit(r.Context(), twolane.Limit{Name: name, By: twolane.ByGroup, Max: 1, Scope: scope}))
		}
		never := twolane.Backoff{Base: time.Hour, Max: time.Hour}
		handle := func(w *twolane.Worker, names ...string) {
			for _, name := range names {
				h := handler{Backoff: never, Execute: func(ctx context.Context, j *job) (twolane.Outcome, error) { return leaving[name](ctx, r, j) }}
				switch name {
				case "park":
					h.Check = h.Execute
				case "max-run", "deaf":
					h.MaxRun = sec
				}
				twolane.Handle(w, name, h)
			}
		}
		all := []string{"undecodable", "gate-drop"}
		for name := range leaving {
			all = append(all, name)
		}
		slices.Sort(all)
		main := func(w *twolane.Worker) {
			for _, name := range all {
				if leaving[name] != nil {
					handle(w, name)
				}
			}
			twolane.Handle(w, "undecodable", twolane.Handler[int, int]{Backoff: never, Execute: func(context.Context, *twolane.Job[int, int]) (twolane.Outcome, error) {
				return twolane.Done(nil), nil
			}})
			twolane.HandleFunc(w, "gate-drop", r.sleeps(0))
			twolane.HandleFunc(w, "next", r.sleeps(0))
		}
		// What a worker takes with it, or drains, is taken by workers of their own first.
		victims := map[string]*worker{}
		for _, name := range []string{"killed", "drained"} {
			victims[name] = r.work(twolane.WorkerConfig{DrainBudget: sec}, func(w *twolane.Worker) { handle(w, name) })
			r.submit(twolane.Submission{ID: name, Type: name, Group: name})
			r.until(name+" to run", func() bool { return r.get(name).Starts == 1 })
		}
		r.work(twolane.WorkerConfig{
			Concurrency: twolane.Lanes{Intake: 50, Repoll: 10}, Overdue: twolane.AbandonOverdue, OverdueGrace: sec / 2,
			Gates: []gate.Binding{{Name: "g", Gate: dropper{}, Types: []string{"gate-drop"}}},
		}, main)
		for _, name := range all {
			if victims[name] == nil {
				s := twolane.Submission{ID: name, Type: name, Group: name, Params: "text"}
				if name == "deadline" {
					s.Deadline = r.now().Add(2 * sec)
				}
				r.submit(s)
			}
		}
		for _, name := range all {
			r.until(name+" to run", func() bool { c := r.get(name); return c.Starts > 0 || c.Status.Terminal() || c.Failures > 0 })
		}
		all = append(all, "stranger") // nobody knows its type: it holds nothing
		r.submit(twolane.Submission{ID: "stranger", Type: "stranger", Group: "stranger"})
		for _, name := range all { // they wait while the first has the slot, if it still has
			r.submit(twolane.Submission{ID: name + ".next", Type: "next", Group: name})
		}
		time.Sleep(200 * milli)
		for _, name := range []string{"cancel", "force", "delete", "purge", "killed", "drained"} {
			if st := r.limit("inv", name); st.Members != 1 || !slices.Equal(st.Holders, []string{name}) {
				r.Errorf("%s runs: %+v", name, st)
			}
		}
		_, err := r.client.Cancel(r.Context(), []string{"cancel"}, nil)
		r.ok(err)
		_, err = r.client.Cancel(r.Context(), []string{"force"}, &twolane.CancelOptions{Force: true})
		r.ok(err)
		_, err = r.client.Delete(r.Context(), twolane.IDs("delete"), &twolane.ActOptions{Force: true})
		r.ok(err)
		_, err = r.client.Delete(r.Context(), twolane.Matching(twolane.Filter{Queue: twolane.DefaultQueue, Status: twolane.StatusPending, Type: "purge"}), &twolane.ActOptions{Force: true})
		r.ok(err)
		victims["killed"].kill()
		victims["drained"].stop()
		for _, name := range all {
			if name != "park" {
				if c := r.wait(name + ".next")[0]; c.Status != twolane.StatusSucceeded {
					r.Errorf("what waits behind %s is %v", name, c.Status)
				}
			}
		}
		for _, name := range all {
			inv, cmd := 0, 0
			if name == "park" {
				cmd = 1
			}
			if a, b := r.limit("inv", name).Members, r.limit("cmd", name).Members; a != inv || b != cmd {
				r.Errorf("%s: %d members of scope invocation and %d of scope command, want %d and %d", name, a, b, inv, cmd)
			}
		}
		x, err := r.client.Explain(r.Context(), "park.next")
		if r.ok(err); x.Wait != twolane.WaitLimit || x.Limit.Limit != "cmd" || !slices.Equal(x.Limit.Holders, []string{"park"}) {
			r.Errorf("behind what is parked: %+v %+v", x, x.Limit)
		}
		_, err = r.client.Cancel(r.Context(), []string{"park"}, nil)
		r.ok(err)
		r.wait("park.next")
		_, err = r.client.Cancel(r.Context(), []string{"stranger"}, nil)
		r.ok(err)
		st, err := r.client.Stats(r.Context())
		r.ok(err)
		for _, l := range st.Limits {
			if l.Members != 0 || l.Lines != 0 {
				r.Errorf("in the end: %+v", l)
			}
		}
	})
}

// now is the time of the store.
func (r *rig) now() time.Time {
	r.Helper()
	st, err := r.client.Stats(r.Context())
	r.ok(err)
	return st.AsOf
}

func (r *rig) limit(name, value string) store.LimitState {
	r.Helper()
	st, err := r.client.Limit(r.Context(), name, value)
	r.ok(err)
	return st
}

// dropper is a gate that drops everything.
type dropper struct{}

func (dropper) Read(time.Time, gate.Scope) gate.Reading {
	return gate.Reading{Budget: 1, Value: gate.None, Threshold: gate.None, Up: true}
}

func (dropper) Judge(time.Time, gate.Scope, *gate.Job) gate.Verdict {
	return gate.Verdict{Decision: gate.Drop}
}

// Handlers are cancelled at random moments and the settles of their ends fail, or are made with their answer lost: each slot is given back once, with the
// settle that is taken in the end, and the next ones have them all.
func TestF042_SlotsComeBackFromCancels(t *testing.T) {
	const most = 10
	anywhere(t, 2*sec, func(r *rig) {
		for name, scope := range map[string]twolane.Scope{"inv": twolane.ScopeInvocation, "cmd": twolane.ScopeCommand} {
			r.ok(r.client.SetLimit(r.Context(), twolane.Limit{Name: name, Max: most, Scope: scope}))
		}
		w := r.work(twolane.WorkerConfig{Concurrency: twolane.Lanes{Intake: 2 * most, Repoll: 2 * most}}, func(w *twolane.Worker) {
			poll := func(ctx context.Context, j *job) (twolane.Outcome, error) {
				<-ctx.Done()
				return twolane.Outcome{}, context.Cause(ctx)
			}
			twolane.Handle(w, "a", handler{Execute: poll})
			twolane.Handle(w, "b", handler{Execute: func(context.Context, *job) (twolane.Outcome, error) { return twolane.Processing("", 0), nil }, Check: poll})
			twolane.HandleFunc(w, "next", r.sleeps(0))
		})
		ids := append(r.many(most/2, twolane.Submission{Type: "a"}), r.many(most/2, twolane.Submission{Type: "b"})...)
		r.until("all to run", func() bool { return w.Health().Held == twolane.Lanes{Intake: most / 2, Repoll: most / 2} })
		next := r.many(2*most, twolane.Submission{Type: "next"})
		w.faults.Inject(faultstore.Rule{Ops: []faultstore.Op{faultstore.Settle}, Fault: faultstore.DropReply, Count: 3},
			faultstore.Rule{Ops: []faultstore.Op{faultstore.Settle}, Fault: faultstore.FailBefore, Count: 3})
		for _, id := range ids {
			_, err := r.client.Cancel(r.Context(), []string{id}, nil)
			r.ok(err)
			time.Sleep(rand.N(50 * milli))
			if st := r.limit("cmd", ""); st.Members > most {
				r.Errorf("%d members of %d", st.Members, most)
			}
		}
		r.wait(ids...)
		r.wait(next...)
		if n := w.faults.Hits(faultstore.Settle); n != 6 {
			r.Errorf("%d settles failed, want 6", n)
		}
		for _, name := range []string{"inv", "cmd"} {
			if st := r.limit(name, ""); st.Members != 0 || st.Lines != 0 {
				r.Errorf("in the end: %+v", st)
			}
		}
		r.until("the worker to have nothing in hand", func() bool { h := w.Health(); return h.Leases == 0 && h.Unsettled == 0 })
		r.idle(w)
	})
}
