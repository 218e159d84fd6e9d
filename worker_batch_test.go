package twolane_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/twolane/twolane"
)

// 1,000 running tasks that are checked every 5 s at batches of 100 are about 4 calls a second, also after errors.
func TestBatchesFill(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		var made box[[2]int] // calls, items
		w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
			twolane.Handle(w, "task", handler{
				ExecuteBatch: func(ctx context.Context, jobs []*job) error {
					time.Sleep(100 * time.Millisecond)
					for _, j := range jobs {
						j.Answer(twolane.Processing(nil, 5*sec), nil)
					}
					return nil
				},
				CheckBatch: func(ctx context.Context, jobs []*job) error {
					made.with(func(v *[2]int) { v[0]++; v[1] += len(jobs) })
					time.Sleep(50 * time.Millisecond)
					for _, j := range jobs {
						j.Answer(twolane.Processing(nil, 5*sec), nil)
					}
					return nil
				},
			})
		})
		for range 100 { // submitted over ten seconds, so that they would fall due at any time
			r.many(10, twolane.Submission{Type: "task"})
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(10 * sec)
		made.set([2]int{})
		time.Sleep(time.Minute)
		calls, items := made.get()[0], made.get()[1]
		if items < 11000 || items > 12100 {
			r.Errorf("%d polls in a minute, want 12000", items)
		}
		if perSecond := float64(calls) / 60; perSecond > 5 {
			r.Errorf("%.1f calls a second of %.0f each", perSecond, float64(items)/float64(calls))
		}
		if late := w.metrics.get("twolane_poll_lateness_seconds{default}"); late > .25 {
			r.Errorf("a poll was %v s late", late)
		}
	})
}

// One command of a batch is cancelled, one passes its deadline, one is undecodable, one is left out: the others do not notice.
func TestOneItemDoesNotTouchTheOthers(t *testing.T) {
	rigged(t, 20*sec, func(r *rig) {
		var callErr error
		causes := map[int]error{}
		ends := make(map[int]twolane.Status)
		r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
			twolane.Handle(w, "task", handler{ExecuteBatch: func(ctx context.Context, jobs []*job) error {
				if jobs[0].Failures() > 0 {
					return errors.New("again")
				}
				time.Sleep(10 * sec)
				callErr = ctx.Err()
				for _, j := range jobs {
					causes[j.Params.N] = context.Cause(j.Context())
					switch {
					case j.Params.N == 4:
					case j.Context().Err() != nil:
						if !j.Answer(twolane.Outcome{}, j.Context().Err()) || j.Answer(twolane.Done(nil), nil) {
							r.Error("the first answer counts, and no other")
						}
					default:
						j.Answer(twolane.Done(nil), nil)
					}
				}
				return nil
			}})
		})
		subs := make([]twolane.Submission, 8)
		for i := range subs {
			subs[i] = twolane.Submission{Type: "task", Params: number{i}, MaxFailures: 1}
		}
		subs[2].Deadline, subs[2].MaxFailures = time.Now().Add(5*sec), 0
		subs[3].Params, subs[3].MaxFailures = []byte("{"), 0
		ids := r.submit(subs...)
		time.Sleep(sec)
		r.cancel(ids[1])
		time.Sleep(30 * sec)
		for i, id := range ids {
			ends[i] = r.get(id).Status
		}
		want := map[int]twolane.Status{0: twolane.StatusSucceeded, 1: twolane.StatusCancelled, 2: twolane.StatusFailed, 3: twolane.StatusFailed,
			4: twolane.StatusFailed, 5: twolane.StatusSucceeded, 6: twolane.StatusSucceeded, 7: twolane.StatusSucceeded}
		for i := range subs {
			if ends[i] != want[i] {
				c := r.get(ids[i])
				r.Errorf("command %d: %v (%s %s), want %v", i, c.Status, c.Reason, c.Error, want[i])
			}
		}
		if callErr != nil {
			r.Errorf("the context of the call ended: %v", callErr)
		}
		if !errors.Is(causes[1], twolane.ErrCancelRequested) || !errors.Is(causes[2], twolane.ErrDeadline) || causes[0] != nil {
			r.Errorf("causes %v", causes)
		}
		if c := r.get(ids[3]); c.Reason != twolane.ReasonUndecodable || c.Starts != 5 || string(c.Params) != "{" {
			r.Errorf("undecodable: %+v", c)
		}
		if c := r.get(ids[2]); c.Reason != twolane.ReasonDeadline {
			r.Errorf("deadline: %+v", c)
		}
	})
}

// A failed call gives all of its commands the same next time, so that the batch stays together.
func TestFailedBatchStaysTogether(t *testing.T) {
	for _, how := range []string{"error", "panic", "goexit"} {
		t.Run(how, func(t *testing.T) {
			rigged(t, 0, func(r *rig) {
				var sizes []int
				w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
					twolane.Handle(w, "task", handler{ExecuteBatch: func(ctx context.Context, jobs []*job) error {
						sizes = append(sizes, len(jobs))
						if len(sizes) < 4 {
							switch how {
							case "panic":
								panic("batch")
							case "goexit":
								runtime.Goexit()
							}
							return errors.New("batch")
						}
						for _, j := range jobs {
							j.Answer(twolane.Done(nil), nil)
						}
						return nil
					}})
				})
				r.wait(r.many(60, twolane.Submission{Type: "task"})...)
				for _, n := range sizes {
					if n != 60 {
						r.Fatalf("calls of %v commands", sizes)
					}
				}
				if len(sizes) != 4 {
					r.Errorf("calls of %v", sizes)
				}
				r.idle(w)
			})
		})
	}
}

// An early answer is settled while the call goes on.
func TestEarlyAnswer(t *testing.T) {
	rigged(t, 0, func(r *rig) {
		w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
			twolane.Handle(w, "task", handler{ExecuteBatch: func(ctx context.Context, jobs []*job) error {
				for _, j := range jobs {
					time.Sleep(sec)
					j.Answer(twolane.Done(nil), nil)
				}
				time.Sleep(time.Minute)
				return errors.New("after all are answered")
			}})
		})
		start := time.Now()
		ids := r.many(5, twolane.Submission{Type: "task"})
		for i, id := range ids {
			r.wait(id)
			if d := time.Since(start); d > time.Duration(i+1)*sec+100*time.Millisecond {
				r.Errorf("answer %d was settled after %v", i, d)
			}
		}
		if h := w.Health(); h.Held.Intake != 1 {
			r.Errorf("%+v: the call goes on with its permit", h)
		}
		time.Sleep(2 * time.Minute)
		r.idle(w)
	})
}
