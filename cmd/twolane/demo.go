package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/twolane/twolane/internal/demo"
	"github.com/twolane/twolane/internal/openstore"
	"github.com/twolane/twolane/store"
)

// demoFlags are the flags of demo that are not settings of the demo itself.
type demoFlags struct {
	store     string
	tasks     string // duration, or range of durations
	processes bool
	json      bool
}

func newDemo(std streams) *cobra.Command {
	cfg := demo.Defaults()
	var f demoFlags
	cmd := &cobra.Command{
		Use: "demo", Short: "Run 1,200 long tasks on a simulated cloud and check every promise", Args: noArgs,
		Long: `Demo submits a fan-out of long tasks, runs them on a simulated cloud API that is rate-limited, and watches from outside: the
cloud counts calls, tasks and doubled runs. A start call takes 50 to 500 ms, a describe call takes up to 100 ids, both share the
limit of --rate. The intake lane gets 0.70 of it, the repoll lane 0.15. The store is a SQLite file in a temporary folder unless
--store names another. The exit code is 1 if a promise was broken.`,
		Example: "  twolane demo\n  twolane demo --task-duration 60s          # all 1,200 live at once\n" +
			"  twolane demo --kill                       # worker processes, one gets SIGKILL half-way\n  twolane demo --error-rate 0.2 --json",
		RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd, std, cfg, f) },
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&f.store, "store", "", "where commands are kept: "+openstore.Forms+" (default a temporary SQLite file)")
	fl.IntVar(&cfg.Commands, "commands", cfg.Commands, "how many tasks to launch")
	fl.IntVar(&cfg.Workers, "workers", cfg.Workers, "how many workers")
	fl.IntVar(&cfg.Concurrency, "concurrency", cfg.Concurrency, "permits of each lane of each worker")
	fl.DurationVar(&cfg.Poll, "poll", cfg.Poll, "time from one check of a task to the next")
	fl.StringVar(&f.tasks, "task-duration", "10s-20s", "how long a task runs: a duration or a range")
	fl.IntVar(&cfg.Batch, "batch", cfg.Batch, "tasks in one check, at most 100")
	fl.Float64Var(&cfg.Rate, "rate", cfg.Rate, "calls per second that the cloud admits")
	fl.BoolVar(&f.processes, "processes", false, "make each worker a process of its own")
	fl.BoolVar(&cfg.Kill, "kill", false, "send SIGKILL to one worker half-way; implies --processes")
	fl.Float64Var(&cfg.ErrorRate, "error-rate", 0, "part of the start and describe calls that fail, from 0 to 0.9")
	fl.BoolVar(&f.json, "json", false, "print one JSON object at the end")
	return cmd
}

func runDemo(cmd *cobra.Command, std streams, cfg demo.Config, f demoFlags) (err error) {
	if cfg.TaskMin, cfg.TaskMax, err = parseRange(f.tasks); err != nil {
		return usagef("--task-duration: %w", err)
	}
	if f.processes || cfg.Kill {
		if cfg.Process, err = selfProcess(demoWorkerVerb); err != nil {
			return err
		}
	}
	if err := cfg.Validate(); err != nil {
		return usage(err)
	}
	if cfg.Process != nil && openstore.Kind(f.store) == openstore.Memory {
		return usagef("--store mem: lives in one process; with --processes and --kill name another store")
	}
	view := demo.NewView(std.err)
	place, err := openTemporary(cmd.Context(), f.store, "demo", demo.Logger(view))
	if err != nil {
		return storeError(err)
	}
	end := place.close
	defer func() { err = errors.Join(err, end()) }()
	cfg.StoreURL, cfg.Store = place.url, openstore.Redacted(place.url)
	fmt.Fprintf(view, "%d tasks on a cloud that admits %.0f calls/s; %d workers with %d permits in each lane; store %s\n",
		cfg.Commands, cfg.Rate, cfg.Workers, cfg.Concurrency, cfg.Store)
	res, runErr := demo.Run(cmd.Context(), place.store, cfg, view)
	view.Close()
	if res.Audit == "" { // it did not come to a result
		if errors.Is(runErr, demo.ErrInUse) {
			return usage(runErr)
		}
		return runErr
	}
	stopped := errors.Is(context.Cause(cmd.Context()), errInterrupted)
	judged := res
	if stopped {
		judged.Lost = 0 // what was not finished is not lost: there was no time to finish it
	}
	broken := judged.Broken(cfg.ErrorRate > 0)
	summary := std.out
	if f.json {
		summary = std.err
	}
	if err := writeSummary(summary, res, broken, stopped); err != nil {
		return err
	}
	if f.json {
		if err := json.NewEncoder(std.out).Encode(res); err != nil {
			return err
		}
	}
	if runErr != nil {
		return runErr
	}
	if len(broken) > 0 {
		end = func() error { return place.keep(std.err) }
		return errReported
	}
	return nil
}

// writeSummary says what happened in words. stopped says that somebody did not want to wait for the end.
func writeSummary(w io.Writer, r demo.Result, broken []string, stopped bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%d of %d tasks were launched in %.1f s, up to %d were live at once, and %d had succeeded after %.1f s.\n",
		r.Launched, r.Commands, r.LaunchSeconds, r.LiveMax, r.Succeeded, r.TotalSeconds)
	fmt.Fprintf(&b, "The cloud saw at most %d calls in any second and throttled %d.\n", r.APICallsPerSecond, r.Throttled)
	fmt.Fprintf(&b, "Tasks were checked %d times; half of the calls were late by at most %.0f ms, 99 %% by at most %.0f ms, all by at most %.0f ms.\n",
		r.Polls, r.PollLatenessMS.P50, r.PollLatenessMS.P99, r.PollLatenessMS.Max)
	lost := "Lost"
	if stopped {
		lost = "Not finished"
	}
	fmt.Fprintf(&b, "%s: %d. Run twice: %d. Leases lost with their worker: %d. Longest stall of the intake: %.2f s. Audit: %s.\n",
		lost, r.Lost, r.DuplicateRuns, r.LeaseLosses, r.LongestIntakeStall, r.Audit)
	switch {
	case len(broken) > 0:
	case stopped:
		fmt.Fprintf(&b, "Interrupted: %d of %d tasks were not finished. Until then every promise was kept.\n", r.Lost, r.Commands)
	default:
		b.WriteString("Every promise was kept.\n")
	}
	for _, p := range broken {
		fmt.Fprintf(&b, "BROKEN: %s\n", p)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// parseRange reads "10s" or "10s-20s".
func parseRange(s string) (low, high time.Duration, err error) {
	first, second, isRange := strings.Cut(s, "-")
	if low, err = time.ParseDuration(first); err != nil {
		return 0, 0, err
	}
	if !isRange {
		return low, low, nil
	}
	high, err = time.ParseDuration(second)
	return low, high, err
}

const demoWorkerVerb = "demo-worker"

// newDemoWorker is what the processes of demo run.
func newDemoWorker(std streams) *cobra.Command {
	return &cobra.Command{
		Use: demoWorkerVerb, Short: "A worker process of demo; its input says what to do", Hidden: true, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			open := func(ctx context.Context, url string, log *slog.Logger) (store.Store, error) {
				return openstore.Open(ctx, url, &openstore.Options{Logger: log})
			}
			return demo.RunWorkerProcess(cmd.Context(), open, std.in, std.err)
		},
	}
}

// selfProcess returns a maker of processes that run a verb of this program.
func selfProcess(verb string) (func() *exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return func() *exec.Cmd { return exec.Command(self, verb) }, nil
}
