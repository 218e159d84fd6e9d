package redisgate

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/store"
)

// Open opens a client of a Redis. It is called again while it fails, so that a gate can start before its Redis does; the gate owns the client.
type Open func() (rueidis.Client, error)

// Use is an [Open] of a client that somebody else owns and closes.
func Use(c rueidis.Client) Open {
	return func() (rueidis.Client, error) { return borrowed{c}, nil }
}

type borrowed struct{ rueidis.Client }

func (borrowed) Close() {}

// source keeps the client of a gate.
type source struct {
	open Open
	mu   sync.Mutex
	c    rueidis.Client
}

// client is called by the one goroutine that asks.
func (s *source) client(ctx context.Context) (rueidis.Client, error) {
	s.mu.Lock()
	c := s.c
	s.mu.Unlock()
	if c != nil {
		return c, nil
	}
	type opened struct {
		c   rueidis.Client
		err error
	}
	done := make(chan opened, 1)
	go func() { // it may dial for long
		c, err := s.open()
		done <- opened{c, err}
	}()
	select {
	case o := <-done:
		if o.err != nil {
			return nil, o.err
		}
		s.mu.Lock()
		s.c = o.c
		s.mu.Unlock()
		return o.c, nil
	case <-ctx.Done():
		go func() {
			if o := <-done; o.err == nil {
				o.c.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

func (s *source) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c != nil {
		s.c.Close()
		s.c = nil
	}
}

func invalid(field, format string, a ...any) error {
	return &store.InvalidError{Field: field, Detail: fmt.Sprintf(format, a...)}
}
