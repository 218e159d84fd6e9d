package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twolane/twolane/store"
)

// server is what INFO says about the server, by field; CONFIG is often forbidden, so it is asked only for what INFO does not know.
type server map[string]string

func (s *Store) info(ctx context.Context) (server, error) {
	c := s.main.client.Load()
	if c == nil {
		return nil, store.ErrClosed
	}
	// Any node of a cluster may answer: they are set up alike.
	text, err := (*c).Do(ctx, (*c).B().Info().Build()).ToString()
	if err != nil {
		return nil, s.main.failed(s, "info", err)
	}
	m := server{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			m[k] = v
		}
	}
	return m, nil
}

// setting asks CONFIG, which may be forbidden.
func (s *Store) setting(ctx context.Context, name string) (string, bool) {
	c := s.main.client.Load()
	if c == nil {
		return "", false
	}
	m, err := (*c).Do(ctx, (*c).B().ConfigGet().Parameter(name).Build()).AsStrMap()
	if err != nil {
		return "", false
	}
	v, ok := m[name]
	return v, ok
}

func (m server) kind() (name, version string) {
	if v := m["valkey_version"]; v != "" {
		return "valkey", v
	}
	return "redis", m["redis_version"]
}

// checkServer refuses a server on which the store cannot keep its promises.
func (s *Store) checkServer(ctx context.Context) error {
	m, err := s.info(ctx)
	if err != nil {
		return err
	}
	_, version := m.kind()
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < 7 {
		return fmt.Errorf("redis: the server has version %q, 7 or newer is needed", version)
	}
	if p := m["maxmemory_policy"]; p != "" && p != "noeviction" && !s.opt.AllowEviction {
		return fmt.Errorf("redis: maxmemory-policy is %s: the server may drop commands that wait. Set it to noeviction, or allow eviction if losing work is acceptable", p)
	}
	_, err = s.config(ctx) // the schema
	return err
}

// Describe implements [store.Describer].
func (s *Store) Describe(ctx context.Context) (store.Description, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return store.Description{}, err
	}
	defer done()
	m, err := s.info(ctx)
	if err != nil {
		return store.Description{}, err
	}
	cfg, err := s.config(ctx)
	if err != nil {
		return store.Description{}, err
	}
	d := store.Description{Kind: "redis"}
	_, d.Version = m.kind()
	warn := func(format string, a ...any) { d.Warnings = append(d.Warnings, fmt.Sprintf(format, a...)) }
	s.describePersistence(ctx, m, &d, warn)
	s.describeMemory(m, warn)
	s.describeFailover(ctx, m, cfg.V(), warn)
	return d, nil
}

func (s *Store) describePersistence(ctx context.Context, m server, d *store.Description, warn func(string, ...any)) {
	fsync, known := s.setting(ctx, "appendfsync")
	switch {
	case m["aof_enabled"] == "1" && fsync == "always":
		d.Durability = "appendonly, synced before the acknowledgement"
	case m["aof_enabled"] == "1":
		d.Durability = "appendonly: a crash of the machine may forget about the last second"
		if known && fsync == "no" {
			d.Durability = "appendonly, synced when the system likes to: a crash of the machine may forget about the last 30 seconds"
		}
	default:
		d.Durability = "memory and snapshots at best: a restart forgets what came after the last snapshot"
		if save, ok := s.setting(ctx, "save"); ok && save == "" {
			d.Durability = "none: a restart forgets everything"
		}
		warn("appendonly is off: acknowledged commands are lost when the server restarts; set appendonly yes.")
	}
	if m["aof_enabled"] == "1" && m["aof_last_write_status"] != "" && m["aof_last_write_status"] != "ok" {
		warn("the last write of the append-only file failed: check the server's disk.")
	}
	if m["rdb_last_bgsave_status"] == "err" {
		warn("the last snapshot failed: the server may refuse writes; check its disk.")
	}
}

func (s *Store) describeMemory(m server, warn func(string, ...any)) {
	if p := m["maxmemory_policy"]; p != "" && p != "noeviction" {
		warn("maxmemory-policy is %s: the server may drop commands that wait; set noeviction.", p)
	}
	used, _ := strconv.ParseFloat(m["used_memory"], 64)
	most, _ := strconv.ParseFloat(m["maxmemory"], 64)
	if most > 0 && used > 0.8*most {
		warn("%.0f %% of maxmemory is in use; at 100 %% new commands are refused, while running ones can still end.", 100*used/most)
	}
}

// describeFailover says what replication and a fail-over mean for durability and the visibility timeout.
func (s *Store) describeFailover(ctx context.Context, m server, v time.Duration, warn func(string, ...any)) {
	if m["role"] != "" && m["role"] != "master" {
		warn("the server is a %s: writes are refused until it is promoted or the address is corrected.", m["role"])
	}
	if n, _ := strconv.Atoi(m["connected_slaves"]); n > 0 {
		writes, ok := s.setting(ctx, "min-replicas-to-write")
		if ok && writes == "0" {
			warn("replication is asynchronous and min-replicas-to-write is 0: a fail-over may forget acknowledged commands, and a cut-off master goes on serving; set it to 1, with min-replicas-max-lag at most %d.", max(1, int(v.Seconds()/8)))
		}
	}
	var away time.Duration
	var what string
	switch {
	case s.opt.Master != "":
		away, what = s.downAfter(ctx), "down-after-milliseconds"
	case s.opt.Cluster:
		if t, ok := s.setting(ctx, "cluster-node-timeout"); ok {
			ms, _ := strconv.Atoi(t)
			away, what = time.Duration(ms)*time.Millisecond, "cluster-node-timeout"
		}
	}
	if need := 2*away + 10*time.Second; away > 0 && v < need {
		warn("%s is %v: a fail-over outlasts the visibility timeout of %v, and running work would start again; set visibility to %v or lower the former.", what, away, v, need)
	}
}
