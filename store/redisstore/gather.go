package redisstore

import (
	"context"
	"runtime"
	"sync"
)

// gather lets calls that come while one is in flight go together in the next one, never on a timer: one call at a time is in flight, and whoever
// comes meanwhile waits in a queue. The first of the queue then runs it, with as many behind it as fit.
type gather[T, R any] struct {
	run      func(ctx context.Context, items []T) ([]R, error)
	most     int          // items of one run
	weigh    func(*T) int // bytes of an item
	heaviest int          // bytes of one run

	mu    sync.Mutex
	busy  bool
	queue []*gathered[T, R]
}

// gathered is one call that waits. Its fields are guarded by the mutex of its gather until done is closed.
type gathered[T, R any] struct {
	items []T
	bytes int
	res   []R
	err   error
	turn  chan struct{} // closed when this call shall run the queue
	done  chan struct{} // closed when there is an answer
	lead  bool
	gone  bool
	batch *batch
}

// batch is one run for several calls: it is cancelled when nobody waits for it any more.
type batch struct {
	waiting int
	cancel  context.CancelFunc
}

// do runs items, alone or with those of others. An error is one of the whole run.
func (g *gather[T, R]) do(ctx context.Context, items []T) ([]R, error) {
	g.mu.Lock()
	if !g.busy {
		g.busy = true
		g.mu.Unlock()
		res, err := g.run(ctx, items)
		g.next()
		return res, err
	}
	c := &gathered[T, R]{items: items, turn: make(chan struct{}), done: make(chan struct{})}
	for i := range items {
		c.bytes += g.weigh(&items[i])
	}
	g.queue = append(g.queue, c)
	g.mu.Unlock()
	select {
	case <-c.done:
		return c.res, c.err
	case <-c.turn:
		g.lead(ctx, c)
	case <-ctx.Done():
	}
	select {
	case <-c.done:
		return c.res, c.err
	case <-ctx.Done():
	}
	g.leave(c)
	return nil, ctx.Err()
}

// next hands the turn to the first that waits.
func (g *gather[T, R]) next() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.nextLocked()
}

func (g *gather[T, R]) nextLocked() {
	if len(g.queue) == 0 {
		g.busy = false
		return
	}
	g.queue[0].lead = true
	close(g.queue[0].turn)
}

func (g *gather[T, R]) waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.queue)
}

// leave takes a call whose context has ended out of the queue or its batch.
func (g *gather[T, R]) leave(c *gathered[T, R]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.gone = true
	if c.batch != nil {
		if c.batch.waiting--; c.batch.waiting == 0 {
			c.batch.cancel()
		}
		return
	}
	for i, q := range g.queue {
		if q == c {
			g.queue = append(g.queue[:i:i], g.queue[i+1:]...)
			if c.lead {
				g.nextLocked()
			}
			return
		}
	}
}

// lead takes calls from the queue, c first, and runs them.
func (g *gather[T, R]) lead(ctx context.Context, c *gathered[T, R]) {
	g.mu.Lock()
	n, items, bytes := 0, 0, 0
	for n < len(g.queue) {
		q := g.queue[n]
		if n > 0 && (items+len(q.items) > g.most || bytes+q.bytes > g.heaviest) {
			break
		}
		items, bytes, n = items+len(q.items), bytes+q.bytes, n+1
	}
	calls := append([]*gathered[T, R](nil), g.queue[:n]...)
	rest := copy(g.queue, g.queue[n:])
	clear(g.queue[rest:])
	g.queue = g.queue[:rest]
	if n == 1 {
		g.mu.Unlock()
		c.res, c.err = g.run(ctx, c.items)
		close(c.done)
		g.next()
		return
	}
	all := make([]T, 0, items)
	bctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b := &batch{waiting: n, cancel: cancel}
	for _, q := range calls {
		q.batch = b
		all = append(all, q.items...)
	}
	g.mu.Unlock()
	run := func() {
		res, err := g.run(bctx, all)
		cancel()
		g.mu.Lock()
		at := 0
		for _, q := range calls {
			if q.err = err; err == nil {
				q.res = res[at : at+len(q.items) : at+len(q.items)]
			}
			at += len(q.items)
			close(q.done)
		}
		g.mu.Unlock()
		// Those who got their answer often come again at once: they shall find the queue, not an idle gather that the first of them would
		// have for itself.
		for waiting := -1; g.waiting() > waiting; {
			waiting = g.waiting()
			runtime.Gosched()
		}
		g.next()
	}
	if ctx.Done() == nil {
		run()
		return
	}
	go run()
}
