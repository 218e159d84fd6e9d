package config

import (
	"encoding/json"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// describeOne are the flags, after redis.ss., that say what the only queue is.
var describeOne = []string{"igw-base-url", "request-path-url", "inference-objective", "request-queue-name", "gate-type", "gate-params"}

// fill does for deprecated flags what a transport config does.
func (o *deprecated) fill(t *transport, c *Config) error {
	t.URL, t.Retry, t.Result, t.PollMS, t.Batch, t.Tracing = o.url, o.retry, o.set.result, o.pollMS, o.batch, o.tracing
	raw, what := []byte(o.set.queues), "redis.ss.queues-config"
	if len(raw) == 0 && o.set.queuesFile != "" {
		var err error
		if raw, err = os.ReadFile(o.set.queuesFile); err != nil {
			return err
		}
		what = o.set.queuesFile
	}
	switch trimmed := strings.TrimSpace(string(raw)); {
	case trimmed == "":
		q := upstreamItem{Name: o.set.request, BaseURL: o.set.base, Path: o.set.path, Objective: o.set.objective, Gate: o.gate, Params: json.RawMessage(o.params)}
		t.Queues = []upstreamItem{q}
	case trimmed[0] == '{':
		var in struct {
			Queues []upstreamItem `json:"queues"`
		}
		if err := c.readJSON(what, raw, &in); err != nil {
			return err
		}
		t.Queues = in.Queues
	default:
		return c.readJSON(what, raw, &t.Queues)
	}
	return nil
}

// withoutEffect warns of flags that are set and that nobody reads.
func (u *Upstream) withoutEffect(c *Config) {
	byConfig := u.TransportJSON != "" || u.TransportFile != ""
	var queues string // the flag that lists the queues in place of those that describe one
	for _, f := range []string{"redis.ss.queues-config", "redis.ss.queues-config-file"} {
		if queues == "" && u.fs.Changed(f) {
			queues = f
		}
	}
	u.fs.Visit(func(f *pflag.Flag) {
		ss, isSS := strings.CutPrefix(f.Name, "redis.ss.")
		switch {
		case strings.HasPrefix(f.Name, "gate."):
			c.warn("--%s has no effect", f.Name)
		case byConfig && (strings.HasPrefix(f.Name, "redis.") || f.Name == "redis-tracing"):
			c.warn("--%s has no effect beside a transport config", f.Name)
		case f.Name == "message-queue-impl" && u.fs.Changed("transport"):
			c.warn("--%s has no effect beside --transport", f.Name)
		case strings.HasPrefix(f.Name, "pubsub."), strings.HasPrefix(f.Name, "redis.") && !isSS && f.Name != "redis.url" && f.Name != "redis.retry-queue-name":
			c.warn("--%s has no effect: it is of another transport", f.Name)
		case isSS && queues != "" && slices.Contains(describeOne, ss), f.Name == "redis.ss.queues-config-file" && queues != f.Name:
			c.warn("--%s has no effect beside --%s", f.Name, queues)
		case f.Name == "request-merge-policy-config" && u.PolicyFile != "":
			c.warn("--%s has no effect beside --request-merge-policy-config-file", f.Name)
		}
	})
	if u.old.watch > 0 && (byConfig || queues != "redis.ss.queues-config-file") {
		c.warn("--redis.ss.queues-config-watch-interval has no effect without --redis.ss.queues-config-file")
		u.old.watch = 0
	}
	if u.WatchInterval > 0 && u.TransportFile == "" {
		c.warn("--transport-config-watch-interval has no effect without --transport-config-file")
		u.WatchInterval = 0
	}
}
