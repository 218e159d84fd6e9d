package sqlitestore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twolane/twolane/store"
)

// pollEvery is how often an idle process that watches looks whether another one has written.
const pollEvery = 25 * time.Millisecond

// watchers are the receivers of wake-ups of this process.
type watchers struct {
	s *Store
	n atomic.Int32 // how many there are

	mu     sync.Mutex
	all    map[*watcher]struct{}
	closed bool
}

// watcher is one receiver of wake-ups. Its lock is taken after that of watchers.
type watcher struct {
	of *watchers
	ch chan store.Wake

	mu     sync.Mutex
	closed bool
	ids    map[string]bool
	groups map[string]bool
}

// Watch implements [store.Store].
func (s *Store) Watch(ctx context.Context) (store.Watcher, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m := &s.watch
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || s.isClosed() {
		return nil, store.ErrClosed
	}
	w := &watcher{of: m, ch: make(chan store.Wake, 64), ids: map[string]bool{}, groups: map[string]bool{}}
	if m.all == nil {
		m.all = map[*watcher]struct{}{}
	}
	m.all[w] = struct{}{}
	m.n.Store(int32(len(m.all)))
	s.w.rouse() // it may have gone to rest without looking abroad
	return w, nil
}

func (m *watchers) any() bool { return m.n.Load() > 0 }

func (m *watchers) list() []*watcher {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]*watcher, 0, len(m.all))
	for w := range m.all {
		all = append(all, w)
	}
	return all
}

func (m *watchers) close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	for _, w := range m.list() {
		_ = w.Close() // never fails
	}
}

// deliver sends the wake-ups of the transaction that was committed.
func (w *writer) deliver() {
	for _, q := range w.hits {
		for lane, hit := range q.hit {
			if hit {
				w.wakes = append(w.wakes, store.Wake{Kind: store.WakeWork, Queue: q.name, Lane: store.Lane(lane)})
			}
		}
		q.hit = [2]bool{}
	}
	w.hits = w.hits[:0]
	if len(w.wakes) == 0 {
		return
	}
	if w.s.watch.any() {
		for _, to := range w.s.watch.list() {
			to.send(w.wakes)
		}
	}
	w.wakes = w.wakes[:0]
}

// send delivers what this watcher waits for, without ever waiting for it.
func (w *watcher) send(wakes []store.Wake) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	for _, k := range wakes {
		if k.Kind == store.WakeEnd && !w.ids[k.ID] || k.Kind == store.WakeGroup && !w.groups[k.ID] {
			continue
		}
		select {
		case w.ch <- k:
		default:
			w.overflow()
		}
	}
}

// overflow turns everything that waits into one WakeAll.
func (w *watcher) overflow() {
	for {
		select {
		case <-w.ch:
			continue
		default:
		}
		break
	}
	w.ch <- store.Wake{Kind: store.WakeAll} // only we send, under mu: there is room
}

// C implements [store.Watcher].
func (w *watcher) C() <-chan store.Wake { return w.ch }

// Await implements [store.Watcher].
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

// Forget implements [store.Watcher].
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
	m := w.of
	m.mu.Lock()
	delete(m.all, w)
	m.n.Store(int32(len(m.all)))
	m.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		close(w.ch)
	}
	return nil
}

// awaited are the ids and groups that somebody waits for, at most most of each.
func (m *watchers) awaited(most int) (ids, groups []string) {
	seenID, seenGroup := map[string]bool{}, map[string]bool{}
	for _, w := range m.list() {
		w.mu.Lock()
		for id := range w.ids {
			if len(seenID) < most {
				seenID[id] = true
			}
		}
		for g := range w.groups {
			if len(seenGroup) < most {
				seenGroup[g] = true
			}
		}
		w.mu.Unlock()
	}
	for id := range seenID {
		ids = append(ids, id)
	}
	for g := range seenGroup {
		groups = append(groups, g)
	}
	return ids, groups
}
