package demo

import "time"

// Snapshot is what a person sees of a running demo.
type Snapshot struct {
	Store    string
	Elapsed  time.Duration
	Commands int
	Workers  []WorkerView
	Lanes    [2]LaneView // intake, repoll

	Waiting   int // in the intake line
	Scheduled int // wait for the end of a backoff
	Leased    int
	Parked    int // PROCESSING and not leased
	Succeeded int
	Failed    int
	Cancelled int

	APIRate   float64 // of the cloud
	APICalls  int     // in the last second
	APIMax    int     // in any second
	Throttled int
	APIErrors int

	Launched int
	Live     int // tasks
	LiveMax  int

	Checks   int // calls, each for a batch
	Lateness Quantiles
}

// WorkerView is one worker.
type WorkerView struct {
	Name  string
	State string // "running", "killed", "stopped"
}

// LaneView is one lane over all workers.
type LaneView struct {
	Name     string
	Permits  int // of the workers that run
	Held     int
	Eligible int
	AtLeast  bool          // Eligible is a lower bound
	Oldest   time.Duration // of the oldest eligible
	Started  float64       // invocations per second, lately
	Rate     float64       // configured; 0 for none
}

// Unseen is how many tasks have ended in the cloud before a check has seen it. The numbers are of slightly different moments.
func (s *Snapshot) Unseen() int { return max(0, s.Launched-s.Live-s.Ended()) }

// Ended is how many commands are terminal.
func (s *Snapshot) Ended() int { return s.Succeeded + s.Failed + s.Cancelled }
