package memstore

import (
	"context"
	"sync"

	"github.com/twolane/twolane/store"
)

// watcher is one receiver of wake-ups. Its fields below mu are guarded by it; the store's mutex is taken before it.
type watcher struct {
	s  *Store
	ch chan store.Wake

	mu     sync.Mutex
	closed bool
	ids    map[string]bool
	groups map[string]bool
}

// Watch implements [store.Store].
func (s *Store) Watch(ctx context.Context) (store.Watcher, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	w := &watcher{s: s, ch: make(chan store.Wake, 64), ids: map[string]bool{}, groups: map[string]bool{}}
	s.watchers[w] = struct{}{}
	return w, nil
}

// wake tells every watcher, without ever waiting for one.
func (s *Store) wake(k store.Wake) {
	for w := range s.watchers {
		w.send(k)
	}
}

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
	for { // full: everything that waits becomes one WakeAll
		select {
		case <-w.ch:
			continue
		default:
		}
		break
	}
	w.ch <- store.Wake{Kind: store.WakeAll} // only we send, under mu: there is room
}

func (w *watcher) C() <-chan store.Wake { return w.ch }

func (w *watcher) Await(ids, groups []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return store.ErrClosed
	}
	for _, id := range ids {
		w.ids[id] = true
	}
	for _, g := range groups {
		w.groups[g] = true
	}
	return nil
}

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

func (w *watcher) Close() error {
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
