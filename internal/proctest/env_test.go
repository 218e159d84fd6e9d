package proctest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/internal/openstore"
	"github.com/twolane/twolane/store"
)

// env is one namespace with its processes and its books.
type env struct {
	t     *testing.T
	v     time.Duration // visibility timeout
	dir   string
	url   string
	st    store.Store
	c     *twolane.Client // does no upkeep: the workers do
	j     *journal        // of the test
	procs []*process

	tails   []*tail
	events  []event
	ids     []string        // submitted and acknowledged
	lossy   []window        // of a server that forgot
	spoiled bool            // the store goes wrong at times
	gone    map[string]bool // deleted by a user
}

// window is a time in which an acknowledgement may be forgotten.
type window struct{ from, to int64 }

var namespaces atomic.Int64

// onRedis gives a test a namespace of srv.
func onRedis(t *testing.T, url string) *env {
	t.Helper()
	return newEnv(t, tick, fmt.Sprintf("%s%snamespace=n%d", url, map[bool]string{true: "&", false: "?"}[strings.Contains(url, "?")], namespaces.Add(1)))
}

// files are the places of the tests on SQLite: what runs in the processes themselves wants more of the machine than a server does.
var files = make(chan struct{}, 3)

// onSQLite gives a test a file, when it is its turn. Every commit is flushed, and the lock is everybody's: the visibility timeout is twice as long.
func onSQLite(t *testing.T) *env {
	t.Helper()
	files <- struct{}{}
	t.Cleanup(func() { <-files })
	return newEnv(t, 2*tick, "sqlite:"+filepath.Join(t.TempDir(), "queue.db"))
}

func newEnv(t *testing.T, v time.Duration, url string) *env {
	t.Helper()
	e := &env{t: t, v: v, dir: t.TempDir(), url: url}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var err error
	e.st, err = openstore.Open(ctx, url, &openstore.Options{Logger: quiet})
	e.must(err)
	path := filepath.Join(e.dir, "test.journal")
	e.j, err = openJournal(path, "test")
	e.must(err)
	e.follow(path)
	e.c = twolane.NewClient(&recorder{Store: e.st, j: e.j}, &twolane.Options{Logger: quiet, NoTick: true})
	_, err = e.c.Configure(ctx, func(c *twolane.Config) error {
		c.Visibility = v
		return nil
	})
	e.must(err)
	t.Cleanup(func() {
		for _, p := range e.procs {
			if !p.ended() {
				_ = p.cmd.Process.Kill() // it may have ended since
				<-p.done
			}
		}
		if err := e.c.Close(); err != nil {
			t.Error(err)
		}
		if err := e.st.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			if keep := os.Getenv("TWOLANE_PROCTEST_KEEP"); keep != "" { // to look at the side files
				e.must(os.CopyFS(filepath.Join(keep, strings.ReplaceAll(t.Name(), "/", "-")), os.DirFS(e.dir)))
			}
			for _, p := range e.procs {
				t.Logf("the end of the log of %s:\n%s", p.name, lastOf(p.log))
			}
		}
	})
	return e
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// stores runs a test on both stores, at once.
func stores(t *testing.T, f func(t *testing.T, open func(t *testing.T) *env)) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		f(t, func(t *testing.T) *env { return onRedis(t, sharedRedis(t).URL()) })
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		f(t, onSQLite)
	})
}

// resume is within what the work of a dead worker goes on.
func (e *env) resume() time.Duration { return e.v + 2*tick }

// stall is for how long, between two moments, this machine gave processes no time: what it does not run does not come in time either. A worker does
// more than this process in which it is measured, and waits twice as long.
func (e *env) stall(from, to int64) time.Duration { return 2 * stalls.between(from, to) }

// submit submits commands of a type, n of them, and returns their ids.
func (e *env) submit(typ string, n int, p params) []string {
	e.t.Helper()
	subs := make([]twolane.Submission, n)
	for i := range subs {
		subs[i] = twolane.Submission{Type: typ, Params: p, ID: fmt.Sprintf("%s-%d", typ, len(e.ids)+i)}
	}
	results, err := e.c.SubmitMany(e.t.Context(), subs, nil)
	e.must(err)
	var ids []string
	for i, r := range results {
		e.must(r.Err)
		ids = append(ids, subs[i].ID)
	}
	e.ids = append(e.ids, ids...)
	return ids
}

// file is the path of a file of this test that does not exist yet.
func (e *env) file(name string) string { return filepath.Join(e.dir, name) }

// follow adds a side file to the books.
func (e *env) follow(path string) { e.tails = append(e.tails, &tail{path: path}) }

// read brings the books up to date.
func (e *env) read() {
	e.t.Helper()
	for _, t := range e.tails {
		more, err := t.read()
		e.must(err)
		e.events = append(e.events, more...)
	}
	slices.SortStableFunc(e.events, func(a, b event) int { return int(a.At - b.At) })
}

// until waits until cond holds, with the books up to date.
func (e *env) until(what string, d time.Duration, cond func() bool) time.Time {
	e.t.Helper()
	for end := time.Now().Add(d); ; time.Sleep(20 * time.Millisecond) { // other processes write files: there is nothing to wait for but time
		e.read()
		if cond() {
			return time.Now()
		}
		if time.Now().After(end) {
			e.t.Fatalf("waited %v in vain for %s", d, what)
		}
	}
}

// count counts the events of a kind of a process, or of all.
func (e *env) count(kind, proc string) int {
	n := 0
	for i := range e.events {
		if e.events[i].Kind == kind && (proc == "" || e.events[i].Proc == proc) {
			n++
		}
	}
	return n
}

// killed reports whether the test killed a process.
func (e *env) killed(proc string) bool {
	return slices.ContainsFunc(e.events, func(ev event) bool { return ev.Kind == evKill && ev.Text == proc })
}

// finish waits until every command has ended, drains the workers and asks the oracle.
func (e *env) finish(d time.Duration) {
	e.t.Helper()
	e.ended(d)
	e.end()
	e.judge()
}

// ended waits until every command has ended.
func (e *env) ended(d time.Duration) {
	e.t.Helper()
	var open []string
	for end := time.Now().Add(d); ; time.Sleep(50 * time.Millisecond) {
		open = open[:0]
		for _, c := range e.get() {
			if c.cmd == nil && !e.gone[c.id] && !e.excused(c.id) || c.cmd != nil && !c.cmd.Status.Terminal() {
				open = append(open, c.String())
			}
		}
		if len(open) == 0 {
			return
		}
		if time.Now().After(end) {
			e.t.Errorf("after %v %d of %d commands have not ended: %s", d, len(open), len(e.ids), strings.Join(open[:min(5, len(open))], "; "))
			return
		}
	}
}

// reading is what the store says about a submitted command.
type reading struct {
	id  string
	cmd *store.Command
}

func (r reading) String() string {
	if r.cmd == nil {
		return r.id + " is not there"
	}
	return fmt.Sprintf("%s is %s in place %s, starts %d, losses %d, failures %d, owner %q, lease %s", r.id, r.cmd.Status, r.cmd.Place, r.cmd.Starts, r.cmd.Losses, r.cmd.Failures, r.cmd.Owner, r.cmd.Lease)
}

// get reads all commands. A store that is away is asked again.
func (e *env) get() []reading {
	e.t.Helper()
	var rs []reading
	for ids := range slices.Chunk(e.ids, 500) {
		var cs []*store.Command
		var err error
		for range 100 {
			ctx, cancel := context.WithTimeout(e.t.Context(), 2*time.Second)
			cs, err = e.st.Get(ctx, ids, store.GetOptions{})
			cancel()
			if err == nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		e.must(err)
		for i, c := range cs {
			rs = append(rs, reading{ids[i], c})
		}
	}
	return rs
}
