package twolane

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twolane/twolane/gate"
	"github.com/twolane/twolane/internal/clock"
	"github.com/twolane/twolane/internal/dispatch"
	"github.com/twolane/twolane/store"
)

// WorkerConfig says what a [Worker] serves and how. The zero value serves [DefaultQueue] with 100 permits in each lane.
//
// There is no setting for the heartbeat: it follows the namespace's visibility timeout V, with a renewal every V/4.
type WorkerConfig struct {
	// Name and Version are for people; a worker's identity is drawn at random for each Run.
	Name, Version string
	// Queues are those that it serves. Empty means DefaultQueue.
	Queues []QueueShare
	// Policy says how they share the permits.
	Policy SharePolicy
	// Concurrency is how many invocations run at once, by lane. The zero value means 100 each.
	Concurrency Lanes
	// PollInterval is the time between two looks for work while the store tells of nothing; 0 means 1 second.
	PollInterval time.Duration
	// DrainBudget is how long Run may take to end after its context did; 0 means 30 seconds.
	DrainBudget time.Duration
	// MaxRun bounds invocations of types that have none of their own; 0 means no bound.
	MaxRun time.Duration
	// OverdueGrace is how long an invocation may go on after its context ended until it is called overdue; 0 means 10 seconds.
	OverdueGrace time.Duration
	// Overdue says what becomes of it then.
	Overdue OverduePolicy
	// StarvedAfter is after how many poll intervals without a start a lane with eligible work is warned of; 0 means 5.
	StarvedAfter int
	// Gates size what the worker claims by signals from outside. They say nothing about other workers.
	Gates []gate.Binding
	// Visibility, if set, is asserted: Run fails if the namespace has another one.
	Visibility time.Duration

	Middleware []Middleware
	Hooks      Hooks
	Metrics    Metrics      // nil: none
	Logger     *slog.Logger // nil: the client's
}

// Lanes is a number for each lane.
type Lanes struct{ Intake, Repoll int }

// QueueShare is a queue that a worker serves.
type QueueShare struct {
	Name string
	// Weight is its share under [Weighted]; 0 means 1.
	Weight int
	// Reserve keeps that many permits of each lane for this queue alone.
	Reserve int
}

// SharePolicy says how the queues of a worker share its permits.
type SharePolicy uint8

const (
	RoundRobin SharePolicy = iota // the same to each
	Weighted                      // by weight
	Strict                        // the first that has work
)

// OverduePolicy says what becomes of an invocation that goes on after its context ended.
type OverduePolicy uint8

const (
	// KeepOverdue holds its permit and its lease until it returns.
	KeepOverdue OverduePolicy = iota
	// AbandonOverdue ends its lease as a loss of the worker, so that another worker runs the command, and gives its permit to others. The
	// worker is unhealthy while it goes on: restart it.
	AbandonOverdue
)

// Hooks are called one after the other in a goroutine of their own. They are dropped, and counted, while one does not return. Any may be nil.
type Hooks struct {
	LeaseLost    func(id string)                   // while its handler ran
	Overdue      func(id string, by time.Duration) // its handler goes on after its context ended
	Starving     func(s Starvation)                // an episode begins
	StarvingOver func(lane Lane, after time.Duration)
}

// Starvation is a lane that starts nothing though it has eligible work.
type Starvation struct {
	Lane     Lane
	Queue    string // where the oldest one waits
	Eligible int
	Oldest   time.Duration // how long it has waited
	Reason   string        // permits, rate, throttled, limit, gate, queue_paused, no_worker, store, unsettled or suspect
	Detail   string
	// Limit is what stops it, if that is the reason and the store could be asked. It is about no single line: Position and Passed are 0.
	Limit *LimitWait
}

// DrainReport says what became of the commands that a worker had when it began to drain.
// Held = Settled + GivenBack + Lost + len(Running) + len(Unsettled).
type DrainReport struct {
	Held      int           // commands that the worker had when the drain began, and those that a late claim brought
	Settled   int           // ended by their handlers, as ever
	GivenBack int           // returned for others to run
	Lost      int           // whose lease was not current any more when their outcome came
	Running   []string      // ids whose handlers have not returned: their leases end one visibility timeout later
	Unsettled []string      // ids whose outcome the store has not confirmed
	Abandoned []string      // ids whose handlers, abandoned before ([AbandonOverdue]), have not returned either: not among those held
	Claim     bool          // a claim was not answered: what it may have got comes back one visibility timeout later
	Took      time.Duration // from the begin of the drain
}

func (r *DrainReport) clean() bool {
	return len(r.Running) == 0 && len(r.Unsettled) == 0 && len(r.Abandoned) == 0 && !r.Claim
}

// DrainError is what [Worker.Run] returns when something was left at the end of its budget. No command is lost by it: it comes back one
// visibility timeout later at the latest, and is run again. Handlers that have not returned go on until the process ends.
type DrainError struct{ Report DrainReport }

func (e *DrainError) Error() string {
	var parts []string
	if n := len(e.Report.Running); n > 0 {
		parts = append(parts, fmt.Sprintf("%s not returned (%s)", have(n, "handler has", "handlers have"), some(e.Report.Running)))
	}
	if n := len(e.Report.Abandoned); n > 0 {
		parts = append(parts, fmt.Sprintf("%s not returned (%s)", have(n, "abandoned handler has", "abandoned handlers have"), some(e.Report.Abandoned)))
	}
	if n := len(e.Report.Unsettled); n > 0 {
		parts = append(parts, fmt.Sprintf("%s not confirmed by the store (%s)", have(n, "outcome was", "outcomes were"), some(e.Report.Unsettled)))
	}
	if e.Report.Claim {
		parts = append(parts, "a claim was not answered")
	}
	return "drain ended after " + e.Report.Took.Round(time.Millisecond).String() + ": " + strings.Join(parts, ", ")
}

func have(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func some(ids []string) string {
	const most = 10
	if len(ids) <= most {
		return strings.Join(ids, ", ")
	}
	return strings.Join(ids[:most], ", ") + ", …"
}

// Worker runs commands. Make it with [NewWorker], give it handlers with [Handle], and call Run once.
type Worker struct {
	client *Client
	cfg    WorkerConfig
	clock  *clock.Clock
	log    *slog.Logger
	id     string

	mu       sync.Mutex // guards what follows
	bindings []*binding
	problems []error
	loop     *dispatch.Loop
	done     chan struct{} // closed when Run has ended
	report   DrainReport
	started  time.Duration
}

// NewWorker returns a worker of c's namespace. The configuration is checked whole; an error names the field.
func NewWorker(c *Client, cfg WorkerConfig) (*Worker, error) {
	if c == nil {
		return nil, invalid("client", "is nil")
	}
	if len(cfg.Queues) == 0 {
		cfg.Queues = []QueueShare{{Name: DefaultQueue}}
	}
	if cfg.Concurrency == (Lanes{}) {
		cfg.Concurrency = Lanes{100, 100}
	}
	if cfg.PollInterval == 0 {
		cfg.PollInterval = time.Second
	}
	if cfg.DrainBudget == 0 {
		cfg.DrainBudget = 30 * time.Second
	}
	if cfg.OverdueGrace == 0 {
		cfg.OverdueGrace = 10 * time.Second
	}
	if cfg.StarvedAfter == 0 {
		cfg.StarvedAfter = 5
	}
	if cfg.Metrics == nil {
		cfg.Metrics = noMetrics{}
	}
	if cfg.Logger == nil {
		cfg.Logger = c.log
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := cfg.bindGates(); err != nil {
		return nil, err
	}
	var b [16]byte
	rand.Read(b[:])
	w := &Worker{client: c, cfg: cfg, clock: clock.New(), id: "w" + hex.EncodeToString(b[:]), done: make(chan struct{})}
	w.log = cfg.Logger.With("worker_id", w.id)
	if cfg.Name != "" {
		w.log = w.log.With("worker", cfg.Name)
	}
	return w, nil
}

func (cfg *WorkerConfig) validate() error {
	reserved, unreserved := 0, 0
	seen := map[string]bool{}
	for i, q := range cfg.Queues {
		f := fmt.Sprintf("queues[%d].", i)
		if err := store.ValidName(f+"name", q.Name); err != nil {
			return err
		}
		switch {
		case seen[q.Name]:
			return invalid(f+"name", "%q is there twice", q.Name)
		case q.Weight < 0 || q.Weight > 1000:
			return invalid(f+"weight", "%d is not between 1 and 1000", q.Weight)
		case q.Weight > 0 && cfg.Policy != Weighted:
			return invalid(f+"weight", "is set, but the policy is not Weighted")
		case q.Reserve < 0:
			return invalid(f+"reserve", "is negative")
		}
		seen[q.Name] = true
		if reserved += q.Reserve; q.Reserve == 0 {
			unreserved++
		}
	}
	least := min(cfg.Concurrency.Intake, cfg.Concurrency.Repoll)
	switch {
	case cfg.Policy > Strict:
		return invalid("policy", "unknown policy %d", cfg.Policy)
	case cfg.Concurrency.Intake < 0 || cfg.Concurrency.Intake > 100_000:
		return invalid("concurrency.intake", "%d is not between 1 and 100000", cfg.Concurrency.Intake)
	case cfg.Concurrency.Repoll < 0 || cfg.Concurrency.Repoll > 100_000:
		return invalid("concurrency.repoll", "%d is not between 1 and 100000", cfg.Concurrency.Repoll)
	case reserved > max(least, 0) || reserved == least && unreserved > 0 && least > 0:
		return invalid("queues.reserve", "%d permits are reserved of the %d of a lane: nothing is left for other queues", reserved, least)
	case cfg.PollInterval < 10*time.Millisecond || cfg.PollInterval > time.Minute:
		return invalid("poll_interval", "%v is not between 10ms and 1m", cfg.PollInterval)
	case cfg.DrainBudget < 0:
		return invalid("drain_budget", "is negative")
	case cfg.MaxRun < 0:
		return invalid("max_run", "is negative")
	case cfg.OverdueGrace < 0:
		return invalid("overdue_grace", "is negative")
	case cfg.Overdue > AbandonOverdue:
		return invalid("overdue", "unknown policy %d", cfg.Overdue)
	case cfg.StarvedAfter < 0:
		return invalid("starved_after", "is negative")
	case cfg.Visibility < 0:
		return invalid("visibility", "is negative")
	case len(cfg.Name) > store.MaxName:
		return invalid("name", "has %d bytes, at most %d are allowed", len(cfg.Name), store.MaxName)
	}
	return nil
}

// bind adds a handler and notes what is wrong with it.
func (w *Worker) bind(b *binding, problem error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case problem != nil:
	case w.loop != nil: // nobody is there to return an error to
		w.log.Error("a handler was added after Run began: this worker does not know it", "type", b.typ)
		return
	case b.lanes[Intake] && w.cfg.Concurrency.Intake == 0:
		problem = invalid("concurrency.intake", "is 0, but type %s has an Execute: it would wait for ever", b.typ)
	case b.lanes[Repoll] && w.cfg.Concurrency.Repoll == 0:
		problem = invalid("concurrency.repoll", "is 0, but type %s has a Check: it would wait for ever", b.typ)
	}
	for _, o := range w.bindings {
		if o.typ == b.typ && problem == nil {
			problem = invalid("handler."+b.typ, "is there twice")
		}
	}
	if problem != nil {
		w.problems = append(w.problems, problem)
		return
	}
	w.bindings = append(w.bindings, b)
}

// ID is the worker's identity: random bits, never a host name or a pid.
func (w *Worker) ID() string { return w.id }

// Run works until ctx ends, or Drain is called, and then drains: it claims nothing more, lets invocations finish, ends the contexts of
// those that go on (at three quarters of the budget), gives back the commands whose handlers returned because of that, and takes the worker
// off. It starts every goroutine of the worker and returns when all have ended, but for handlers that ignore the end of their
// context: those are named in a [DrainError], abandoned ones too, and the leases that they have run out. The values of ctx are those of the
// handlers' contexts.
func (w *Worker) Run(ctx context.Context) error {
	loop, obs, err := w.prepare(ctx)
	if err != nil {
		return err
	}
	defer close(w.done)
	defer obs.close()
	defer w.runGates(ctx, loop)()
	report := DrainReport(loop.Run(ctx, w.cfg.DrainBudget))
	w.mu.Lock()
	w.report = report
	w.mu.Unlock()
	if !report.clean() {
		err := &DrainError{report}
		w.log.Error("the worker has ended and left something", "error", err,
			"running", report.Running, "unsettled", report.Unsettled, "abandoned", report.Abandoned)
		return err
	}
	return nil
}

func (w *Worker) prepare(ctx context.Context) (*dispatch.Loop, *observer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.loop != nil {
		return nil, nil, errors.New("twolane: Run was called before; make another worker")
	}
	problems := append(slices.Clone(w.problems), w.gateTypes()...)
	if w.client.ctx.Err() != nil {
		return nil, nil, errClosed
	}
	if len(w.bindings) == 0 && len(problems) == 0 {
		problems = append(problems, invalid("handlers", "are missing: call Handle before Run"))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, nil, err
	}
	if w.cfg.Visibility != 0 {
		cfg, err := w.client.Config(ctx)
		if err != nil {
			return nil, nil, err
		}
		if cfg.V() != w.cfg.Visibility {
			return nil, nil, invalid("visibility", "the namespace has %v, this worker asserts %v", cfg.V(), w.cfg.Visibility)
		}
	}
	w.started = w.clock.Now()
	w.loop = dispatch.NewLoop(w.dispatchConfig(), w.client.store, w.clock)
	obs := newObserver(w, w.loop)
	w.loop.Observe, w.loop.Gauge = obs.event, obs.gauges
	return w.loop, obs, nil
}

func (w *Worker) dispatchConfig() dispatch.Config {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	cfg := dispatch.Config{
		Worker:  store.Worker{ID: w.id, Name: w.cfg.Name, Host: host, PID: os.Getpid(), Version: w.cfg.Version, Started: store.At(time.Now())},
		Policy:  dispatch.Policy(w.cfg.Policy),
		Permits: [2]int{w.cfg.Concurrency.Intake, w.cfg.Concurrency.Repoll},
		Poll:    w.cfg.PollInterval, Visibility: w.cfg.Visibility, Grace: w.cfg.OverdueGrace, Overdue: dispatch.Overdue(w.cfg.Overdue), StarvedAfter: w.cfg.StarvedAfter,
	}
	for _, q := range w.cfg.Queues {
		cfg.Queues = append(cfg.Queues, dispatch.Queue{Name: q.Name, Weight: max(1, q.Weight), Reserve: q.Reserve})
	}
	cfg.Gates, cfg.Wall = w.cfg.Gates, func(time.Duration) time.Time { return time.Now() }
	for _, b := range w.bindings {
		cfg.Types = append(cfg.Types, b.dispatch)
	}
	return cfg
}

// Drain ends Run within the time that ctx leaves (or the worker's budget) and says what was left. It may be called more than
// once, and again with less time.
func (w *Worker) Drain(ctx context.Context) (DrainReport, error) {
	w.mu.Lock()
	loop := w.loop
	w.mu.Unlock()
	if loop == nil {
		return DrainReport{}, errors.New("twolane: Drain before Run")
	}
	budget := w.cfg.DrainBudget
	if end, ok := ctx.Deadline(); ok {
		budget = time.Until(end)
	}
	loop.Drain(budget)
	<-w.done // bounded by the budget
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.report, nil
}
