package twolane

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/twolane/twolane/store"
)

// waiter answers all waits of a client in one goroutine: it asks the store's watcher for their ends, reads each once after that, reads what is
// said to have ended, and reads everything from time to time, since wake-ups may be lost. Only its goroutine touches it.
type waiter struct {
	c       *Client
	watcher store.Watcher
	retry   time.Time       // no Watch before this
	every   time.Duration   // of polling
	polled  time.Time       // end of the last reading of everything
	took    time.Duration   // by it
	ended   map[string]bool // ids to read whole
	groups  map[string]bool // to count
	failing bool
}

func (w *waiter) run() {
	ws := &w.c.waits
	poll := time.NewTimer(w.every)
	defer poll.Stop()
	defer w.unwatch()
	w.ended, w.groups = map[string]bool{}, map[string]bool{}
	for {
		var wakes <-chan store.Wake
		if w.watcher != nil {
			wakes = w.watcher.C()
		}
		all := false
		select {
		case <-w.c.ctx.Done():
			w.refuse(errClosed)
			return
		case <-ws.poke:
			runtime.Gosched() // those that are about to wait come along
		case wake, ok := <-wakes:
			all = w.hear(wakes, wake, ok)
		case <-poll.C:
			w.poll()
			w.every = min(w.every*3/2, pollMost)
			poll.Reset(max(w.pace(), w.floor()))
		}
		if w.enrol() {
			poll.Reset(max(w.pace(), w.floor()))
		}
		if all {
			poll.Reset(w.floor())
		}
		w.read()
		w.forget()
	}
}

// pace is how long until everything is read again. A watcher that works makes it the net under lost wake-ups only.
func (w *waiter) pace() time.Duration {
	if w.watcher != nil {
		return pollMost
	}
	return w.every
}

// floor is how long to wait before everything may be read again, so that reading never takes more than a fifth of the time.
func (w *waiter) floor() time.Duration {
	return max(0, time.Until(w.polled.Add(max(pollLeast, 4*w.took))))
}

// hear takes in a wake-up and those that are there with it. It reports whether some may have been lost.
func (w *waiter) hear(wakes <-chan store.Wake, wake store.Wake, ok bool) (all bool) {
	for {
		if !ok { // the store has closed it
			w.watcher, w.retry = nil, time.Now().Add(watchAgain)
			return true
		}
		switch wake.Kind {
		case store.WakeEnd:
			w.ended[wake.ID] = true
		case store.WakeGroup:
			w.groups[wake.ID] = true
		case store.WakeAll:
			all = true
		}
		select {
		case wake, ok = <-wakes:
		default:
			return all
		}
	}
}

// enrol asks for the ends of fresh waits and reads each once after that. It reports whether there were any.
func (w *waiter) enrol() bool {
	ws := &w.c.waits
	ws.mu.Lock()
	fresh := ws.fresh
	ws.fresh = nil
	ws.mu.Unlock()
	if len(fresh) == 0 {
		return false
	}
	var ids, groups []string
	for _, f := range fresh {
		if f.key.group {
			groups = append(groups, f.key.id)
		} else {
			ids = append(ids, f.key.id)
		}
	}
	w.every = pollFirst
	if w.watcher == nil {
		w.watch()
	} else if err := w.watcher.Await(ids, groups); err != nil {
		w.unwatch()
	}
	w.look(ids)
	for _, g := range groups {
		w.groups[g] = true
	}
	return true
}

// watch opens a watcher for everything that waits, unless that failed a moment ago.
func (w *waiter) watch() {
	if time.Now().Before(w.retry) {
		return
	}
	ctx, cancel := context.WithTimeout(w.c.ctx, readTimeout)
	defer cancel()
	watcher, err := w.c.store.Watch(ctx)
	if err == nil {
		w.watcher = watcher
		ids, groups := w.everything()
		err = watcher.Await(ids, groups)
	}
	if err != nil {
		w.c.log.Debug("no wake-ups from the store: waiting by reading", "error", err)
		w.unwatch()
	}
}

func (w *waiter) unwatch() {
	if w.watcher != nil {
		_ = w.watcher.Close() // what it could not release is the store's to report
	}
	w.watcher, w.retry = nil, time.Now().Add(watchAgain)
}

func (w *waiter) everything() (ids, groups []string) {
	ws := &w.c.waits
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for key := range ws.waiting {
		if key.group {
			groups = append(groups, key.id)
		} else {
			ids = append(ids, key.id)
		}
	}
	return ids, groups
}

// poll reads everything that waits.
func (w *waiter) poll() {
	ids, groups := w.everything()
	if len(ids)+len(groups) == 0 {
		return
	}
	if w.watcher == nil {
		w.watch()
	}
	start := time.Now()
	w.look(ids)
	for _, g := range groups {
		w.groups[g] = true
	}
	w.polled = time.Now()
	w.took = w.polled.Sub(start)
}

// look reads heads of records, to find those that have ended.
func (w *waiter) look(ids []string) {
	for len(ids) > 0 {
		n := min(len(ids), chunkItems)
		found, err := w.get(ids[:n], store.GetOptions{NoBlobs: true})
		if !w.fine(err) {
			return
		}
		for i, f := range found {
			if f == nil || f.Status.Terminal() {
				w.ended[ids[i]] = true
			}
		}
		ids = ids[n:]
	}
}

// read reads what is said to have ended, and answers.
func (w *waiter) read() {
	for len(w.ended) > 0 {
		ids := take(w.ended, chunkItems)
		found, err := w.get(ids, store.GetOptions{})
		if !w.fine(err) {
			return // the next poll finds them
		}
		for i, f := range found {
			if f == nil {
				w.c.waits.answer(waitKey{id: ids[i]}, nil, ErrNotFound)
			} else if f.Status.Terminal() {
				w.c.waits.answer(waitKey{id: ids[i]}, f, nil)
			}
		}
	}
	for len(w.groups) > 0 {
		groups := take(w.groups, chunkItems)
		ctx, cancel := context.WithTimeout(w.c.ctx, readTimeout)
		// One queue is the least that Stats reads.
		stats, err := w.c.store.Stats(ctx, store.StatsRequest{Queues: []string{DefaultQueue}, Groups: groups, Overview: true})
		cancel()
		if !w.fine(err) {
			return
		}
		for _, g := range groups {
			if stats.Groups[g] == 0 {
				w.c.waits.answer(waitKey{id: g, group: true}, nil, nil)
			}
		}
	}
}

func take(set map[string]bool, most int) []string {
	names := make([]string, 0, min(len(set), most))
	for name := range set {
		if len(names) == most {
			break
		}
		names = append(names, name)
		delete(set, name)
	}
	return names
}

func (w *waiter) get(ids []string, opt store.GetOptions) ([]*store.Command, error) {
	ctx, cancel := context.WithTimeout(w.c.ctx, readTimeout)
	defer cancel()
	found, err := w.c.store.Get(ctx, ids, opt)
	if err == nil && len(found) != len(ids) {
		err = errors.New("store answered another number of ids than asked")
	}
	return found, err
}

// fine notes how the store answers; an answer that will not change ends every wait.
func (w *waiter) fine(err error) bool {
	ws := &w.c.waits
	ws.mu.Lock()
	ws.failed = err
	ws.mu.Unlock()
	switch {
	case err == nil:
		if w.failing {
			w.c.log.Info("waiting for commands works again")
		}
		w.failing = false
		return true
	case final(err):
		w.refuse(err)
	case w.c.ctx.Err() == nil && !w.failing:
		w.failing = true
		w.c.log.Warn("waiting for commands: the store does not answer", "error", err)
	}
	return false
}

// refuse answers every wait with err.
func (w *waiter) refuse(err error) {
	ids, groups := w.everything()
	for _, id := range ids {
		w.c.waits.answer(waitKey{id: id}, nil, err)
	}
	for _, g := range groups {
		w.c.waits.answer(waitKey{id: g, group: true}, nil, err)
	}
}

// forget takes back from the watcher what nobody waits for any more.
func (w *waiter) forget() {
	ws := &w.c.waits
	ws.mu.Lock()
	var ids, groups []string
	for _, key := range ws.gone {
		switch {
		case ws.waiting[key] != nil: // somebody waits again
		case key.group:
			groups = append(groups, key.id)
		default:
			ids = append(ids, key.id)
		}
	}
	ws.gone = nil
	ws.mu.Unlock()
	if w.watcher != nil && len(ids)+len(groups) > 0 {
		w.watcher.Forget(ids, groups)
	}
}
