package twolane_test

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
)

func TestF171_PauseUntilATime(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		for range 10 {
			e.must(twolane.Submission{Type: "a"})
		}
		var running []*store.Command
		for range 5 {
			running = append(running, e.claim("w1", "default", store.Intake, "a"))
		}
		until := time.Now().Add(30 * time.Second)
		if err := e.Pause(e.Context(), "default", twolane.PauseAll, until); err != nil {
			t.Fatal(err)
		}
		for _, c := range running { // they finish
			e.settle(c, store.Settlement{Kind: store.OutcomeDone})
		}
		if c := e.claim("w1", "default", store.Intake, "a"); c != nil {
			t.Fatal("something starts in a paused queue")
		}
		// It outlives the client, as it is in the store.
		other := twolane.NewClient(e.st, &twolane.Options{Logger: slog.New(slog.DiscardHandler)})
		defer other.Close()
		s, err := other.Stats(t.Context())
		if err != nil || s.Queues[0].Pause != twolane.PauseAll || !s.Queues[0].PauseUntil.Equal(until) || s.Queues[0].Lanes[twolane.Intake].Waits != twolane.WaitPaused {
			t.Fatalf("%+v %v", s, err)
		}
		time.Sleep(30 * time.Second)
		if c := e.claim("w1", "default", store.Intake, "a"); c == nil {
			t.Fatal("still paused after its time")
		}
		if s, err := e.Stats(e.Context()); err != nil || s.Queues[0].Pause != twolane.PauseNone {
			t.Fatalf("%+v %v", s, err)
		}
		if err := e.Pause(e.Context(), "default", twolane.PauseIntake, time.Time{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if c := e.claim("w1", "default", store.Intake, "a"); c != nil {
			t.Fatal("a pause without an end has ended")
		}
		if err := errors.Join(e.Resume(e.Context(), "default"), e.Resume(e.Context(), "default")); err != nil {
			t.Fatal(err)
		}
		if c := e.claim("w1", "default", store.Intake, "a"); c == nil {
			t.Fatal("resume does not resume")
		}
		if err := e.Pause(e.Context(), "default", twolane.PauseNone, time.Time{}); !errors.Is(err, twolane.ErrInvalid) {
			t.Fatal(err)
		}
		if err := e.Pause(e.Context(), "ä", twolane.PauseAll, time.Time{}); !errors.Is(err, twolane.ErrInvalid) {
			t.Fatal(err)
		}
	})
}

func TestConfigureLosesNoChange(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				_, err := e.Configure(e.Context(), func(cfg *twolane.Config) error {
					cfg.Queues[fmt.Sprint("q", i)] = twolane.QueueConfig{MaxReady: i + 1}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		cfg, err := e.Config(e.Context())
		if err != nil || len(cfg.Queues) != 20 || cfg.Version != 20 {
			t.Fatalf("%+v %v", cfg, err)
		}
		// A write whose reply was lost is found to be made.
		e.st.spoil(nil, only("configure", 1))
		cfg, err = e.Configure(e.Context(), func(cfg *twolane.Config) error { cfg.Visibility = time.Minute; return nil })
		if err != nil || cfg.Version != 21 || cfg.Visibility != time.Minute {
			t.Fatalf("%+v %v", cfg, err)
		}
		if cfg, err = e.Configure(e.Context(), func(*twolane.Config) error { return nil }); err != nil || cfg.Version != 21 {
			t.Fatalf("%+v %v", cfg, err)
		}
		if _, err = e.Configure(e.Context(), func(cfg *twolane.Config) error { cfg.Visibility = 1; return nil }); !errors.Is(err, twolane.ErrInvalid) {
			t.Fatal(err)
		}
		stop := errors.New("stop")
		if _, err = e.Configure(e.Context(), func(*twolane.Config) error { return stop }); !errors.Is(err, stop) {
			t.Fatal(err)
		}
	})
}
