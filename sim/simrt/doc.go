// Package simrt simulates with the real goroutines: the Worker and Client of the root package on a memstore behind faultstore, in a bubble of
// fake time (testing/synctest), under the race detector and on one processor.
//
// A seed decides what goes wrong and what handlers and users do, but goroutines that wake at one instant run in any order, so a seed does not
// replay exactly; package sim does, and looks deeper. Here the invariants are those that can be seen from outside:
//
//   - one-live: no handler of a command starts while another one runs whose context has not ended, unless a user broke its lease.
//   - permits: no worker runs more invocations of a lane than it has permits.
//   - nothing-lost: every command that was submitted and not deleted ends within 20 minutes after everything has healed.
//   - drain: Run returns within its budget and 2 s, with no handler at work it returns nil, and a report adds up.
//   - audit: Store.Audit finds nothing.
//   - leak: every goroutine has ended when worker, client and store are closed; the bubble would not end otherwise.
package simrt
