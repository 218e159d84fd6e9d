package inference

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/inference/config"
	"github.com/twolane/twolane/internal/openstore"
)

// redisParams are what a URL may have beside llm-d-async's, which this program knows too.
var redisParams = map[string]bool{
	"master": true, "master_set": true, "addr": true, "cluster": true, "password_file": true, "sentinel_user": true, "sentinel_password": true, "tls_ca": true,
	"tls_cert": true, "tls_key": true, "tls_server_name": true, "allow_eviction": true, "timeout": true, "namespace": true,
}

// RedisURL is the URL of the producers' Redis in this program's form, and what of theirs has no meaning here.
func RedisURL(r config.Redis) (string, []string, error) {
	raw := r.URL
	if raw == "" && len(r.Addrs) > 0 {
		raw = "redis://" + r.Addrs[0]
	}
	if !strings.Contains(raw, "://") {
		raw = "redis://" + raw
	}
	u, err := url.Parse(raw)
	if err != nil {
		return "", nil, fmt.Errorf("redis.url: it cannot be parsed; passwords must be percent-encoded") // net/url quotes the whole of it
	}
	var warnings []string
	q := u.Query()
	for k := range q {
		if !redisParams[k] {
			warnings = append(warnings, fmt.Sprintf("redis.url: the parameter %s has no effect", k))
			q.Del(k)
		}
	}
	for _, a := range r.Addrs {
		if a != u.Host {
			q.Add("addr", a)
		}
	}
	if r.Master != "" {
		q.Set("master", r.Master)
	}
	if r.Mode == "cluster" {
		q.Set("cluster", "1")
	}
	q.Del("namespace")
	u.RawQuery = q.Encode()
	return u.String(), warnings, nil
}

// StoreURL is the URL of the store: the producers' Redis unless another one is named.
func StoreURL(c *config.Config) (string, error) {
	if c.Store.URL != "" {
		return c.Store.URL, nil
	}
	raw, _, err := RedisURL(c.Redis)
	if err != nil {
		return "", err
	}
	out, _, err := openstore.WithNamespace(raw, c.Store.Namespace)
	return out, err
}

func redisOptions(c config.Redis) (opt rueidis.ClientOption, err error) {
	raw, _, err := RedisURL(c)
	if err != nil {
		return opt, err
	}
	if opt, err = openstore.RedisOptions(raw); err != nil {
		return opt, fmt.Errorf("redis.url: %w", err)
	}
	return opt, nil
}

// connect opens a client of the producers' Redis that repeats nothing: its callers know what they repeat.
func connect(c config.Redis) (client rueidis.Client, cluster bool, err error) {
	opt, err := redisOptions(c)
	if err != nil {
		return nil, false, err
	}
	opt.ConnWriteTimeout = 5 * time.Second
	opt.Dialer.Timeout, opt.Dialer.KeepAlive = 5*time.Second, 2500*time.Millisecond
	opt.PipelineMultiplex = -1
	opt.ClientName = "twolane-inference"
	opt.ClientSetInfo = rueidis.DisableClientSetInfo
	client, err = rueidis.NewClient(opt)
	return client, !opt.ForceSingleClient && opt.Sentinel.MasterSet == "", err
}

// pause waits, and says whether there is reason to go on.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// databaseOf names the server and database of a client, as [store.ListPusher] does; empty for a cluster.
func databaseOf(ctx context.Context, client rueidis.Client, r config.Redis) (string, error) {
	opt, err := redisOptions(r)
	if err != nil {
		return "", err
	}
	text, err := client.Do(ctx, client.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "run_id:"); ok {
			return fmt.Sprintf("%s/%d", id, opt.SelectDB), nil
		}
	}
	return "", nil
}
