package model

// A Mutant is a world with one rule broken, and what the checker must say about it.
type Mutant struct {
	Scenario *Scenario
	Want     Kind
}

// Mutants prove that the checker can fail: each kind of violation and each [Bug] is among them.
func Mutants() []Mutant {
	return append(lifeMutants(), limitMutants()...)
}

func mutant(b Bug, want Kind, sc Scenario) Mutant {
	sc.Name, sc.Bug = "mutant: "+b.String(), b
	if sc.Workers == nil {
		sc.Workers = pair
	}
	return Mutant{&sc, want}
}

func lifeMutants() []Mutant {
	short := []Command{{Retries: 1}}
	return []Mutant{
		mutant(SkipLeaseCompare, KindStale, Scenario{Workers: wide, Commands: short, Faults: Faults{Stall: 1}}),
		mutant(TokenWithoutNonce, KindTwoLive, Scenario{Commands: short, Faults: Faults{FailOver: 1}}),
		mutant(OneSharedLane, KindStarved, Scenario{
			Workers: lone, Commands: []Command{{Delayed: true}, {Forever: true}, {Forever: true}, {Forever: true}}, Must: 1,
		}),
		mutant(BorrowPermit, KindBorrow, Scenario{Workers: lone, Commands: []Command{plain, plain}}),
		mutant(FirstLaneOnly, KindLane, Scenario{
			Workers:  []Worker{{Intake: 1, Repoll: 2, Queues: 3, Types: 255}},
			Commands: []Command{{Delayed: true}, {Forever: true}, {Forever: true}}, Must: 1,
		}),
		mutant(PopBeforeLease, KindPlace, Scenario{Commands: short, Faults: Faults{Crash: 1}}),
		mutant(LossWhileOwnerLives, KindCounters, Scenario{Commands: short, Faults: Faults{LostClaim: 1}}),
		mutant(ReapLiveOwner, KindLiveOwner, Scenario{Commands: short}),
		mutant(GiveBackRunning, KindGivenAway, Scenario{Commands: short, Faults: Faults{Drain: 1}}),
		mutant(StartTwice, KindTwice, Scenario{
			Workers: wide, Commands: short, Faults: Faults{Stall: 1},
		}),
		mutant(ForgetSettled, KindSettle, Scenario{Commands: short, Faults: Faults{LostSettle: 1}}),
		mutant(ForgetClaim, KindClaim, Scenario{Commands: short, Faults: Faults{LostClaim: 1}}),
		mutant(ForgetPermit, KindPermits, Scenario{Commands: short}),
		mutant(KeepLease, KindLease, Scenario{Commands: []Command{{Snoozes: 1}}}),
		mutant(IgnorePause, KindForeign, Scenario{Commands: short, Faults: Faults{Pause: 1}}),
		mutant(SuspectsTogether, KindSuspects, Scenario{
			Workers: wide, Commands: []Command{{Poison: true}, plain}, Restart: true,
		}),
		mutant(CancelNotSuspect, KindNeighbour, Scenario{
			Workers:  []Worker{{Intake: 1, Repoll: 2, Queues: 3, Types: 255}},
			Commands: []Command{{Parked: true, Hook: true, BadVisit: true}, {Parked: true}}, Restart: true, Faults: Faults{Cancel: 1},
		}),
		mutant(HostIdentity, KindStarved, Scenario{Workers: lone, Commands: []Command{{Poison: true}}, Restart: true}),
		mutant(CancelStopsAtPause, KindStuck, Scenario{
			Commands: []Command{hook}, NoCancelTimeout: true, Faults: Faults{Cancel: 1, PauseAll: 1},
		}),
		mutant(NoCancelEnd, KindStuck, Scenario{
			Commands: []Command{{Polls: 1, Hook: true, BadHook: true}}, Faults: Faults{Cancel: 1},
		}),
		mutant(DeadlineNeedsWorker, KindStuck, Scenario{
			Workers: lone, Commands: []Command{{Deadline: true}}, Faults: Faults{Deadline: 1, Crash: 1},
		}),
		mutant(DeleteKeepsLease, KindStale, Scenario{Commands: short, Faults: Faults{Delete: 1}}),
		mutant(ForceKeepsLease, KindTerminal, Scenario{Commands: short, Faults: Faults{Force: 1}}),
	}
}

func limitMutants() []Mutant {
	three := []Command{{Keys: 1}, {Keys: 1, Type: 1}, {Keys: 1, Type: 2}}
	return []Mutant{
		mutant(ForgetRetest, KindStuck, Scenario{Limits: one, Commands: three, NoHints: true}),
		mutant(NeverPass, KindStuck, Scenario{
			Workers: partly, Limits: one, Commands: []Command{{Keys: 1}, {Type: 1, Keys: 1}, {Keys: 1}}, Faults: Faults{Crash: 1},
		}),
		mutant(PassedKeepsClaim, KindStarved, Scenario{
			Workers: partly, Limits: inv, Commands: []Command{{Keys: 3}, {Type: 1, Keys: 1}, {Type: 1, Keys: 2}, {Keys: 3}}, Faults: Faults{Crash: 1},
		}),
		mutant(RoomIsKept, KindIdle, Scenario{
			Workers: partly, Limits: one, Commands: []Command{{Keys: 1}, {Type: 1, Keys: 1}, {Keys: 1, Delayed: true}}, Faults: Faults{Crash: 1},
		}),
		mutant(ForgetToken, KindLimit, Scenario{Limits: []Limit{{Max: 1, Rate: true}}, Commands: three}),
		mutant(NewcomerTakesRoom, KindStarved, Scenario{
			Limits: one, Commands: []Command{{Keys: 1, Delayed: true}, {Keys: 1, Forever: true}, {Keys: 1, Forever: true}}, Must: 1, NoHints: true,
		}),
		mutant(HoldersInLine, KindStuck, Scenario{Limits: vm, Commands: []Command{{Keys: 1}, {Keys: 1}}, Restart: true, Faults: Faults{Crash: 1}}),
		mutant(PollsWait, KindStarved, Scenario{
			Limits:   []Limit{{Max: 1, Command: true, Absent: true}},
			Commands: []Command{{Keys: 1, Parked: true}, {Keys: 1, Type: 1, Forever: true}}, Must: 1, Faults: Faults{Add: 1},
		}),
		mutant(LeakMembership, KindMembership, Scenario{Limits: one, Commands: []Command{{Keys: 1, Retries: 1}}}),
		mutant(CountOnce, KindLimit, Scenario{Workers: wide, Limits: one, Commands: three}),
		mutant(TakeOneByOne, KindMembership, Scenario{Limits: inv, Commands: []Command{{Keys: 2}, {Keys: 3}, {Keys: 1}}}),
	}
}

// Known are worlds in which the design as it stands breaks a promise that it does not make. They are explored so that a
// change of the rules shows. The one below is a price: whoever needs two limits would get both only if room of the first
// stood idle for as long as the members of the second run, and the design promises that room idles for a second at most.
func Known() []Mutant {
	return []Mutant{{
		Want: KindStarved,
		Scenario: &Scenario{
			Name:     "known: a command that needs two limits beside streams that need one each is passed over for ever",
			Workers:  pair,
			Limits:   inv,
			Commands: []Command{{Keys: 3, Delayed: true}, {Keys: 1, Recurs: true}, {Keys: 2, Recurs: true}},
			Must:     1,
		},
	}}
}
