package demo

import (
	"errors"
	"fmt"
	"math"
	"os/exec"
	"time"

	"github.com/twolane/twolane/internal/cloudsim"
)

// Config says what to demonstrate.
type Config struct {
	StoreURL    string // that child processes open; shown to people by Store
	Store       string
	Commands    int
	Workers     int
	Concurrency int           // permits of each lane of each worker
	Poll        time.Duration // from one check of a task to the next
	TaskMin     time.Duration
	TaskMax     time.Duration
	Batch       int     // tasks in one check
	Rate        float64 // calls per second that the cloud admits
	ErrorRate   float64 // of the start and describe calls
	Kill        bool    // SIGKILL one worker half-way
	// Process makes the command that starts a worker process; it runs [RunWorkerProcess]. nil runs the workers in this process.
	Process func() *exec.Cmd
	Seed    uint64
}

// What is not for the user to choose.
const (
	visibility  = 5 * time.Second
	intakeShare = 0.70 // of the cloud's rate
	repollShare = 0.15
	cloudBurst  = 10
)

// Defaults is the main job: 1,200 tasks on a cloud that admits 40 calls per second.
func Defaults() Config {
	return Config{Commands: 1200, Workers: 2, Concurrency: 100, Poll: 5 * time.Second, TaskMin: 10 * time.Second,
		TaskMax: 20 * time.Second, Batch: cloudsim.MaxDescribe, Rate: 40, Seed: 1}
}

// Validate names the first setting that makes no sense, by its flag.
func (c *Config) Validate() error {
	between := func(flag string, n, low, high int) error {
		if n < low || n > high {
			return fmt.Errorf("--%s %d is not between %d and %d", flag, n, low, high)
		}
		return nil
	}
	if err := errors.Join(between("commands", c.Commands, 1, 1_000_000), between("workers", c.Workers, 1, 64),
		between("concurrency", c.Concurrency, 1, 10_000), between("batch", c.Batch, 1, cloudsim.MaxDescribe)); err != nil {
		return err
	}
	switch {
	case c.Poll < 100*time.Millisecond || c.Poll > time.Hour:
		return fmt.Errorf("--poll %v is not between 100ms and 1h", c.Poll)
	case c.TaskMin <= 0 || c.TaskMax < c.TaskMin || c.TaskMax > 24*time.Hour:
		return fmt.Errorf("--task-duration %v-%v is not a range between 0 and 24h", c.TaskMin, c.TaskMax)
	case !(c.Rate >= 1) || c.Rate > 10_000:
		return fmt.Errorf("--rate %v is not between 1 and 10000", c.Rate)
	case !(c.ErrorRate >= 0 && c.ErrorRate <= 0.9):
		return fmt.Errorf("--error-rate %v is not between 0 and 0.9", c.ErrorRate)
	case c.Kill && c.Process == nil:
		return errors.New("--kill needs worker processes")
	case c.Kill && c.Workers < 2:
		return errors.New("--kill needs a second worker that goes on; --workers is 1")
	}
	return nil
}

// cloud is the configuration of the simulated cloud.
func (c *Config) cloud() cloudsim.Config {
	cloud := cloudsim.Defaults()
	cloud.Rate, cloud.Burst = c.Rate, max(1, int(math.Round(cloudBurst*c.Rate/40)))
	cloud.TaskMin, cloud.TaskMax = c.TaskMin, c.TaskMax
	cloud.ErrorRate, cloud.Seed = c.ErrorRate, c.Seed
	return cloud
}

// stuckAfter is how long nothing at all may end or launch before the demo gives up.
func (c *Config) stuckAfter() time.Duration { return time.Minute + c.TaskMax + 2*c.Poll }
