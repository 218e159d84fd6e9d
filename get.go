package twolane

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twolane/twolane/store"
)

// Get reads one command, or [ErrNotFound].
func (c *Client) Get(ctx context.Context, id string) (*Command, error) {
	if err := store.ValidName("id", id); err != nil {
		return nil, err
	}
	found, err := c.read(ctx, []string{id}, store.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", id, err)
	}
	if found[0] == nil {
		return nil, fmt.Errorf("get %s: %w", id, ErrNotFound)
	}
	ahead, err := c.ahead(ctx, found)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", id, err)
	}
	return c.command(found[0], ahead), nil
}

// read reads the records of at most MaxItems ids; a missing one is nil at its index.
func (c *Client) read(ctx context.Context, ids []string, opt store.GetOptions) (found []*store.Command, err error) {
	err = c.call(ctx, func(ctx context.Context, _ int) error {
		var err error
		if found, err = c.store.Get(ctx, ids, opt); err == nil && len(found) != len(ids) {
			err = fmt.Errorf("store answered %d of %d ids", len(found), len(ids))
		}
		return err
	})
	return found, err
}

// offset remembers how far the run clock, which never goes back, is ahead of the server's. It changes only when the server's clock is
// set back, so a value of the last seconds is right but for the seconds after that.
type offset struct {
	mu    sync.Mutex
	ahead time.Duration
	until time.Time
}

const offsetFor = 10 * time.Second

func (o *offset) set(s *store.Stats) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ahead, o.until = s.Run.Sub(s.AsOf), time.Now().Add(offsetFor)
}

func (o *offset) get() (time.Duration, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ahead, time.Now().Before(o.until)
}

// ahead returns the offset if one of the commands needs it.
func (c *Client) ahead(ctx context.Context, commands []*store.Command) (time.Duration, error) {
	for _, s := range commands {
		if s == nil || s.Due == 0 {
			continue
		}
		if d, ok := c.clock.get(); ok {
			return d, nil
		}
		if _, err := c.stats(ctx, store.StatsRequest{Queues: []string{s.Queue}, Overview: true}); err != nil {
			return 0, err
		}
		d, _ := c.clock.get()
		return d, nil
	}
	return 0, nil
}
