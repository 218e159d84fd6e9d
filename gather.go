package twolane

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/twolane/twolane/store"
)

// Bounds of one store call that submits.
const (
	chunkItems = 500
	chunkBytes = 4 << 20
)

// gather joins the single submits that come while a call is under way into the next call. Nothing waits for a timer: a submit that
// finds no call under way is sent at once.
type gather struct {
	mu      sync.Mutex
	waiting []*entry // in the order they came
	flying  bool
}

// entry is one submit on its way.
type entry struct {
	item   store.Submission
	flight *flight // nil while it waits
	done   chan struct{}
	res    store.SubmitResult
	err    error // of the call
}

// flight is one store call. It ends early when nobody waits for it any more.
type flight struct {
	entries []*entry
	here    int // callers that still wait
	cancel  context.CancelCauseFunc
}

var errNobody = errors.New("every caller has gone")

// submit sends one item, together with others.
func (c *Client) submit(ctx context.Context, item store.Submission) (store.SubmitResult, error) {
	if ctx.Err() != nil {
		return store.SubmitResult{}, context.Cause(ctx)
	}
	g := &c.gather
	e := &entry{item: item, done: make(chan struct{})}
	g.mu.Lock()
	if !g.flying {
		if err := c.start(c.fly); err != nil {
			g.mu.Unlock()
			return store.SubmitResult{}, err
		}
		g.flying = true
	}
	g.waiting = append(g.waiting, e)
	g.mu.Unlock()

	select {
	case <-e.done:
	case <-ctx.Done():
		if g.leave(e) {
			return store.SubmitResult{}, context.Cause(ctx)
		}
	}
	return e.res, e.err
}

// leave takes e out and reports whether its answer is not there yet.
func (g *gather) leave(e *entry) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-e.done:
		return false
	default:
	}
	if e.flight == nil {
		for i, w := range g.waiting {
			if w == e {
				g.waiting = append(g.waiting[:i], g.waiting[i+1:]...)
				break
			}
		}
		return true
	}
	if e.flight.here--; e.flight.here == 0 {
		e.flight.cancel(errNobody)
	}
	return true
}

// fly makes calls until nothing waits. There is at most one fly at a time.
func (c *Client) fly() {
	for {
		ctx, cancel := context.WithCancelCause(context.Background())
		runtime.Gosched() // those that are about to submit, as the ones just answered are, come along
		f := c.gather.board(cancel)
		if f == nil {
			cancel(nil)
			return
		}
		req := store.SubmitRequest{Items: make([]store.Submission, len(f.entries))}
		for i, e := range f.entries {
			req.Items[i] = e.item
		}
		results, err := c.submitAll(ctx, req)
		c.gather.land(f, results, err)
		cancel(nil)
	}
}

// board takes the next flight from what waits: bounded, and with no id twice. nil ends fly.
func (g *gather) board(cancel context.CancelCauseFunc) *flight {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.flying, g.waiting = false, nil
		return nil
	}
	f := &flight{cancel: cancel}
	seen := make(map[string]bool, min(len(g.waiting), chunkItems))
	bytes, rest := 0, []*entry(nil)
	for i, e := range g.waiting {
		n := size(&e.item)
		if len(f.entries) == chunkItems || len(f.entries) > 0 && bytes+n > chunkBytes {
			rest = append(rest, g.waiting[i:]...)
			break
		}
		if seen[e.item.ID] {
			rest = append(rest, e)
			continue
		}
		seen[e.item.ID], e.flight = true, f
		bytes += n
		f.entries = append(f.entries, e)
	}
	g.waiting, f.here = rest, len(f.entries)
	return f
}

// land hands the answers out.
func (g *gather) land(f *flight, results []store.SubmitResult, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, e := range f.entries {
		if e.err = err; err == nil {
			e.res = results[i]
		}
		close(e.done)
	}
}
