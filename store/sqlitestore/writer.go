package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
	"github.com/twolane/twolane/store/sqlitestore/internal/lite"
)

// rank is the place of a call in the writer's queue.
type rank uint8

const (
	urgent rank = iota // renew and settle
	normal
	bulk // what works through many commands: at most one in a transaction, after all others
)

const (
	// txTime is how long a transaction takes in further calls.
	txTime = 10 * time.Millisecond
	// bulkTime bounds what a single bulk call does in one step.
	bulkTime = 8 * time.Millisecond
	// maxYields is how often a transaction that has fewer calls than those before gives way to callers that may be about to call.
	maxYields = 2
)

var errAbandoned = errors.New("no caller waits any more")

// op is a call that waits for the writer.
type op struct {
	run     func(*writer) error // what it returns rolls the step back; results go to where the caller looks after done
	durable bool                // flush before the answer
	done    chan error          // holds one

	mu        sync.Mutex // held while run runs
	abandoned bool       // nobody reads the results, and run must not read the request any more
}

// ops are calls that were answered, to be used again.
var ops = sync.Pool{New: func() any { return &op{done: make(chan error, 1)} }}

// writer owns the one connection that writes. Everything below the queue belongs to its goroutine.
type writer struct {
	s      *Store
	wakeup chan struct{} // holds one

	mu      sync.Mutex
	queue   [3][]*op
	waiting int // callers that wait
	closing bool

	c        *lite.Conn
	st       *state
	config   store.Config // as of its version, read once
	tick     store.Millis // the machine's clock, read at tickAt
	tickAt   time.Time
	version  int64 // data_version as the cached state was read
	foreign  bool  // another process has written since watchers were told
	looked   time.Time
	seen     abroad
	log      lite.LogState // as it was when this process last looked
	buffered bool          // commits flush to the disk unless told to be lazy
	full     bool          // commits flush to the disk now
	synced   bool          // PRAGMA synchronous says so
	numbers  numbers
	crowd    int // calls that came together lately
	steps    int // of maintenance
	checkAt  int // frames of the log at which it is copied next
	wakes    []store.Wake
	hits     []*queueRow // queues with work to wake for
	scratch  row         // the one that is being submitted
	updates  [1 << groups]*lite.Stmt
}

// do runs a step in the writer and waits for its commit.
func (s *Store) do(ctx context.Context, r rank, durable bool, run func(*writer) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o := ops.Get().(*op)
	o.run, o.durable = run, durable
	if err := s.w.push(r, o); err != nil {
		return err
	}
	defer s.w.left()
	select {
	case err := <-o.done: // the writer has let go of it
		o.run = nil
		ops.Put(o)
		return err
	case <-ctx.Done():
	}
	o.mu.Lock()
	o.abandoned = true
	o.mu.Unlock()
	select {
	case err := <-o.done: // it was made all the same
		return err
	default:
		return ctx.Err()
	}
}

func (w *writer) push(r rank, o *op) error {
	w.mu.Lock()
	if w.closing {
		w.mu.Unlock()
		return store.ErrClosed
	}
	w.queue[r] = append(w.queue[r], o)
	w.waiting++
	w.mu.Unlock()
	w.rouse()
	return nil
}

func (w *writer) left() {
	w.mu.Lock()
	w.waiting--
	w.mu.Unlock()
}

func (w *writer) rouse() {
	select {
	case w.wakeup <- struct{}{}:
	default:
	}
}

func (w *writer) close() {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	w.rouse()
}

// pop takes the next call; bulk ones and those that need a flush only if asked for.
func (w *writer) pop(most rank, durable bool) (*op, rank) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for r := urgent; r <= most; r++ {
		if q := w.queue[r]; len(q) > 0 {
			o := q[0]
			if o.durable && !durable {
				return nil, 0
			}
			q[0] = nil
			if w.queue[r] = q[1:]; len(q) == 1 {
				w.queue[r] = q[:0:0]
			}
			return o, r
		}
	}
	return nil, 0
}

// durable reports whether a call that waits needs a flush.
func (w *writer) durable() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range w.queue {
		for _, o := range q {
			if o.durable {
				return true
			}
		}
	}
	return false
}

// idle reports whether nothing waits, and whether nothing ever will.
func (w *writer) idle() (empty, over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	empty = len(w.queue[0])+len(w.queue[1])+len(w.queue[2]) == 0
	return empty, empty && w.closing
}

// wanted reports whether a caller still waits.
func (w *writer) wanted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting > 0
}

func (w *writer) loop() {
	defer close(w.s.done)
	for {
		empty, over := w.idle()
		switch {
		case over:
			return
		case empty:
			w.rest()
		default:
			w.group()
			if w.foreign && w.s.watch.any() && time.Since(w.looked) > pollEvery {
				w.lookAbroad()
			}
		}
	}
}

// rest waits for a call; while somebody watches, it looks whether other processes have written.
func (w *writer) rest() {
	if !w.s.watch.any() {
		<-w.wakeup
		return
	}
	t := time.NewTimer(pollEvery)
	defer t.Stop()
	select {
	case <-w.wakeup:
	case <-t.C:
		w.lookAbroad()
	}
}

// group runs the calls that wait in one transaction and answers them after its commit.
func (w *writer) group() {
	durable := w.durable()
	if err := w.begin(durable); err != nil {
		w.fail(err)
		return
	}
	var ops []*op
	start := time.Now()
	most := bulk
	for yields := 0; ; {
		o, r := w.pop(most, durable)
		if o == nil && yields < maxYields && len(ops) < w.crowd {
			yields++
			runtime.Gosched() // those who were answered last may come again: one flush for all
			continue
		}
		if o == nil {
			break
		}
		ops = append(ops, o)
		if err := w.run(o); err != nil {
			w.isolate(ops, durable)
			return
		}
		if r == bulk {
			most = normal
		}
		if time.Since(start) > txTime {
			break
		}
	}
	w.crowd = max(len(ops), w.crowd*7/8)
	if err := w.st.flush(); err != nil {
		w.isolate(ops, durable)
		return
	}
	w.answer(ops, w.commit(durable))
}

// run makes one call's step, unless its caller has gone.
func (w *writer) run(o *op) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.abandoned {
		return nil
	}
	return o.run(w)
}

// isolate runs the calls of a transaction that failed once more, each in a savepoint, so that only the one that fails fails.
func (w *writer) isolate(ops []*op, durable bool) {
	w.rollback()
	if err := w.begin(durable); err != nil {
		w.answer(ops, err)
		return
	}
	var good []*op
	for i, o := range ops {
		err := w.alone(o)
		if err == nil {
			good = append(good, o)
			continue
		}
		o.done <- err
		if !w.c.InTx() { // it took the whole transaction along, as a full disk does: the others try without it
			if rest := append(good, ops[i+1:]...); len(rest) > 0 {
				w.isolate(rest, durable)
			} else {
				w.rollback()
			}
			return
		}
	}
	w.answer(good, w.commit(durable))
}

// alone runs one call in a savepoint.
func (w *writer) alone(o *op) error {
	if err := w.exec("SAVEPOINT one"); err != nil {
		return err
	}
	wakes, hits := len(w.wakes), len(w.hits)
	err := w.run(o)
	if err == nil {
		err = w.st.flush()
	}
	if err == nil {
		return w.exec("RELEASE one")
	}
	w.wakes, w.hits = w.wakes[:wakes], w.hits[:hits]
	w.st = newState(w)
	if w.c.InTx() {
		if e := errors.Join(w.exec("ROLLBACK TO one"), w.exec("RELEASE one"), w.st.load()); e != nil {
			w.rollback()
			return errors.Join(err, e)
		}
	}
	return err
}

// answer tells callers and watchers, and keeps the log in bounds.
func (w *writer) answer(ops []*op, err error) {
	for _, o := range ops {
		o.done <- err
	}
	if err != nil {
		return
	}
	w.deliver()
	w.publish()
	w.st.trim()
	w.checkpoint()
}

// publish tells callers how to read the clock.
func (w *writer) publish() {
	if r := w.s.clock.Load(); r == nil || r.clockView != w.st.ns.clockView || w.tickAt.Sub(r.at) > time.Second {
		w.s.clock.Store(&timepiece{w.st.ns.clockView, w.tick, w.tickAt})
	}
}

// fail answers all that wait: the transaction could not begin.
func (w *writer) fail(err error) {
	for {
		o, _ := w.pop(bulk, true)
		if o == nil {
			return
		}
		o.done <- err
	}
}

// q is a prepared statement. Its text is one of ours, so that a failure to prepare it is a bug or a damaged schema, and told by the first Step.
func (w *writer) q(sql string) *lite.Stmt { return w.c.Must(sql) }

func (w *writer) exec(sql string) error { return w.q(sql).Run() }

func (w *writer) pragma(sql string) (int64, error) {
	st := w.q(sql)
	if ok, err := st.Step(); err != nil || !ok {
		return 0, err
	}
	v := st.ColInt(0)
	st.Reset()
	return v, nil
}

// server is the server time. The machine's clock costs a system call: it is read once in a transaction.
func (w *writer) server() store.Millis {
	if f := w.st.ns.fixed; f != 0 {
		return f
	}
	return w.tick + store.Millis(time.Since(w.tickAt).Milliseconds()) + w.st.ns.shift
}

// look is the present moment for calls that write and do not advance the clocks.
func (w *writer) look() rule.Now { return w.st.ns.clocks.Peek(w.server(), w.st.cfg.V()) }

// advance moves the clocks, as Claim, Renew and Maintain do.
func (w *writer) advance() rule.Now {
	ns := w.st.change()
	ns.clocks = ns.clocks.Advance(w.server(), w.st.cfg.V())
	return ns.clocks.Now()
}

func tooMany(n int) error {
	if n > store.MaxItems {
		return &store.InvalidError{Field: "items", Detail: fmt.Sprintf("%d in one call, at most %d are allowed", n, store.MaxItems), Max: store.MaxItems}
	}
	return nil
}
