package model

// Small worlds that several scenarios share.
var (
	lone = []Worker{{Intake: 1, Repoll: 1, Queues: 3, Types: 255}}
	pair = []Worker{{Intake: 1, Repoll: 1, Queues: 3, Types: 255}, {Intake: 1, Repoll: 1, Queues: 3, Types: 255}}
	// partly is a worker that knows type 0 alone, beside one that knows all.
	partly = []Worker{{Intake: 1, Repoll: 1, Queues: 3, Types: 1}, {Intake: 1, Repoll: 1, Queues: 3, Types: 255}}
	wide   = []Worker{{Intake: 2, Repoll: 1, Queues: 3, Types: 255}}

	plain = Command{}
	long  = Command{Polls: 1}
	hook  = Command{Polls: 1, Hook: true}
)

// Scenarios are the worlds in which the design must hold, smallest fault first.
func Scenarios() []*Scenario {
	return append(lifeScenarios(), limitScenarios()...)
}

func lifeScenarios() []*Scenario {
	return []*Scenario{
		{
			Name:     "life: every outcome, first runs and re-runs",
			Workers:  pair,
			Commands: []Command{{Retries: 1, Polls: 1, Fails: true}, {Snoozes: 1, Retries: 1}, {Polls: 1, Delayed: true}, {Later: true}},
		},
		{
			Name:     "worker: crash, stall, restart",
			Large:    true,
			Workers:  pair,
			Commands: []Command{long, {Retries: 1}, plain},
			Restart:  true,
			Faults:   Faults{Crash: 1, Stall: 1},
		},
		{
			Name:     "worker: both crash, twice in all, and come back",
			Workers:  pair,
			Commands: []Command{long, plain},
			Restart:  true,
			Faults:   Faults{Crash: 3},
		},
		{
			Name:     "worker: two stalls beside lost replies",
			Large:    true,
			Workers:  pair,
			Commands: []Command{long, plain},
			Faults:   Faults{Stall: 2, LostSettle: 1, FailedSettle: 1},
		},
		{
			Name:     "reply: claims and settles are lost or fail, and repeat",
			Large:    true,
			Workers:  pair,
			Commands: []Command{{Polls: 1, Retries: 1}, plain, plain},
			Faults:   Faults{LostClaim: 1, LostSettle: 1, FailedSettle: 1},
		},
		{
			Name:     "reply: the claim is lost, then its worker crashes or stalls",
			Large:    true,
			Workers:  pair,
			Commands: []Command{long, plain},
			Restart:  true,
			Faults:   Faults{LostClaim: 1, Crash: 1, Stall: 1},
		},
		{
			Name:     "lease: deleted, submitted again, rolled back by a fail-over",
			Large:    true,
			Workers:  pair,
			Commands: []Command{{Retries: 1, Polls: 1}, plain},
			Faults:   Faults{Delete: 1, Resubmit: 1, FailOver: 1, Stall: 1, LostSettle: 1},
		},
		{
			Name:     "poison: it ends, its neighbours do not",
			Large:    true,
			Workers:  []Worker{{Intake: 3, Repoll: 1, Queues: 3, Types: 255}},
			Commands: []Command{{Poison: true}, plain, long, plain},
			Restart:  true,
		},
		{
			Name:     "poison: two workers",
			Workers:  []Worker{{Intake: 2, Repoll: 1, Queues: 3, Types: 255}, {Intake: 1, Repoll: 1, Queues: 3, Types: 255}},
			Commands: []Command{{Poison: true}, plain, long},
			Restart:  true,
		},
		{
			Name:      "poison: three losses before probation ends, crashes besides",
			Workers:   wide,
			Commands:  []Command{{Poison: true}, long},
			Restart:   true,
			MaxLosses: 4,
			Faults:    Faults{Crash: 1, Cancel: 1},
		},
		{
			Name:      "poison: the cancel hook of one kills its process",
			Workers:   []Worker{{Intake: 1, Repoll: 2, Queues: 3, Types: 255}},
			Commands:  []Command{{Parked: true, Hook: true, BadVisit: true}, {Parked: true}, plain},
			Restart:   true,
			MaxLosses: 4,
			Faults:    Faults{Cancel: 1},
		},
		{
			Name:     "cancel: at rest, leased, PROCESSING with and without a hook, force",
			Workers:  pair,
			Commands: []Command{hook, long, {Retries: 1}},
			Faults:   Faults{Cancel: 2, Force: 1},
		},
		{
			Name:     "cancel: crash, stall and lost replies on the way",
			Large:    true,
			Workers:  pair,
			Commands: []Command{{Polls: 1, Hook: true, Retries: 1}, plain},
			Faults:   Faults{Cancel: 1, Stall: 1, LostSettle: 1, Crash: 1},
		},
		{
			Name:     "cancel: a hook that always fails ends at its timeout",
			Workers:  pair,
			Commands: []Command{{Polls: 1, Hook: true, BadHook: true}, long},
			Faults:   Faults{Cancel: 2, Crash: 1},
		},
		{
			Name:            "cancel: visits pass the pause of both lanes",
			Workers:         pair,
			Commands:        []Command{hook, {Queue: 1, Polls: 1, Hook: true}, {Queue: 1, Polls: 1}},
			NoCancelTimeout: true,
			Faults:          Faults{Cancel: 2, PauseAll: 1, Resume: 1},
		},
		{
			Name:     "cancel: comes to an end without any worker",
			Workers:  lone,
			Commands: []Command{hook, {Type: 1, Polls: 1, Hook: true}, plain},
			Faults:   Faults{Cancel: 3, Crash: 1},
		},
		{
			Name:     "deadline: at rest, leased, with a hook, beside a cancel",
			Large:    true,
			Workers:  pair,
			Commands: []Command{{Deadline: true, Polls: 1, Hook: true}, {Deadline: true, Retries: 1}, {Polls: 1, Deadline: true}},
			Faults:   Faults{Deadline: 2, Cancel: 1},
		},
		{
			Name:     "deadline: crash, stall, pause, and no worker",
			Workers:  lone,
			Commands: []Command{{Deadline: true, Polls: 1}, {Deadline: true, Retries: 1}},
			Faults:   Faults{Deadline: 2, Crash: 1, Stall: 1, PauseAll: 1},
		},
		{
			Name:     "pause: intake or all, and resume",
			Workers:  pair,
			Commands: []Command{long, {Queue: 1, Polls: 1}, {Queue: 1, Retries: 1}},
			Faults:   Faults{Pause: 1, PauseAll: 1, Resume: 2, Cancel: 1},
		},
		{
			Name:     "delete: in every place, and the same id again",
			Workers:  pair,
			Commands: []Command{{Polls: 1, Retries: 1}, plain, long},
			Faults:   Faults{Delete: 2, Resubmit: 2},
		},
		{
			Name:     "drain: give back what has returned, then start again",
			Large:    true,
			Workers:  pair,
			Commands: []Command{long, {Retries: 1}, plain},
			Restart:  true,
			Faults:   Faults{Drain: 2, LostClaim: 1},
		},
		{
			Name:     "drain: while a settle is unanswered and a lease is lost",
			Large:    true,
			Workers:  pair,
			Commands: []Command{long, plain},
			Restart:  true,
			Faults:   Faults{Drain: 1, LostSettle: 1, FailedSettle: 1, Stall: 1, Cancel: 1},
		},
		{
			Name:     "types: one that a worker does not know, one that none knows",
			Workers:  []Worker{{Intake: 1, Repoll: 1, Queues: 3, Types: 1}, {Intake: 1, Repoll: 1, Queues: 1, Types: 3}},
			Commands: []Command{{Type: 2}, {Type: 1, Polls: 1}, {Queue: 1, Polls: 1}, {Type: 1}},
			Faults:   Faults{Stall: 1, Cancel: 1},
		},
		{
			Name:     "lanes: a new command beside polls without end",
			Workers:  lone,
			Commands: []Command{{Delayed: true}, {Forever: true}, {Forever: true}, {Forever: true}},
			Must:     1,
		},
		{
			Name:     "lanes: a poll beside new commands without end",
			Workers:  lone,
			Commands: []Command{{Polls: 2}, {Recurs: true}, {Recurs: true, Retries: 1}},
			Must:     1,
		},
		{
			Name:     "everything: four commands, two workers, crash, stall and cancel",
			Large:    true,
			Workers:  pair,
			Commands: []Command{hook, plain, {Queue: 1}, {Queue: 1, Type: 1}},
			Faults:   Faults{Crash: 1, Stall: 1, Cancel: 1},
		},
	}
}
