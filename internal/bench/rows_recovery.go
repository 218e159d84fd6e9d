package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/internal/openstore"
	"github.com/twolane/twolane/store"
)

// recoveryVisibility is the visibility timeout of the recovery row.
const recoveryVisibility = 2 * time.Second

// recovery kills a worker process that runs n commands and measures how long after that each of them runs again in another worker.
func (b *bench) recovery(ctx context.Context) error {
	if b.target.kind == kindMemory {
		b.say("recovery: left out, memory is not shared with a process that could be killed")
		return nil
	}
	n := b.n(map[string]int{kindRedis: 100, kindSQLite: 100})
	return b.on(ctx, func(s *site) (err error) {
		if _, err := s.client.Configure(ctx, func(c *twolane.Config) error { c.Visibility = recoveryVisibility; return nil }); err != nil {
			return err
		}
		victim, err := startVictim(b.opt.Process(), victimSpec{Store: s.url, Permits: n}, b.opt.Messages)
		if err != nil {
			return err
		}
		alive := true
		kill := func() error {
			alive = false
			err := victim.Process.Kill()
			_ = victim.Wait() // it ends by the kill, which is no success
			return err
		}
		defer func() {
			if alive {
				err = errors.Join(err, kill())
			}
		}()
		if err := s.fill(ctx, n, func(_ int, sub *twolane.Submission) { sub.Type = "block" }); err != nil {
			return err
		}
		bounded, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("the worker process did not take all commands"))
		defer cancel()
		if err := s.until(bounded, "bench", func(q store.QueueStats) bool { return q.Lanes[store.Intake].Leased == n }); err != nil {
			return err
		}
		begun := time.Now()
		var killed atomic.Int64 // when, in nanoseconds after begun
		done := make(chan struct{})
		ran := newCountdown(n, done)
		took := make(chan float64, n)
		stop, err := s.worker(twolane.WorkerConfig{
			Queues: []twolane.QueueShare{{Name: "bench"}}, Concurrency: twolane.Lanes{Intake: n, Repoll: 1},
		}, func(w *twolane.Worker) {
			twolane.Handle(w, "block", twolane.Handler[[]byte, []byte]{Execute: func(context.Context, *twolane.Job[[]byte, []byte]) (twolane.Outcome, error) {
				took <- float64(time.Since(begun)-time.Duration(killed.Load())) / float64(time.Millisecond)
				ran.one()
				return twolane.Done(nil), nil
			}})
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		// Between two heartbeats of the victim, at a moment of nobody's choice.
		if err := pause(ctx, 700*time.Millisecond); err != nil {
			return err
		}
		killed.Store(int64(time.Since(begun)))
		if err := kill(); err != nil {
			return err
		}
		bounded, cancelRun := context.WithTimeoutCause(ctx, time.Minute, errors.New("the commands of the killed worker did not run again within a minute"))
		defer cancelRun()
		select {
		case <-done:
		case <-bounded.Done():
			return context.Cause(bounded)
		}
		close(took)
		var ms []float64
		for t := range took {
			ms = append(ms, t)
		}
		r := Row{Row: Recovery, Store: b.target.label, N: n, Note: fmt.Sprintf("visibility %v", recoveryVisibility)}
		r.quantiles(ms)
		return b.opt.Show(r)
	})
}

// victimSpec is what the process that is to be killed is told.
type victimSpec struct {
	Store   string
	Permits int
}

// startVictim starts cmd, which runs [RunWorkerProcess]. Its input stays open until it is gone.
func startVictim(cmd *exec.Cmd, spec victimSpec, messages io.Writer) (*exec.Cmd, error) {
	cmd.Stderr = messages
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	// A process that cannot read its orders ends, and then takes nothing.
	_ = json.NewEncoder(in).Encode(spec)
	return cmd, nil
}

// RunWorkerProcess is the worker of the recovery row that is killed: it takes commands and holds them until its input ends.
func RunWorkerProcess(ctx context.Context, in io.Reader, messages io.Writer) (err error) {
	log := slog.New(slog.NewTextHandler(messages, &slog.HandlerOptions{Level: slog.LevelWarn}))
	var spec victimSpec
	if err := json.NewDecoder(in).Decode(&spec); err != nil {
		return fmt.Errorf("read orders: %w", err)
	}
	st, err := openstore.Open(ctx, spec.Store, &openstore.Options{Logger: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	client := twolane.NewClient(st, &twolane.Options{Logger: log})
	defer func() { err = errors.Join(err, client.Close()) }()
	w, err := twolane.NewWorker(client, twolane.WorkerConfig{
		Queues: []twolane.QueueShare{{Name: "bench"}}, Concurrency: twolane.Lanes{Intake: spec.Permits, Repoll: 1},
	})
	if err != nil {
		return err
	}
	twolane.Handle(w, "block", twolane.Handler[[]byte, []byte]{Execute: func(ctx context.Context, _ *twolane.Job[[]byte, []byte]) (twolane.Outcome, error) {
		<-ctx.Done()
		return twolane.Outcome{}, ctx.Err()
	}})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, in) // its end, however it comes, is the order to stop
		cancel()
	}()
	return w.Run(ctx)
}
