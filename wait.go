package twolane

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twolane/twolane/store"
)

// Wait blocks until the command has ended, however it ends, and returns it; see [Command.Err]. It answers within milliseconds of the end where the
// store's wake-ups work, and within about a second where they do not. Waiting costs a client one goroutine, whatever number
// of callers wait. The error is [ErrNotFound] if there is no such command (any more), [ErrClosed], or the cause of ctx.
func (c *Client) Wait(ctx context.Context, id string) (*Command, error) {
	if err := store.ValidName("id", id); err != nil {
		return nil, err
	}
	found, err := c.await(ctx, waitKey{id: id})
	if err != nil {
		return nil, fmt.Errorf("wait for %s: %w", id, err)
	}
	return c.command(found.Clone(), 0), nil
}

// WaitGroup blocks until no command of the group is live, which is so from the start for a group that has none. Commands that enter the
// group with the end of another one, as follow-ups do, leave no gap.
func (c *Client) WaitGroup(ctx context.Context, group string) error {
	if err := store.ValidName("group", group); err != nil {
		return err
	}
	if _, err := c.await(ctx, waitKey{id: group, group: true}); err != nil {
		return fmt.Errorf("wait for group %s: %w", group, err)
	}
	return nil
}

type waitKey struct {
	id    string
	group bool
}

// wait is what some callers wait for together.
type wait struct {
	key     waitKey
	callers int
	done    chan struct{} // closed when found and err are set
	found   *store.Command
	err     error
}

// waits are those of a client. One goroutine (see waiter) answers them all.
type waits struct {
	mu      sync.Mutex
	running bool
	waiting map[waitKey]*wait
	fresh   []*wait       // not yet known to the waiter
	gone    []waitKey     // that nobody waits for any more
	failed  error         // of the last reading of the store
	poke    chan struct{} // there are fresh or gone ones
}

func (c *Client) await(ctx context.Context, key waitKey) (*store.Command, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w, err := c.join(key)
	if err != nil {
		return nil, err
	}
	select {
	case <-w.done:
		return w.found, w.err
	case <-ctx.Done():
		err := context.Cause(ctx)
		if last := c.waits.leave(w); last != nil {
			err = fmt.Errorf("%w; last: %w", err, last)
		}
		return nil, err
	}
}

func (c *Client) join(key waitKey) (*wait, error) {
	ws := &c.waits
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if !ws.running {
		ws.waiting, ws.poke = map[waitKey]*wait{}, make(chan struct{}, 1)
		if err := c.start((&waiter{c: c, every: pollFirst}).run); err != nil {
			return nil, err
		}
		ws.running = true
	}
	w := ws.waiting[key]
	if w == nil {
		w = &wait{key: key, done: make(chan struct{})}
		ws.waiting[key] = w
		ws.fresh = append(ws.fresh, w)
		ws.nudge()
	}
	w.callers++
	return w, nil
}

// leave takes one caller away and returns the error that the waiter has with the store, if it has one.
func (ws *waits) leave(w *wait) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.callers--; w.callers == 0 && ws.waiting[w.key] == w {
		delete(ws.waiting, w.key)
		ws.gone = append(ws.gone, w.key)
		ws.nudge()
	}
	return ws.failed
}

func (ws *waits) nudge() {
	select {
	case ws.poke <- struct{}{}:
	default:
	}
}

// answer ends a wait.
func (ws *waits) answer(key waitKey, found *store.Command, err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.waiting[key]
	if w == nil {
		return
	}
	delete(ws.waiting, key)
	ws.gone = append(ws.gone, key)
	w.found, w.err = found, err
	close(w.done)
}

// Bounds of the waiter's reading without a wake-up.
const (
	pollFirst   = 50 * time.Millisecond // without wake-ups, after the last wait came
	pollMost    = time.Second
	pollLeast   = 25 * time.Millisecond // between two readings of everything, and four times what the last one took
	readTimeout = 5 * time.Second
	watchAgain  = 5 * time.Second // after Watch failed
)
