package twolane_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store/memstore"
)

// What a program cannot mean is refused where it is written, and not by a panic somewhere else later.
func TestNilsAreRefusedAtOnce(t *testing.T) {
	func() {
		defer func() {
			if v, ok := recover().(string); !ok || !strings.Contains(v, "NewClient needs a store") {
				t.Errorf("NewClient(nil): %v", v)
			}
		}()
		twolane.NewClient(nil, nil)
	}()
	if _, err := twolane.NewWorker(nil, twolane.WorkerConfig{}); !errors.Is(err, twolane.ErrInvalid) {
		t.Errorf("NewWorker(nil): %v", err)
	}
}

// A worker of a closed client says so; it would run, but nothing that it is asked for through the client would.
func TestWorkerOfAClosedClient(t *testing.T) {
	c := twolane.NewClient(memstore.New(), nil)
	w, err := twolane.NewWorker(c, twolane.WorkerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	twolane.HandleFunc(w, "a", func(context.Context, *twolane.Job[int, []byte]) (any, error) { return nil, nil })
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Run(t.Context()); !errors.Is(err, twolane.ErrClosed) || err.Error() != "the client is closed" {
		t.Errorf("Run: %v", err)
	}
}

// A handler that comes too late is not known to the worker: that is said, since there is no error to return.
func TestHandlerAfterRunIsLogged(t *testing.T) {
	rigged(t, 20*sec, func(r *rig) {
		w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) { twolane.HandleFunc(w, "a", r.sleeps(0)) })
		synctest.Wait()
		twolane.HandleFunc(w.Worker, "b", r.sleeps(0))
		if got := w.log.with("ERROR", "after Run began", "type=b"); len(got) != 1 {
			r.Errorf("%q", got)
		}
		r.wait(r.submit(twolane.Submission{Type: "a"})...)
	})
}

// Messages name what was wrong in the words of the call that was made.
func TestMessagesOfRefusals(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		ctx := e.Context()
		submit := func(s twolane.Submission) func() error {
			return func() error { _, err := e.Submit(ctx, s); return err }
		}
		many := map[string]string{"a": "1", "b": "1", "c": "1", "d": "1", "e": "1"}
		for want, call := range map[string]func() error{
			`submit x: type: "naïve" has "ï" at byte 2; allowed`:             submit(twolane.Submission{ID: "x", Type: "naïve"}),
			`submit x: type: "a\xff" has "\xff" at byte 1; allowed`:          submit(twolane.Submission{ID: "x", Type: "a\xff"}),
			`submit x: params: has 307200 bytes, at most 262144 are allowed`: submit(twolane.Submission{ID: "x", Type: "a", Params: make([]byte, 300<<10)}),
			`submit x: keys: has 5 entries, at most 4 are allowed`:           submit(twolane.Submission{ID: "x", Type: "a", Keys: many}),
			`submit x: metadata: has 5001 bytes, at most 4096 are allowed`:   submit(twolane.Submission{ID: "x", Type: "a", Metadata: map[string]string{"k": strings.Repeat("v", 5000)}}),
			`pause of default: mode: none pauses nothing`:                    func() error { return e.Pause(ctx, "default", twolane.PauseNone, time.Time{}) },
			`pause of default: mode: unknown mode 9`:                         func() error { return e.Pause(ctx, "default", 9, time.Time{}) },
			`cancel: queue: is empty`:                                        func() error { _, err := e.CancelMatching(ctx, twolane.Filter{}, nil); return err },
			`limit l: limits.l.key: is needed with by key, and only there`:   func() error { return e.SetLimit(ctx, twolane.Limit{Name: "l", By: twolane.ByKey, Max: 1}) },
			`limit nix: no such limit is in force`:                           func() error { _, err := e.Limit(ctx, "nix", ""); return err },
			`configure: visibility: 1ms is not between`: func() error {
				_, err := e.Configure(ctx, func(c *twolane.Config) error { c.Visibility = time.Millisecond; return nil })
				return err
			},
			`own words`: func() error {
				_, err := e.Configure(ctx, func(*twolane.Config) error { return errors.New("own words") })
				return err
			},
		} {
			if err := call(); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		}
		if _, err := e.Limit(ctx, "nix", ""); !errors.Is(err, twolane.ErrNotFound) {
			t.Errorf("%v is not ErrNotFound", err)
		}
	})
}
