package inference

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"time"
)

// changed is closed when the queues have changed after the call.
func (p *Processor) changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.change
}

// reload reads the queues again now and then. What cannot be read or contradicts itself leaves those in force.
func (p *Processor) reload(ctx context.Context) {
	if p.opt.Queues == nil || p.cfg.Serve.Reload == 0 {
		return
	}
	last := ""
	for pause(ctx, p.cfg.Serve.Reload) {
		err := p.reloadOnce(ctx)
		p.numbers.reloaded(err == nil, time.Now())
		text := ""
		if err != nil {
			text = err.Error()
		}
		if err != nil && text != last {
			p.log.Error("the queues cannot be read again; those in force stay", "error", err)
		}
		last = text
	}
}

func (p *Processor) reloadOnce(ctx context.Context) error {
	fresh, err := p.opt.Queues()
	if err != nil {
		return err
	}
	byID, err := p.newQueues(fresh)
	if err != nil {
		return err
	}
	if err := p.checkGates(slices.Collect(maps.Values(byID))); err != nil {
		return err
	}
	old := *p.queues.Load()
	if reflect.DeepEqual(old, byID) {
		return nil
	}
	p.queues.Store(&byID)
	if err := p.configure(ctx); err != nil {
		p.queues.Store(&old)
		return err
	}
	p.log.Info("the queues have changed", "queues", slices.Sorted(maps.Keys(byID)))
	p.mu.Lock()
	close(p.change)
	p.change = make(chan struct{})
	p.mu.Unlock()
	return nil
}
