package config

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/twolane/twolane/store"
)

// invalid is the error about one field.
func invalid(field, format string, a ...any) error {
	return &store.InvalidError{Field: field, Detail: fmt.Errorf(format, a...).Error()}
}

// Complete fills in what is not said and refuses what contradicts itself; the error names the field. Calling it again changes nothing.
func (c *Config) Complete() error {
	if err := c.Redis.check(); err != nil {
		return err
	}
	for _, f := range [...]struct {
		field string
		bad   bool
		why   string
	}{
		{"http.timeout", c.HTTP.Timeout <= 0, "is not above 0"},
		{"http.max_attempts", c.HTTP.MaxAttempts < 0, "is negative"},
		{"http.backoff_base", c.HTTP.BackoffBase <= 0, "is not above 0"},
		{"http.backoff_max", c.HTTP.BackoffMax < c.HTTP.BackoffBase, "is less than backoff_base"},
		{"http.max_response", c.HTTP.MaxResponse < 1024, "is less than 1024 bytes"},
		{"http.cert_file", (c.HTTP.CertFile == "") != (c.HTTP.KeyFile == ""), "and key_file go together"},
		{"results.queue", c.Results.Queue == "", "is empty"},
		{"intake.retry_queue", c.Intake.RetryQueue == "", "is empty"},
		{"intake.claimed", !slices.Contains([]string{ClaimedLapsed, ClaimedAll, ClaimedIgnore}, c.Intake.Claimed), "is none of lapsed, all, ignore"},
		{"intake.poll", c.Intake.Poll <= 0, "is not above 0"},
		{"intake.batch", c.Intake.Batch < 1 || c.Intake.Batch > 500, "is not between 1 and 500"},
		{"intake.max_waiting", c.Intake.MaxWaiting < 0, "is negative"},
		{"gates.cache_ttl", c.Gates.CacheTTL <= 0, "is not above 0"},
		{"gates.wait_timeout", c.Gates.Wait < 0, "is negative"},
		{"drain", c.Drain <= 0, "is not above 0"},
		{"store.keep", c.Store.Keep < 0, "is negative"},
		{"store.keep_count", c.Store.KeepCount < 0, "is negative"},
		{"store.keep_dead", c.Store.KeepDead < 0, "is negative"},
		{"store.visibility", c.Store.Visibility < 0, "is negative"},
		{"serve.health_port", !port(c.Serve.HealthPort), "is no port"},
		{"serve.metrics_port", !port(c.Serve.MetricsPort), "is no port"},
		{"serve.metrics_port", c.Serve.MetricsPort == c.Serve.HealthPort && c.Serve.MetricsPort != 0, "is that of health_port"},
		{"serve.metrics_auth", !slices.Contains([]string{"on", "off", "auto"}, c.Serve.MetricsAuth), "is none of on, off, auto"},
		{"serve.backlog_poll", c.Serve.BacklogPoll < 0, "is negative"},
		{"serve.reload", c.Serve.Reload < 0, "is negative"},
		{"log.level", !slices.Contains([]string{"debug", "info", "warn", "error"}, c.Log.Level), "is none of debug, info, warn, error"},
		{"log.format", !slices.Contains([]string{"", "text", "json"}, c.Log.Format), "is neither text nor json"},
	} {
		if f.bad {
			return invalid(f.field, "%s", f.why)
		}
	}
	if err := store.ValidName("store.namespace", c.Store.Namespace); err != nil {
		return err
	}
	if err := c.Dispatch.check(); err != nil {
		return err
	}
	if err := c.completePools(); err != nil {
		return err
	}
	for i, t := range c.Transforms {
		if t.Type != GCSMultipart {
			return invalid(fmt.Sprintf("transforms[%d].type", i), "%q is none of %s", t.Type, GCSMultipart)
		}
		if len(t.Providers) == 0 {
			return invalid(fmt.Sprintf("transforms[%d].providers", i), "is empty: no request would be changed")
		}
	}
	if err := c.adoptTierLabel(); err != nil {
		return err
	}
	return c.CompleteQueues()
}

func port(n int) bool { return n >= 0 && n <= 65535 }

func (c *Config) completePools() error {
	seen := map[string]bool{}
	for i := range c.Pools {
		p := &c.Pools[i]
		f := fmt.Sprintf("pools[%d]", i)
		switch {
		case p.ID == "":
			return invalid(f+".id", "is empty")
		case seen[p.ID]:
			return invalid(f+".id", "%q is there twice", p.ID)
		case p.Workers < 1 || p.Workers > 100_000:
			return invalid(f+".workers", "%d is not between 1 and 100000", p.Workers)
		}
		seen[p.ID] = true
		if p.Gate != nil {
			if err := p.Gate.Validate("pools." + p.ID); err != nil {
				return err
			}
		}
	}
	if !seen[DefaultPool] {
		c.Pools = append(c.Pools, Pool{ID: DefaultPool, Workers: 64})
	}
	return nil
}

// CompleteQueues does for the queues alone what Complete does for all.
func (c *Config) CompleteQueues() error {
	ids, names := map[string]bool{}, map[string]bool{}
	for i := range c.Queues {
		q := &c.Queues[i]
		f := fmt.Sprintf("queues[%d]", i)
		if q.Name == "" {
			return invalid(f+".queue_name", "is missing")
		}
		if q.ID == "" {
			q.ID = q.Name
		}
		if q.Pool == "" {
			q.Pool = DefaultPool
		}
		if q.Path == "" {
			q.Path = "/v1/completions"
		}
		f = "queues." + q.ID
		switch {
		case ids[q.ID]:
			return invalid(f+".id", "is there twice")
		case names[q.Name]:
			return invalid(f+".queue_name", "%q is there twice", q.Name)
		case q.Name == c.Intake.RetryQueue:
			return invalid(f+".queue_name", "%q is the retry queue", q.Name)
		case !slices.ContainsFunc(c.Pools, func(p Pool) bool { return p.ID == q.Pool }):
			return invalid(f+".worker_pool_id", "there is no pool %q", q.Pool)
		case q.ResultTTL < 0:
			return invalid(f+".result_ttl_seconds", "is negative")
		}
		ids[q.ID], names[q.Name] = true, true
		if err := baseURL(f+".igw_base_url", q.BaseURL); err != nil {
			return err
		}
		if q.Gate != nil {
			if err := q.Gate.Validate(f); err != nil {
				return err
			}
			for _, l := range q.Gate.tierLabels() {
				if c.Dispatch.TierLabel != "" && l != c.Dispatch.TierLabel {
					return otherTierLabel(f, l, c.Dispatch.TierLabel)
				}
			}
		}
	}
	return nil
}

// adoptTierLabel sees to it that gates and dispatch read the tier of a request from the same label, as the store keeps one tier of it. Where the policy does
// not look at tiers, the gates say which label it is.
func (c *Config) adoptTierLabel() error {
	for _, q := range c.Queues {
		for _, l := range q.Gate.tierLabels() {
			if c.Dispatch.Policy == RandomRobin && c.Dispatch.TierLabel == defaultTierLabel {
				c.Dispatch.TierLabel = l
			}
		}
	}
	for _, p := range c.Pools {
		for _, l := range p.Gate.tierLabels() {
			if c.Dispatch.Policy == RandomRobin && c.Dispatch.TierLabel == defaultTierLabel {
				c.Dispatch.TierLabel = l
			}
			if l != c.Dispatch.TierLabel {
				return otherTierLabel("pools."+p.ID, l, c.Dispatch.TierLabel)
			}
		}
	}
	return nil
}

func otherTierLabel(field, label, other string) error {
	return invalid(field+".gate_params.tier_label", "%q is not the label %q that the tier is read from elsewhere; there is one for all", label, other)
}

func baseURL(field, raw string) error {
	if raw == "" {
		return invalid(field, "is missing")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return invalid(field, "is no URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return invalid(field, "the scheme %q is neither http nor https", u.Scheme)
	case u.Hostname() == "":
		return invalid(field, "names no host")
	case u.Fragment != "":
		return invalid(field, "has a fragment")
	}
	return nil
}

func (r *Redis) check() error {
	if r.URL != "" && r.URLFile != "" {
		return invalid("redis.url_file", "is set beside url")
	}
	switch r.Mode {
	case "", "standalone", "cluster":
		if r.Master != "" {
			return invalid("redis.master_name", "is for mode sentinel")
		}
	case "sentinel":
		if r.Master == "" {
			return invalid("redis.master_name", "is missing: mode sentinel needs it")
		}
	default:
		return invalid("redis.mode", "%q is none of standalone, sentinel, cluster", r.Mode)
	}
	return nil
}

var token = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

func (d *Dispatch) check() error {
	if d.Policy != RandomRobin && d.Policy != TierPriority {
		return invalid("dispatch.policy", "%q is neither %s nor %s", d.Policy, RandomRobin, TierPriority)
	}
	if d.Ageing < 0 || d.Ageing > 0 && d.Policy != TierPriority {
		return invalid("dispatch.ageing", "is for %s, and not negative", TierPriority)
	}
	for field, h := range map[string]string{"dispatch.fairness_header": d.FairnessHeader, "dispatch.priority_header": d.PriorityHeader} {
		if h != "" && !token.MatchString(h) {
			return invalid(field, "%q is no name of a header", h)
		}
	}
	for i, h := range d.ObjectiveHeaders {
		if !token.MatchString(h) {
			return invalid(fmt.Sprintf("dispatch.objective_headers[%d]", i), "%q is no name of a header", h)
		}
	}
	for lane, o := range d.LaneObjectives {
		if !slices.Contains(LaneNames, lane) {
			return invalid("dispatch.lane_objectives", "%q is none of %s", lane, strings.Join(LaneNames, ", "))
		}
		if !HeaderValue(o) {
			return invalid("dispatch.lane_objectives."+lane, "%q is no value of a header", o)
		}
	}
	return nil
}

// HeaderName reports whether a header may have that name.
func HeaderName(s string) bool { return token.MatchString(s) && http.CanonicalHeaderKey(s) != "Host" }

// HeaderValue reports whether a header may have that value.
func HeaderValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// Pool finds a pool by its id.
func (c *Config) Pool(id string) *Pool {
	if i := slices.IndexFunc(c.Pools, func(p Pool) bool { return p.ID == id }); i >= 0 {
		return &c.Pools[i]
	}
	return nil
}
