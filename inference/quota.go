package inference

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/inference/config"
	"github.com/twolane/twolane/store"
)

// quota is a redis-quota gate as the store keeps it: a limit by a declared key. Commands count because they are leased, so there is nothing to
// give back, and a tenant over its quota stands in a line of its own.
type quota struct {
	name      string // of the limit, and of the key
	key       string // of llm-d-async's counter, without the value
	attribute string // of the request's metadata
	limit     int
	rate      bool
	window    time.Duration
	burst     int
	classify  bool
}

// atIntake reports whether the quota is looked at when a request is taken and not when it is claimed: a rate that lets everybody in and only tells who is
// over it.
func (x quota) atIntake() bool { return x.rate && x.classify }

// quotaAttribute is that of a gate that counts a whole queue or pool.
const quotaAttribute = ""

const (
	queuePlace = "queue:"
	poolPlace  = "pool:"
)

// quotasOf lists what the requests of a queue count for: its gate's quotas, and those of its pool.
func (p *Processor) quotasOf(c config.Queue) ([]quota, error) {
	var all []quota
	if err := collectQuotas(c.Gate, queuePlace+c.ID, &all); err != nil {
		return nil, err
	}
	if pool := p.cfg.Pool(c.Pool); pool != nil {
		var ofPool []quota
		if err := collectQuotas(pool.Gate, poolPlace+pool.ID, &ofPool); err != nil {
			return nil, err
		}
		for _, x := range ofPool {
			if x.attribute != quotaAttribute { // a pool's local concurrency is its number of workers, see workers
				all = append(all, x)
			}
		}
	}
	if len(all) > store.MaxKeys {
		return nil, &store.InvalidError{Field: "queues." + c.ID, Detail: "has more than four quotas, its pool's included"}
	}
	return all, nil
}

// collectQuotas finds the exact gates within a gate. place tells gates of different queues apart that count whole queues.
func collectQuotas(g *config.Gate, place string, to *[]quota) error {
	if g == nil {
		return nil
	}
	switch g.Type {
	case config.GateQuota:
		limit, err := g.Params.Float("limit", 0)
		if err != nil {
			return err
		}
		window, err := g.Params.Duration("window", time.Minute)
		if err != nil {
			return err
		}
		burst, err := g.Params.Float("burst", 0)
		if err != nil {
			return err
		}
		x := quota{
			attribute: g.Params.Text("attribute", "userid"), limit: int(limit), window: cmp.Or(window, time.Minute), burst: int(burst),
			rate: g.Params.Text("mode", "rate-limit") == "rate-limit", classify: g.Params.Text("gating_mode", "blocking") == "classifying",
		}
		x.key = g.Params.Text("prefix", "quota:") + x.attribute + ":"
		x.name = valid("", strings.TrimSuffix(x.key, ":"))
		if x.rate {
			x.name = valid("", x.name+".rate")
		}
		*to = append(*to, x)
	case config.GateLocal:
		limit, err := g.Params.Float("limit", 0)
		if err != nil {
			return err
		}
		*to = append(*to, quota{name: valid("local:", place), attribute: quotaAttribute, limit: int(limit)})
	}
	inner, err := g.Inner()
	if err != nil {
		return err
	}
	for i := range inner {
		if err := collectQuotas(&inner[i], place, to); err != nil {
			return err
		}
	}
	return nil
}

// quotaKeys declares the keys that quotas count by. A request without the attribute is not counted.
func (p *Processor) quotaKeys(s *twolane.Submission, q *queue, metadata map[string]string) {
	for _, x := range q.quotas {
		if x.atIntake() {
			continue
		}
		v := metadata[x.attribute]
		if x.attribute == quotaAttribute {
			v = "all"
		}
		if v == "" {
			continue
		}
		if s.Keys == nil {
			s.Keys = map[string]string{}
		}
		s.Keys[x.name] = valid("", v)
	}
}

// limits are the limits of all queues, each name once. Queues that count by the same name with different numbers share the count; the smaller number holds.
func limits(queues []*queue) ([]store.Limit, []string) {
	byName := map[string]quota{}
	var differ []string
	for _, q := range queues {
		for _, x := range q.quotas {
			if x.atIntake() {
				continue
			}
			o, ok := byName[x.name]
			if ok && (o.limit != x.limit || o.window != x.window) && !slices.Contains(differ, x.name) {
				differ = append(differ, x.name)
			}
			if !ok || x.limit < o.limit {
				byName[x.name] = x
			}
		}
	}
	var out []store.Limit
	for _, x := range byName {
		l := store.Limit{Name: x.name, By: store.ByKey, Key: x.name}
		if x.rate {
			l.Rate, l.Per, l.Burst = float64(x.limit), x.window, x.burst
		} else {
			l.Max, l.Classify = x.limit, x.classify
		}
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b store.Limit) int { return cmp.Compare(a.Name, b.Name) })
	slices.Sort(differ)
	return out, differ
}

// workers is how many requests of a pool may be in flight from one process.
func workers(pool *config.Pool) (int, error) {
	n := pool.Workers
	var all []quota
	if err := collectQuotas(pool.Gate, poolPlace+pool.ID, &all); err != nil {
		return 0, err
	}
	for _, x := range all {
		if x.attribute == quotaAttribute {
			n = min(n, x.limit)
		}
	}
	return n, nil
}
