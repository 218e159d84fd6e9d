// Package cloudsim is a simulated cloud API for demos and tests: long-running tasks behind a rate limit.
//
// A [Cloud] is the state: tasks, one token bucket for all calls, what went wrong. Its methods take the time, so a test needs
// no clock. A [Server] puts it on a loopback port with latency, and a [Client] calls it. As with real clouds a start call takes
// its time, honours an idempotency key, and may fail before or after it has had its effect; a describe call takes up to
// [MaxDescribe] ids; a call over the rate is answered 429 with Retry-After.
//
// Beside the tasks it keeps the books that only an outsider can keep: a worker announces each invocation with Begin and End
// (these cost no token), and the cloud counts a duplicate run when two invocations of one command are alive at once, or when a
// command that has a task gets a second one. The process that runs the cloud outlives the workers; when it has seen one die it
// says so with [Cloud.WorkerGone].
//
// Randomness is drawn from the seed and the name of the thing (a task's duration from its key, an error from the key and the
// number of the call), so it does not depend on the order in which concurrent calls arrive.
package cloudsim
