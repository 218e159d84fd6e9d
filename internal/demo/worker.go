package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/internal/cloudsim"
	"github.com/twolane/twolane/store"
)

// workerSpec is all that a worker is told.
type workerSpec struct {
	Name, Store, Cloud, Queue string
	Concurrency, Batch        int
	Poll                      time.Duration
}

// drainBudget is how long a worker may take to end. A call of the cloud takes half a second at most.
const drainBudget = 10 * time.Second

// runWorker works until ctx ends and then drains. late is told how late each check was.
func runWorker(ctx context.Context, st store.Store, spec workerSpec, late func(time.Duration), log *slog.Logger) (err error) {
	client := twolane.NewClient(st, &twolane.Options{Logger: log})
	defer func() { err = errors.Join(err, client.Close()) }()
	cloud := cloudsim.NewClient(spec.Cloud, spec.Name)
	defer cloud.Close()
	w, err := twolane.NewWorker(client, twolane.WorkerConfig{
		Name: spec.Name, Queues: []twolane.QueueShare{{Name: spec.Queue}}, Visibility: visibility, DrainBudget: drainBudget,
		Concurrency: twolane.Lanes{Intake: spec.Concurrency, Repoll: spec.Concurrency}, Metrics: latenessMetrics{late},
	})
	if err != nil {
		return err
	}
	l := &launcher{cloud: cloud, poll: spec.Poll}
	twolane.Handle(w, commandType, l.handler(spec.Batch))
	return w.Run(ctx)
}

// latenessMetrics keeps the lateness of polls and drops everything else.
type latenessMetrics struct{ late func(time.Duration) }

const latenessMetric = "twolane_poll_lateness_seconds"

func (m latenessMetrics) Series(metric *twolane.Metric, _ ...string) twolane.Series {
	if metric.Name == latenessMetric {
		return latenessSeries(m)
	}
	return latenessSeries{func(time.Duration) {}}
}

type latenessSeries struct{ late func(time.Duration) }

func (latenessSeries) Add(float64) {}
func (latenessSeries) Set(float64) {}

// Observe implements twolane.Series.
func (s latenessSeries) Observe(seconds float64) {
	s.late(time.Duration(seconds * float64(time.Second)))
}

// goroutine is a worker in this process.
type goroutine struct {
	cancel context.CancelFunc
	ended  chan error
}

func startGoroutine(r *run, spec workerSpec) *goroutine {
	ctx, cancel := context.WithCancel(context.Background())
	g := &goroutine{cancel: cancel, ended: make(chan error, 1)}
	go func() {
		g.ended <- runWorker(ctx, r.store, spec, func(d time.Duration) { r.late.Add(d) }, r.log)
	}()
	return g
}

func (g *goroutine) stop() { g.cancel() }

func (g *goroutine) kill() error { return errors.New("a worker in this process cannot be killed") }

func (g *goroutine) wait() error {
	defer g.cancel()
	return <-g.ended
}

// reportPath is where worker processes say how late their checks were.
const (
	reportPath  = "/demo/lateness"
	reportEvery = 250 * time.Millisecond
)

type latenessReport struct{ Late []time.Duration }

// routes are the additions of the demo to the server of the cloud.
func (r *run) routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{"POST " + reportPath: func(w http.ResponseWriter, req *http.Request) {
		var report latenessReport
		if err := json.NewDecoder(req.Body).Decode(&report); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.late.Add(report.Late...)
		w.WriteHeader(http.StatusNoContent)
	}}
}

// Opener opens the store at a URL.
type Opener func(ctx context.Context, url string, log *slog.Logger) (store.Store, error)

// RunWorkerProcess is a worker process of a demo: the first line of in says what to do; when in ends, it drains and returns. Log lines go to
// messages.
func RunWorkerProcess(ctx context.Context, open Opener, in io.Reader, messages io.Writer) (err error) {
	log := Logger(messages)
	orders := json.NewDecoder(in)
	var spec workerSpec
	if err := orders.Decode(&spec); err != nil {
		return fmt.Errorf("read orders: %w", err)
	}
	st, err := open(ctx, spec.Store, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the process: nothing ends the read of an input that stays open
		_, _ = io.Copy(io.Discard, in) // its end, however it comes, is the order to stop
		cancel()
	}()
	reports := newReporter(cloudsim.NewClient(spec.Cloud, spec.Name+" reports"))
	defer func() { err = errors.Join(err, reports.close()) }()
	return runWorker(ctx, st, spec, reports.add, log)
}

// reporter sends observations in bulk.
type reporter struct {
	cloud *cloudsim.Client
	mu    sync.Mutex
	late  []time.Duration
	stop  chan struct{}
	wg    sync.WaitGroup
}

func newReporter(cloud *cloudsim.Client) *reporter {
	r := &reporter{cloud: cloud, stop: make(chan struct{})}
	r.wg.Go(func() {
		tick := time.NewTicker(reportEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = r.send() // what was not sent is sent next time, and close says what never was
			case <-r.stop:
				return
			}
		}
	})
	return r
}

func (r *reporter) add(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = append(r.late, d)
}

func (r *reporter) send() error {
	r.mu.Lock()
	late := r.late
	r.late = nil
	r.mu.Unlock()
	if len(late) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := r.cloud.Post(ctx, reportPath, latenessReport{late})
	if err != nil {
		r.mu.Lock()
		r.late = append(late, r.late...)
		r.mu.Unlock()
	}
	return err
}

func (r *reporter) close() error {
	close(r.stop)
	r.wg.Wait()
	defer r.cloud.Close()
	return r.send()
}
