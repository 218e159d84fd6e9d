package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/internal/cloudsim"
	"github.com/twolane/twolane/store"
)

// ErrInUse is returned (wrapped) for a store that somebody else works with: the demo would change its visibility timeout.
var ErrInUse = errors.New("store is in use")

// queuePrefix begins the name of every queue of a demo.
const queuePrefix = "demo-"

// commandType is the only type of the demo.
const commandType = "launch"

// run is one demo under way.
type run struct {
	cfg    Config
	store  store.Store
	client *twolane.Client
	cloud  *cloudsim.Cloud
	server *cloudsim.Server
	view   View
	log    *slog.Logger
	queue  string
	ids    []string
	stall  *StallMeter
	late   Lateness
	team   team

	started time.Time // first submit
}

// Run runs a demo on st and shows it on view. If ctx ends first, the workers are stopped and the result says how far it came; the
// error is then the cause. Other errors say that the demo itself could not go on. st stays open.
func Run(ctx context.Context, st store.Store, cfg Config, view View) (_ Result, err error) {
	if err := cfg.Validate(); err != nil {
		return Result{}, err
	}
	log := Logger(view)
	r := &run{cfg: cfg, store: st, view: view, log: log}
	r.client = twolane.NewClient(st, &twolane.Options{Logger: log})
	defer func() { err = errors.Join(err, r.client.Close()) }()
	if err := r.configure(ctx); err != nil {
		return Result{}, err
	}
	// What follows must be taken back also when ctx has ended.
	after := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, r.unconfigure(after)) }()
	if err := r.serveCloud(); err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, r.server.Close(after)) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := r.team.start(r, cancel); err != nil {
		return Result{}, err
	}
	end := r.submitAndWatch(ctx)
	total := time.Since(r.started)
	end = errors.Join(end, r.team.stop())
	res, err := r.result(after, total)
	return res, errors.Join(end, err)
}

// Logger logs warnings and errors to w.
func Logger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// configure takes a queue of its own in a store that nobody else works with, and sets its rates.
func (r *run) configure(ctx context.Context) error {
	r.queue = queuePrefix + time.Now().UTC().Format("20060102-150405.000")
	stats, err := r.client.Stats(ctx)
	if err != nil {
		return err
	}
	for _, q := range stats.Queues {
		if !strings.HasPrefix(q.Queue, queuePrefix) {
			return fmt.Errorf("%w: it has a queue %s; give the demo a store of its own", ErrInUse, q.Queue)
		}
	}
	if len(stats.Workers) > 0 {
		return fmt.Errorf("%w: %d workers serve it; give the demo a store of its own", ErrInUse, len(stats.Workers))
	}
	_, err = r.client.Configure(ctx, func(c *twolane.Config) error {
		c.Visibility = visibility
		q := twolane.QueueConfig{}
		q.Rates[twolane.Intake] = r.intakeRate()
		q.Rates[twolane.Repoll] = twolane.Rate{Limit: repollShare * r.cfg.Rate, Burst: 1}
		c.Queues[r.queue] = q
		return nil
	})
	return err
}

func (r *run) intakeRate() twolane.Rate {
	limit := intakeShare * r.cfg.Rate
	return twolane.Rate{Limit: limit, Burst: max(1, int(limit/10))}
}

// unconfigure takes back what configure did.
func (r *run) unconfigure(ctx context.Context) error {
	_, err := r.client.Configure(ctx, func(c *twolane.Config) error {
		delete(c.Queues, r.queue)
		return nil
	})
	return err
}

func (r *run) serveCloud() (err error) {
	rate := r.intakeRate()
	r.stall = NewStallMeter(rate.Limit, rate.Burst)
	cfg := r.cfg.cloud()
	cfg.OnBegin = func(now time.Time, _, lane string) {
		if lane == twolane.Intake.String() {
			r.stall.Started(now)
		}
	}
	if r.cloud, err = cloudsim.New(cfg); err != nil {
		return err
	}
	r.server, err = cloudsim.Serve(r.cloud, r.routes())
	return err
}

// submitAndWatch submits all commands and returns when all have ended, when ctx ends, or when nothing moves any more.
func (r *run) submitAndWatch(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.started = time.Now()
	watching := make(chan error, 1)
	go func() { watching <- r.watch(ctx) }()
	subs := make([]twolane.Submission, r.cfg.Commands)
	for i := range subs {
		subs[i] = twolane.Submission{Type: commandType, Queue: r.queue, Params: launchParams{Image: "debian", Number: i + 1}}
	}
	results, err := r.client.SubmitMany(ctx, subs, nil)
	for _, res := range results {
		r.ids = append(r.ids, res.ID)
		err = errors.Join(err, res.Err)
	}
	if err != nil {
		cancel(fmt.Errorf("submit: %w", err))
	}
	return <-watching
}
