package demo

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store/memstore"
)

func small() Config {
	cfg := Defaults()
	cfg.Store, cfg.Commands, cfg.Rate, cfg.Poll, cfg.TaskMin, cfg.TaskMax = "mem:", 40, 400, 500*time.Millisecond, 300*time.Millisecond, 600*time.Millisecond
	return cfg
}

func TestRun(t *testing.T) {
	st := memstore.New()
	defer st.Close()
	var said strings.Builder
	res, err := Run(t.Context(), st, small(), &lines{w: &said, every: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if b := res.Broken(false); len(b) > 0 {
		t.Errorf("broken promises: %q", b)
	}
	if res.Launched != 40 || res.Succeeded != 40 || res.Polls < 40 || res.LiveMax < 2 || res.LaunchSeconds <= 0 || res.TotalSeconds < res.LaunchSeconds {
		t.Errorf("result: %+v", res)
	}
	if res.PollLatenessMS.Max == 0 {
		t.Error("no lateness was measured")
	}
	// The store is as it was, but for the records and the visibility timeout.
	if cfg, err := st.Config(t.Context()); err != nil || len(cfg.Queues) != 0 {
		t.Errorf("the demo left its configuration: %+v %v", cfg, err)
	}
}

func TestRunRefusesAStoreOfOthers(t *testing.T) {
	st := memstore.New()
	defer st.Close()
	client := twolane.NewClient(st, nil)
	defer client.Close()
	if _, err := client.Submit(t.Context(), twolane.Submission{Type: "mail"}); err != nil {
		t.Fatal(err)
	}
	_, err := Run(t.Context(), st, small(), &lines{w: &strings.Builder{}, every: time.Second})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "default") {
		t.Errorf("a store with a queue of somebody else: %v", err)
	}
	if cfg, err := client.Config(t.Context()); err != nil || cfg.Visibility != 0 {
		t.Errorf("its configuration was changed: %+v %v", cfg, err)
	}
}

func TestRunSaysThatAWorkerProcessDied(t *testing.T) {
	st := memstore.New()
	defer st.Close()
	cfg := small()
	cfg.Process = func() *exec.Cmd { return exec.Command("sh", "-c", "read orders; echo out of luck >&2; exit 3") }
	var said strings.Builder
	res, err := Run(t.Context(), st, cfg, &lines{w: &said, every: time.Second})
	if err == nil || !strings.Contains(err.Error(), "ended by itself: exit status 3") {
		t.Errorf("worker processes that died: %v", err)
	}
	if !strings.Contains(said.String(), "out of luck") {
		t.Errorf("what they said is missing in\n%s", said.String())
	}
	if res.Lost != cfg.Commands {
		t.Errorf("result: %+v", res)
	}
}

func TestConfigValidate(t *testing.T) {
	cfg := Defaults()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	if got := cfg.cloud(); got.Rate != 40 || got.Burst != 10 {
		t.Errorf("the cloud of the main job: %+v", got)
	}
	r := run{cfg: cfg}
	if got := r.intakeRate(); got.Limit != 28 || got.Burst != 2 {
		t.Errorf("the intake lane of the main job: %+v", got)
	}
}
