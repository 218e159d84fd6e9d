// Package twolane is a durable work queue for commands that live long.
//
// A command is a type and its params. [Client.Submit] hands it to a store, which keeps it whatever happens to any process; a
// [Worker] runs it with the handler of its type. What it starts may go on elsewhere for minutes or days: the handler answers
// [Processing] with a state to keep, and is called again to check, until it answers [Done] or [Fail]. In between the command
// holds nothing in any process: no goroutine, no permit, no lease.
//
//	client := twolane.NewClient(memstore.New(), nil) // or sqlitestore, redisstore
//	defer client.Close()
//	worker, err := twolane.NewWorker(client, twolane.WorkerConfig{})
//	twolane.Handle(worker, "launch", twolane.Handler[Launch, Machine]{Execute: start, Check: describe})
//	go func() { ended <- worker.Run(ctx) }() // until ctx ends; a handler that is wrong is its error
//
//	res, err := client.Submit(ctx, twolane.Submission{Type: "launch", Params: Launch{Image: "debian"}})
//	cmd, err := client.Wait(ctx, res.ID)
//
// # Life of a command
//
//	submit -> PENDING ------- claim (intake lane): Execute --+-- Done, Fail --> SUCCEEDED, FAILED
//	             ^                                           |
//	             +---- backoff ------------------- an error -+
//	             +---- the lease runs out ----- worker lost -+
//	                                                         +-- Processing(state, after) --+
//	                                                                                        |
//	          PROCESSING <------------------------------------------------------------------+
//	             |
//	             +---------- claim (repoll lane): Check -----+-- Done, Fail --> SUCCEEDED, FAILED
//	             ^                                           |
//	             +---- Processing, an error, worker lost ----+
//
// An error of a handler never ends a command by itself: it is tried again, with growing pauses. What ends it is its handler, a
// user ([Client.Cancel]: CANCELLED), its Deadline or StartBy, MaxFailures if it has one, or the repeated loss of its
// worker. [Client.Retry] brings FAILED and CANCELLED commands back.
//
// # Lanes
//
// New commands (Execute) and re-polls (Check) have separate permits and rates, and never borrow from each other: any number of
// PROCESSING commands leaves new ones their way, and any number of new ones leaves polls on time. A permit is taken before a
// command is claimed, and is given back when the handler returns.
//
// # Leases
//
// A worker has a command while it holds its lease, which it renews as long as the process lives. When the process
// dies, the lease runs out after the visibility timeout (20 seconds, a setting of the namespace) and any other worker runs the
// command again. Only who holds the lease can change the command; a stale owner is refused, and its handler's context has ended before.
// The name of the lease is a fencing token for the systems that a handler calls, and the command's id an idempotency key.
//
// # What is promised
//
//   - An acknowledged command is run, as long as the store keeps its promise of durability, until something of the above ends it.
//   - One live invocation per command, among processes that run and handlers that heed the end of their context. A process that was
//     stopped (a suspended machine) may overlap with its successor until it runs again; it then ends its handlers' contexts, and
//     what they answer is refused.
//   - Submit is idempotent by id, for at least 10 minutes beyond the command's end.
//   - Nothing waits in silence: [Client.Stats] shows what could run and why it does not, [Client.Explain] says it of one command, workers warn.
//   - Cancel, deadlines and pauses come to their end also without any worker, while some client is open.
//
// It is not promised that a handler runs exactly once: after the loss of a worker it runs again. Nor is there an order between commands
// that run at the same time, nor a schedule to the millisecond, nor a workflow engine: chains and fan-in are made of follow-ups
// ([Done]) and [Client.WaitGroup].
//
// # Where to find what
//
//   - To submit: [Submission], [Client.Submit], [Client.SubmitMany]; to wait: [Client.Wait], [Client.WaitGroup]. Ends for another system:
//     Submission.Notify and [Client.Outbox].
//   - To run: [Handle] or [HandleFunc], [Handler], [Job]; what a handler answers: [Done], [Processing], [Fail], [Snooze], [Throttled],
//     [Drop], or an error; [NewWorker], [WorkerConfig], [Middleware], [Hooks].
//   - To look: [Client.Get], [Client.List], [Client.All], [Client.Stats], [Client.Explain], [Worker.Health]; package metrics/prom shows the numbers to
//     Prometheus, and [Metrics] to anything else.
//   - To operate: [Client.Cancel], [Client.Retry], [Client.Delete], [Client.Purge], [Client.Move], [Client.Reprioritise], [Client.RunNow], by
//     [IDs] or [Matching] a [Filter]; [Client.Pause], [Client.Resume].
//   - To bound: rates and caps of queues with [Client.Configure], exact limits with [Client.SetLimit], and by signals from outside with gates
//     (package gate, WorkerConfig.Gates).
//   - To test: package twolanetest runs handlers in a program's own tests, in fake time.
package twolane
