package inference

import (
	"sync"
	"sync/atomic"
	"time"
)

// numbers are what this process has counted, by queue.
type numbers struct {
	mu sync.Mutex
	by map[string]*tally // by id of the queue

	reloadOK, reloadBad atomic.Int64
	reloadAt            atomic.Int64 // unix seconds of the last good one
}

// tally are the numbers of one queue.
type tally struct {
	id, name, pool string

	takenN, duplicates, dead                 atomic.Int64
	first, retries, succeeded, failed, sheds atomic.Int64
	flying                                   atomic.Int64
	inference, residence                     histogram
}

func newNumbers() *numbers { return &numbers{by: map[string]*tally{}} }

// of is the tally of a queue; it is made when it is first asked for and stays.
func (n *numbers) of(q *queue) *tally {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.by[q.ID]
	if t == nil {
		t = &tally{id: q.ID, name: q.Name, pool: q.Pool, inference: newHistogram(inferenceBuckets), residence: newHistogram(residenceBuckets)}
		n.by[q.ID] = t
	}
	return t
}

func (n *numbers) taken(q *queue, dead bool) {
	t := n.of(q)
	if dead {
		t.dead.Add(1)
		return
	}
	t.takenN.Add(1)
}

func (n *numbers) duplicate(q *queue) { n.of(q).duplicates.Add(1) }

func (n *numbers) reloaded(ok bool, at time.Time) {
	if ok {
		n.reloadOK.Add(1)
		n.reloadAt.Store(at.Unix())
		return
	}
	n.reloadBad.Add(1)
}

// sent notes that an attempt begins.
func (t *tally) sent(first bool) {
	t.flying.Add(1)
	if first {
		t.first.Add(1)
	}
}

// answered notes that an attempt has ended: how long it took, and how long the request has been in the store.
func (t *tally) answered(took, since time.Duration) {
	t.flying.Add(-1)
	t.inference.observe(float64(took.Milliseconds()))
	t.residence.observe(float64(since.Milliseconds()))
}

func (t *tally) retried() { t.retries.Add(1) }
func (t *tally) shed()    { t.sheds.Add(1) }

// ended notes that a request was answered for good.
func (t *tally) ended(ok bool) {
	if ok {
		t.succeeded.Add(1)
	} else {
		t.failed.Add(1)
	}
}

// Upper ends of buckets, in milliseconds, as llm-d-async has them.
var (
	inferenceBuckets = []float64{10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 120000}
	residenceBuckets = []float64{500, 1000, 5000, 15000, 60000, 300000, 900000, 3600000, 14400000, 43200000, 86400000}
)

// histogram counts observations by bucket.
type histogram struct {
	ends   []float64
	counts []atomic.Int64 // one more than ends
	sum    atomic.Int64   // milliseconds
}

func newHistogram(ends []float64) histogram {
	return histogram{ends: ends, counts: make([]atomic.Int64, len(ends)+1)}
}

func (h *histogram) observe(v float64) {
	i := 0
	for i < len(h.ends) && v > h.ends[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(v))
}
