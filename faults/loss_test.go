package faults

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/faultstore"
)

// The reaper takes the oldest first, so what expires later never keeps what is there already waiting, though it comes as fast as it is reaped.
func TestF015_NothingIsStarvedByLaterLosses(t *testing.T) {
	everywhere(t, func(r *rig, c *clock) {
		const n, ticks, later = 500, 40, 20
		const every = 100 * milli
		old := map[string]bool{}
		lease := func(prefix string, n int) (ids []string) {
			subs := make([]twolane.Submission, n)
			for i := range subs {
				subs[i] = twolane.Submission{ID: fmt.Sprintf("%s-%04d", prefix, i), Type: "a"}
			}
			r.submit(subs...)
			for got := 0; got < n; {
				cs := claim(r, r.st, "dead", n-got)
				if len(cs) == 0 {
					r.Fatal("nothing to claim")
				}
				got += len(cs)
			}
			return r.ids(subs)
		}
		for _, id := range lease("old", n) {
			old[id] = true
		}
		for k := range ticks {
			c.pass(every)
			lease(fmt.Sprintf("a%02d", k), later) // their ids go before those of the old ones
		}
		for left := 20*sec - ticks*every - milli; left > 0; left -= 4 * sec {
			c.pass(min(left, 4*sec))
			if rep, err := r.st.Maintain(r.Context()); err != nil || rep.Reaped > 0 {
				r.Fatalf("%+v %v", rep, err)
			}
		}
		c.pass(milli)
		reaped := 0 // a step is bounded by time, too: what counts is how many went before the last old one
		for k := 1; len(old) > 0; k++ {
			rep, err := r.st.Maintain(r.Context())
			r.ok(err)
			if reaped += rep.Reaped; k == 1 && (reaped == 0 || reaped > n/2) {
				r.Fatalf("a step reaped %d of %d: the test needs several", reaped, n)
			}
			if reaped > 2*n || rep.Reaped == 0 {
				r.Fatalf("%d of %d wait after %d were reaped in %d steps", len(old), n, reaped, k)
			}
			cs, err := r.st.Get(r.Context(), keys(old), store.GetOptions{NoBlobs: true})
			r.ok(err)
			for _, cmd := range cs {
				if cmd.Place != store.Leased {
					if delete(old, cmd.ID); cmd.Losses != 1 {
						r.Errorf("%s: %d losses", cmd.ID, cmd.Losses)
					}
				}
			}
			c.pass(every)
		}
	})
}

func (r *rig) ids(subs []twolane.Submission) (ids []string) {
	for _, s := range subs {
		ids = append(ids, s.ID)
	}
	return ids
}

func keys(m map[string]bool) (ks []string) {
	for k := range m {
		ks = append(ks, k)
	}
	return ks
}

// Whichever call of the recovery fails, before its step or after it, the next one goes on: all run once more, and count one loss.
func TestF036_RecoveryGoesOnAfterAnyFailedStep(t *testing.T) {
	t.Parallel()
	for _, op := range []faultstore.Op{faultstore.Claim, faultstore.Renew, faultstore.Maintain} {
		for _, fault := range []faultstore.Fault{faultstore.FailBefore, faultstore.DropReply} {
			for nth := 1; nth <= 6; nth++ {
				t.Run(fmt.Sprint(op, fault, nth), func(t *testing.T) {
					bubble(t, 2*sec, func(r *rig) {
						w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) { twolane.HandleFunc(w, "a", r.sleeps(10*sec)) })
						ids := r.many(150, twolane.Submission{Type: "a"})
						time.Sleep(sec)
						w.kill()
						// From here on the nth, 2nth, … call fails; the worker that recovers has no other.
						r.work(twolane.WorkerConfig{Concurrency: twolane.Lanes{Intake: 40, Repoll: 1}}, func(w *twolane.Worker) {
							twolane.HandleFunc(w, "a", r.sleeps(100*milli))
						}, faultstore.Rule{Ops: []faultstore.Op{op}, Fault: fault, Match: func(c faultstore.Call) bool { return c.N%(nth+1) == nth }})
						begin := time.Now()
						for _, c := range r.wait(ids...) {
							if c.Starts < 1 || c.Starts > 2 || c.Losses != 0 || c.Failures != 0 || c.Status != twolane.StatusSucceeded {
								r.Fatalf("%+v", c)
							}
							lost := 0
							for _, e := range c.Events {
								if e.Kind == store.EventLost {
									lost++
								}
							}
							if lost != c.Starts-1 {
								r.Fatalf("%d losses are told of %d starts", lost, c.Starts)
							}
						}
						if d := time.Since(begin); d > 30*sec {
							r.Errorf("it took %v", d)
						}
					})
				})
			}
		}
	}
}

// The same on every store: a step of maintenance whose answer was lost is made again and counts nothing twice.
func TestF036_RepeatedStepsCountOnce(t *testing.T) {
	everywhere(t, func(r *rig, c *clock) {
		faults := faultstore.New(1)
		st := faults.Wrap(r.st)
		ids := r.many(250, twolane.Submission{Type: "a"})
		for got := 0; got < len(ids); {
			got += len(claim(r, r.st, "dead", len(ids)))
		}
		for range 4 {
			c.pass(5 * sec)
			if c.now < epoch.Add(20*sec) {
				_, err := r.st.Maintain(r.Context())
				r.ok(err)
			}
		}
		faults.Inject(faultstore.Rule{Ops: []faultstore.Op{faultstore.Maintain}, Fault: faultstore.DropReply, Match: func(c faultstore.Call) bool { return c.N%2 == 1 }})
		failed := 0
		for range 50 {
			rep, err := st.Maintain(r.Context())
			if err != nil {
				failed++
			} else if !rep.More {
				break
			}
		}
		if failed == 0 {
			r.Fatal("no step failed")
		}
		for _, id := range ids {
			if cmd := r.get(id); cmd.Losses != 1 || cmd.Place != twolane.PlaceLine || cmd.Status != twolane.StatusPending {
				r.Fatalf("%+v", cmd)
			}
		}
	})
}

// A handler that is long beside the visibility timeout, and five workers that would all take it: it starts once, and its lease is renewed all along.
func TestF045_LongCallStartsOnce(t *testing.T) {
	t.Parallel()
	bubble(t, 2*sec, func(r *rig) {
		for range 5 {
			r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
				twolane.Handle(w, "a", handler{
					Execute: func(ctx context.Context, j *job) (twolane.Outcome, error) {
						defer r.enter(ctx, j.ID())()
						time.Sleep(30 * sec)
						return twolane.Processing("going on", sec), ctx.Err()
					},
					Check: func(ctx context.Context, j *job) (twolane.Outcome, error) {
						defer r.enter(ctx, j.ID()+" check")()
						time.Sleep(30 * sec)
						return twolane.Done(j.State), ctx.Err()
					},
				})
			})
		}
		id := r.submit(twolane.Submission{Type: "a"})[0]
		renewals, last := 0, time.Time{}
		for begin := time.Now(); time.Since(begin) < 29*sec; time.Sleep(100 * milli) {
			synctest.Wait()
			cs, err := r.st.Get(r.Context(), []string{id}, store.GetOptions{})
			r.ok(err)
			if until := cs[0].LeaseUntil.Time(); until.After(last) {
				renewals, last = renewals+1, until
			}
		}
		c := r.wait(id)[0]
		if r.started(id) != 1 || r.started(id+" check") != 1 || c.Starts != 2 || c.Losses != 0 || c.Polls != 1 {
			r.Errorf("%d executed, %d checked: %+v", r.started(id), r.started(id+" check"), c)
		}
		if renewals < 30 {
			r.Errorf("the end of the lease moved %d times in 29 s", renewals)
		}
	})
}

// Nothing but keep-alives for ten minutes, while wake-ups and connections come and go: what has ended never runs again.
func TestF067_KeepAlivesBringNothingBack(t *testing.T) {
	t.Parallel()
	bubble(t, 2*sec, func(r *rig) {
		hooks := func(w *twolane.Worker) { twolane.HandleFunc(w, "a", r.sleeps(10*milli)) }
		w := r.work(twolane.WorkerConfig{}, hooks)
		ids := r.many(100, twolane.Submission{Type: "a"})
		r.wait(ids...)
		for _, rule := range []faultstore.Rule{
			{Ops: []faultstore.Op{faultstore.Watch}, Fault: faultstore.FailBefore, P: .5},
			{Ops: []faultstore.Op{faultstore.Wake}, Fault: faultstore.FailBefore, P: .5},
			{Ops: []faultstore.Op{faultstore.Renew, faultstore.Claim}, Fault: faultstore.DropReply, P: .3},
			{Ops: []faultstore.Op{faultstore.Renew, faultstore.Claim}, Fault: faultstore.FailBefore, P: .3},
		} {
			w.faults.Inject(rule)
		}
		time.Sleep(10 * time.Minute)
		for _, id := range ids {
			if c := r.get(id); r.started(id) != 1 || c.Starts != 1 || c.Status != twolane.StatusSucceeded {
				r.Errorf("%d runs: %+v", r.started(id), c)
			}
		}
		if w.faults.Calls(faultstore.Renew) < 600 || w.faults.Hits(faultstore.Claim) < 60 {
			r.Errorf("%d keep-alives, %d failed claims", w.faults.Calls(faultstore.Renew), w.faults.Hits(faultstore.Claim))
		}
		r.idle(w)
	})
}
