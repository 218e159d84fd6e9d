package twolane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twolane/twolane/store"
)

// Options are the settings of a [Client]; the zero value and nil are usable.
type Options struct {
	// Logger gets what a person should know: which settings of the store lose work, that it does not answer, and that it answers again.
	// nil means slog.Default().
	Logger *slog.Logger
	// Codec encodes params and decodes results; nil means [JSON].
	Codec Codec
	// NoTick leaves out the upkeep that an open client does each second. Set it only where a worker or another client of the
	// namespace is always open: without anybody's upkeep, due times, deadlines and leases of dead workers pass unnoticed.
	NoTick bool
}

// Client submits commands, waits for them and operates on them, in the namespace of one store. All methods may be called concurrently.
//
// Every call is safe to repeat, and the client does so by itself: a call that the store did not answer, or answered with an error of its own,
// is made again a few times with growing pauses, until the context ends. What it then returns is the last error; the call may or may not
// have been made. Repeating it with the same ids is safe.
//
// While it is open, a client does the upkeep of the whole namespace once a second (see [Options]). Close it when it is no longer needed.
type Client struct {
	store store.Store
	log   *slog.Logger
	codec Codec

	ctx  context.Context // ends with Close
	stop context.CancelFunc
	mu   sync.Mutex // guards closed against tasks that start
	shut bool
	wg   sync.WaitGroup // every goroutine of the client

	upkept atomic.Int64 // UnixNano of the last upkeep that somebody in this process did
	gather gather
	waits  waits
	clock  offset
	cached struct {
		mu  sync.Mutex
		cfg Config // as of the last Stats
	}
}

// NewClient returns a client of the namespace of st, which must not be nil. opt may be nil. Closing the client does not close st; close st after it.
func NewClient(st store.Store, opt *Options) *Client {
	if st == nil {
		panic("twolane: NewClient needs a store, and got nil")
	}
	o := Options{}
	if opt != nil {
		o = *opt
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Codec == nil {
		o.Codec = JSON
	}
	c := &Client{store: st, log: o.Logger, codec: o.Codec}
	c.ctx, c.stop = context.WithCancel(context.Background())
	if !o.NoTick {
		c.wg.Go(c.upkeep)
	}
	return c
}

// Close ends the client: what waits in it returns [ErrClosed], submits under way are answered, its goroutines have ended when it returns.
// It may be called more than once.
func (c *Client) Close() error {
	c.mu.Lock()
	c.shut = true
	c.mu.Unlock()
	c.stop()
	c.wg.Wait()
	return nil
}

// start runs f in a goroutine of the client, unless the client is closed.
func (c *Client) start(f func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shut {
		return errClosed
	}
	c.wg.Go(f)
	return nil
}

// Bounds of the repetition of calls.
const (
	maxTries   = 6
	tryTimeout = 10 * time.Second // of one try: a peer that has gone silent must not hold a call for ever
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
)

// call makes one call of the store, again after errors that may pass. f gets the number of the try, from 0.
func (c *Client) call(ctx context.Context, f func(ctx context.Context, try int) error) error {
	if c.ctx.Err() != nil {
		return errClosed
	}
	return repeat(ctx, tryTimeout, f)
}

func repeat(ctx context.Context, timeout time.Duration, f func(ctx context.Context, try int) error) error {
	pause := firstPause
	for try := 0; ; try++ {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		tryCtx, cancel := context.WithTimeout(ctx, timeout)
		err := f(tryCtx, try)
		cancel()
		switch {
		case err == nil || final(err):
			return err
		case ctx.Err() != nil:
			return ended(ctx, err)
		case try == maxTries-1:
			return fmt.Errorf("%w (tried %d times)", err, maxTries)
		}
		if !sleep(ctx, jitter(pause)) {
			return ended(ctx, err)
		}
		pause = min(2*pause, lastPause)
	}
}

// ended says that the caller's context ended, and what the store had said by then.
func ended(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w; last: %w", cause, err)
}

// jitter spreads d over [d/2, d].
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// sleep reports whether d passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
