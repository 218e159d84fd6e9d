package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/twolane/twolane/internal/bench"
	"github.com/twolane/twolane/internal/openstore"
	"github.com/twolane/twolane/internal/redistest"
)

func newBench(std streams) *cobra.Command {
	var opt bench.Options
	var url string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure what a store and this machine can do", Args: noArgs,
		Long: `Bench measures the queue through its Go API, with 200-byte params, handlers that do nothing, one queue, metrics on and batches of 100,
each row beside a floor: how many entries per second the bare store takes in the same minute (on Redis by pipelined XADD, on SQLite by
flushed inserts of 64 rows). It works in namespaces or files of its own and removes them.
Without --store it starts a redis-server of its own (without persistence, then with appendonly everysec), if there is one, and then
measures SQLite in a temporary folder. Rows: ` + strings.Join(bench.Rows, ", ") + `.`,
		Example: "  twolane bench\n  twolane bench --store redis://127.0.0.1:6379 --only latency\n  twolane bench --store sqlite:/var/tmp/x.db --only process --n 20000 --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opt.Validate(); err != nil {
				return usage(err)
			}
			var err error
			if opt.Process, err = selfProcess(benchWorkerVerb); err != nil {
				return err
			}
			opt.Messages = std.err
			var rows []bench.Row
			opt.Show = func(r bench.Row) error {
				if asJSON {
					return json.NewEncoder(std.out).Encode(r)
				}
				rows = append(rows, r)
				fmt.Fprintf(std.err, "%s: %s is measured\n", r.Store, r.Name())
				return nil
			}
			if url == "" {
				err = benchAll(cmd.Context(), std, opt)
			} else {
				err = benchStore(cmd.Context(), url, opt)
			}
			if !asJSON && len(rows) > 0 {
				fmt.Fprintf(std.out, "%s, %d CPUs shared by client and store\n", readVersion(), runtime.NumCPU())
				err = errors.Join(err, bench.Table(std.out, rows))
			}
			if errors.Is(context.Cause(cmd.Context()), errInterrupted) {
				err = errors.Join(errInterrupted, withoutCanceled(err))
			}
			return err
		},
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&url, "store", "", "the store: "+openstore.Forms)
	fl.StringVar(&opt.Only, "only", "", "measure one row, or a part of limits: cost, contended, blocked, room, tenants, as in limits/room")
	fl.IntVar(&opt.N, "n", 0, "how many to measure (default: what suits the row)")
	fl.IntVar(&opt.Lines, "lines", 10_000, "lines of one command each, in the last variant of process")
	fl.BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

// benchStore measures the store at url.
func benchStore(ctx context.Context, url string, opt bench.Options) (err error) {
	t, err := bench.NewTarget(ctx, url)
	if err != nil {
		return storeError(err)
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	return storeError(bench.Run(ctx, t, opt))
}

// benchAll measures stores that it starts itself.
func benchAll(ctx context.Context, std streams, opt bench.Options) (err error) {
	dir, err := os.MkdirTemp("", "twolane-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for _, args := range [][]string{nil, {"--appendonly", "yes", "--appendfsync", "everysec"}} {
		err := benchOwnRedis(ctx, std, opt, dir, args)
		if errors.Is(err, redistest.ErrNoServer) {
			fmt.Fprintf(std.err, "Redis is left out: %v\n", err)
			break
		}
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(std.err, "SQLite in %s\n", dir)
	return benchStore(ctx, "sqlite:"+dir+"/bench.db", opt)
}

func benchOwnRedis(ctx context.Context, std streams, opt bench.Options, dir string, args []string) (err error) {
	if dir, err = os.MkdirTemp(dir, "redis-"); err != nil {
		return err
	}
	srv, err := redistest.Run(ctx, dir, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.Kill()) }()
	fmt.Fprintln(std.err, "started a redis-server on", strings.Join(append([]string{srv.Addr()}, args...), " "))
	err = benchStore(ctx, srv.URL(), opt)
	if ctx.Err() != nil {
		return context.Cause(ctx) // Ctrl-C has ended the server too, so that nothing in it could be removed
	}
	return err
}

const benchWorkerVerb = "bench-worker"

// newBenchWorker is what the recovery row kills.
func newBenchWorker(std streams) *cobra.Command {
	return &cobra.Command{
		Use: benchWorkerVerb, Short: "A worker process of bench; its input says what to do", Hidden: true, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.RunWorkerProcess(cmd.Context(), std.in, std.err)
		},
	}
}
