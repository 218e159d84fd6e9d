package inference

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Collector shows what this process has counted, and what waits, to Prometheus: by our names, and by those of llm-d-async if the configuration says so.
func (p *Processor) Collector() prometheus.Collector { return &collector{p} }

type collector struct{ p *Processor }

// Names of labels that all metrics by queue have in common with llm-d-async.
var queueLabels = []string{"queue_id", "queue_name", "pool_name"}

func ourDesc(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc("twolane_inference_"+name, help, append(queueLabels[:len(queueLabels):len(queueLabels)], more...), nil)
}

func theirDesc(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc("llm_d_async_async_"+name, help, append(queueLabels[:len(queueLabels):len(queueLabels)], more...), nil)
}

var (
	descTaken      = ourDesc("requests_taken_total", "Requests that were taken from their set into the store.")
	descDuplicates = ourDesc("duplicates_total", "Members that were known already and were removed from their set.")
	descDead       = ourDesc("dead_letters_total", "Members that are no requests and were kept as dead letters.")
	descAttempts   = ourDesc("attempts_total", "Requests sent to the gateway, retries included.")
	descRetries    = ourDesc("retries_total", "Attempts after which the request was to be sent again.")
	descShed       = ourDesc("pushbacks_total", "Answers with 429.")
	descEnds       = ourDesc("requests_ended_total", "Requests that have ended, by how.", "outcome")
	descFlying     = ourDesc("requests_in_flight", "Requests that the gateway has just now.")
	descTook       = ourDesc("attempt_duration_seconds", "How long attempts took.")
	descWaited     = ourDesc("wait_duration_seconds", "How long requests were in the store before their first attempt.")
	descTokens     = ourDesc("tokens_total", "Tokens that responses say they were about.", "direction")
	descInSet      = ourDesc("set_members", "Members of the set that are not taken yet.")
	descInStore    = ourDesc("requests_waiting", "Requests in the store that could be sent.")
	descResults    = prometheus.NewDesc("twolane_inference_results_undelivered", "Results that wait in the outbox.", nil, nil)
	descDeadKept   = prometheus.NewDesc("twolane_inference_dead_letters", "Dead letters that are kept.", nil, nil)
	descCounted    = prometheus.NewDesc("twolane_inference_backlog_up", "1 if the last look at what waits succeeded.", nil, nil)
	descTold       = prometheus.NewDesc("twolane_inference_changes_told", "1 if the producers' Redis tells of changes, so that requests are taken at once.", nil, nil)
	descReloads    = prometheus.NewDesc("twolane_inference_queue_reloads_total", "Times that the queues were read again, by result.", []string{"result"}, nil)
	descReloadAt   = prometheus.NewDesc("twolane_inference_queue_reload_timestamp_seconds", "When the queues were last read again with success.", nil, nil)
	descWorkers    = prometheus.NewDesc("twolane_inference_pool_workers", "Requests of a pool that may be in flight from this process.", []string{"pool_name"}, nil)

	theirRequests  = theirDesc("request_total", "New requests: first attempts.")
	theirRetries   = theirDesc("request_retries_total", "Retries.")
	theirSuccess   = theirDesc("successful_requests_total", "Requests with a successful response.")
	theirFailed    = theirDesc("failed_requests_total", "Requests that failed for good.")
	theirLate      = theirDesc("exceeded_deadline_requests_total", "Requests that were over their deadline.")
	theirShed      = theirDesc("shedded_requests_total", "Answers with 429.")
	theirInference = theirDesc("inference_latency_time_millis", "How long attempts took.")
	theirResidence = theirDesc("queue_residence_time_millis", "How long requests waited for a worker.")
	theirDepth     = theirDesc("queue_depth", "Requests that were taken and wait for a worker.")
	theirFlying    = theirDesc("inflight_requests", "Requests in flight.")
	theirBacklog   = theirDesc("broker_backlog", "Requests that wait, in their set or in the store.")
	theirBacklogUp = theirDesc("broker_backlog_source_available", "1 if the backlog could be counted.")
	theirTokens    = theirDesc("tokens_total", "Tokens of successful requests.", "direction")
	theirProximity = theirDesc("deadline_proximity_millis", "Time to the deadlines of members that are not taken yet, as of the last look.")
	theirSent      = theirDesc("dispatched_requests_total", "Requests sent to the gateway.")
	theirPool      = prometheus.NewDesc("llm_d_async_async_pool_worker_limit", "Workers of a pool.", []string{"pool_name"}, nil)
	theirReloads   = prometheus.NewDesc("llm_d_async_async_queue_config_reloads_total", "Reloads of the queues, by result.", []string{"result"}, nil)
	theirReloadAt  = prometheus.NewDesc("llm_d_async_async_queue_config_last_success_timestamp_seconds", "When the queues were last read again with success.", nil, nil)
	theirRequeues  = theirDesc("gate_wait_requeues_total", "Requests put back by a gate's wait: none, as none holds a worker.")
	theirRate      = theirLease("rps", "Starts per second that the lease of the pool allows.")
	theirLeaseOK   = theirLease("lease_valid", "1 if there is a lease that holds.")
	theirLeaseEnd  = theirLease("valid_until_seconds", "When the lease ends; 0 if there is none.")
)

func theirLease(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("llm_d_async_async_drain_limit_"+name, help, []string{"pool_name"}, nil)
}

// Describe sends nothing: which series there are depends on the queues.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(to chan<- prometheus.Metric) {
	p := c.p
	theirs := p.cfg.Serve.UpstreamNames
	for _, q := range p.all() { // a queue has its series before its first request
		p.numbers.of(q)
	}
	for _, t := range p.numbers.all() {
		name, pool := t.id, ""
		if q := p.queue(t.id); q != nil {
			name, pool = q.Name, q.Pool
		}
		s := series{to: to, labels: []string{t.id, name, pool}}
		s.ours(t)
		if theirs {
			s.theirs(t)
		}
	}
	c.waiting(to, theirs)
	flag := func(d *prometheus.Desc, on bool) {
		v := 0.0
		if on {
			v = 1
		}
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	flag(descTold, p.told.Load())
	reload := func(d *prometheus.Desc) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(p.numbers.reloadOK.Load()), "success")
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(p.numbers.reloadBad.Load()), "error")
	}
	reload(descReloads)
	to <- prometheus.MustNewConstMetric(descReloadAt, prometheus.GaugeValue, float64(p.numbers.reloadAt.Load()))
	if theirs {
		reload(theirReloads)
		to <- prometheus.MustNewConstMetric(theirReloadAt, prometheus.GaugeValue, float64(p.numbers.reloadAt.Load()))
		c.gates(to)
		c.leases(to)
	}
	for _, o := range p.pools {
		to <- prometheus.MustNewConstMetric(descWorkers, prometheus.GaugeValue, float64(o.workers), o.id)
		if theirs {
			to <- prometheus.MustNewConstMetric(theirPool, prometheus.GaugeValue, float64(o.workers), o.id)
		}
	}
}

// series sends the metrics of one queue.
type series struct {
	to     chan<- prometheus.Metric
	labels []string
}

func (s *series) count(d *prometheus.Desc, v int64, more ...string) {
	s.to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), append(s.labels[:len(s.labels):len(s.labels)], more...)...)
}

func (s *series) gauge(d *prometheus.Desc, v float64) {
	s.to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, s.labels...)
}

func (s *series) histogram(d *prometheus.Desc, h *histogram, scale float64) {
	n, sum, buckets := h.read(scale)
	s.to <- prometheus.MustNewConstHistogram(d, n, sum, buckets, s.labels...)
}

func (s *series) ours(t *tally) {
	s.count(descTaken, t.takenN.Load())
	s.count(descDuplicates, t.duplicates.Load())
	s.count(descDead, t.dead.Load())
	s.count(descAttempts, t.attempts.Load())
	s.count(descRetries, t.retries.Load())
	s.count(descShed, t.sheds.Load())
	for i, name := range endNames {
		s.count(descEnds, t.ends[i].Load(), name)
	}
	s.count(descTokens, t.input.Load(), "input")
	s.count(descTokens, t.output.Load(), "output")
	s.gauge(descFlying, float64(t.flying.Load()))
	s.histogram(descTook, &t.inference, 0.001)
	s.histogram(descWaited, &t.residence, 0.001)
}

func (s *series) theirs(t *tally) {
	s.count(theirRequests, t.first.Load())
	s.count(theirRequeues, 0)
	s.count(theirRetries, t.retries.Load())
	s.count(theirSuccess, t.ends[endedOK].Load())
	s.count(theirFailed, t.ends[endedHTTP].Load()+t.ends[endedFailed].Load()+t.ends[endedInvalid].Load()+t.ends[endedDropped].Load())
	s.count(theirLate, t.ends[endedDeadline].Load())
	s.count(theirShed, t.sheds.Load())
	s.count(theirSent, t.attempts.Load())
	s.count(theirTokens, t.input.Load(), "input")
	s.count(theirTokens, t.output.Load(), "output")
	s.gauge(theirFlying, float64(t.flying.Load()))
	s.histogram(theirInference, &t.inference, 1)
	s.histogram(theirResidence, &t.residence, 1)
}

var (
	theirGateLabels = append(queueLabels[:len(queueLabels):len(queueLabels)], "inference_pool")
	theirBudget     = theirDesc("dispatch_budget", "Share of the workers that the gate opens.")
	theirDecisions  = theirDesc("gate_decisions_total", "Decisions of gates against sending.", "reason")
	theirValue      = prometheus.NewDesc("llm_d_async_async_gate_metric_value", "What the source of the gate said last.", theirGateLabels, nil)
	theirThreshold  = prometheus.NewDesc("llm_d_async_async_gate_metric_threshold", "What it is compared with.", theirGateLabels, nil)
	theirSource     = prometheus.NewDesc("llm_d_async_async_gate_metric_source_available", "1 if the source answers.", theirGateLabels, nil)
)

// gates sends what llm-d-async tells of gates; those of a pool have no queue.
func (c *collector) gates(to chan<- prometheus.Metric) {
	for _, o := range c.p.pools {
		o.mu.Lock()
		bindings := o.gates
		o.mu.Unlock()
		for i := range bindings {
			w, ok := bindings[i].Gate.(*watched)
			if !ok {
				continue
			}
			s, of := series{to: to, labels: []string{"", "", o.id}}, c.p.cfg.Pool(o.id).Gate
			if len(bindings[i].Types) == 1 {
				for _, q := range o.queues() {
					if q.Gate != nil && typeName(q.ID) == bindings[i].Name {
						s.labels, of = []string{q.ID, q.Name, o.id}, q.Gate
					}
				}
			}
			s.count(theirDecisions, w.closed.Load()+w.refused.Load()+w.dropped.Load(), "gate_closed")
			s.count(theirDecisions, w.refused.Load(), "quota_exhausted")
			s.count(theirDecisions, w.dropped.Load(), "dropped")
			s.count(theirDecisions, 0, "error") // a gate without a reading is closed, and its requests wait
			r := w.last.Load()
			if r == nil {
				continue
			}
			n := r.Normal()
			s.gauge(theirBudget, n.Budget)
			s.labels = append(s.labels, of.Pool())
			s.gauge(theirValue, n.Value)
			s.gauge(theirThreshold, n.Threshold)
			up := 0.0
			if n.Up {
				up = 1
			}
			s.gauge(theirSource, up)
		}
	}
}

// leases sends what llm-d-async tells of the rates that pools are leased.
func (c *collector) leases(to chan<- prometheus.Metric) {
	for _, o := range c.p.pools {
		o.mu.Lock()
		lease := o.lease
		o.mu.Unlock()
		if lease == nil {
			continue
		}
		rate, until, ok := lease.Lease(time.Now())
		valid, end := 0.0, 0.0
		if ok {
			valid, end = 1, float64(until.UnixMilli())/1000
		}
		for d, v := range map[*prometheus.Desc]float64{theirRate: rate, theirLeaseOK: valid, theirLeaseEnd: end} {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, o.id)
		}
	}
}

// waiting sends what the last look at the sets and the store has found.
func (c *collector) waiting(to chan<- prometheus.Metric, theirs bool) {
	if c.p.cfg.Serve.BacklogPoll == 0 { // nobody looks
		return
	}
	b := &c.p.backlog
	b.mu.Lock()
	defer b.mu.Unlock()
	up := 0.0
	if b.ok {
		up = 1
	}
	to <- prometheus.MustNewConstMetric(descCounted, prometheus.GaugeValue, up)
	if b.sets == nil {
		return
	}
	to <- prometheus.MustNewConstMetric(descResults, prometheus.GaugeValue, float64(b.undelivered))
	to <- prometheus.MustNewConstMetric(descDeadKept, prometheus.GaugeValue, float64(b.dead))
	for _, q := range c.p.all() {
		set, ok := b.sets[q.ID]
		if !ok {
			continue
		}
		s := series{to: to, labels: []string{q.ID, q.Name, q.Pool}}
		s.gauge(descInSet, float64(set.members))
		s.gauge(descInStore, float64(b.store[q.ID]))
		if !theirs {
			continue
		}
		s.gauge(theirDepth, float64(b.store[q.ID]))
		s.gauge(theirBacklog, float64(set.members+int64(b.store[q.ID])))
		s.gauge(theirBacklogUp, up)
		buckets, sum := map[float64]uint64{}, 0.0
		for i, end := range proximityBuckets {
			if !math.IsInf(end, 1) {
				buckets[end] = uint64(set.proximity[i])
			}
			if i > 0 && !math.IsInf(end, 1) {
				sum += float64(set.proximity[i]-set.proximity[i-1]) * (end + proximityBuckets[i-1]) / 2
			}
		}
		to <- prometheus.MustNewConstHistogram(theirProximity, uint64(set.members), sum, buckets, s.labels...)
	}
}
