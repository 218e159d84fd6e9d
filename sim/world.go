package sim

import (
	"bytes"
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/memstore"
)

// epoch is the server time at which every run begins.
const epoch store.Millis = 2_000_000_000_000

// Options of a run.
type Options struct {
	Trace bool // keep the whole trace
}

// Result is what a run left.
type Result struct {
	Seed      uint64
	Violation *Violation // nil: every invariant held
	Trace     []byte     // whole, if asked for
	Tail      []string   // its last lines
	Events    int
	Calls     int // of the store
	Starts    int // invocations
	Faults    int
	Simulated time.Duration
}

// Violation is a broken invariant.
type Violation struct {
	Invariant string // a name of the package comment
	Detail    string
	At        time.Duration
}

func (v *Violation) Error() string {
	return fmt.Sprintf("invariant %s at %v: %s", v.Invariant, v.At, v.Detail)
}

// Report is the text of a failure: what broke, the end of the trace, and how to see it again.
func (r *Result) Report() string {
	var b bytes.Buffer
	for _, line := range r.Tail {
		b.WriteString(line)
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "seed %d: %v\nreplay: go test ./sim -run TestSeed -seed=%d -v", r.Seed, r.Violation, r.Seed)
	return b.String()
}

// tail is how many lines of the trace a report shows.
const tail = 200

// world is one run.
type world struct {
	seed  uint64
	rng   *rand.Rand
	plan  plan
	now   time.Duration // true time since the start
	heap  events
	seq   uint64
	count int
	same  int // events at this instant

	mem      *memstore.Store
	offset   time.Duration // of the server's clock from true time
	stepped  time.Duration // when it last stepped forward
	outage   time.Duration // the store is away until then
	healed   bool
	opened   time.Duration // when gates were opened for good
	over     bool          // the run
	phase    string
	slots    []*proc // one process each, nil while it is down
	client   *client
	oracle   *oracle
	nextProc int
	calls    int
	starts   int
	faults   int

	violation *Violation
	full      *bytes.Buffer
	ring      [tail]string
	lines     int
}

type event struct {
	at  time.Duration
	seq uint64
	do  func()
}

type events []event

func (h events) Len() int { return len(h) }
func (h events) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h events) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *events) Push(x any)   { *h = append(*h, x.(event)) }
func (h *events) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*h = old[:len(old)-1]
	return e
}

// Run makes one run.
func Run(seed uint64, opt Options) *Result {
	w := &world{seed: seed, rng: rand.New(rand.NewPCG(seed, 0x2_1a9e)), mem: memstore.New(), phase: "chaos"}
	if opt.Trace {
		w.full = &bytes.Buffer{}
	}
	w.plan = draw(w.rng, seed)
	w.setClock()
	w.oracle = newOracle(w)
	w.begin()
	for w.violation == nil && !w.over && len(w.heap) > 0 {
		e := heap.Pop(&w.heap).(event)
		if e.at > w.now {
			w.now, w.same = e.at, 0
		}
		w.count++
		if w.same++; w.same > 5000 {
			w.fail("idle", "more than %d events at one instant: something goes round without end", w.same-1)
		}
		e.do()
		if w.count%200 == 0 {
			w.audit()
		}
	}
	if w.violation == nil {
		w.audit()
	}
	r := &Result{Seed: seed, Violation: w.violation, Events: w.count, Calls: w.calls, Starts: w.starts, Faults: w.faults, Simulated: w.now}
	for i := max(0, w.lines-tail); i < w.lines; i++ {
		r.Tail = append(r.Tail, w.ring[i%tail])
	}
	if w.full != nil {
		r.Trace = w.full.Bytes()
	}
	return r
}

// after lets do happen in d.
func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.heap, event{w.now + max(0, d), w.seq, do})
}

// fail records the first broken invariant and ends the run.
func (w *world) fail(invariant, format string, a ...any) {
	if w.violation == nil {
		w.violation = &Violation{invariant, fmt.Sprintf(format, a...), w.now}
		w.log("VIOLATION %s: %s", invariant, w.violation.Detail)
	}
}

func (w *world) log(format string, a ...any) {
	line := fmt.Sprintf("%11.6f ", w.now.Seconds()) + fmt.Sprintf(format, a...)
	w.ring[w.lines%tail] = line
	w.lines++
	if w.full != nil {
		w.full.WriteString(line)
		w.full.WriteByte('\n')
	}
}

// wall is the server time.
func (w *world) wall() store.Millis { return epoch + store.Millis((w.now + w.offset).Milliseconds()) }

func (w *world) setClock() {
	if err := w.mem.SetClock(context.Background(), w.wall()); err != nil {
		w.fail("audit", "set clock: %v", err)
	}
}

func (w *world) audit() {
	rep, err := w.mem.Audit(context.Background())
	if err != nil || len(rep.Violations) > 0 {
		w.fail("audit", "%v %q", err, rep.Violations)
	}
}

// chance is true with probability p.
func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

// between draws a duration.
func (w *world) between(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(w.rng.Int64N(int64(hi-lo)))
}

// begin sets the stage.
func (w *world) begin() {
	w.log("seed %d plan %+v", w.seed, w.plan)
	w.client = newClient(w)
	w.client.configure(w.plan.config())
	w.slots = make([]*proc, len(w.plan.workers))
	for i := range w.slots {
		w.after(w.between(0, 300*time.Millisecond), func() { w.launch(i) })
	}
	if w.plan.tick {
		w.after(time.Second, w.client.tick)
	}
	w.client.start()
	w.startChaos()
	w.after(watchEvery, w.oracle.tick)
	w.after(w.plan.length, w.heal)
}
