package inference

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/gate"
	"github.com/twolane/twolane/gate/promgate"
	"github.com/twolane/twolane/gate/redisgate"
	"github.com/twolane/twolane/gate/scrape"
	"github.com/twolane/twolane/inference/config"
	"github.com/twolane/twolane/internal/openstore"
	"github.com/twolane/twolane/store"
)

// builder makes the engine's gates of those of the configuration. Quotas and local concurrency are limits of the store (see quota): as gates they are
// open.
type builder struct {
	cfg  *config.Gates
	prom *promgate.Client // made when it is first needed
	pool string           // that the gate belongs to, or its queue's
	aimd bool             // a gate that was made tells lanes apart
	rate *redisgate.LeasedRate
}

func (b *builder) build(field string, g *config.Gate) (gate.Gate, error) {
	p := g.Params
	switch g.Type {
	case config.GateConstant, config.GateQuota, config.GateLocal:
		return gate.Constant(1), nil
	case config.GateRedis:
		open, err := opener(field, p)
		if err != nil {
			return nil, err
		}
		c := redisgate.BudgetConfig{Open: open, Key: p.Text("budget_key", "")}
		if !b.cfg.Strict {
			one := 1.0
			c.Missing = &one
		}
		return asGate(redisgate.NewBudget(c))
	case config.GateLeasedRate:
		open, err := opener(field, p)
		if err != nil {
			return nil, err
		}
		b.rate, err = redisgate.NewLeasedRate(redisgate.LeaseConfig{Open: open, ControlKey: p.Text("control_key", ""), PoolID: p.Text("pool_id", b.pool),
			BurstSeconds: b.float(p, "burst_seconds", 1)})
		return asGate(b.rate, err)
	case config.GateSaturation, config.GateBudget, config.GateQuery:
		return b.prometheus(field, g)
	case config.GateScrape:
		return b.scrape(p)
	case config.GateAIMD:
		hold, err := p.Duration("hold_duration", time.Second)
		if err != nil {
			return nil, err
		}
		target, err := p.Duration("queue_duration_target", 0)
		if err != nil {
			return nil, err
		}
		b.aimd = true
		return asGate(gate.NewAIMD(gate.AIMDConfig{Min: b.float(p, "min_window", 1), Max: b.float(p, "max_window", 256), Increase: b.float(p, "increase", 1),
			Decrease: b.float(p, "decrease_factor", 0.5), Hold: hold, QueueTarget: target, Bands: config.LaneNames}))
	}
	inner, err := g.Inner()
	if err != nil {
		return nil, err
	}
	var gates []gate.Gate
	for i := range inner {
		x, err := b.build(fmt.Sprintf("%s.%s[%d]", field, g.Type, i), &inner[i])
		if err != nil {
			return nil, err
		}
		gates = append(gates, x)
	}
	switch g.Type {
	case config.GateComposite:
		return asGate(gate.NewComposite(gates...))
	case config.GateWaitOnRefuse:
		return asGate(gate.NewWaitOnRefuse(gates[0]))
	case config.GateTierPriority:
		t, err := gate.NewTierPriority(gate.TierConfig{Saturation: gates[0], Label: metaTier})
		if err != nil {
			return nil, err
		}
		if gate.Has[gate.Pacer](t) { // a rate is told by the gate itself
			return t, nil
		}
		return &classed{watched{Gate: t}}, nil
	}
	return nil, &store.InvalidError{Field: field, Detail: "no gate of type " + g.Type + " can be made"}
}

func asGate[G gate.Gate](g G, err error) (gate.Gate, error) {
	if err != nil {
		return nil, err
	}
	return g, nil
}

// float reads a number that was validated.
func (b *builder) float(p config.Params, name string, otherwise float64) float64 {
	v, _ := p.Float(name, otherwise)
	return v
}

// number is a pointer to a number that may be left out.
func (b *builder) number(p config.Params, name string) *float64 {
	if p[name] == nil {
		return nil
	}
	v := b.float(p, name, 0)
	return &v
}

// fallback is the budget without a reading: what llm-d-async documents, unless the configuration is strict.
func (b *builder) fallback(budget float64) *float64 {
	if b.cfg.Strict {
		return nil
	}
	budget = min(max(budget, 0), 1)
	return &budget
}

func (b *builder) prometheus(field string, g *config.Gate) (gate.Gate, error) {
	at := &b.cfg.Prometheus
	if at.URL == "" {
		return nil, &store.InvalidError{Field: field, Detail: g.Type + " needs --prometheus-url (gates.prometheus.url)"}
	}
	if b.prom == nil {
		var err error
		if b.prom, err = promgate.NewClient(promgate.ClientConfig{URL: at.URL, BearerFile: at.BearerFile, User: at.User,
			PasswordFile: at.PasswordFile, CAFile: at.CAFile, Cache: b.cfg.CacheTTL}); err != nil {
			return nil, err
		}
	}
	p := g.Params
	of := promgate.PoolConfig{Pool: p.Text("pool", ""), Namespace: p.Text("namespace", "")}
	t := promgate.Timing{Every: b.cfg.CacheTTL}
	switch g.Type {
	case config.GateSaturation:
		threshold := b.float(p, "threshold", 0.8)
		t.Fallback = b.fallback(threshold - b.float(p, "fallback", 0)) // it is a saturation, of which none is the default
		return asGate(promgate.NewSaturation(b.prom, promgate.SaturationConfig{PoolConfig: of, Threshold: threshold, Timing: t}))
	case config.GateBudget:
		t.Fallback = b.fallback(b.float(p, "fallback", 0))
		return asGate(promgate.NewBudget(b.prom, promgate.BudgetConfig{PoolConfig: of, MaxConcurrency: b.float(p, "max_concurrency", 100),
			Baseline: b.number(p, "baseline"), Timing: t}))
	}
	t.Fallback = b.fallback(b.float(p, "fallback", 0))
	t.Lag = -1 // the operator's own expression is a share, whatever it is made of
	return asGate(promgate.NewQuery(b.prom, promgate.QueryConfig{Query: p.Text("query", ""), Timing: t}))
}

func (b *builder) scrape(p config.Params) (gate.Gate, error) {
	ls, err := p.Labels("labels")
	if err != nil {
		return nil, err
	}
	pods, err := p.Labels("pods_labels")
	if err != nil {
		return nil, err
	}
	return asGate(scrape.New(scrape.Config{
		URL: p.Text("url", ""), Metric: p.Text("metric", ""), Labels: ls, Type: scrape.ValueType(p.Text("value_type", "")),
		MaxPerPod: b.float(p, "max_count_per_pod", 0), PodsURL: p.Text("pods_url", ""), PodsMetric: p.Text("pods_metric", ""), PodsLabels: pods,
		Baseline: b.float(p, "baseline", 0), Absent: b.number(p, "absent_value"), Counted: p.Text("admission", "budget") == "counted",
		Every: b.cfg.CacheTTL, Fallback: b.fallback(b.float(p, "fallback", 0)),
	}))
}

// opener opens the Redis of a gate: host:port, or a URL with what else there is to say.
func opener(field string, p config.Params) (redisgate.Open, error) {
	raw := p.Text("address", "")
	if !strings.Contains(raw, "://") {
		raw = "redis://" + raw
	}
	if _, err := openstore.RedisOptions(raw); err != nil {
		return nil, &store.InvalidError{Field: field + ".gate_params.address", Detail: err.Error()}
	}
	return func() (rueidis.Client, error) { return openstore.RedisClient(raw) }, nil
}

// classed shows a gate the class of a request that is sticky: one in an overflow lane is overflow.
type classed struct{ watched }

// Judge implements [gate.Judge].
func (c *classed) Judge(now time.Time, s gate.Scope, job *gate.Job) gate.Verdict {
	if strings.Contains(job.Queue, ":"+overflow+"-") || job.Metadata[metaClass] == overflow {
		copied := *job
		copied.Overflow = true
		job = &copied
	}
	return c.watched.Judge(now, s, job)
}

// bindings are the gates of a pool's worker: the pool's own, and those of its queues; lease is the one among them that is a leased rate, if there is one.
// queues are the pool's.
func (o *pool) bindings(queues []*queue, lanes []string) (all []gate.Binding, lease *redisgate.LeasedRate, err error) {
	add := func(field, name string, c *config.Gate, types []string) error {
		b := builder{cfg: &o.p.cfg.Gates, pool: o.id}
		g, err := b.build(field, c)
		if err != nil {
			return err
		}
		bind := gate.Binding{Name: name, Gate: &watched{Gate: g}, Queues: lanes, Types: types}
		if gate.Has[gate.Pacer](g) {
			if len(types) != len(queues) {
				return &store.InvalidError{Field: field, Detail: "a rate is for a whole pool: give the queue a pool of its own, or the gate to the pool"}
			}
			bind.Types, bind.Gate, lease = nil, g, b.rate
		}
		if b.aimd {
			bind.Per, bind.ClassOf = gate.PerClass, o.laneOfJob
		}
		all = append(all, bind)
		return nil
	}
	var types []string
	for _, q := range queues {
		types = append(types, typeName(q.ID))
	}
	if c := o.p.cfg.Pool(o.id); c != nil && c.Gate != nil && len(types) > 0 {
		if err := add("pools."+o.id, valid("pool:", o.id), c.Gate, types); err != nil {
			return nil, nil, err
		}
	}
	for _, q := range queues {
		if q.Gate == nil {
			continue
		}
		if err := add("queues."+q.ID, typeName(q.ID), q.Gate, []string{typeName(q.ID)}); err != nil {
			return nil, nil, err
		}
	}
	return all, lease, nil
}

// laneOfJob is the lane of a request, for a gate that tells them apart.
func (o *pool) laneOfJob(j *gate.Job) string {
	for i, name := range config.LaneNames {
		if j.Queue == queueName(o.id, i) {
			return name
		}
	}
	return config.LaneNames[laneOf(false, j.Metadata[metaTier], j.Metadata[metaClass])]
}
