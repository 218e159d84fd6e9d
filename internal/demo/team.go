package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// States of a worker, for people.
const (
	stateRunning = "running"
	stateStopped = "stopped"
	stateKilled  = "killed"
	stateDied    = "died"
)

// member is one worker, a goroutine or a process.
type member interface {
	// stop lets the worker drain.
	stop()
	// kill ends it without a chance to do anything.
	kill() error
	// wait returns when it has ended; an error says that it ended badly.
	wait() error
}

// team are the workers of a demo.
type team struct {
	run     *run
	onDeath context.CancelCauseFunc // told when a worker ends that nobody stopped

	mu      sync.Mutex
	names   []string
	members []member
	state   []string
	wg      sync.WaitGroup // one watcher for each member
	errs    []error
}

// start starts all workers. onDeath is called when one ends that nobody stopped.
func (t *team) start(r *run, onDeath context.CancelCauseFunc) error {
	t.run, t.onDeath = r, onDeath
	for i := range r.cfg.Workers {
		spec := workerSpec{
			Name: fmt.Sprintf("worker-%d", i+1), Store: r.cfg.StoreURL, Cloud: r.server.URL(), Queue: r.queue,
			Concurrency: r.cfg.Concurrency, Batch: r.cfg.Batch, Poll: r.cfg.Poll,
		}
		m, err := t.begin(spec)
		if err != nil {
			return errors.Join(fmt.Errorf("start %s: %w", spec.Name, err), t.stop())
		}
		t.mu.Lock()
		t.names, t.members, t.state = append(t.names, spec.Name), append(t.members, m), append(t.state, stateRunning)
		t.mu.Unlock()
		t.wg.Go(func() { t.watch(i, spec.Name, m) })
	}
	return nil
}

func (t *team) begin(spec workerSpec) (member, error) {
	if t.run.cfg.Process != nil {
		return startProcess(t.run.cfg.Process(), spec, t.run.view)
	}
	return startGoroutine(t.run, spec), nil
}

// watch waits for the end of a worker and tells the cloud, which cannot know.
func (t *team) watch(i int, name string, m member) {
	err := m.wait()
	t.run.cloud.WorkerGone(name)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.state[i] == stateKilled:
	case t.state[i] == stateStopped && err == nil:
	default:
		t.state[i] = stateDied
		err = fmt.Errorf("%s ended by itself: %w", name, orEnded(err))
		t.errs = append(t.errs, err)
		t.onDeath(err)
	}
}

var errEnded = errors.New("without an error")

func orEnded(err error) error {
	if err == nil {
		return errEnded
	}
	return err
}

// kill ends the first worker with SIGKILL.
func (t *team) kill() error {
	t.mu.Lock()
	m, name := t.members[0], t.names[0]
	t.state[0] = stateKilled
	t.mu.Unlock()
	if err := m.kill(); err != nil {
		return fmt.Errorf("kill %s: %w", name, err)
	}
	_, err := fmt.Fprintf(t.run.view, "%s: sent SIGKILL to %s; its commands run again in about %v\n", clock(time.Since(t.run.started)), name, visibility)
	return err
}

// stop lets all workers drain and waits for their end.
func (t *team) stop() error {
	t.mu.Lock()
	for i, m := range t.members {
		if t.state[i] == stateRunning {
			t.state[i] = stateStopped
			m.stop()
		}
	}
	t.mu.Unlock()
	t.wg.Wait()
	return errors.Join(t.errs...)
}

func (t *team) views() []WorkerView {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]WorkerView, len(t.names))
	for i := range out {
		out[i] = WorkerView{Name: t.names[i], State: t.state[i]}
	}
	return out
}
