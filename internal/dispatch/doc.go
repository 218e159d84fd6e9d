// Package dispatch is the worker below the typed API: it claims, starts, renews, settles and drains.
//
// # Core and shell
//
// [Core] decides everything and does nothing: it has no goroutine, clock, lock or I/O. Its methods take what has happened
// (a reply, an end, a wake-up) together with the time, and [Core.Step] returns the [Actions] that follow. [Loop] is the
// shell: one goroutine owns the core, one short goroutine makes each store call, one runs each invocation, and Run returns when all that
// can end have ended. The simulator drives the same core from an event heap.
//
// # Permits
//
// A lane's permits are held by invocations and by a claim in flight, and by nothing else: free = permits - held - asked. A claim never
// asks for more than is free, so no command waits here with its lease running. An invocation gives its permit back when its handler has
// returned; what it answered is settled after that, without a permit, and its lease is renewed until the store has answered.
//
// # Leases
//
// A lease is counted from when the last acknowledged claim or renewal was sent. With V the visibility timeout: a tick every V/4 renews all
// that is held, in two tries V/8 apart; at sent + 7/8 V the context of the invocation ends with [ErrLeaseLost]. The outcome of such an
// invocation is still offered: the store compares the lease name, and nothing is counted as a failure.
//
// # What a call costs
//
// One claim call and one settle call are in flight at most. What becomes free or ends meanwhile is gathered for the next.
package dispatch
