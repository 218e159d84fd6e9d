package inference

import (
	"bytes"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twolane/twolane/inference/wire"
	"github.com/twolane/twolane/store"
)

// numbers are what this process has counted, by queue.
type numbers struct {
	mu sync.Mutex
	by map[string]*tally // by id of the queue

	reloadOK, reloadBad atomic.Int64
	reloadAt            atomic.Int64 // unix seconds of the last good one
}

// How requests end, as the label outcome has it.
const (
	endedOK = iota // a response below 400
	endedHTTP
	endedDeadline
	endedCancelled
	endedDropped
	endedInvalid
	endedFailed
	endings
)

var endNames = [endings]string{"ok", "http_error", "deadline_exceeded", "cancelled", "dropped", "invalid", "failed"}

// tally are the numbers of one queue.
type tally struct {
	id string

	takenN, duplicates, dead atomic.Int64
	first, attempts          atomic.Int64
	retries, sheds           atomic.Int64
	ends                     [endings]atomic.Int64
	flying                   atomic.Int64
	input, output            atomic.Int64 // tokens
	inference, residence     histogram
}

func newNumbers() *numbers { return &numbers{by: map[string]*tally{}} }

// of is the tally of a queue; it is made when it is first asked for and stays.
func (n *numbers) of(q *queue) *tally { return n.ofID(q.ID) }

func (n *numbers) ofID(id string) *tally {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.by[id]
	if t == nil {
		t = &tally{id: id, inference: newHistogram(inferenceBuckets), residence: newHistogram(residenceBuckets)}
		n.by[id] = t
	}
	return t
}

// all lists the tallies.
func (n *numbers) all() []*tally {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make([]*tally, 0, len(n.by))
	for _, t := range n.by {
		out = append(out, t)
	}
	return out
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

// delivered notes the end of a request that no handler made.
func (n *numbers) delivered(c *store.Command) {
	if len(c.Result) > 0 && c.Reason != store.ReasonDropped {
		return // its handler has noted it
	}
	t := n.ofID(c.Metadata[metaQueue])
	switch r := ending(c); r.ErrorCode {
	case wire.CodeDeadline:
		t.ended(endedDeadline)
	case wire.CodeCancelled:
		t.ended(endedCancelled)
	case wire.CodeGateDropped:
		t.ended(endedDropped)
	case wire.CodeInvalid:
		t.ended(endedInvalid)
	case "":
		t.ended(endedHTTP)
	default:
		t.ended(endedFailed)
	}
}

// started notes that a worker has begun with a request that has been in the store for a time.
func (t *tally) started(first bool, waited time.Duration) {
	if first {
		t.first.Add(1)
		t.residence.observe(float64(max(0, waited).Milliseconds()))
	}
}

// sent notes that an attempt begins.
func (t *tally) sent() {
	t.flying.Add(1)
	t.attempts.Add(1)
}

// answered notes that an attempt has ended.
func (t *tally) answered(took time.Duration) {
	t.flying.Add(-1)
	t.inference.observe(float64(took.Milliseconds()))
}

func (t *tally) retried() { t.retries.Add(1) }
func (t *tally) shed()    { t.sheds.Add(1) }

// ended notes that a request has ended.
func (t *tally) ended(how int) { t.ends[how].Add(1) }

// tokens counts those that a response says it was about, if it does.
func (t *tally) tokens(body []byte) {
	name := []byte(`"usage"`)
	for at := bytes.LastIndex(body, name); at >= 0; at = bytes.LastIndex(body[:at], name) {
		rest := bytes.TrimLeft(body[at+len(name):], " \t\r\n")
		if len(rest) == 0 || rest[0] != ':' {
			continue
		}
		var u struct {
			In  int64 `json:"prompt_tokens"`
			Out int64 `json:"completion_tokens"`
		}
		if json.NewDecoder(bytes.NewReader(rest[1:])).Decode(&u) == nil && u.In >= 0 && u.Out >= 0 && u.In+u.Out > 0 {
			t.input.Add(u.In)
			t.output.Add(u.Out)
			return
		}
	}
}

// Upper ends of buckets, in milliseconds, as llm-d-async has them.
var (
	inferenceBuckets = []float64{10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 120000}
	residenceBuckets = []float64{500, 1000, 2000, 5000, 10000, 30000, 60000, 120000, 300000, 600000, 1800000, 3600000, 7200000, 21600000, 43200000, 86400000}
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

// read is the histogram with its values times scale.
func (h *histogram) read(scale float64) (count uint64, sum float64, buckets map[float64]uint64) {
	buckets = make(map[float64]uint64, len(h.ends))
	for i := range h.counts {
		count += uint64(h.counts[i].Load())
		if i < len(h.ends) {
			buckets[h.ends[i]*scale] = count
		}
	}
	return count, float64(h.sum.Load()) * scale, buckets
}
