package twolane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twolane/twolane/internal/dispatch"
	"github.com/twolane/twolane/store"
)

// Handler runs the commands of one type. P is what their params decode to, S what a state decodes to; []byte and json.RawMessage get the
// bytes as they are. The functions are called concurrently, each in a goroutine of its own, and should return soon after their context ended.
type Handler[P, S any] struct {
	// Execute runs PENDING commands. What it started and does not wait for is told by Processing.
	Execute func(ctx context.Context, job *Job[P, S]) (Outcome, error)
	// Check looks after PROCESSING commands.
	Check func(ctx context.Context, job *Job[P, S]) (Outcome, error)
	// Cancel stops what a PROCESSING command has started elsewhere, before it ends as CANCELLED. An error is retried with backoff for as
	// long as the queue says (10 minutes). Without Cancel a PROCESSING command ends at once when it is cancelled.
	Cancel func(ctx context.Context, job *Job[P, S]) error

	// ExecuteBatch and CheckBatch stand in for Execute and Check, for up to BatchSize commands of the same queue, type, group, batch key and
	// keys in one call. They answer for each with Job.Answer; it may be early. What is left without an answer is retried with the error
	// returned, or with one that says so. The context of the call ends only when the worker drains, MaxRun has passed or every lease is lost;
	// each job has its own Context for the rest.
	ExecuteBatch func(ctx context.Context, jobs []*Job[P, S]) error
	CheckBatch   func(ctx context.Context, jobs []*Job[P, S]) error
	// BatchSize is at most 1000; 0 means 100.
	BatchSize int
	// MaxWait is how long a poll of a CheckBatch may be delayed so that it shares a call with others: due times are rounded up to multiples
	// of it. 0 means a twentieth of the interval, at most 250 ms; less than 0 none.
	MaxWait time.Duration

	// Poll is the interval of Processing(state, 0), and the shortest time to the next Check after one that failed. 0 means 1 second.
	Poll time.Duration
	// MaxRun ends the context of an invocation that has run for so long (cause ErrMaxRun). 0 means the worker's MaxRun, less than 0 no bound.
	MaxRun time.Duration
	// Backoff says how long failed commands wait.
	Backoff Backoff
}

// Handle lets w run commands of a type. It must be called before Run; what is wrong with h is returned by Run.
func Handle[P, S any](w *Worker, typ string, h Handler[P, S]) {
	b := &binding{
		w: w, typ: typ, codec: w.client.codec, hook: h.Cancel != nil, maxWait: h.MaxWait, poll: h.Poll, backoff: h.Backoff,
		lanes: [2]bool{h.Execute != nil || h.ExecuteBatch != nil, h.Check != nil || h.CheckBatch != nil},
	}
	if b.poll == 0 {
		b.poll = time.Second
	}
	size := h.BatchSize
	if size == 0 {
		size = 100
	}
	if h.ExecuteBatch != nil {
		b.batch[Intake] = size
	}
	if h.CheckBatch != nil {
		b.batch[Repoll] = size
	}
	maxRun := h.MaxRun
	if maxRun == 0 {
		maxRun = w.cfg.MaxRun
	}
	t := &typedBinding[P, S]{binding: b, h: h}
	b.dispatch = &dispatch.Type{Name: typ, Lanes: b.lanes, Batch: b.batch, MaxRun: max(0, maxRun), Run: t.run, Failed: b.failed}
	w.bind(b, handlerProblem(h.Execute != nil, h.ExecuteBatch != nil, h.Check != nil, h.CheckBatch != nil, h.Cancel != nil, size, b))
}

// HandleFunc lets w run commands of a type with a function: its result ends them as SUCCEEDED, an error is retried.
func HandleFunc[P any](w *Worker, typ string, f func(ctx context.Context, job *Job[P, []byte]) (any, error)) {
	Handle(w, typ, Handler[P, []byte]{Execute: func(ctx context.Context, job *Job[P, []byte]) (Outcome, error) {
		result, err := f(ctx, job)
		return Done(result), err
	}})
}

// handlerProblem names the first thing that is wrong with a handler.
func handlerProblem(execute, executeBatch, check, checkBatch, cancel bool, size int, b *binding) error {
	f := "handler." + b.typ + "."
	if err := store.ValidName("handler.type", b.typ); err != nil {
		return err
	}
	switch {
	case !execute && !executeBatch && !check && !checkBatch:
		return invalid(f+"execute", "is missing, and so are execute_batch, check and check_batch")
	case execute && executeBatch:
		return invalid(f+"execute_batch", "is set beside execute; one of them is called")
	case check && checkBatch:
		return invalid(f+"check_batch", "is set beside check; one of them is called")
	case cancel && !check && !checkBatch:
		return invalid(f+"cancel", "is set without check or check_batch: only PROCESSING commands are visited")
	case size < 1 || size > store.MaxItems:
		return invalid(f+"batch_size", "%d is not between 1 and %d", size, store.MaxItems)
	case b.maxWait > time.Minute:
		return invalid(f+"max_wait", "%v is more than a minute", b.maxWait)
	case b.poll < store.MinPoll:
		return invalid(f+"poll", "%v is less than %v", b.poll, store.MinPoll)
	case b.backoff.Base < 0 || b.backoff.Max < 0 || b.backoff.Max > 0 && b.backoff.Base > b.backoff.Max:
		return invalid(f+"backoff", "a base of %v and a max of %v contradict each other", b.backoff.Base, b.backoff.Max)
	}
	return nil
}

// binding is a handler without its types.
type binding struct {
	w        *Worker
	typ      string
	codec    Codec
	lanes    [2]bool
	batch    [2]int
	hook     bool
	maxWait  time.Duration
	poll     time.Duration
	backoff  Backoff
	dispatch *dispatch.Type
}

// failed answers for jobs that their call has left without an answer, all with the same delay.
func (b *binding) failed(inv *dispatch.Invocation, items []*dispatch.Item, err error) {
	n := 0
	for _, it := range items {
		n = max(n, it.Cmd.Failures)
	}
	d := b.backoff.delay(n+1, err)
	for _, it := range items {
		it.Answer(b.failure(inv, err, d))
	}
}

// failure is the settlement of an error of a whole call.
func (b *binding) failure(inv *dispatch.Invocation, err error, d time.Duration) store.Settlement {
	if inv.Class.Visit() {
		return store.Settlement{Kind: store.OutcomeCancelRetry, Error: dispatch.ErrorText(err), Delay: d}
	}
	return b.retryIn(inv.Lane, err, false, d)
}

type typedBinding[P, S any] struct {
	*binding
	h Handler[P, S]
}

// run calls the function that fits the invocation.
func (t *typedBinding[P, S]) run(ctx context.Context, inv *dispatch.Invocation) {
	switch {
	case inv.Class.Visit():
		for _, it := range inv.Items {
			t.visit(ctx, inv, it)
		}
	case inv.Lane == Intake && t.h.Execute != nil:
		t.single(ctx, inv, t.h.Execute)
	case inv.Lane == Repoll && t.h.Check != nil:
		t.single(ctx, inv, t.h.Check)
	case inv.Lane == Intake:
		t.many(ctx, inv, t.h.ExecuteBatch)
	default:
		t.many(ctx, inv, t.h.CheckBatch)
	}
}

// job decodes what a handler gets.
func (t *typedBinding[P, S]) job(it *dispatch.Item) (*Job[P, S], error) {
	job := &Job[P, S]{JobInfo: JobInfo{item: it, b: t.binding}}
	if err := decode(t.codec, it.Cmd.Params, &job.Params); err != nil {
		return job, fmt.Errorf("params: %w", err)
	}
	if it.Cmd.Status == store.Processing {
		if err := decode(t.codec, it.Cmd.State, &job.State); err != nil {
			return job, fmt.Errorf("state: %w", err)
		}
	}
	return job, nil
}

// single calls a function for one command. A grant of a type that is not batched has one item.
func (t *typedBinding[P, S]) single(ctx context.Context, inv *dispatch.Invocation, f func(context.Context, *Job[P, S]) (Outcome, error)) {
	it := inv.Items[0]
	job, err := t.job(it)
	if err != nil {
		it.Answer(t.retry(it.Cmd, inv.Lane, err, true))
		return
	}
	if len(t.w.cfg.Middleware) == 0 {
		out, err := f(ctx, job)
		it.Answer(t.settlement(it.Cmd, inv.Lane, out, err))
		return
	}
	var out Outcome
	called := false
	err = t.w.around(ctx, t.call(inv, &job.JobInfo), func(ctx context.Context) (err error) {
		out, err = f(ctx, job)
		called = true
		return err
	})
	if err == nil && !called {
		err = errNotCalled
	}
	it.Answer(t.settlement(it.Cmd, inv.Lane, out, err))
}

var errNotCalled = errors.New("a middleware returned no error without calling the handler")

// many calls a function for a batch.
func (t *typedBinding[P, S]) many(ctx context.Context, inv *dispatch.Invocation, f func(context.Context, []*Job[P, S]) error) {
	jobs := make([]*Job[P, S], 0, len(inv.Items))
	for _, it := range inv.Items {
		job, err := t.job(it)
		if err != nil {
			it.Answer(t.retry(it.Cmd, inv.Lane, err, true))
			continue
		}
		jobs = append(jobs, job)
	}
	if len(jobs) == 0 {
		return
	}
	infos := make([]*JobInfo, len(jobs))
	for i, job := range jobs {
		infos[i] = &job.JobInfo
	}
	err := t.w.around(ctx, t.call(inv, infos...), func(ctx context.Context) error { return f(ctx, jobs) })
	if err == nil {
		return // what has no answer is told so
	}
	var left []*dispatch.Item
	for _, job := range jobs {
		if job.Answered() == "" {
			left = append(left, job.item)
		}
	}
	t.failed(inv, left, err)
}

// visit calls Cancel for one command.
func (t *typedBinding[P, S]) visit(ctx context.Context, inv *dispatch.Invocation, it *dispatch.Item) {
	job, err := t.job(it)
	switch {
	case t.h.Cancel == nil:
		err = fmt.Errorf("type %s has no Cancel in this worker", t.typ)
	case err == nil:
		err = t.w.around(ctx, t.call(inv, &job.JobInfo), func(ctx context.Context) error { return t.h.Cancel(ctx, job) })
	}
	if err != nil {
		n := 2 // no counter tells how often a visit has failed; the events may
		for _, e := range it.Cmd.Events {
			if e.Kind == store.EventCancelErr {
				n++
			}
		}
		it.Answer(t.failure(inv, err, t.backoff.delay(n, err)))
		return
	}
	it.Answer(store.Settlement{Kind: store.OutcomeCancelled})
}

func (t *typedBinding[P, S]) call(inv *dispatch.Invocation, jobs ...*JobInfo) *Call {
	return &Call{Type: t.typ, Queue: inv.Queue, Lane: inv.Lane, Visit: inv.Class.Visit(), Batch: inv.Batch(), Jobs: jobs}
}
