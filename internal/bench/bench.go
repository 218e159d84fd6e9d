package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/metrics/prom"
	"github.com/twolane/twolane/store"
)

// Options say what to measure.
type Options struct {
	Only     string // a row, or a part of one as in limits/room; empty for all
	N        int    // how many; 0 for each row's own number
	Lines    int    // of the variant of process with many lines; 0 for 10,000
	Messages io.Writer
	// Process makes the command that starts a worker process; it runs [RunWorkerProcess].
	Process func() *exec.Cmd
	// Show is told of each row when it is there.
	Show func(Row) error
}

// payloadBytes is the size of the params of a command.
const payloadBytes = 200

// Validate names what makes no sense, by its flag.
func (o *Options) Validate() error {
	switch {
	case o.Only != "" && !slices.Contains(Rows, o.Only) && !slices.Contains(limitParts, o.Only):
		return fmt.Errorf("--only %q is none of %v or %v", o.Only, Rows, limitParts)
	case o.N < 0 || o.N > 10_000_000:
		return fmt.Errorf("--n %d is not between 1 and 10000000", o.N)
	case o.Lines < 0 || o.Lines > 1_000_000:
		return fmt.Errorf("--lines %d is not between 1 and 1000000", o.Lines)
	}
	return nil
}

// Run measures the rows on a target, each in a namespace or file of its own.
func Run(ctx context.Context, t *Target, opt Options) error {
	if err := opt.Validate(); err != nil {
		return err
	}
	if opt.Lines == 0 {
		opt.Lines = 10_000
	}
	b := newBench(t, opt)
	rows := map[string]func(context.Context) error{
		SubmitBatch: b.submitBatch, SubmitSingle: b.submitSingle, Process: b.process, Latency: b.latency, Repoll: b.repoll,
		Parked: b.parked, Idle: b.idle, Recovery: b.recovery, Limits: b.limits,
	}
	for _, name := range Rows {
		if row, _, _ := strings.Cut(opt.Only, "/"); row != "" && row != name {
			continue
		}
		if err := rows[name](ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// bench is one run over a target.
type bench struct {
	target *Target
	opt    Options
	log    *slog.Logger
}

func newBench(t *Target, opt Options) *bench {
	show := opt.Show
	opt.Show = func(r Row) error { return show(r.rounded()) }
	return &bench{target: t, opt: opt, log: slog.New(slog.NewTextHandler(opt.Messages, &slog.HandlerOptions{Level: slog.LevelWarn}))}
}

// n is how many to measure on the target's kind of store.
func (b *bench) n(byDefault map[string]int) int {
	if b.opt.N > 0 {
		return b.opt.N
	}
	return byDefault[b.target.kind]
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.opt.Messages, format+"\n", args...) }

// site is a fresh store with a client.
type site struct {
	b      *bench
	calls  *counted
	client *twolane.Client
	url    string // for other processes
	close  func() error
}

// open makes a fresh store.
func (b *bench) open(ctx context.Context) (*site, error) {
	st, url, clean, err := b.target.fresh(ctx, b.log)
	if err != nil {
		return nil, err
	}
	c := &counted{Store: st}
	s := &site{b: b, calls: c, url: url, client: twolane.NewClient(c, &twolane.Options{Logger: b.log})}
	s.close = func() error { return errors.Join(s.client.Close(), st.Close(), clean(context.WithoutCancel(ctx))) }
	return s, nil
}

// on opens a fresh store for f, and audits it after f if it is small enough for that to take no time.
func (b *bench) on(ctx context.Context, f func(s *site) error) (err error) {
	s, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return f(s)
}

// submission is a command as the rows submit it.
func submission(queue, typ string) twolane.Submission {
	return twolane.Submission{Type: typ, Queue: queue, Params: payload}
}

var payload = func() []byte {
	p := make([]byte, payloadBytes)
	for i := range p {
		p[i] = 'a' + byte(i%26)
	}
	return p
}()

// fill submits n commands in batches, four at a time; each is changed by the given function first.
func (s *site) fill(ctx context.Context, n int, change func(i int, sub *twolane.Submission)) error {
	const batch = 500
	next := make(chan int)
	var wg sync.WaitGroup
	errs := make(chan error, 4)
	for range cap(errs) {
		wg.Go(func() {
			var first error
			for from := range next {
				if first != nil {
					continue
				}
				subs := make([]twolane.Submission, 0, batch)
				for i := from; i < min(n, from+batch); i++ {
					sub := submission("bench", "noop")
					if change != nil {
						change(i, &sub)
					}
					subs = append(subs, sub)
				}
				first = s.submit(ctx, subs)
			}
			errs <- first
		})
	}
	for from := 0; from < n; from += batch {
		next <- from
	}
	close(next)
	wg.Wait()
	close(errs)
	var err error
	for e := range errs {
		err = errors.Join(err, e)
	}
	return err
}

// submit submits a batch of which every item must be accepted.
func (s *site) submit(ctx context.Context, subs []twolane.Submission) error {
	results, err := s.client.SubmitMany(ctx, subs, nil)
	if err != nil {
		return err
	}
	for _, r := range results {
		if r.Err != nil {
			return r.Err
		}
		if !r.Created {
			return fmt.Errorf("command %s existed already", r.ID)
		}
	}
	return nil
}

// worker runs a worker until stop is called; stop returns when it has ended. Metrics are on, as in production.
func (s *site) worker(cfg twolane.WorkerConfig, handle func(*twolane.Worker)) (stop func() error, err error) {
	metrics, err := prom.New(prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	cfg.Metrics = metrics
	w, err := twolane.NewWorker(s.client, cfg)
	if err != nil {
		return nil, err
	}
	handle(w)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return sync.OnceValue(func() error {
		cancel()
		return <-ended
	}), nil
}

// stats reads the numbers of a queue.
func (s *site) stats(ctx context.Context, queue string) (store.QueueStats, error) {
	st, err := s.calls.Store.Stats(ctx, store.StatsRequest{Queues: []string{queue}, Overview: true})
	if err != nil || len(st.Queues) == 0 {
		return store.QueueStats{Queue: queue}, err
	}
	return st.Queues[0], nil
}

// until asks the store every few milliseconds until the numbers of a queue are as wanted.
func (s *site) until(ctx context.Context, queue string, wanted func(store.QueueStats) bool) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		q, err := s.stats(ctx, queue)
		if err != nil {
			return err
		}
		if wanted(q) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
