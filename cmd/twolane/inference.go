package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/twolane/twolane/inference"
	"github.com/twolane/twolane/inference/config"
	"github.com/twolane/twolane/internal/openstore"
	"github.com/twolane/twolane/metrics/prom"
	"github.com/twolane/twolane/store"
)

// inferenceFlags are the flags of inference that are not llm-d-async's.
type inferenceFlags struct {
	file, store, namespace string
	check                  bool
}

func newInference(std streams) *cobra.Command {
	var f inferenceFlags
	var up *config.Upstream
	cmd := &cobra.Command{
		Use: "inference [--config FILE | llm-d-async's flags]", Short: "Send inference requests from Redis, in place of an llm-d-async processor",
		Long: `Inference takes requests from the sorted sets of llm-d-async's producers, sends them to a gateway, and pushes what it answers to their result
lists. It takes over a deployment as it stands: stop the old processor and start this one with the same flags, files and environment
variables. --check says what was understood and starts nothing. --config reads a YAML file of our own instead, in which every unknown key is an error.`,
		Example: "  twolane inference --transport redis-sortedset --transport-config-file transport.json --pool-config-file pools.json --metrics-endpoint-auth=false\n" +
			"  twolane inference --transport redis-sortedset --transport-config-file transport.json --pool-config-file pools.json --check\n  twolane inference --config inference.yaml",
		DisableFlagParsing: true, // flags may begin with one dash, as llm-d-async's may
		RunE: func(cmd *cobra.Command, args []string) error {
			cmd.InitDefaultHelpFlag()
			if err := cmd.Flags().Parse(up.Normalise(args)); err != nil {
				return usage(err)
			}
			if help, err := cmd.Flags().GetBool("help"); err != nil || help {
				return errors.Join(err, cmd.Help())
			}
			if err := noArgs(cmd, cmd.Flags().Args()); err != nil {
				return err
			}
			return runInference(cmd, std, &f, up)
		},
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&f.file, "config", "", "YAML configuration file; llm-d-async's flags are not read then")
	fl.BoolVar(&f.check, "check", false, "print the configuration as it was understood, and end")
	fl.StringVar(&f.store, "store", "", "where requests are kept: "+openstore.Forms+" (default the producers' Redis)")
	fl.StringVar(&f.namespace, "namespace", "inference", "of the store on the producers' Redis")
	up = config.NewUpstream(fl)
	return cmd
}

// read reads the configuration, and how its queues are read again.
func (f *inferenceFlags) read(fs *pflag.FlagSet, up *config.Upstream) (c *config.Config, again func(*slog.Logger) ([]config.Queue, error), err error) {
	if f.file == "" {
		if c, err = up.Config(os.Getenv); err != nil {
			return nil, nil, err
		}
		told := map[string]bool{}
		for _, w := range c.Warnings {
			told[w] = true
		}
		again = func(log *slog.Logger) ([]config.Queue, error) {
			queues, warnings, err := up.Queues(c)
			for _, w := range warnings {
				if !told[w] {
					told[w] = true
					log.Warn(w)
				}
			}
			return queues, err
		}
	} else {
		var theirs []string
		fs.Visit(func(fl *pflag.Flag) {
			if fl.Name != "config" && fl.Name != "check" && fl.Name != "store" && fl.Name != "namespace" {
				theirs = append(theirs, "--"+fl.Name)
			}
		})
		if len(theirs) > 0 {
			return nil, nil, fmt.Errorf("%s and --config contradict each other", theirs[0])
		}
		if c, err = config.ReadFile(f.file, os.Getenv); err != nil {
			return nil, nil, err
		}
		began := *c
		again = func(*slog.Logger) ([]config.Queue, error) { return config.Queues(f.file, &began, os.Getenv) }
	}
	if fs.Changed("store") {
		c.Store.URL = f.store
	}
	if fs.Changed("namespace") {
		c.Store.Namespace = f.namespace
	}
	return c, again, c.Complete()
}

func runInference(cmd *cobra.Command, std streams, f *inferenceFlags, up *config.Upstream) (err error) {
	cfg, again, err := f.read(cmd.Flags(), up)
	if err != nil {
		return usage(err)
	}
	more, err := inference.Check(cfg)
	if err != nil {
		return usage(err)
	}
	log := inferenceLogger(std.err, cfg.Log)
	for _, w := range append(cfg.Warnings, more...) {
		log.Warn(w)
	}
	if f.check {
		_, err := io.WriteString(std.out, cfg.String())
		return err
	}
	url, err := inference.StoreURL(cfg)
	if err != nil {
		return usage(err)
	}
	probes := &front{}
	stop, err := serveHTTP(cfg.Serve.HealthPort, probes, nil, log)
	if err != nil {
		return err
	}
	defer stop()
	reg := prometheus.NewRegistry()
	measured, err := prom.New(reg)
	if err != nil {
		return err
	}
	var st store.Store
	var p *inference.Processor
	ctx := cmd.Context()
	err = probes.patiently(ctx, log, 2*time.Second, func() (err error) {
		if st == nil {
			if st, err = openstore.Open(ctx, url, &openstore.Options{Logger: log}); err != nil {
				return storeError(err)
			}
		}
		p, err = inference.New(cfg, inference.Options{Store: st, Logger: log, Metrics: measured, Name: "inference", Version: readVersion().Version,
			Queues: func() ([]config.Queue, error) { return again(log) }})
		return err
	})
	if st != nil {
		defer func() { err = errors.Join(err, st.Close()) }()
	}
	if err != nil || p == nil { // or it was stopped while it waited
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	reg.MustRegister(p.Collector(), prom.NewCollector(p.Client(), nil), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	stopMetrics, err := serveMetrics(&cfg.Serve, reg, log)
	if err != nil {
		return err
	}
	defer stopMetrics()
	health := p.Health()
	probes.behind.Store(&health)
	log.Info("requests are taken and sent", "queues", len(cfg.Queues), "pools", len(cfg.Pools), "store", openstore.Redacted(url))
	return p.Run(ctx)
}

func inferenceLogger(w io.Writer, l config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		level = slog.LevelInfo
	}
	opt := &slog.HandlerOptions{Level: level}
	file, isFile := w.(*os.File)
	if l.Format == "text" || l.Format == "" && isFile && term.IsTerminal(int(file.Fd())) {
		return slog.New(slog.NewTextHandler(w, opt))
	}
	return slog.New(slog.NewJSONHandler(w, opt))
}
