// Package sim is a simulator of workers, clients and one store. It runs in one goroutine on an event heap: nothing in it reads a clock,
// starts a goroutine or iterates over a map where the order could show, and every choice comes from one seed, so a seed replays exactly.
//
// The workers are cores of internal/dispatch, driven as their shell drives them. The store is a memstore behind a network that fails, drops
// replies, delays, hangs, and delivers calls whose caller has given up. Handlers end in every way there is. Processes crash, are killed
// by their own commands, are stopped, drain and start again; the server's clock steps by up to an hour; the store goes away; users submit
// (the same id twice too), cancel, force, delete, retry, move, pause, and change rates.
//
// An oracle sees every step of the store and every start and end of a handler, keeps its own books of leases, counters, clocks and rates, and
// compares. When the chaos is over everything heals, and what is then left tells what was lost. Replay a seed that failed with
//
//	go test ./sim -run TestSeed -seed=N -v
//
// # Invariants
//
// A [Violation] names one of these.
//
//   - nothing-lost: every command that was submitted and not deleted is there, and ends within 4 minutes after the chaos is over, or 20 if one kills
//     its process.
//   - one-live: no lease is run twice, no worker starts an id that runs in it, and no command has two handlers at work unless a user broke
//     the older one's lease, or its process was stopped or the server's clock stepped forward meanwhile.
//   - fence: the worker that holds a lease has ended the context V/8 before the lease can be reaped, under the same conditions.
//   - lease: a lease is reaped when it has not been renewed for V on the lease clock, and not earlier; a renewal is taken if and only
//     if the whole name is current; tokens grow; a claim that is repeated brings no new lease;
//     a worker that lives and reaches the store renews each lease that it was given every V/4 + V/8 + 1 s.
//   - stale-owner: a settlement is taken if and only if the whole lease name is current.
//   - contents: a handler gets the params that were submitted and the state that was saved last.
//   - counters: starts, failures, losses and polls of a command are what its outcomes and the deaths of its owners make them, and what is
//     settled is what was answered; what is to cost nothing costs nothing. A reaped lease is a loss only if its owner's heartbeat was over.
//   - rate: the claims of a queue's lane never exceed rate x t + burst in any window on the run clock.
//   - permits: no lane runs more invocations than it has permits, no claim brings more than it asked for, and at the end none is held.
//   - starvation: a command that is eligible, with a free permit of its lane in a worker that can run it and can reach the store, and with
//     a token, is started within 1.1 polls + 500 ms. 1.1 polls is the longest sleep of an idle worker; the rest is for two
//     message delays, the promotion by another's claim, the spread of up to 250 ms between many workers, and the 100 ms between claims that bring
//     nothing. A worker counts as able to reach the store from 5.5 s after its last fault: the longest pause after failures.
//   - polls-on-time: with nothing wrong a poll starts within 250 ms of its due time, and a new command within 250 ms of its submit.
//   - cancel-ends: with a heartbeat that comes through, a cancel ends the context of a running invocation within V/4 + V/8 + 1 s.
//   - deadline: time ends a command at rest within 2.5 s while somebody does upkeep; the context of a leased one ends
//     at the deadline, or later by what the answer to the claim was on its way.
//   - silent: a lane without any start for 4 patiences + 6 s though commands are eligible has been warned of by each worker that serves it.
//   - drain: a drain is over within its budget, and its report adds up.
//   - idle: a worker with nothing to do makes at most 1.2 claims per poll interval, 4.4 renewals per V and half a call a second for the rest (less
//     than 2 a second in all with the defaults); none makes more than 150 in a second, or steps without end.
//   - gates: a claim asks for nothing but cancel visits under a gate that is closed, and what gates count is never less than the handlers that run
//     under them nor more than the permits. In runs with gates nobody is said to starve before they were opened for good.
//   - audit: Store.Audit finds nothing, every 200 events and at the end.
package sim
