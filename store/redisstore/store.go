package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/store"
)

// Store is a store.Store in Redis. Create it with [Open].
type Store struct {
	opt   Options
	key   keys
	lines lineCache

	main  link // everything but renewals
	renew link // renewals do not wait behind a large reply

	submits gather[submission, store.SubmitResult]
	settles gather[settlement, store.SettleResult]

	mu       sync.Mutex // guards what is below
	closed   bool
	watchers map[*watcher]struct{}
	calls    sync.WaitGroup // calls under way, and what the store runs in the background
}

var (
	_ store.Store     = (*Store)(nil)
	_ store.Describer = (*Store)(nil)
	_ store.Clocker   = (*Store)(nil)
)

// Open connects and checks the server: its version, that it never evicts keys (unless opt.AllowEviction), and the schema of the namespace.
// It blocks until ctx ends at the longest.
func Open(ctx context.Context, opt Options) (*Store, error) {
	opt, err := opt.check()
	if err != nil {
		return nil, err
	}
	s := &Store{opt: opt, key: newKeys(opt.Namespace), watchers: map[*watcher]struct{}{}}
	s.submits = gather[submission, store.SubmitResult]{run: s.submitBatch, most: submitItems, weigh: (*submission).size, heaviest: submitBytes}
	s.settles = gather[settlement, store.SettleResult]{run: s.settleBatch, most: settleItems, weigh: (*settlement).size, heaviest: submitBytes}
	for _, l := range []*link{&s.main, &s.renew} {
		if err := l.open(ctx, &s.opt); err != nil {
			s.Close()
			return nil, fmt.Errorf("redis: %w", err)
		}
	}
	if err := s.checkServer(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// OpenURL is [Open] with the options of a URL, see [ParseURL].
func OpenURL(ctx context.Context, raw string) (*Store, error) {
	opt, err := ParseURL(raw)
	if err != nil {
		return nil, err
	}
	return Open(ctx, opt)
}

// Namespace is the namespace that the store has open.
func (s *Store) Namespace() string { return s.opt.Namespace }

// begin registers a call; the caller must call the function that it returns.
func (s *Store) begin(ctx context.Context) (func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	s.calls.Add(1)
	return s.calls.Done, nil
}

func (s *Store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Close implements [store.Store].
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	ws := make([]*watcher, 0, len(s.watchers))
	for w := range s.watchers {
		ws = append(ws, w)
	}
	s.mu.Unlock()
	for _, w := range ws {
		_ = w.Close() // never fails
	}
	s.calls.Wait()
	s.main.close()
	s.renew.close()
	return nil
}

// SetClock implements [store.Clocker]. It is for tests: the time is kept beside the data and holds for everybody who has the namespace open.
func (s *Store) SetClock(ctx context.Context, t store.Millis) error {
	done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	_, err = s.eval(ctx, &s.main, scriptSetClock, []string{itoa(int64(t))})
	return err
}

// link is one client of the library. When the server behind it turns out to be a replica, it is made anew, so that sentinels are asked again.
type link struct {
	client atomic.Pointer[rueidis.Client]
	making atomic.Bool
	dialed atomic.Int64 // unix ms of the last attempt

	mu      sync.Mutex
	retired []rueidis.Client // calls may still be under way on them
}

// open connects. The library's constructor knows no context: when ctx ends first, what it makes later is closed.
func (l *link) open(ctx context.Context, opt *Options) error {
	type made struct {
		c   rueidis.Client
		err error
	}
	ch := make(chan made, 1)
	go func() {
		c, err := rueidis.NewClient(opt.client())
		ch <- made{c, err}
	}()
	select {
	case m := <-ch:
		if m.err != nil {
			return m.err
		}
		if old := l.client.Swap(&m.c); old != nil {
			l.retire(*old)
		}
		return nil
	case <-ctx.Done():
		go func() {
			if m := <-ch; m.err == nil {
				m.c.Close()
			}
		}()
		return ctx.Err()
	}
}

// retire closes clients that were replaced, but the last: there is one at most a second, so that by the next its calls have ended.
func (l *link) retire(c rueidis.Client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, old := range l.retired {
		old.Close()
	}
	l.retired = append(l.retired[:0], c)
}

func (l *link) close() {
	if c := l.client.Swap(nil); c != nil {
		l.retire(*c)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, old := range l.retired {
		old.Close()
	}
	l.retired = nil
}

// failed gives an error of a call its meaning, and has the client made anew if it talks to the wrong server.
func (l *link) failed(s *Store, what string, err error) error {
	e, ok := rueidis.IsRedisErr(err)
	if !ok {
		if errors.Is(err, rueidis.ErrClosing) && s.isClosed() {
			return store.ErrClosed
		}
		return fmt.Errorf("redis %s: %w", what, err)
	}
	msg := e.Error()
	switch {
	case strings.Contains(msg, "TWOLANE_SCHEMA"):
		return fmt.Errorf("%w: this program knows schema 1: %s", store.ErrSchema, msg)
	case strings.HasPrefix(msg, "OOM"):
		return fmt.Errorf("redis %s: %w: %w", what, store.ErrReadOnly, err)
	case strings.HasPrefix(msg, "READONLY"):
		l.again(s)
	}
	return fmt.Errorf("redis %s: %w", what, err)
}

// again makes the client anew in the background, at most once a second.
func (l *link) again(s *Store) {
	now := time.Now().UnixMilli()
	if now-l.dialed.Load() < 1000 || !l.making.CompareAndSwap(false, true) {
		return
	}
	l.dialed.Store(now)
	done, err := s.begin(context.Background())
	if err != nil {
		l.making.Store(false)
		return
	}
	go func() {
		defer done()
		defer l.making.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), s.opt.Timeout)
		defer cancel()
		_ = l.open(ctx, &s.opt) // the next READONLY tries again
	}()
}
