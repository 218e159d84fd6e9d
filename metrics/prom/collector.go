package prom

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
)

// CollectorOptions are the settings of a [Collector]; nil is the zero value.
type CollectorOptions struct {
	// Queues are those to show, also while they are unknown to the store; empty shows all that it knows.
	Queues []string
	// MaxQueues is how many queues have series of their own, the first by name; 0 means 100. The others are added up under "_other".
	MaxQueues int
	// MaxValues is how many counted values of limits have series of their own, those for which most lines wait first; 0 means 50, less than 0 none.
	MaxValues int
	// Timeout bounds what a scrape waits for the store; 0 means 2 seconds.
	Timeout time.Duration
}

// How old numbers may be.
const (
	freshFor = time.Second      // they are shown again to a scrape that comes as soon
	staleFor = 10 * time.Second // they are shown if the store does not answer; then nothing is, rather than frozen numbers
)

// Collector is a prometheus.Collector of what the store knows. A scrape costs the store at most two calls in a second, however often and by however many it is
// scraped.
type Collector struct {
	client *twolane.Client
	opt    CollectorOptions

	mu     sync.Mutex // also lets one scrape at a time ask the store
	stats  twolane.Stats
	ok     bool      // stats are of readAt
	readAt time.Time // or of the start
	tried  time.Time
	failed float64
}

// NewCollector returns a collector on client, which must stay open. opt may be nil.
func NewCollector(client *twolane.Client, opt *CollectorOptions) *Collector {
	c := &Collector{client: client, readAt: time.Now()}
	if opt != nil {
		c.opt = *opt
	}
	if c.opt.MaxQueues <= 0 {
		c.opt.MaxQueues = 100
	}
	if c.opt.MaxValues == 0 {
		c.opt.MaxValues = 50
	}
	if c.opt.Timeout <= 0 {
		c.opt.Timeout = 2 * time.Second
	}
	return c
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("twolane_"+name, help, labels, nil)
}

var (
	descCommands = desc("commands", "Commands by state: the place of the living (ready, scheduled, leased, parked), the status of the kept records of the dead.", "queue", "state")
	descEligible = desc("eligible", "Commands that could run but for permits, pause, rates and limits, expired leases included.", "queue", "lane")
	descOldest   = desc("oldest_eligible_age_seconds", "How long the oldest eligible command has waited; 0 if there is none.", "queue", "lane")
	descStarved  = desc("starved", "1 if the oldest eligible command has waited for two seconds or more, by the reason.", "queue", "lane", "reason")
	descLate     = desc("overloaded", "1 if due polls are late although permits are free for them.", "queue")
	descExpired  = desc("leases_expired", "Leases that are over and not reaped yet.", "queue", "lane")
	descOverdue  = desc("leases_overdue", "Leases whose handler ignores the end of its time.", "queue", "lane")
	descNobody   = desc("unclaimable_types", "Types with commands that no live worker can run.", "queue", "lane")
	descPaused   = desc("queue_paused", "1 if the queue is paused for the lane.", "queue", "lane")
	descWorkers  = desc("workers", "Live workers that serve the queue and are not draining.", "queue")
	descAlive    = desc("workers_alive", "Live workers of the namespace, draining ones included.")
	descLost     = desc("lost_records", "Ids set aside for want of a readable record.")
	descOutbox   = desc("outbox_entries", "Ends that wait in the outbox for their delivery.")
	descBytes    = desc("store_size_bytes", "What the store occupies; absent if it does not know.")
	descMembers  = desc("limit_members", "Members of a limit, costs summed over the values that it counts.", "limit")
	descMax      = desc("limit_max", "What a limit admits of each value that has none of its own; absent for a rate.", "limit")
	descFiled    = desc("limit_filed_lines", "Lines of commands that wait for a limit.", "limit")
	descNever    = desc("limit_never_fits_lines", "Of the lines that wait for a limit those that ask for more than it admits: they wait until it is raised.", "limit")
	descValue    = desc("limit_value_members", "Members of one counted value of a limit, of those for which lines wait.", "limit", "value")
	descValueMax = desc("limit_value_max", "What a limit admits of that value; absent for a rate.", "limit", "value")
	descValueOf  = desc("limit_value_filed_lines", "Lines of commands that wait for that value of a limit.", "limit", "value")
	descAge      = desc("stats_age_seconds", "Age of these numbers. If the store does not answer, only this one goes on.")
	descErrors   = desc("stats_errors_total", "Times that the store did not give its numbers.")
)

var descs = []*prometheus.Desc{descCommands, descEligible, descOldest, descStarved, descLate, descExpired, descOverdue, descNobody, descPaused,
	descWorkers, descAlive, descLost, descOutbox, descBytes, descMembers, descMax, descFiled, descNever, descValue, descValueMax, descValueOf, descAge, descErrors}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.tried.IsZero() || now.Sub(c.tried) > freshFor {
		c.read()
	}
	s := sink{ch}
	age := time.Since(c.readAt)
	s.gauge(descAge, age.Seconds())
	ch <- prometheus.MustNewConstMetric(descErrors, prometheus.CounterValue, c.failed)
	if c.ok && age <= staleFor {
		s.all(&c.stats, c.opt.MaxQueues, c.opt.MaxValues)
	}
}

// read asks the store.
func (c *Collector) read() {
	ctx, cancel := context.WithTimeout(context.Background(), c.opt.Timeout)
	defer cancel()
	stats, err := c.client.Stats(ctx, c.opt.Queues...)
	c.tried = time.Now()
	if err != nil {
		c.failed++
		return
	}
	c.stats, c.ok, c.readAt = stats, true, c.tried
}

// sink sends metrics.
type sink struct{ ch chan<- prometheus.Metric }

func (s sink) gauge(d *prometheus.Desc, value float64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func (s sink) flag(d *prometheus.Desc, on bool, labels ...string) {
	value := 0.0
	if on {
		value = 1
	}
	s.gauge(d, value, labels...)
}

func (s sink) all(st *twolane.Stats, maxQueues, maxValues int) {
	for _, q := range bound(st.Queues, maxQueues) {
		s.queue(&q, st.Workers)
	}
	for i := range st.Limits {
		l := &st.Limits[i]
		s.gauge(descNever, float64(l.Never), l.Name)
		if s.gauge(descFiled, float64(l.Lines), l.Name); !l.Rate {
			s.gauge(descMembers, float64(l.Members), l.Name)
			s.gauge(descMax, float64(l.Max), l.Name)
		}
	}
	s.values(st, maxValues)
	s.gauge(descAlive, float64(len(st.Workers)))
	s.gauge(descLost, float64(st.Lost))
	entries := 0
	for _, n := range st.Outbox {
		entries += n
	}
	s.gauge(descOutbox, float64(entries))
	if st.Bytes > 0 {
		s.gauge(descBytes, float64(st.Bytes))
	}
}

// reasons are the values of label reason.
var reasons = []twolane.Wait{twolane.WaitPaused, twolane.WaitNoWorker, twolane.WaitGate, twolane.WaitLimit, twolane.WaitPermits, twolane.WaitRate, twolane.WaitTurn}

// values shows the counted values for which lines wait. A value is what a user wrote, so there are only so many.
func (s sink) values(st *twolane.Stats, most int) {
	type counted struct {
		of *store.LimitStats
		store.LimitValue
	}
	var all []counted
	for i := range st.Limits {
		for _, v := range st.Limits[i].Values {
			if v.Lines > 0 {
				all = append(all, counted{&st.Limits[i], v})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b counted) int { return cmp.Compare(b.Lines, a.Lines) })
	for _, v := range all[:max(0, min(len(all), most))] {
		if s.gauge(descValueOf, float64(v.Lines), v.of.Name, v.Value); !v.of.Rate {
			s.gauge(descValue, float64(v.Members), v.of.Name, v.Value)
			s.gauge(descValueMax, float64(v.Max), v.of.Name, v.Value)
		}
	}
}

func (s sink) queue(q *twolane.QueueStats, workers []twolane.WorkerStats) {
	in, re := &q.Lanes[twolane.Intake], &q.Lanes[twolane.Repoll]
	for _, state := range [...]struct {
		name string
		n    int
	}{
		{"ready", in.Ready + re.Ready}, {"scheduled", q.Scheduled}, {"leased", in.Leased + re.Leased}, {"parked", re.InLine - re.Ready},
		{"succeeded", q.Succeeded}, {"failed", q.Failed}, {"cancelled", q.Cancelled},
	} {
		s.gauge(descCommands, float64(state.n), q.Queue, state.name)
	}
	for i := range q.Lanes {
		l, lane := &q.Lanes[i], twolane.Lane(i)
		name := lane.String()
		s.gauge(descEligible, float64(l.Eligible), q.Queue, name)
		s.gauge(descOldest, l.Oldest.Seconds(), q.Queue, name)
		s.gauge(descExpired, float64(l.Expired), q.Queue, name)
		s.gauge(descOverdue, float64(l.Overdue), q.Queue, name)
		for _, r := range reasons {
			s.flag(descStarved, l.Starved && l.Waits == r, q.Queue, name, string(r))
		}
		nobody := 0
		for _, t := range q.Types {
			if t.Lane == lane && t.InLine > 0 && t.Workers == 0 {
				nobody++
			}
		}
		s.gauge(descNobody, float64(nobody), q.Queue, name)
		s.flag(descPaused, q.Pause == twolane.PauseAll || q.Pause == twolane.PauseIntake && lane == twolane.Intake, q.Queue, name)
	}
	s.flag(descLate, re.Overloaded, q.Queue)
	if q.Queue == other {
		return // who serves one of them says nothing about the others
	}
	serve := 0
	for _, w := range workers {
		if !w.Draining && slices.Contains(w.Queues, q.Queue) {
			serve++
		}
	}
	s.gauge(descWorkers, float64(serve), q.Queue)
}

// bound adds up the queues beyond the first most, by name.
func bound(queues []twolane.QueueStats, most int) []twolane.QueueStats {
	if len(queues) <= most {
		return queues
	}
	queues = slices.Clone(queues)
	slices.SortFunc(queues, func(a, b twolane.QueueStats) int {
		if a.Queue < b.Queue {
			return -1
		}
		return 1
	})
	rest := twolane.QueueStats{Queue: other}
	for i := range queues[most:] {
		q := &queues[most+i]
		rest.Scheduled += q.Scheduled
		rest.Succeeded += q.Succeeded
		rest.Failed += q.Failed
		rest.Cancelled += q.Cancelled
		rest.Types = append(rest.Types, q.Types...)
		for l := range q.Lanes {
			a, b := &rest.Lanes[l], &q.Lanes[l]
			a.InLine += b.InLine
			a.Ready += b.Ready
			a.Leased += b.Leased
			a.Eligible += b.Eligible
			a.Expired += b.Expired
			a.Overdue += b.Overdue
			a.Overloaded = a.Overloaded || b.Overloaded
			if b.Oldest > a.Oldest { // the oldest speaks for all
				a.Oldest, a.Waits, a.Starved = b.Oldest, b.Waits, b.Starved
			}
		}
	}
	return append(queues[:most:most], rest)
}
