package sqlitestore

import (
	"context"
	"encoding/json"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// Config implements [store.Store].
func (s *Store) Config(ctx context.Context) (store.Config, error) {
	var cfg store.Config
	err := s.read(ctx, func(r *reader) error {
		cfg = r.cfg.Clone()
		return nil
	})
	return cfg, err
}

// Configure implements [store.Store].
func (s *Store) Configure(ctx context.Context, expect uint64, cfg store.Config) (store.Config, error) {
	if err := cfg.Validate(); err != nil {
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
			now = w.st.cfg.Clone()
			return nil
		}
		if err := w.q("INSERT OR REPLACE INTO config (one, json) VALUES (1,?)").Text(string(b)).Run(); err != nil {
			return err
		}
		w.st.change().version = cfg.Version
		c, err := readConfig(w) // a copy of our own
		if err != nil {
			return err
		}
		c.Version = cfg.Version
		w.st.setConfig(c)
		for _, q := range w.st.queues {
			if err := w.st.toggleFair(q); err != nil {
				return err
			}
		}
		w.st.ns.swept = w.st.ns.clocks.Run - rule.Retest // lines that wait for a limit are looked at with the next step
		now = c.Clone()
		w.wakes = append(w.wakes, store.Wake{Kind: store.WakeConfig})
		return nil
	})
	if err != nil {
		return store.Config{}, err
	}
	if conflict {
		return now, store.ErrConfigConflict
	}
	return now, nil
}
