package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store/faultstore"
)

// Handlers are cancelled at random moments and the settle of each fails twice: every permit comes back, and nothing is forgotten before the
// store has confirmed it.
func TestF042_PermitsComeBackFromCancels(t *testing.T) {
	t.Parallel()
	for _, fault := range []faultstore.Fault{faultstore.FailBefore, faultstore.DropReply, faultstore.Hang} {
		for _, deaf := range []bool{false, true} {
			t.Run(fmt.Sprint(fault, deaf), func(t *testing.T) {
				bubble(t, 2*sec, func(r *rig) {
					rnd := rand.New(rand.NewPCG(7, 9))
					w := r.work(twolane.WorkerConfig{Concurrency: twolane.Lanes{Intake: 20, Repoll: 20}}, func(w *twolane.Worker) {
						hold := func(ctx context.Context) error {
							if deaf { // goes on for a while after its end
								time.Sleep(3 * sec)
								return nil
							}
							<-ctx.Done()
							return context.Cause(ctx)
						}
						twolane.Handle(w, "a", handler{
							Execute: func(ctx context.Context, j *job) (twolane.Outcome, error) {
								defer r.enter(ctx, j.ID())()
								if j.Params == "poll" {
									return twolane.Processing("", 100*milli), nil
								}
								return twolane.Processing("", time.Hour), hold(ctx)
							},
							Check: func(ctx context.Context, j *job) (twolane.Outcome, error) {
								defer r.enter(ctx, j.ID())()
								return twolane.Processing("", time.Hour), hold(ctx)
							},
						})
					})
					ids := r.many(20, twolane.Submission{Type: "a", Params: "poll"})
					time.Sleep(sec / 2)
					ids = append(ids, r.many(20, twolane.Submission{Type: "a"})...)
					time.Sleep(sec / 2)
					synctest.Wait()
					if h := w.Health(); h.Held != (twolane.Lanes{Intake: 20, Repoll: 20}) {
						r.Fatalf("%+v", h)
					}
					w.faults.Inject(faultstore.Rule{Ops: []faultstore.Op{faultstore.Settle}, Fault: fault, Count: 12})
					for _, i := range rnd.Perm(len(ids)) {
						time.Sleep(time.Duration(rnd.Int64N(int64(100 * milli))))
						res, err := r.client.Cancel(r.Context(), ids[i:i+1], nil)
						r.ok(err)
						r.ok(res[0].Err)
					}
					for _, c := range r.wait(ids...) {
						if c.Status != twolane.StatusCancelled || c.Starts > 2 {
							r.Errorf("%s is %v after %d starts", c.ID, c.Status, c.Starts)
						}
					}
					time.Sleep(time.Minute) // what hangs ends by its bound
					if w.faults.Hits(faultstore.Settle) != 12 {
						r.Errorf("%d settles failed", w.faults.Hits(faultstore.Settle))
					}
					w.faults.Heal()
					time.Sleep(10 * sec)
					r.idle(w)
					if h := w.Health(); h.Free != (twolane.Lanes{Intake: 20, Repoll: 20}) || !h.OK {
						r.Errorf("%+v", h)
					}
					r.wait(r.many(20, twolane.Submission{Type: "a", Params: "poll", Deadline: time.Now().Add(5 * sec)})...)
				})
			})
		}
	}
}
