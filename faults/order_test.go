package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/internal/redistest"
	"github.com/twolane/twolane/store"
)

// A retention that is shorter than the retries never applies to what lives.
func TestF034_RetentionSparesTheLiving(t *testing.T) {
	t.Parallel()
	for _, retention := range []time.Duration{sec, -1} {
		bubble(t, 2*sec, func(r *rig) {
			r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
				twolane.Handle(w, "a", handler{Backoff: twolane.Backoff{Base: sec, Max: sec}, Poll: sec,
					Execute: func(ctx context.Context, j *job) (twolane.Outcome, error) {
						if j.Failures() < 10 {
							return twolane.Outcome{}, errors.New("not yet")
						}
						return twolane.Processing("kept", 0), nil
					},
					Check: func(ctx context.Context, j *job) (twolane.Outcome, error) {
						if j.Polls() < 10 {
							return twolane.Processing(j.State, 0), nil
						}
						return twolane.Done(j.State + " " + j.Params), nil
					}})
			})
			id := r.submit(twolane.Submission{Type: "a", Params: "params", Retention: retention})[0]
			begin := time.Now()
			for time.Since(begin) < 14*sec {
				if c := r.get(id); string(c.Params) != `"params"` || c.Status.Terminal() {
					r.Fatalf("after %v: %+v", time.Since(begin), c)
				}
				time.Sleep(sec / 2)
			}
			if c := r.wait(id)[0]; c.Status != twolane.StatusSucceeded || retention > 0 && string(c.Result) != `"kept params"` {
				r.Errorf("%+v", c)
			}
		})
	}
}

// The same on every store: of what is live nothing goes, however long ago it was submitted and whatever its retention.
func TestF034_RetentionSparesTheLivingInTheStore(t *testing.T) {
	everywhere(t, func(r *rig, c *clock) {
		r.submit(twolane.Submission{ID: "delayed", Type: "a", Retention: sec, Delay: 1000 * time.Hour}, twolane.Submission{ID: "retried", Type: "a", Retention: -1})
		for k := range 20 {
			cs := claim(r, r.st, "w1", 10)
			if len(cs) != 1 || cs[0].ID != "retried" || string(cs[0].Params) != `""` {
				r.Fatalf("round %d: %v", k, cs)
			}
			settle(r, r.st, "w1", store.OutcomeRetry, cs...)
			c.pass(30 * time.Minute)
			for {
				rep, err := r.st.Maintain(r.Context())
				r.ok(err)
				if rep.Purged > 0 {
					r.Fatalf("purged: %+v", rep)
				}
				if !rep.More {
					break
				}
			}
		}
		if cmd := r.get("delayed"); string(cmd.Params) != `""` || cmd.Status != twolane.StatusPending {
			r.Errorf("%+v", cmd)
		}
		if cmd := r.get("retried"); cmd.Failures != 20 {
			r.Errorf("%+v", cmd)
		}
	})
}

// Two workers share a queue and only one knows the type: the other never takes it, and no attempt is used.
func TestF034_OnlyWhoKnowsATypeTakesIt(t *testing.T) {
	t.Parallel()
	bubble(t, 2*sec, func(r *rig) {
		for range 3 {
			r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) { twolane.HandleFunc(w, "other", r.sleeps(milli)) })
		}
		var ids []string
		for i := range 200 {
			ids = append(ids, r.submit(twolane.Submission{Type: []string{"a", "other"}[i%2], Delay: time.Duration(i) * 10 * milli})...)
		}
		time.Sleep(time.Minute)
		for i, id := range ids {
			if c := r.get(id); i%2 == 0 && (c.Starts != 0 || c.Failures != 0 || c.Losses != 0 || len(c.Events) != 0) || i%2 == 1 && c.Status != twolane.StatusSucceeded {
				r.Fatalf("%+v", c)
			}
		}
		r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) { twolane.HandleFunc(w, "a", r.sleeps(milli)) })
		for _, c := range r.wait(ids...) {
			if c.Starts != 1 || c.Failures != 0 {
				r.Fatalf("%+v", c)
			}
		}
	})
}

// Many workers start at once just before many commands fall due in one second: hardly any is late.
func TestF091_ManyWorkersMakeNothingLate(t *testing.T) {
	t.Parallel()
	n, workers := 100, 50 // every worker claims at each due time, and the store in memory walks over all that it has each time
	if os.Getenv("TWOLANE_FAULTS") == "full" {
		n, workers = 1000, 200
	}
	bubble(t, 0, func(r *rig) {
		rnd := rand.New(rand.NewPCG(1, 2))
		begin := time.Now()
		var mu sync.Mutex
		var late []time.Duration
		due := map[string]time.Time{}
		for i := range n {
			id, d := fmt.Sprint("a", i), 5*sec+time.Duration(rnd.Int64N(int64(sec)))
			due[id] = begin.Add(d)
			r.submit(twolane.Submission{ID: id, Type: "a", Delay: d})
		}
		time.Sleep(4 * sec)
		for range workers {
			r.work(twolane.WorkerConfig{Concurrency: twolane.Lanes{Intake: 2, Repoll: 2}}, func(w *twolane.Worker) {
				twolane.HandleFunc(w, "a", func(ctx context.Context, j *twolane.Job[string, []byte]) (any, error) {
					mu.Lock()
					defer mu.Unlock()
					late = append(late, time.Since(due[j.ID()]))
					return nil, nil
				})
			})
		}
		time.Sleep(10 * sec)
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(late)
		if len(late) != n {
			r.Fatalf("%d of %d have run", len(late), n)
		}
		if late[0] < -milli || late[n*99/100] > 2*sec {
			r.Errorf("lateness from %v, p99 %v, to %v", late[0], late[n*99/100], late[n-1])
		}
	})
}

// Promoting a hundred costs the same number of operations of the server with a thousand in the retry set and with ten thousand.
func TestF091_PromotionDoesNotGrowWithTheSet(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t) // of its own: the server's counters are read
	var ops [2]int
	for i, n := range []int{1000, 10_000} {
		on(t, openRedis(t, srv.URL()), 0, func(r *rig) {
			c := &clock{r: r, now: epoch}
			c.pass(0)
			r.client.Close() // its upkeep would be counted
			put := func(n int, delay time.Duration) {
				for part := 0; part < n; part += 500 {
					req := store.SubmitRequest{}
					for range min(500, n-part) {
						req.Items = append(req.Items, store.Submission{ID: fmt.Sprint("x", serial.Add(1)), Queue: twolane.DefaultQueue, Type: "a", Delay: delay})
					}
					_, err := r.st.Submit(r.Context(), req)
					r.ok(err)
				}
			}
			put(n, 24*time.Hour)
			put(100, sec)
			c.pass(sec)
			before := calls(t, srv)
			promoted := 0
			for more := true; more; {
				rep, err := r.st.Maintain(r.Context())
				r.ok(err)
				promoted, more = promoted+rep.Promoted, rep.More
			}
			ops[i] = calls(t, srv) - before
			if promoted != 100 {
				r.Errorf("%d promoted", promoted)
			}
		})
	}
	if ops[0] < 3 || ops[1] > ops[0]+2 {
		t.Errorf("promoting a hundred of 1,100 took %d operations, of 10,100 %d", ops[0], ops[1])
	}
}

// The first in order fails each time: it waits its backoff aside, the others run, and with MaxFailures it ends.
func TestF156_BadHeadBlocksNobody(t *testing.T) {
	t.Parallel()
	for _, order := range []store.Order{store.ByPriority, store.ByDeadline} {
		for _, maxFailures := range []int{0, 3} {
			bubble(t, 2*sec, func(r *rig) {
				_, err := r.client.Configure(r.Context(), func(c *twolane.Config) error {
					c.Queues = map[string]store.QueueConfig{twolane.DefaultQueue: {Order: order}}
					return nil
				})
				r.ok(err)
				now := time.Now()
				bad := r.submit(twolane.Submission{Type: "a", Params: "bad", Deadline: now.Add(time.Hour), MaxFailures: maxFailures, Keys: map[string]string{"tenant": "x"}, BatchKey: "b"})[0]
				var good []string
				for i := range 50 {
					good = append(good, r.submit(twolane.Submission{Type: "a", Deadline: now.Add(2*time.Hour + time.Duration(i)), Priority: 1,
						Keys: map[string]string{"tenant": []string{"x", "y"}[i%2]}, BatchKey: "b"})...)
				}
				r.work(twolane.WorkerConfig{Concurrency: twolane.Lanes{Intake: 1, Repoll: 1}}, func(w *twolane.Worker) {
					twolane.Handle(w, "a", handler{Execute: func(ctx context.Context, j *job) (twolane.Outcome, error) {
						defer r.enter(ctx, j.ID())()
						time.Sleep(10 * milli)
						if j.Params == "bad" {
							return twolane.Outcome{}, errors.New("bad")
						}
						return twolane.Done(nil), nil
					}})
				})
				r.wait(good...)
				if d := time.Since(now); d > 3*sec {
					r.Errorf("50 commands of 10 ms took %v behind a bad one", d)
				}
				time.Sleep(10 * time.Minute)
				c := r.get(bad)
				if maxFailures > 0 && (c.Reason != twolane.ReasonRetriesExhausted || c.Starts != 3) || maxFailures == 0 && (c.Status != twolane.StatusPending || c.Failures < 3) {
					r.Errorf("%+v", c)
				}
			})
		}
	}
}
