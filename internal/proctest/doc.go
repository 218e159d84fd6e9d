// Package proctest tests real processes on real stores: workers that are killed, stopped, drained and cut off, a Redis server that is
// stopped, killed, paused and failed over, and a SQLite file that processes share.
//
// The test binary runs itself again as a worker process. Every process, the test included, appends what it does at the store (submits, claims,
// renewals, settles and their answers) and in its handlers (start, end of the context, end) to a file of its own; the kernel keeps
// what a killed process has written. At the end the oracle reads all of it and checks:
//
//   - nothing is lost: every acknowledged submit has ended as it should, exactly once;
//   - no stale owner was listened to: the history of each command (submit, claims, renewals, settles, reads) is linearizable for
//     a register that compares the whole lease name;
//   - no two invocations of one command were live under current leases: when one starts, every other has ended, or its context has,
//     or its process is dead or was stopped;
//   - Store.Audit finds nothing.
//
// A Redis server that is killed, or failed over, may forget what it acknowledged shortly before: see lossy. Only there the oracle
// excuses a command, and only one that had an answer in that window.
//
// The visibility timeout is one second, two on SQLite, and more on a machine that is busy with other things. TWOLANE_CHAOS=full runs four times the rounds.
package proctest
