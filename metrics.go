package twolane

import "slices"

// Metrics receives what a [Worker] measures; package metrics/prom is one for Prometheus. Its methods are called from the dispatch loop: they must
// not block, and must be safe for concurrent use.
type Metrics interface {
	// Series returns the series of m with these label values, one for each of m.Labels. It exists from then on, at zero. The same
	// arguments return an equal series. The worker asks once for each and keeps it.
	Series(m *Metric, values ...string) Series
}

// Series is one time series of a [Metric]. Which method is called follows from the metric's kind.
type Series interface {
	Add(delta float64)     // of a counter
	Set(value float64)     // of a gauge
	Observe(value float64) // of a histogram
}

// MetricKind is what a [Metric] counts.
type MetricKind uint8

const (
	Counter MetricKind = iota + 1
	Gauge
	Histogram
)

// Metric describes one metric.
type Metric struct {
	Name    string // in the style of Prometheus
	Help    string
	Kind    MetricKind
	Labels  []string
	Buckets []float64 // of a histogram
}

// Buckets of histograms, in seconds.
var (
	waitBuckets = []float64{.001, .005, .025, .1, .25, 1, 5, 30, 120, 600, 3600, 21600, 86400}
	runBuckets  = []float64{.001, .005, .025, .1, .25, 1, 5, 30, 120, 600, 1800, 3600, 10800, 43200, 86400}
	lateBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60}
	callBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}
)

// What a worker measures. Label lane is intake or repoll; outcome is how an invocation ended for a command (done, fail, processing, retry,
// snooze, throttled, give_back, cancelled, cancel_retry, abandon); call is claim, renew, settle, maintain, stats or watch.
var (
	metricPermits       = &Metric{Name: "twolane_worker_permits", Kind: Gauge, Labels: []string{"lane", "state"}, Help: "Permits of this worker by lane and state (held, free). Held ones run an invocation."}
	metricInvocations   = &Metric{Name: "twolane_invocations_started_total", Kind: Counter, Labels: []string{"queue", "lane", "type"}, Help: "Handler calls that this worker has started; a batch is one."}
	metricOutcomes      = &Metric{Name: "twolane_outcomes_total", Kind: Counter, Labels: []string{"queue", "type", "outcome"}, Help: "Outcomes of commands that the store has taken from this worker."}
	metricRetries       = &Metric{Name: "twolane_retries_total", Kind: Counter, Labels: []string{"queue", "lane", "type"}, Help: "Outcomes that were an error and are tried again."}
	metricWait          = &Metric{Name: "twolane_wait_duration_seconds", Kind: Histogram, Labels: []string{"queue", "lane"}, Buckets: waitBuckets, Help: "Time from when a command could run to the start of its handler."}
	metricRun           = &Metric{Name: "twolane_run_duration_seconds", Kind: Histogram, Labels: []string{"queue", "lane", "type"}, Buckets: runBuckets, Help: "Time that a handler call took."}
	metricLateness      = &Metric{Name: "twolane_poll_lateness_seconds", Kind: Histogram, Labels: []string{"queue"}, Buckets: lateBuckets, Help: "How long after its due time a poll started."}
	metricCall          = &Metric{Name: "twolane_store_call_duration_seconds", Kind: Histogram, Labels: []string{"call"}, Buckets: callBuckets, Help: "Time that a claim or a renewal took."}
	metricCallErrors    = &Metric{Name: "twolane_store_call_errors_total", Kind: Counter, Labels: []string{"call"}, Help: "Store calls of this worker that failed."}
	metricTickAge       = &Metric{Name: "twolane_renew_age_seconds", Kind: Gauge, Help: "Time since the last renewal was acknowledged. Leases end when it reaches the visibility timeout."}
	metricClaimAge      = &Metric{Name: "twolane_claim_age_seconds", Kind: Gauge, Help: "Time since the last claim was answered."}
	metricMargin        = &Metric{Name: "twolane_lease_margin_ratio", Kind: Histogram, Buckets: []float64{0, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1}, Help: "Share of the visibility timeout that the tightest lease of a renewal had left when it was acknowledged."}
	metricLeases        = &Metric{Name: "twolane_worker_leases", Kind: Gauge, Help: "Leases that this worker renews."}
	metricUnsettled     = &Metric{Name: "twolane_worker_unsettled", Kind: Gauge, Help: "Outcomes that the store has not confirmed yet."}
	metricLost          = &Metric{Name: "twolane_leases_lost_total", Kind: Counter, Labels: []string{"queue", "type"}, Help: "Leases that were lost, or could not be renewed in time, while their handler ran."}
	metricStale         = &Metric{Name: "twolane_stale_settles_total", Kind: Counter, Labels: []string{"queue", "type"}, Help: "Outcomes that the store refused, since the lease was not current."}
	metricGivenBack     = &Metric{Name: "twolane_given_back_unstarted_total", Kind: Counter, Labels: []string{"queue", "lane"}, Help: "Commands that this worker claimed and gave back without calling a handler."}
	metricLosses        = &Metric{Name: "twolane_worker_losses_total", Kind: Counter, Help: "Leases of dead workers that this worker ended."}
	metricExpirations   = &Metric{Name: "twolane_lease_expirations_total", Kind: Counter, Help: "Expired leases of live workers that this worker ended."}
	metricTooLong       = &Metric{Name: "twolane_run_timeouts_total", Kind: Counter, Labels: []string{"queue", "type"}, Help: "Invocations that reached their maximum run time."}
	metricStuck         = &Metric{Name: "twolane_stuck_handlers", Kind: Gauge, Help: "Handlers that go on after their context ended and the grace after it."}
	metricStarved       = &Metric{Name: "twolane_lane_starved", Kind: Gauge, Labels: []string{"lane", "reason"}, Help: "1 while the lane has eligible work and starts nothing, by reason."}
	metricUnclaimable   = &Metric{Name: "twolane_unclaimable", Kind: Gauge, Labels: []string{"queue", "lane", "type"}, Help: "Commands in line whose type no live worker can run."}
	metricPanics        = &Metric{Name: "twolane_handler_panics_total", Kind: Counter, Labels: []string{"type"}, Help: "Handler calls that panicked or ended their goroutine."}
	metricRemaining     = &Metric{Name: "twolane_deadline_remaining_seconds", Kind: Histogram, Labels: []string{"queue"}, Buckets: waitBuckets, Help: "Time that commands with a deadline had left when their handler started."}
	metricLimits        = &Metric{Name: "twolane_limit_decisions_total", Kind: Counter, Labels: []string{"limit", "lane", "reason"}, Help: "Decisions of limits about the claims of this worker: admitted for each command that became a member (rates have none); refused for each queue and lane of a claim of which all that was left had to wait, by the limit that it was told. Limits that gates write count together for each gate."}
	metricGateOpen      = &Metric{Name: "twolane_gate_open", Kind: Gauge, Labels: gateLabels, Help: "1 while the gate is open by any budget."}
	metricGateBudget    = &Metric{Name: "twolane_gate_budget_ratio", Kind: Gauge, Labels: gateLabels, Help: "Share of the lane's permits that the gate opens; of a measured one, room beside what runs."}
	metricGateValue     = &Metric{Name: "twolane_gate_value", Kind: Gauge, Labels: gateLabels, Help: "What the source of the gate said when it was last looked at; NaN if it said nothing."}
	metricGateThreshold = &Metric{Name: "twolane_gate_threshold", Kind: Gauge, Labels: gateLabels, Help: "What the gate compares its value with; NaN if with nothing."}
	metricGateUp        = &Metric{Name: "twolane_gate_source_up", Kind: Gauge, Labels: gateLabels, Help: "1 while the source of the gate answers as it should."}
	metricGateRunning   = &Metric{Name: "twolane_gate_running", Kind: Gauge, Labels: gateLabels, Help: "Invocations that run under the gate."}
	metricGateDecisions = &Metric{Name: "twolane_gate_decisions_total", Kind: Counter, Labels: []string{"gate", "lane", "reason"}, Help: "Decisions of the gate by reason: open for each invocation that it let start; wait, refuse and drop for each command; the others for each look, at most one a second, at which it left no room."}
	metricHooksDropped  = &Metric{Name: "twolane_hooks_dropped_total", Kind: Counter, Help: "Log lines and hook calls that were dropped, since those before them had not returned."}
)

var gateLabels = []string{"gate", "lane", "scope"}

// WorkerMetrics lists what a [Worker] measures.
func WorkerMetrics() []*Metric { return slices.Clone(workerMetrics) }

var workerMetrics = []*Metric{
	metricPermits, metricInvocations, metricOutcomes, metricRetries, metricWait, metricRun, metricLateness, metricCall, metricCallErrors, metricTickAge,
	metricClaimAge, metricMargin, metricLeases, metricUnsettled, metricLost, metricStale, metricGivenBack, metricLosses, metricExpirations,
	metricTooLong, metricStuck, metricStarved, metricUnclaimable, metricPanics, metricHooksDropped, metricRemaining, metricLimits,
	metricGateOpen, metricGateBudget, metricGateValue, metricGateThreshold, metricGateUp, metricGateRunning, metricGateDecisions,
}

type noMetrics struct{}

func (noMetrics) Series(*Metric, ...string) Series { return noSeries{} }

type noSeries struct{}

func (noSeries) Add(float64)     {}
func (noSeries) Set(float64)     {}
func (noSeries) Observe(float64) {}
