package proctest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/internal/openstore"
)

const envSpec = "TWOLANE_PROCTEST_WORKER"

// spec are the orders of a worker process.
type spec struct {
	Store   string // URL
	Journal string // path of the side file
	Proc    string // how the side file calls it
	Name    string // what it calls itself; the same as Proc unless set
	Permits int    // in each lane
	Drain   time.Duration
	V       time.Duration // visibility timeout of the namespace, to tell a stop
	// Faults is the probability that a call of the store goes wrong: refused, made with its answer lost, late, or never answered.
	Faults float64
	// DieTaken kills the process between the moment in which the store has taken a result and that in which the worker would know.
	DieTaken bool
}

// params are what a command asks of its handler.
type params struct {
	Ms    int    // how long an invocation takes
	Polls int    // how often a long command is checked
	Until string // the file whose existence ends the invocation
	Queue string // of a storm: where its follow-ups go
	Depth int    // of a storm: how many generations of follow-ups there may be
}

// runWorker is the whole life of a worker process. SIGTERM drains it.
func runWorker(orders string) int {
	var sp spec
	if err := json.Unmarshal([]byte(orders), &sp); err != nil {
		fmt.Fprintln(os.Stderr, "orders:", err)
		return 2
	}
	if err := sp.run(); err != nil {
		fmt.Fprintln(os.Stderr, sp.Proc+":", err)
		return 1
	}
	return 0
}

func (sp *spec) run() (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	j, err := openJournal(sp.Journal, sp.Proc)
	if err != nil {
		return err
	}
	st, err := openstore.Open(ctx, sp.Store, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	rec := &recorder{Store: spoiled(st, sp.Faults, sp.V), j: j}
	if sp.DieTaken {
		rec.taken = func() {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	c := twolane.NewClient(rec, &twolane.Options{Logger: log})
	defer c.Close()
	name := sp.Name
	if name == "" {
		name = sp.Proc
	}
	w, err := twolane.NewWorker(c, twolane.WorkerConfig{
		Name: name, Queues: []twolane.QueueShare{{Name: twolane.DefaultQueue}, {Name: stormQueue}}, Concurrency: twolane.Lanes{Intake: sp.Permits, Repoll: sp.Permits}, PollInterval: 250 * time.Millisecond, DrainBudget: sp.Drain,
	})
	if err != nil {
		return err
	}
	handlers{j, sp.V}.bind(w)
	quit := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		watchHealth(j, w, quit)
	}()
	err = w.Run(ctx)
	close(quit)
	<-watched
	down := event{Kind: evDown}
	if err != nil {
		down.Text = err.Error()
	}
	j.add(down)
	return err
}

// watchHealth writes down each change of the worker's condition.
func watchHealth(j *journal, w *twolane.Worker, quit <-chan struct{}) {
	was := true
	for t := time.NewTicker(50 * time.Millisecond); ; {
		select {
		case <-quit:
			t.Stop()
			return
		case <-t.C:
		}
		h := w.Health()
		if h.Running && h.OK != was {
			was = h.OK
			j.add(event{Kind: evHealth, Text: fmt.Sprint(h.Reasons)})
		}
	}
}

// handlers are those of every worker process.
type handlers struct {
	j *journal
	v time.Duration
}

type (
	job     = twolane.Job[params, int]
	outcome = twolane.Outcome
)

func (h handlers) bind(w *twolane.Worker) {
	twolane.Handle(w, "work", twolane.Handler[params, int]{Execute: h.watched(work)})
	twolane.Handle(w, "hold", twolane.Handler[params, int]{Execute: h.watched(hold)})
	twolane.Handle(w, "deaf", twolane.Handler[params, int]{Execute: h.watched(h.deaf)})
	twolane.Handle(w, "long", twolane.Handler[params, int]{Execute: h.watched(long), Check: h.watched(long)})
	twolane.Handle(w, "exit", twolane.Handler[params, int]{Execute: h.watched(exit)})
	twolane.Handle(w, "flaky", twolane.Handler[params, int]{Execute: h.watched(flaky), Backoff: twolane.Backoff{Base: flakyBackoff / 8, Max: flakyBackoff}})
	h.bindStorm(w)
}

// watched writes down the life of an invocation.
func (h handlers) watched(f func(context.Context, *job) (outcome, error)) func(context.Context, *job) (outcome, error) {
	return func(ctx context.Context, job *job) (outcome, error) {
		it := item{ID: job.ID(), Lease: job.Lease(), Starts: job.Starts(), Failures: job.Failures(), Losses: job.Losses()}
		h.j.add(event{Kind: evStart, Items: []item{it}})
		noted := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(noted)
			h.j.add(event{Kind: evFenced, Text: context.Cause(ctx).Error(), Items: []item{it}})
		})
		out, err := f(ctx, job)
		if !stop() {
			<-noted
		}
		it.Outcome = out.String()
		e := event{Kind: evEnd, Items: []item{it}}
		if err != nil {
			e.Text = err.Error()
		}
		h.j.add(e)
		return out, err
	}
}

// work takes its time and returns its lease.
func work(ctx context.Context, job *job) (outcome, error) {
	if err := pass(ctx, time.Duration(job.Params.Ms)*time.Millisecond); err != nil {
		return outcome{}, err
	}
	return twolane.Done([]byte(job.Lease())), nil
}

// long is looked after some times.
func long(ctx context.Context, job *job) (outcome, error) {
	if err := pass(ctx, time.Duration(job.Params.Ms)*time.Millisecond); err != nil {
		return outcome{}, err
	}
	if job.State >= job.Params.Polls {
		return twolane.Done([]byte(job.Lease())), nil
	}
	return twolane.Processing(job.State+1, 100*time.Millisecond), nil
}

// hold runs until it is let go.
func hold(ctx context.Context, job *job) (outcome, error) {
	for !exists(job.Params.Until) {
		if err := pass(ctx, 5*time.Millisecond); err != nil {
			return outcome{}, err
		}
	}
	return twolane.Done([]byte(job.Lease())), nil
}

// deaf ignores its context. It asks the library all the time, and writes down what it hears when it has slept too long.
func (h handlers) deaf(_ context.Context, job *job) (outcome, error) {
	last := time.Now()
	h.j.add(event{Kind: evTicks, Items: []item{{ID: job.ID(), Lease: job.Lease()}}})
	for !exists(job.Params.Until) {
		time.Sleep(5 * time.Millisecond)
		_ = job.Alive()
		at := time.Now()
		if gap := at.Sub(last); gap > h.v { // whatever is asked from here on is asked after it
			e := event{Kind: evAwake, Items: []item{{ID: job.ID(), Lease: job.Lease()}}, Text: stateLost}
			alive, progress := job.Alive(), job.Progress("still here")
			if !errors.Is(alive, twolane.ErrLeaseLost) || !errors.Is(progress, twolane.ErrLeaseLost) {
				e.Text = fmt.Sprintf("Alive says %v, Progress %v", alive, progress)
			}
			h.j.add(e)
		}
		last = at
	}
	return twolane.Done([]byte(job.Lease())), nil
}

// flakyBackoff is the longest pause after a failure of flaky.
const flakyBackoff = 400 * time.Millisecond

// flaky fails as often as not.
func flaky(ctx context.Context, job *job) (outcome, error) {
	if err := pass(ctx, rand.N(10*time.Millisecond)); err != nil {
		return outcome{}, err
	}
	if rand.IntN(2) == 0 {
		return outcome{}, errors.New("it failed")
	}
	return twolane.Done([]byte(job.Lease())), nil
}

// exit takes the process with it.
func exit(context.Context, *job) (outcome, error) {
	os.Exit(137)
	panic("unreachable")
}

func pass(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
