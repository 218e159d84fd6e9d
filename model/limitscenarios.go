package model

var (
	one        = []Limit{{Max: 1}}                // scope invocation
	vm         = []Limit{{Max: 1, Command: true}} // scope command
	two        = []Limit{{Max: 1}, {Max: 1, Command: true}}
	inv        = []Limit{{Max: 1}, {Max: 1}}
	everything = Faults{Cancel: 1, Delete: 1, PauseAll: 1, Lower: 1, Raise: 1, Remove: 1, Crash: 1}
	per        = []Limit{{Max: 1, Rate: true}, {Max: 1}} // a rate beside a cap
)

// all4 are four commands of which each limit of [two] sees three, in two queues, one of a type that not every worker knows.
var all4 = []Command{{Keys: 3, Polls: 1}, {Keys: 1, Type: 1}, {Queue: 1, Keys: 2}, {Keys: 3}}

// limitScenarios are the worlds with limits. Those of one kind come twice where it matters: with hints, and with re-tests
// alone.
func limitScenarios() []*Scenario {
	both := func(sc Scenario) []*Scenario {
		alone := sc
		alone.Name += ", re-tests alone"
		alone.NoHints = true
		return []*Scenario{&sc, &alone}
	}
	var all []*Scenario
	for _, sc := range []Scenario{
		{
			Name:     "limit: the next in line is cancelled or deleted",
			Workers:  pair,
			Limits:   one,
			Commands: []Command{{Keys: 1}, {Keys: 1, Retries: 1}, {Keys: 1, Type: 1}},
			Faults:   Faults{Cancel: 1, Delete: 1},
		},
		{
			Name:     "limit: two on one command, all or none",
			Workers:  pair,
			Limits:   inv,
			Commands: []Command{{Keys: 1}, {Keys: 3, Retries: 1}, {Keys: 1, Type: 1}, {Keys: 2}},
			Faults:   Faults{Cancel: 1},
		},
		{
			Name:     "limit: both of scope command, held between polls",
			Workers:  pair,
			Limits:   []Limit{{Max: 1, Command: true}, {Max: 1, Command: true}},
			Commands: []Command{{Keys: 1}, {Keys: 3, Polls: 1}, {Keys: 1, Type: 1}, {Keys: 2, Polls: 1, Retries: 1}},
		},
		{
			Name:     "limit: the oldest line stands in a paused queue",
			Workers:  pair,
			Limits:   one,
			Commands: []Command{{Keys: 1}, {Queue: 1, Keys: 1}, {Keys: 1, Type: 1}, {Keys: 1, Polls: 1, Type: 2}},
			Faults:   Faults{PauseAll: 1, Resume: 1},
		},
		{
			Name:     "limit: the oldest line has no worker, or a stalled one",
			Workers:  []Worker{{Intake: 1, Repoll: 1, Queues: 3, Types: 1}, {Intake: 1, Repoll: 1, Queues: 3, Types: 3}},
			Limits:   one,
			Commands: []Command{{Keys: 1, Retries: 1}, {Type: 1, Keys: 1}, {Type: 2, Keys: 1}, {Keys: 1}},
			Faults:   Faults{Stall: 1, Crash: 1},
		},
		{
			Name:     "limit: no intake permit anywhere for the oldest line, a poll behind it",
			Workers:  []Worker{{Intake: 1, Repoll: 1, Queues: 1, Types: 255}, {Repoll: 1, Queues: 3, Types: 255}},
			Limits:   one,
			Commands: []Command{{Keys: 1, Polls: 1}, {Queue: 1, Keys: 1}, {Keys: 1, Polls: 2}},
		},
		{
			Name:     "limit: raise, lower, close",
			Large:    true,
			Workers:  pair,
			Limits:   one,
			Commands: []Command{{Keys: 1, Retries: 1}, {Keys: 1, Polls: 1}, {Keys: 1, Type: 1}, {Keys: 1, Type: 2}},
			Faults:   Faults{Raise: 1, Lower: 1, Crash: 1},
		},
		{
			Name:     "limit: removed and added while commands wait and run",
			Workers:  pair,
			Limits:   []Limit{{Max: 1, Command: true}, {Max: 1, Command: true, Absent: true}},
			Commands: []Command{{Keys: 3, Polls: 1}, {Keys: 3, Polls: 1, Type: 1}, {Keys: 2}, {Keys: 1, Type: 2}},
			Faults:   Faults{Remove: 1, Add: 1},
		},
		{
			Name:     "limit: two lanes share it, a new command beside polls without end",
			Workers:  pair,
			Limits:   one,
			Commands: []Command{{Keys: 1, Delayed: true}, {Keys: 1, Forever: true}, {Keys: 1, Forever: true}},
			Must:     1,
		},
		{
			Name:     "limit: two queues share it, one command beside a stream",
			Workers:  pair,
			Limits:   one,
			Commands: []Command{{Keys: 1, Delayed: true}, {Queue: 1, Keys: 1, Recurs: true}, {Queue: 1, Keys: 1, Recurs: true}},
			Must:     1,
		},
		{
			Name:     "limit: one queue, an old command beside a stream of its own line",
			Workers:  pair,
			Limits:   one,
			Commands: []Command{{Keys: 1, Delayed: true}, {Keys: 1, Recurs: true}, {Keys: 1, Recurs: true}},
			Must:     1,
		},
		{
			Name:     "limit: a paused line under each of two, and a command that needs both",
			Workers:  pair,
			Limits:   inv,
			Commands: []Command{{Keys: 3}, {Queue: 1, Keys: 1}, {Queue: 1, Keys: 2}, {Keys: 3}},
			Faults:   Faults{PauseAll: 1, Resume: 1},
		},
		{
			Name:     "limit: a lost worker keeps its slot of scope command",
			Workers:  pair,
			Limits:   vm,
			Commands: []Command{{Keys: 1, Polls: 1, Retries: 1}, {Keys: 1}, {Keys: 1, Type: 1}},
			Restart:  true,
			Faults:   Faults{Crash: 1, LostClaim: 1},
		},
		{
			Name:     "limit: crash, stall and cancel with both scopes",
			Large:    true,
			Workers:  pair,
			Limits:   two,
			Commands: []Command{{Keys: 3, Polls: 1, Hook: true}, {Keys: 1, Retries: 1}, {Queue: 1, Keys: 2}},
			Faults:   Faults{Crash: 1, Stall: 1, Cancel: 1},
		},
		{
			Name:     "limit: cancel visits pass a full one",
			Workers:  pair,
			Limits:   one,
			Commands: []Command{{Keys: 1, Polls: 1, Hook: true}, {Keys: 1, Polls: 1, Hook: true}, {Keys: 1}},
			Faults:   Faults{Cancel: 2},

			NoCancelTimeout: true,
		},
		{
			Name:     "limit: a poison command and its neighbours share one",
			Workers:  pair,
			Limits:   vm,
			Commands: []Command{{Keys: 1, Poison: true}, {Keys: 1}, {Keys: 1, Type: 1}},
			Restart:  true,
		},
		{
			Name:     "limit: two lines whose only worker is gone keep no newcomer waiting",
			Workers:  partly,
			Limits:   one,
			Commands: []Command{{Keys: 1}, {Type: 1, Keys: 1}, {Type: 2, Keys: 1}, {Keys: 1, Delayed: true}},
			Faults:   Faults{Crash: 1},
		},
		{
			Name:     "limit: a rate, and a cap beside it",
			Large:    true,
			Workers:  pair,
			Limits:   per,
			Commands: []Command{{Keys: 3, Retries: 1}, {Keys: 3, Type: 1}, {Keys: 1, Polls: 1, Hook: true}, {Keys: 2}},
			Faults:   Faults{Cancel: 1, Remove: 1},
		},
		{
			Name:     "limit: a rate and scope command, removed and added, a crash",
			Large:    true,
			Workers:  pair,
			Limits:   []Limit{{Max: 1, Rate: true}, {Max: 1, Command: true}},
			Commands: []Command{{Keys: 3, Polls: 1}, {Keys: 3, Type: 1}, {Queue: 1, Keys: 1}},
			Restart:  true,
			Faults:   Faults{Crash: 1, Remove: 1, Add: 1, PauseAll: 1, Resume: 1},
		},
		{
			Name:     "limit: no worker for a type, beside delete, lower and raise",
			Large:    true,
			Workers:  []Worker{{Intake: 1, Repoll: 1, Queues: 3, Types: 3}, {Intake: 1, Repoll: 1, Queues: 3, Types: 1}},
			Limits:   two,
			Commands: []Command{{Keys: 3, Polls: 1}, {Keys: 3, Type: 2}, {Queue: 1, Keys: 2, Type: 1}, {Keys: 1, Retries: 1}},
			Faults:   Faults{Delete: 1, Lower: 1, Raise: 1, Stall: 1},
		},
		{
			Name:     "limit: four commands in two queues, raise, cancel, pause, crash",
			Large:    true,
			Workers:  pair,
			Limits:   inv,
			Commands: []Command{{Keys: 1, Retries: 1}, {Keys: 3}, {Queue: 1, Keys: 3}, {Queue: 1, Keys: 2}},
			Faults:   Faults{Raise: 1, Cancel: 1, PauseAll: 1, Crash: 1},
		},
	} {
		all = append(all, both(sc)...)
	}
	return append(all,
		&Scenario{
			Name:     "limit: everything once, three commands",
			Large:    true,
			Workers:  partly,
			Limits:   two,
			Commands: all4[:3],
			Faults:   everything,
		},
		&Scenario{
			Name:     "limit: four commands, cancel, delete, pause, remove, crash",
			Large:    true,
			Workers:  partly,
			Limits:   two,
			Commands: all4,
			Faults:   Faults{Cancel: 1, Delete: 1, PauseAll: 1, Remove: 1, Crash: 1},
		},
		&Scenario{
			Name:     "limit: four commands, pause, lower, raise, remove, crash",
			Large:    true,
			Workers:  partly,
			Limits:   two,
			Commands: all4,
			Faults:   Faults{PauseAll: 1, Lower: 1, Raise: 1, Remove: 1, Crash: 1},
		},
		&Scenario{
			Name:     "limit: four commands, a rate beside a cap, cancel, delete, pause, remove",
			Large:    true,
			Workers:  partly,
			Limits:   per,
			Commands: all4,
			Faults:   Faults{Cancel: 1, Delete: 1, PauseAll: 1, Remove: 1},
		},
		&Scenario{
			Name:      "limit: everything once, four commands",
			Huge:      true,
			Workers:   partly,
			Limits:    two,
			Commands:  all4,
			Faults:    everything,
			MaxStates: 4_000_000,
		},
	)
}
