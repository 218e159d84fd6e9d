package redisstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/store"
)

const (
	awaitFor   = 60 * time.Second // an awaited id is told again to the server before this is over
	awaitAgain = 20 * time.Second
	watchPause = 500 * time.Millisecond // between attempts to subscribe
)

// watcher is one receiver of wake-ups: a subscription to the channel of the namespace.
type watcher struct {
	s      *Store
	ch     chan store.Wake
	cancel context.CancelFunc
	ctx    context.Context
	wg     sync.WaitGroup

	mu     sync.Mutex // guards what is below, and sending on ch
	closed bool
	ids    map[string]bool
	groups map[string]bool
}

// Watch implements [store.Store]. It returns when the subscription stands or could not be made at once; it is made again for as long as
// the watcher is open.
func (s *Store) Watch(ctx context.Context) (store.Watcher, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	w := &watcher{s: s, ch: make(chan store.Wake, 64), ids: map[string]bool{}, groups: map[string]bool{}}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	s.mu.Lock()
	s.watchers[w] = struct{}{}
	s.mu.Unlock()
	ready := make(chan struct{})
	w.wg.Go(func() { w.subscribe(ready) })
	w.wg.Go(w.remind)
	select {
	case <-ready:
		return w, nil
	case <-ctx.Done():
		_ = w.Close() // never fails
		return nil, ctx.Err()
	}
}

// subscribe keeps the subscription. Whatever ended it, wake-ups may have been lost.
func (w *watcher) subscribe(ready chan struct{}) {
	var once sync.Once
	for w.ctx.Err() == nil {
		err := w.receive(func() { once.Do(func() { close(ready) }) })
		once.Do(func() { close(ready) })
		if w.ctx.Err() != nil {
			return
		}
		w.send(store.Wake{Kind: store.WakeAll})
		pause := watchPause
		if err == nil {
			pause = watchPause / 10
		}
		select {
		case <-w.ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// receive subscribes and hands on what comes until the connection ends.
func (w *watcher) receive(subscribed func()) error {
	cl := w.s.main.client.Load()
	if cl == nil {
		return store.ErrClosed
	}
	dc, release := (*cl).Dedicate()
	defer release()
	moved := make(chan struct{})
	var once sync.Once
	lost := dc.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { w.message(m.Message) },
		OnSubscription: func(sub rueidis.PubSubSubscription) {
			if sub.Kind == "sunsubscribe" { // the slot went to another node
				once.Do(func() { close(moved) })
			}
		},
	})
	if err := dc.Do(w.ctx, dc.B().Ssubscribe().Channel(w.s.key.channel()).Build()).Error(); err != nil {
		return err
	}
	subscribed()
	select {
	case err := <-lost:
		return err
	case <-moved:
		return nil
	case <-w.ctx.Done():
		return nil
	}
}

// message reads a wake-up as the scripts write it: kind, lane, queue; or kind and id.
func (w *watcher) message(m string) {
	kind, rest, _ := strings.Cut(m, "|")
	switch kind {
	case "w":
		lane, queue, ok := strings.Cut(rest, "|")
		if !ok {
			return
		}
		l := store.Intake
		if lane == "k" {
			l = store.Repoll
		}
		w.send(store.Wake{Kind: store.WakeWork, Queue: queue, Lane: l})
	case "c":
		w.send(store.Wake{Kind: store.WakeCancel, ID: rest})
	case "e":
		w.send(store.Wake{Kind: store.WakeEnd, ID: rest})
	case "g":
		w.send(store.Wake{Kind: store.WakeGroup, ID: rest})
	case "o":
		w.send(store.Wake{Kind: store.WakeOutbox, ID: rest})
	case "f":
		w.send(store.Wake{Kind: store.WakeConfig})
	}
}

// send never blocks: when the channel is full, all that waits becomes one WakeAll.
func (w *watcher) send(k store.Wake) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || k.Kind == store.WakeEnd && !w.ids[k.ID] || k.Kind == store.WakeGroup && !w.groups[k.ID] {
		return
	}
	select {
	case w.ch <- k:
		return
	default:
	}
	for drained := false; !drained; {
		select {
		case <-w.ch:
		default:
			drained = true
		}
	}
	w.ch <- store.Wake{Kind: store.WakeAll} // only we send, under mu: there is room
}

// remind tells the server again what is awaited, before it forgets.
func (w *watcher) remind() {
	t := time.NewTicker(awaitAgain)
	defer t.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-t.C:
		}
		w.mu.Lock()
		ids, groups := sortedKeys(w.ids), sortedKeys(w.groups)
		w.mu.Unlock()
		if err := w.tell(ids, groups); err != nil && w.ctx.Err() == nil {
			w.send(store.Wake{Kind: store.WakeAll})
		}
	}
}

func sortedKeys(m map[string]bool) []string {
	ks := make([]string, 0, len(m))
	for k := range m {
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return ks
}

// tell registers what is awaited with the server, a bounded piece at a time.
func (w *watcher) tell(ids, groups []string) error {
	for len(ids)+len(groups) > 0 {
		i, g := min(len(ids), 500), min(len(groups), 500)
		ctx, cancel := context.WithTimeout(w.ctx, w.s.opt.Timeout)
		args := append([]string{itoa(awaitFor.Milliseconds()), itoa(int64(i))}, ids[:i]...)
		_, err := w.s.eval(ctx, &w.s.main, scriptAwait, append(args, groups[:g]...))
		cancel()
		if err != nil {
			return err
		}
		ids, groups = ids[i:], groups[g:]
	}
	return nil
}

func (w *watcher) C() <-chan store.Wake { return w.ch }

// Await implements [store.Watcher]. It asks the server, so that a wake-up is sent only for an id that somebody awaits.
func (w *watcher) Await(ids, groups []string) error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return store.ErrClosed
	}
	for _, id := range ids {
		w.ids[id] = true
	}
	for _, g := range groups {
		w.groups[g] = true
	}
	w.mu.Unlock()
	if err := w.tell(ids, groups); err != nil {
		if errors.Is(w.ctx.Err(), context.Canceled) {
			return store.ErrClosed
		}
		return err
	}
	return nil
}

// Forget implements [store.Watcher]. The server forgets by itself.
func (w *watcher) Forget(ids, groups []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		delete(w.ids, id)
	}
	for _, g := range groups {
		delete(w.groups, g)
	}
}

// Close implements [store.Watcher].
func (w *watcher) Close() error {
	w.cancel()
	w.wg.Wait()
	w.s.mu.Lock()
	delete(w.s.watchers, w)
	w.s.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		close(w.ch)
	}
	return nil
}
