package gate

import "sync"

// Changes is a list of those who want to know of changes. The zero value is ready; a gate embeds it to be a [Notifier].
type Changes struct {
	mu   sync.Mutex
	last int
	to   map[int]func()
}

// Notify implements [Notifier].
func (c *Changes) Notify(changed func()) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.to == nil {
		c.to = map[int]func(){}
	}
	c.last++
	n := c.last
	c.to[n] = changed
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.to, n)
	}
}

// Changed tells all of them.
func (c *Changes) Changed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.to {
		f()
	}
}

// NotifyAll asks several gates to call changed.
func NotifyAll(changed func(), gates ...Gate) (stop func()) {
	var stops []func()
	for _, g := range gates {
		if n, ok := g.(Notifier); ok {
			stops = append(stops, n.Notify(changed))
		}
	}
	return func() {
		for _, s := range stops {
			s()
		}
	}
}
