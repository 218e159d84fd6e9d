package twolane

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/twolane/twolane/store"
)

// Config is the configuration of a namespace: the visibility timeout, what is set for queues, and limits. It lives in the store; workers never write it.
// Its fields are documented at [store.Config].
type Config = store.Config

// QueueConfig is the configuration of one queue: rates by lane, order, a cap on what waits, retention, fair turns. Its fields and their defaults are
// documented at [store.QueueConfig].
type QueueConfig = store.QueueConfig

// Rate bounds how many handlers of one lane of a queue start, across all workers: Limit per second, and Burst at once.
type Rate = store.Rate

// Config reads the configuration.
func (c *Client) Config(ctx context.Context) (cfg Config, err error) {
	err = c.call(ctx, func(ctx context.Context, _ int) (err error) {
		cfg, err = c.store.Config(ctx)
		return err
	})
	if err != nil {
		return cfg, fmt.Errorf("config: %w", err)
	}
	if cfg.Queues == nil {
		cfg.Queues = map[string]QueueConfig{}
	}
	return cfg, nil
}

// maxConflicts is how often in a row somebody else may have changed the configuration first.
const maxConflicts = 50

// Configure changes the configuration and returns the new one. change gets what is in force, with Queues never nil, and may be called several times: if
// somebody else changed the configuration meanwhile, it gets that. Its error ends the call and is returned as it is. If it changes nothing, nothing is
// written.
func (c *Client) Configure(ctx context.Context, change func(*Config) error) (Config, error) {
	var own error
	cfg, err := c.configure(ctx, func(cfg *Config) error {
		own = change(cfg)
		return own
	})
	if err != nil && own == nil {
		err = fmt.Errorf("configure: %w", err)
	}
	return cfg, err
}

func (c *Client) configure(ctx context.Context, change func(*Config) error) (Config, error) {
	pause := 2 * time.Millisecond
	for range maxConflicts {
		cfg, err := c.Config(ctx)
		if err != nil {
			return cfg, err
		}
		next := cfg.Clone()
		if err := change(&next); err != nil {
			return cfg, err
		}
		if next.Version = cfg.Version; reflect.DeepEqual(next, cfg) {
			return cfg, nil
		}
		if err := next.Validate(); err != nil {
			return cfg, err
		}
		var written Config
		// A try that was made but not answered shows as a conflict, and then as nothing left to change.
		err = c.call(ctx, func(ctx context.Context, _ int) (err error) {
			written, err = c.store.Configure(ctx, cfg.Version, next)
			return err
		})
		if err == nil {
			return written, nil
		}
		if !errors.Is(err, ErrConfigConflict) {
			return cfg, err
		}
		if !sleep(ctx, jitter(pause)) {
			return cfg, ended(ctx, err)
		}
		pause = min(2*pause, 100*time.Millisecond)
	}
	return Config{}, ErrConfigConflict
}
