package model

// Sizes of the largest scenario.
const (
	maxCommands = 4
	maxWorkers  = 2
	maxQueues   = 2
	maxLimits   = 2
	maxSlots    = 4 // invocations and unacknowledged settles of one worker
)

// A Scenario is one small world to explore: what there is at the start and what may go wrong.
type Scenario struct {
	Name     string
	Commands []Command // at most 4
	Workers  []Worker  // at most 2
	Limits   []Limit   // at most 2
	Faults   Faults

	// Restart makes a process that crashed or was drained start again, as a new incarnation.
	Restart bool
	// MaxLosses is the number of losses in a row that ends a suspect (0: 3; the real default is 5).
	MaxLosses uint8
	// NoCancelTimeout puts the end of the time for cancel visits out of reach.
	NoCancelTimeout bool
	// NoHints drops the hint of whoever makes room: only re-tests open filed lines.
	NoHints bool
	// Must, if not 0, has a bit for each command that must end; the others may run for ever.
	Must uint8
	// Bug is the rule that this scenario breaks; 0 for the design as it is.
	Bug Bug
	// Large marks a scenario that takes more than a moment to explore.
	Large bool
	// Huge marks one that takes a minute and a gigabyte: it is explored where TWOLANE_MODEL=full asks for it.
	Huge bool
	// MaxStates ends the exploration with an error beyond that many states (0: two million).
	MaxStates int
}

// A Command says what may become of one command.
type Command struct {
	Queue uint8 // 0 or 1
	Type  uint8 // 0 to 7
	Keys  uint8 // bit l: limit l looks at it

	Retries  uint8 // how often its handler may return an error
	Polls    uint8 // how often its handler may answer Processing
	Snoozes  uint8 // how often its handler may snooze
	Fails    bool  // its handler may answer Fail as well as Done
	Hook     bool  // its type has a Cancel hook
	BadHook  bool  // the hook returns an error, always
	Poison   bool  // each invocation kills its process
	BadVisit bool  // each cancel visit kills its process
	Deadline bool  // it has a deadline, which may pass
	Later    bool  // submitted later, as a fair step
	Delayed  bool  // submitted with not_before
	Recurs   bool  // when it ends it is replaced by a new command at once, for ever
	Parked   bool  // starts as PROCESSING, parked
	Forever  bool  // the same, and every poll answers Processing
}

// A Worker says what one worker process may claim.
type Worker struct {
	Intake uint8 // permits of the intake lane
	Repoll uint8 // permits of the repoll lane
	Queues uint8 // bit q: it serves queue q
	Types  uint8 // bit t: it knows type t
}

// A Limit is an exact cap on active commands that carry its key, or a rate of starts.
type Limit struct {
	Max     uint8 // of a rate: the burst
	Command bool  // scope command; otherwise invocation
	Rate    bool  // a start takes a token; a token comes as a fair step
	Absent  bool  // not configured at the start; a fault Add brings it
}

// Faults is the budget of everything that the design does not promise to happen: each one can happen that many times.
type Faults struct {
	Crash, Stall, Drain                 uint8 // of worker processes
	LostClaim, LostSettle, FailedSettle uint8 // committed and the reply lost; failed before the commit
	FailOver                            uint8 // an acknowledged claim is rolled back
	Cancel, Force, Delete, Resubmit     uint8
	Pause, PauseAll, Resume             uint8 // of one queue: intake, or both lanes
	Deadline                            uint8 // a deadline passes
	Raise, Lower, Remove, Add           uint8 // of one limit
}

// lossesToEnd is the number of losses in a row that ends a suspect.
func (sc *Scenario) lossesToEnd() uint8 {
	if sc.MaxLosses == 0 {
		return 3
	}
	return sc.MaxLosses
}

// serves reports whether worker w could ever run command i in that lane.
func (sc *Scenario) serves(w, i int, lane Lane) bool {
	wk, c := &sc.Workers[w], &sc.Commands[i]
	return wk.permits(lane) > 0 && wk.Queues&(1<<c.Queue) != 0 && wk.Types&(1<<c.Type) != 0
}

func (w *Worker) permits(lane Lane) uint8 {
	if lane == Repoll {
		return w.Repoll
	}
	return w.Intake
}
