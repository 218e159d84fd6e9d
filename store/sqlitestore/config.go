package sqlitestore

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/twolane/twolane/store"
)

// Config implements [store.Store].
func (s *Store) Config(ctx context.Context) (store.Config, error) {
	var cfg store.Config
	err := s.read(ctx, func(r *reader) error {
		cfg = r.cfg
		return nil
	})
	cfg.Queues = maps.Clone(cfg.Queues)
	return cfg, err
}

// Configure implements [store.Store].
func (s *Store) Configure(ctx context.Context, expect uint64, cfg store.Config) (store.Config, error) {
	if err := cfg.Validate(); err != nil {
		return store.Config{}, err
	}
	if err := cfg.RefuseLimits(); err != nil {
		return store.Config{}, err
	}
	cfg.Version = expect + 1
	b, err := json.Marshal(cfg)
	if err != nil {
		return store.Config{}, err
	}
	var now store.Config
	conflict := false
	err = s.do(ctx, normal, true, func(w *writer) error {
		if conflict = w.st.ns.version != expect; conflict {
			now = w.st.cfg
			return nil
		}
		if err := w.q("INSERT OR REPLACE INTO config (one, json) VALUES (1,?)").Text(string(b)).Run(); err != nil {
			return err
		}
		w.st.change().version = cfg.Version
		var err error
		if w.st.cfg, err = readConfig(w); err != nil { // a copy of our own
			return err
		}
		w.st.cfg.Version = cfg.Version
		for _, q := range w.st.queues {
			q.cfg = w.st.cfg.Queue(q.name)
		}
		now = w.st.cfg
		w.wakes = append(w.wakes, store.Wake{Kind: store.WakeConfig})
		return nil
	})
	if err != nil {
		return store.Config{}, err
	}
	now.Queues = maps.Clone(now.Queues)
	if conflict {
		return now, store.ErrConfigConflict
	}
	return now, nil
}
