// Package model is an explicit-state model of the queue: places, leases, lines, limits, cancel, pause and reap, and
// the beliefs of the workers. A checker visits every state that a small scenario can reach and shows the shortest way
// into each one that breaks a promise. Nothing here talks to a store: the model is the design, small enough to be
// searched whole.
//
// # What a state is
//
// The store's records (one per command: status, place, lease, counters, memberships, where its line is filed) and what
// each worker process believes (the invocations that run in it, the settles that it has sent and not heard of, the
// permits that it holds). A lease name is a ghost number that no other lease of the command shares while anybody
// remembers it, which is what token and nonce together promise. Time is only ever "may have passed": a lease expires,
// a command falls due, a deadline comes, a re-test time comes, as steps of their own.
//
// # What a step is
//
// One atomic step of the store, or one event in a worker. Fair steps happen if they stay possible for ever: claims, the
// end of a handler, renewals, maintenance, the restart of a process that is restarted. All others are faults and the
// user's actions, and each spends from the budget of its scenario ([Faults]). A reply can be lost after the commit and a
// call can fail before it; both repeat later, by fair steps.
//
// # What is checked
//
// On each step: the kinds below, from [KindPlace] to [KindIdle]. On the whole graph:
//
//	CAN   from every state some path of fair steps alone reaches the goal            [KindStuck]
//	WILL  no weakly fair cycle stays outside the goal                                [KindStarved]
//	LANE  no fair cycle in which a lane has an eligible command and a free permit,
//	      and starts nothing                                                         [KindLane]
//
// The goal: every command is terminal or waits for a reason that the design allows (its queue is paused, no worker is
// left that knows its type, a limit is closed, or a limit is full of commands that wait so themselves). A cancelled
// command and one whose deadline has passed have no such excuse. Weak fairness counts steps by what acts on what (a
// claim by worker 0, a reap of command 2) and not by their outcome, so a handler may choose its answers as badly as its
// budget allows.
//
// # Lines and limits
//
// Commands alike to every limit stand in one line; only its head is tested. A head that meets a full limit, or one that
// older lines wait for, sends its line behind them. The oldest line filed under a limit owns what room there is: its
// re-test opens it. If nobody can use the room for a second it is anybody's, newcomers included, and each line that was
// opened and let it stand loses its place. [Scenario.NoHints] leaves the re-test alone to do all the work, which is the
// promise: a hint only speeds things up.
//
// A rate is a limit whose room is its tokens: a start takes one, and the next one comes as a fair step.
//
// # The checker is checked
//
// A [Bug] breaks one rule of the design; [Mutants] pairs each with a scenario and the kind of violation that must be
// found there. [Walk] turns the same steps into a sequence of plain operations with the answers to expect, for replay on
// real stores.
//
// # What is left out
//
// Amounts of time, batches, priorities, fair groups, the 3:1 turn of first runs and re-runs, costs above one,
// bounded maintenance, max_failures and start_by. A claim takes the command that has been eligible longest.
package model
