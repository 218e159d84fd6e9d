package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/internal/openstore"
)

// redisProbe asks a Redis server about itself and measures its floor, over a connection of its own.
type redisProbe struct {
	client rueidis.Client
}

func newRedisProbe(url string) (*redisProbe, error) {
	client, err := openstore.RedisClient(url)
	if err != nil {
		return nil, err
	}
	return &redisProbe{client: client}, nil
}

func (p *redisProbe) close() { p.client.Close() }

// info is a section of INFO by field.
func (p *redisProbe) info(ctx context.Context, section string) (map[string]string, error) {
	text, err := p.client.Do(ctx, p.client.B().Info().Section(section).Build()).ToString()
	if err != nil {
		return nil, fmt.Errorf("INFO %s: %w", section, err)
	}
	out := map[string]string{}
	for l := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(l), ":"); ok {
			out[k] = v
		}
	}
	return out, nil
}

// cpu is the user and system time that the server has used, all its threads together.
func (p *redisProbe) cpu(ctx context.Context) (time.Duration, error) {
	info, err := p.info(ctx, "cpu")
	if err != nil {
		return 0, err
	}
	user, err1 := strconv.ParseFloat(info["used_cpu_user"], 64)
	sys, err2 := strconv.ParseFloat(info["used_cpu_sys"], 64)
	return time.Duration((user + sys) * float64(time.Second)), errors.Join(err1, err2)
}

// memory is what the data of the server takes.
func (p *redisProbe) memory(ctx context.Context) (int64, error) {
	info, err := p.info(ctx, "memory")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(info["used_memory"], 10, 64)
}

// label says which server this is, and how it persists.
func (p *redisProbe) label(ctx context.Context) (string, error) {
	server, err := p.info(ctx, "server")
	if err != nil {
		return "", err
	}
	persistence, err := p.info(ctx, "persistence")
	if err != nil {
		return "", err
	}
	label := "redis " + server["redis_version"]
	if v := server["valkey_version"]; v != "" {
		label = "valkey " + v
	}
	if persistence["aof_enabled"] == "1" {
		fsync := "fsync unknown"
		if set, err := p.client.Do(ctx, p.client.B().ConfigGet().Parameter("appendfsync").Build()).AsStrMap(); err == nil {
			fsync = set["appendfsync"] // CONFIG is often forbidden
		}
		label += " appendonly " + fsync
	}
	return label, nil
}

// floorCallers send at once, as the submit rows do.
const floorCallers = 4

// floor adds entries of n bytes to a stream for about d, by pipelined XADD in batches of 100, and returns how many it did in a second.
func (p *redisProbe) floor(ctx context.Context, n int, d time.Duration) (perSecond float64, err error) {
	key := "{twolane-bench-floor}"
	payload := strings.Repeat("x", n)
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second) // an interrupted probe leaves nothing either
		defer cancel()
		err = errors.Join(err, p.client.Do(ctx, p.client.B().Del().Key(key).Build()).Error())
	}()
	batch := func() error {
		cmds := make(rueidis.Commands, 0, 100)
		for range cap(cmds) {
			cmds = append(cmds, p.client.B().Xadd().Key(key).Maxlen().Almost().Threshold("100000").Id("*").FieldValue().FieldValue("p", payload).Build())
		}
		for _, r := range p.client.DoMulti(ctx, cmds...) {
			if err := r.Error(); err != nil {
				return fmt.Errorf("floor probe: XADD: %w", err)
			}
		}
		return nil
	}
	start := time.Now()
	var batches atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, floorCallers)
	for i := range errs {
		wg.Go(func() {
			for errs[i] == nil && time.Since(start) < d {
				errs[i] = batch()
				batches.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(100*batches.Load()) / time.Since(start).Seconds(), errors.Join(errs...)
}
