package faultstore

import (
	"context"

	"github.com/twolane/twolane/store"
)

// watcher passes wake-ups on, one by one, as the rules for [Wake] let it.
type watcher struct {
	store.Watcher
	ch   chan store.Wake
	stop context.CancelFunc
	done chan struct{}
}

func watch(f *Faults, inner store.Watcher) *watcher {
	ctx, stop := context.WithCancel(context.Background())
	w := &watcher{Watcher: inner, ch: make(chan store.Wake, 64), stop: stop, done: make(chan struct{})}
	go w.pass(ctx, f)
	return w
}

func (w *watcher) pass(ctx context.Context, f *Faults) {
	defer close(w.done)
	defer close(w.ch)
	for k := range w.Watcher.C() {
		v := f.decide(Wake, k)
		switch v.fault {
		case FailBefore, DropReply:
			continue
		case Delay:
			if f.sleep(ctx, v.delay) != nil {
				continue
			}
		case Hang, HangReply:
			select {
			case <-v.healed:
			case <-ctx.Done():
				continue
			}
		}
		select {
		case w.ch <- k:
			continue
		default:
		}
		// Full: make room for one that stands for all. Only this goroutine sends.
		select {
		case <-w.ch:
		default:
		}
		w.ch <- store.Wake{Kind: store.WakeAll}
	}
}

func (w *watcher) C() <-chan store.Wake { return w.ch }

func (w *watcher) Close() error {
	w.stop()
	err := w.Watcher.Close()
	<-w.done
	return err
}
