package faults

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/internal/redistest"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/faultstore"
	"github.com/twolane/twolane/store/memstore"
	"github.com/twolane/twolane/store/redisstore"
	"github.com/twolane/twolane/store/sqlitestore"
)

const (
	sec   = time.Second
	milli = time.Millisecond
	epoch = store.Millis(2_000_000_000_000)
)

func TestMain(m *testing.M) { redistest.Main(m) }

type (
	job     = twolane.Job[string, string]
	handler = twolane.Handler[string, string]
)

// rig is a store with a client, and workers that each have faults of their own between them and the store.
type rig struct {
	*testing.T
	st      store.Store
	client  *twolane.Client
	workers []*worker
	mu      sync.Mutex
	starts  map[string]int
	live    map[string]int
	most    int // handlers of one command at once
}

type worker struct {
	*twolane.Worker
	faults *faultstore.Faults
	client *twolane.Client
	stop   context.CancelFunc
	ended  chan struct{}
	err    error
	dead   bool
}

// bubble runs f in fake time on a store in memory.
func bubble(t *testing.T, v time.Duration, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { on(t, memstore.New(), v, f) })
}

// on runs f on a store, which it closes: then workers that live are drained, and the store is audited.
func on(t *testing.T, st store.Store, v time.Duration, f func(r *rig)) {
	t.Helper()
	r := &rig{T: t, st: st, starts: map[string]int{}, live: map[string]int{}}
	if v > 0 {
		cfg, err := st.Config(t.Context())
		r.ok(err)
		version := cfg.Version
		cfg.Visibility = v
		_, err = st.Configure(t.Context(), version, cfg)
		r.ok(err)
	}
	r.client = twolane.NewClient(st, &twolane.Options{Logger: slog.New(slog.DiscardHandler)})
	defer r.end()
	f(r)
}

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
	audit(r.T, r.st)
	if err := r.st.Close(); err != nil {
		r.Error(err)
	}
	if r.most > 1 {
		r.Errorf("%d handlers of one command at once", r.most)
	}
}

func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func audit(t testing.TB, st store.Store) {
	t.Helper()
	rep, err := st.Audit(context.Background())
	if err != nil || len(rep.Violations) > 0 {
		t.Errorf("audit: %v\n%s", err, strings.Join(rep.Violations, "\n"))
	}
}

// work starts a worker, with faults from the start.
func (r *rig) work(cfg twolane.WorkerConfig, handlers func(w *twolane.Worker), rules ...faultstore.Rule) *worker {
	r.Helper()
	w := &worker{faults: faultstore.New(uint64(len(r.workers) + 1)), ended: make(chan struct{})}
	w.faults.Inject(rules...)
	w.client = twolane.NewClient(w.faults.Wrap(r.st), &twolane.Options{Logger: slog.New(slog.DiscardHandler), NoTick: true})
	var err error
	w.Worker, err = twolane.NewWorker(w.client, cfg)
	r.ok(err)
	handlers(w.Worker)
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	r.workers = append(r.workers, w)
	go func() {
		defer close(w.ended)
		w.err = w.Run(ctx)
	}()
	return w
}

// kill cuts a worker off from the store for good, as the end of its process would. Its handlers go on unseen.
func (w *worker) kill() {
	w.dead = true
	w.faults.Inject(faultstore.Rule{Fault: faultstore.FailBefore})
	w.stop()
}

// enter is called by a handler, and the function that it returns when it ends. One whose context ended does not count as live.
func (r *rig) enter(ctx context.Context, id string) func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starts[id]++
	r.live[id]++
	r.most = max(r.most, r.live[id])
	out := sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.live[id]--
	})
	stop := context.AfterFunc(ctx, out)
	return func() { stop(); out() }
}

func (r *rig) started(id string) int { r.mu.Lock(); defer r.mu.Unlock(); return r.starts[id] }

// sleeps is a handler that runs for d.
func (r *rig) sleeps(d time.Duration) func(context.Context, *twolane.Job[string, []byte]) (any, error) {
	return func(ctx context.Context, j *twolane.Job[string, []byte]) (any, error) {
		defer r.enter(ctx, j.ID())()
		select {
		case <-time.After(d):
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (r *rig) submit(subs ...twolane.Submission) (ids []string) {
	r.Helper()
	for part := range slices.Chunk(subs, store.MaxItems) {
		for i := range part {
			if part[i].Params == nil {
				part[i].Params = ""
			}
		}
		res, err := r.client.SubmitMany(r.Context(), part, nil)
		r.ok(err)
		for _, x := range res {
			r.ok(x.Err)
			ids = append(ids, x.ID)
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
		r.Fatalf("%s: %v", id, err)
	}
	return c
}

func (r *rig) wait(ids ...string) (cs []*twolane.Command) {
	r.Helper()
	for _, id := range ids {
		c, err := r.client.Wait(r.Context(), id)
		if err != nil {
			r.Fatalf("%s: %v", id, err)
		}
		cs = append(cs, c)
	}
	return cs
}

// idle checks that a worker has nothing in hand.
func (r *rig) idle(w *worker) {
	r.Helper()
	if h := w.Health(); h.Held != (twolane.Lanes{}) || h.Leases != 0 || h.Unsettled != 0 {
		r.Errorf("held %+v, %d leases, %d unsettled: want none", h.Held, h.Leases, h.Unsettled)
	}
}

var serial atomic.Int64

func openRedis(t testing.TB, url string) *redisstore.Store {
	t.Helper()
	return openRedisAs(t, url, fmt.Sprint("f", serial.Add(1)))
}

func openRedisAs(t testing.TB, url, namespace string) *redisstore.Store {
	t.Helper()
	opt, err := redisstore.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	opt.Namespace = namespace
	st, err := redisstore.Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func openSQLite(t testing.TB) *sqlitestore.Store {
	t.Helper()
	st, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "store.db"), &sqlitestore.Options{Relaxed: true})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// everywhere runs f on each kind of store, with the clock in its hands.
func everywhere(t *testing.T, f func(r *rig, c *clock)) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) store.Store{
		"memory": func(*testing.T) store.Store { return memstore.New() },
		"sqlite": func(t *testing.T) store.Store { return openSQLite(t) },
		"redis":  func(t *testing.T) store.Store { return openRedis(t, redistest.Shared(t).URL()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &rig{T: t, st: open(t)}
			c := &clock{r: r, now: epoch}
			c.pass(0)
			r.client = twolane.NewClient(r.st, &twolane.Options{Logger: slog.New(slog.DiscardHandler), NoTick: true})
			defer r.end()
			f(r, c)
		})
	}
}

// clock is the server time of a store.
type clock struct {
	r   *rig
	now store.Millis
}

// pass moves the server time, and does nothing else.
func (c *clock) pass(d time.Duration) {
	c.r.Helper()
	c.now = c.now.Add(d)
	c.r.ok(c.r.st.(store.Clocker).SetClock(c.r.Context(), c.now))
}

// claim leases up to n commands of type a in the default queue.
func claim(t testing.TB, st store.Store, worker string, n int) (cs []*store.Command) {
	t.Helper()
	rep, err := st.Claim(context.Background(), store.ClaimRequest{Worker: worker, Nonce: fmt.Sprintf("nonce%08d", serial.Add(1)), Free: [2]int{n, 0},
		Wants: []store.Want{{Queue: twolane.DefaultQueue, Max: n, Types: []store.TypeWant{{Type: "a"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range rep.Grants {
		cs = append(cs, g.Items...)
	}
	return cs
}

func settle(t testing.TB, st store.Store, worker string, kind store.OutcomeKind, cs ...*store.Command) []store.SettleResult {
	t.Helper()
	req := store.SettleRequest{Worker: worker}
	for _, c := range cs {
		req.Items = append(req.Items, store.Settlement{ID: c.ID, Lease: c.Lease, Kind: kind, Result: []byte("1")})
	}
	res, err := st.Settle(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}
