package twolane_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/faultstore"
	"github.com/twolane/twolane/store/memstore"
)

// rig is a store in memory with a client and workers, in a bubble of fake time. Every worker has faults of its own between it and the store.
type rig struct {
	*testing.T
	st      store.Store
	client  *twolane.Client
	workers []*rigWorker
	v       time.Duration
	runs    runs
}

type rigWorker struct {
	*twolane.Worker
	faults  *faultstore.Faults
	client  *twolane.Client
	metrics *recorder
	log     *logBook
	stop    context.CancelFunc
	ended   chan struct{}
	err     error
	dead    bool
}

// rigged runs f in a bubble; at its end workers that live are drained, and the store is audited.
func rigged(t *testing.T, v time.Duration, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, st: memstore.New(), v: v, runs: runs{live: map[string]int{}, starts: map[string]int{}}}
		if v > 0 {
			if _, err := r.st.Configure(t.Context(), 0, store.Config{Visibility: v}); err != nil {
				t.Fatal(err)
			}
		}
		r.client = twolane.NewClient(r.st, &twolane.Options{Logger: slog.New(slog.DiscardHandler)})
		defer r.end()
		f(r)
	})
}

// end drains what lives and looks at what is left.
func (r *rig) end() {
	for _, w := range r.workers {
		w.faults.Heal()
		w.stop()
	}
	for _, w := range r.workers {
		<-w.ended
		if w.err != nil && !w.dead {
			r.Errorf("a worker ended with %v", w.err)
		}
		w.client.Close()
	}
	r.client.Close()
	if rep, err := r.st.Audit(context.Background()); err != nil || len(rep.Violations) > 0 {
		r.Errorf("audit: %v %v", err, rep.Violations)
	}
	if got := r.runs.twice(); len(got) > 0 {
		r.Errorf("run by two handlers at once: %v", got)
	}
	if err := r.st.Close(); err != nil {
		r.Error(err)
	}
}

// work starts a worker.
func (r *rig) work(cfg twolane.WorkerConfig, handlers func(w *twolane.Worker)) *rigWorker {
	r.Helper()
	return r.workCfg(cfg, nil, handlers)
}

// workWith starts a worker with faults from the start.
func (r *rig) workWith(spoil func(*faultstore.Faults), handlers func(w *twolane.Worker)) *rigWorker {
	r.Helper()
	return r.workCfg(twolane.WorkerConfig{}, spoil, handlers)
}

func (r *rig) workCfg(cfg twolane.WorkerConfig, spoil func(*faultstore.Faults), handlers func(w *twolane.Worker)) *rigWorker {
	r.Helper()
	w := &rigWorker{faults: faultstore.New(uint64(len(r.workers) + 1)), metrics: newRecorder(), log: &logBook{}, ended: make(chan struct{})}
	if spoil != nil {
		spoil(w.faults)
	}
	cfg.Metrics, cfg.Logger = w.metrics, slog.New(w.log)
	w.client = twolane.NewClient(w.faults.Wrap(r.st), &twolane.Options{Logger: slog.New(slog.DiscardHandler), NoTick: true})
	var err error
	if w.Worker, err = twolane.NewWorker(w.client, cfg); err != nil {
		r.Fatal(err)
	}
	handlers(w.Worker)
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	r.workers = append(r.workers, w)
	go func() {
		defer close(w.ended)
		w.err = w.Run(ctx)
	}()
	synctest.Wait()
	return w
}

// kill cuts a worker off from the store for good, as the end of its process would. Its handlers go on unseen.
func (r *rig) kill(w *rigWorker) {
	w.dead = true
	w.faults.Inject(faultstore.Rule{Fault: faultstore.FailBefore})
	w.stop()
}

func (r *rig) submit(subs ...twolane.Submission) []string {
	r.Helper()
	res, err := r.client.SubmitMany(r.Context(), subs, nil)
	if err != nil {
		r.Fatal(err)
	}
	ids := make([]string, len(res))
	for i := range res {
		if ids[i] = res[i].ID; res[i].Err != nil {
			r.Fatal(res[i].Err)
		}
	}
	return ids
}

func (r *rig) many(n int, s twolane.Submission) []string {
	r.Helper()
	return r.submit(slices.Repeat([]twolane.Submission{s}, n)...)
}

func (r *rig) get(id string) *twolane.Command {
	r.Helper()
	c, err := r.client.Get(r.Context(), id)
	if err != nil {
		r.Fatal(err)
	}
	return c
}

func (r *rig) wait(ids ...string) []*twolane.Command {
	r.Helper()
	var cs []*twolane.Command
	for _, id := range ids {
		c, err := r.client.Wait(r.Context(), id)
		if err != nil {
			r.Fatalf("%s: %v", id, err)
		}
		cs = append(cs, c)
	}
	return cs
}

// status checks where commands are.
func (r *rig) status(want twolane.Status, ids ...string) {
	r.Helper()
	for _, id := range ids {
		if c := r.get(id); c.Status != want {
			r.Errorf("%s is %v (%s %s), want %v", id, c.Status, c.Reason, c.Error, want)
		}
	}
}

// permits checks that a worker holds none.
func (r *rig) idle(w *rigWorker) {
	r.Helper()
	synctest.Wait()
	if h := w.Health(); h.Held != (twolane.Lanes{}) || h.Leases != 0 || h.Unsettled != 0 {
		r.Errorf("held %+v, %d leases, %d unsettled: want none", h.Held, h.Leases, h.Unsettled)
	}
}

// runs notes which handlers run at once, over all workers of a rig.
type runs struct {
	mu      sync.Mutex
	live    map[string]int
	starts  map[string]int
	overlap []string
}

// enter is called by a handler; the function that it returns when it ends. A handler whose context ended does not count as live.
func (r *runs) enter(ctx context.Context, id string) func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starts[id]++
	if r.live[id]++; r.live[id] > 1 {
		r.overlap = append(r.overlap, id)
	}
	out := sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.live[id]--
	})
	stop := context.AfterFunc(ctx, out)
	return func() { stop(); out() }
}

func (r *runs) twice() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.overlap
}

func (r *runs) of(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.starts[id]
}

func (r *runs) total() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.starts {
		n += k
	}
	return n
}

// recorder keeps metrics by "name{values}".
type recorder struct {
	mu     sync.Mutex
	value  map[string]float64
	count  map[string]int // observations
	lowest map[string]float64
}

func newRecorder() *recorder {
	return &recorder{value: map[string]float64{}, count: map[string]int{}, lowest: map[string]float64{}}
}

type recorded struct {
	r   *recorder
	key string
}

func (r *recorder) Series(m *twolane.Metric, values ...string) twolane.Series {
	if len(values) != len(m.Labels) {
		panic(fmt.Sprint(m.Name, values))
	}
	s := recorded{r, m.Name + "{" + strings.Join(values, ",") + "}"}
	s.Add(0)
	return s
}

func (s recorded) Add(d float64) { s.r.mu.Lock(); defer s.r.mu.Unlock(); s.r.value[s.key] += d }
func (s recorded) Set(v float64) { s.r.mu.Lock(); defer s.r.mu.Unlock(); s.r.value[s.key] = v }
func (s recorded) Observe(v float64) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if n := s.r.count[s.key]; n == 0 || v < s.r.lowest[s.key] {
		s.r.lowest[s.key] = v
	}
	s.r.count[s.key]++
	s.r.value[s.key] = max(s.r.value[s.key], v) // the largest
}

func (r *recorder) get(key string) float64 { r.mu.Lock(); defer r.mu.Unlock(); return r.value[key] }
func (r *recorder) low(key string) float64 { r.mu.Lock(); defer r.mu.Unlock(); return r.lowest[key] }

// logBook keeps log lines.
type logBook struct {
	mu    sync.Mutex
	lines []string
}

func (l *logBook) Enabled(context.Context, slog.Level) bool { return true }
func (l *logBook) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logBook) WithGroup(string) slog.Handler            { return l }
func (l *logBook) Handle(_ context.Context, rec slog.Record) error {
	var b strings.Builder
	fmt.Fprint(&b, rec.Level, " ", rec.Message)
	rec.Attrs(func(a slog.Attr) bool { fmt.Fprint(&b, " ", a.Key, "=", a.Value); return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, b.String())
	return nil
}

// with lists the lines that contain all of some words.
func (l *logBook) with(words ...string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
next:
	for _, s := range l.lines {
		for _, w := range words {
			if !strings.Contains(s, w) {
				continue next
			}
		}
		found = append(found, s)
	}
	return found
}

// calls is how many store calls a worker has made.
func (w *rigWorker) calls() (n int) {
	for _, op := range faultstore.Ops {
		n += w.faults.Calls(op)
	}
	return n
}

// deafen drops every wake-up.
func (w *rigWorker) deafen() {
	w.faults.Inject(faultstore.Rule{Ops: []faultstore.Op{faultstore.Wake}, Fault: faultstore.FailBefore})
}

// box is a value that handlers and the test share.
type box[T any] struct {
	mu sync.Mutex
	v  T
}

func (b *box[T]) get() T { b.mu.Lock(); defer b.mu.Unlock(); return b.v }

func (b *box[T]) set(v T) { b.mu.Lock(); defer b.mu.Unlock(); b.v = v }

func (b *box[T]) with(f func(v *T)) { b.mu.Lock(); defer b.mu.Unlock(); f(&b.v) }

// crowd counts how many are in it at once.
type crowd struct{ box[[2]int] } // now, at most

func (c *crowd) enter() func() {
	c.with(func(v *[2]int) { v[0]++; v[1] = max(v[1], v[0]) })
	return func() { c.with(func(v *[2]int) { v[0]-- }) }
}

func (c *crowd) most() int { return c.get()[1] }
