package redisstore

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/store"
)

// Config implements [store.Store].
func (s *Store) Config(ctx context.Context) (store.Config, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return store.Config{}, err
	}
	defer done()
	return s.config(ctx)
}

func (s *Store) config(ctx context.Context) (store.Config, error) {
	m, err := s.eval(ctx, &s.main, scriptConfig, nil)
	if err != nil {
		return store.Config{}, err
	}
	p, err := m.ToArray()
	if err != nil || len(p) != 2 {
		return store.Config{}, badReply("config", err)
	}
	return readConfig(p[0], p[1])
}

func readConfig(version, text rueidis.RedisMessage) (store.Config, error) {
	var c store.Config
	v, err := version.AsInt64()
	if err != nil {
		return c, badReply("config", err)
	}
	t, err := text.ToString()
	if err != nil {
		return c, badReply("config", err)
	}
	if t != "" {
		if err := json.Unmarshal([]byte(t), &c); err != nil {
			return c, fmt.Errorf("redis config: stored configuration cannot be read: %w", err)
		}
	}
	c.Version = uint64(v)
	return c, nil
}

// Configure implements [store.Store].
func (s *Store) Configure(ctx context.Context, expect uint64, cfg store.Config) (store.Config, error) {
	if err := cfg.Validate(); err != nil {
		return store.Config{}, err
	}
	done, err := s.begin(ctx)
	if err != nil {
		return store.Config{}, err
	}
	defer done()
	cfg.Version = expect + 1
	text, err := json.Marshal(&cfg)
	if err != nil {
		return store.Config{}, fmt.Errorf("configuration: %w", err)
	}
	limits, err := json.Marshal(packLimits(cfg.Limits))
	if err != nil {
		return store.Config{}, fmt.Errorf("limits: %w", err)
	}
	args := []string{strconv.FormatUint(expect, 10), itoa(int64(cfg.V())), string(text), string(limits)}
	for name, q := range cfg.Queues {
		args = append(args, name, packQueue(cfg.Queue(name)))
		for group, w := range q.Weights {
			args = append(args, "~"+name+"|"+group, strconv.FormatFloat(w, 'g', -1, 64))
		}
	}
	for i := range cfg.Limits {
		l := &cfg.Limits[i]
		for v, m := range l.Values {
			args = append(args, "="+limitKey(store.LimitKey{Limit: l.Name, Value: v}), itoa(int64(m)))
		}
	}
	m, err := s.eval(ctx, &s.main, scriptConfigure, args)
	if err != nil {
		return store.Config{}, err
	}
	p, err := m.ToArray()
	if err != nil || len(p) != 3 {
		return store.Config{}, badReply("configure", err)
	}
	now, err := readConfig(p[1], p[2])
	if err != nil {
		return store.Config{}, err
	}
	if ok, _ := p[0].AsInt64(); ok != 1 {
		return now, store.ErrConfigConflict
	}
	return now, nil
}

// packQueue packs a queue's configuration, with its defaults, for the scripts: see qcfg in script/base.lua.
func packQueue(q store.QueueConfig) string {
	b := []byte{byte(q.Pause), byte(q.Order)}
	for _, f := range [...]float64{
		float64(q.PauseUntil), q.Rates[0].Limit, float64(q.Rates[0].Burst), q.Rates[1].Limit, float64(q.Rates[1].Burst), float64(q.MaxReady),
		retentionMillis(q.Retention), float64(q.Keep), float64(q.MaxLosses), float64(ceilMillis(q.CancelFor)),
	} {
		b = appendFloat(b, f)
	}
	fair := byte(0)
	if q.Fair {
		fair = 1
	}
	return string(append(b, fair))
}
