package store

import (
	"context"
	"time"
)

// MaxItems is the most items that one call takes; more is refused with [ErrInvalid].
const MaxItems = 1000

// Store is a durable store of the commands of one namespace. See the package comment for what holds for every method.
type Store interface {
	// Submit adds commands. It is idempotent by id: an id that is known with the same contents answers Created false and
	// no error, with other contents [ErrIDConflict]. Items are independent unless req.Atomic. An acknowledged item survives
	// what the store's durability promises.
	Submit(ctx context.Context, req SubmitRequest) ([]SubmitResult, error)

	// Claim hands out leases. The claim is the mark: a command is recorded as leased in the step that chose it. It first does
	// bounded maintenance for the whole namespace. A repeated claim with the nonce of the worker's last one gets those of
	// its leases that are still current, and nothing else. It never grants more invocations than wanted, never a
	// type that was not named, never a command whose start_by or deadline has passed.
	Claim(ctx context.Context, req ClaimRequest) (ClaimReply, error)

	// Renew extends leases, registers the worker (or takes it off), stores progress, and does bounded maintenance. It answers
	// for each lease; a lease is extended only if its whole name is current. An expired lease that nobody has reaped is renewed.
	Renew(ctx context.Context, req RenewRequest) (RenewReply, error)

	// Settle ends leases, each with an outcome, if the whole lease name is current; a stale owner changes nothing. The same
	// settle again answers SettleAlready as long as the record's last settled lease is that one.
	Settle(ctx context.Context, req SettleRequest) ([]SettleResult, error)

	// Cancel asks for the end of commands: at rest they end in this step, unless a cancel visit is due; leased ones are marked, and
	// their owner is told with its next Renew and, if it can be, by a wake-up. Force ends any command in any place in this step.
	Cancel(ctx context.Context, req CancelRequest) ([]CancelResult, error)

	// Act does operator work (retry, delete, move, …) on named commands or on a bounded piece of those that a filter matches.
	Act(ctx context.Context, req ActRequest) (ActReply, error)

	// Get reads commands, one consistent snapshot each; a missing one is nil at its index. A command whose deadline or start_by
	// has passed at rest reads as ended, also before maintenance has written it.
	Get(ctx context.Context, ids []string, opt GetOptions) ([]*Command, error)

	// List reads a page of commands without their blobs. Finished ones come newest end first, live ones in an order of the store's
	// choice in which a command that stays where it is appears once. A page may be short or empty while Cursor is set.
	List(ctx context.Context, req ListRequest) (ListPage, error)

	// Stats reads numbers for people and metrics. Its work is bounded: where a number is a lower bound it says so.
	Stats(ctx context.Context, req StatsRequest) (Stats, error)

	// Config reads the configuration of the namespace.
	Config(ctx context.Context) (Config, error)

	// Configure replaces the configuration if its version is still expect (else [ErrConfigConflict]) and returns it with its
	// new version. What it lowers evicts nobody.
	Configure(ctx context.Context, expect uint64, cfg Config) (Config, error)

	// Limit reads one counted value of a limit; ErrNotFound if no such limit is in force.
	Limit(ctx context.Context, key LimitKey) (LimitState, error)

	// Outbox removes acknowledged entries of a topic and then reads up to Max others, hiding them from other readers for a while.
	Outbox(ctx context.Context, req OutboxRequest) ([]OutboxEntry, error)

	// Maintain does what Claim and Renew do besides: bounded maintenance of the whole namespace. It is the tick of a process that
	// runs no worker.
	Maintain(ctx context.Context) (MaintainReply, error)

	// Watch returns best-effort wake-ups. With every one of them dropped polling alone works.
	Watch(ctx context.Context) (Watcher, error)

	// Audit proves every invariant on the whole store, also a live one, and reports what it found.
	Audit(ctx context.Context) (AuditReport, error)

	// Close waits for calls under way and releases what the store holds. Calls after it fail with [ErrClosed].
	Close() error
}

// Describer is implemented by stores that can say what they are.
type Describer interface {
	// Describe says what the store is, and what its settings mean for durability and for the visibility timeout.
	Describe(ctx context.Context) (Description, error)
}

// Description is the answer of a [Describer].
type Description struct {
	Kind       string   // "memory", "sqlite", "redis", …
	Version    string   // of the server or library
	Durability string   // what an acknowledgement means, in a few words
	Warnings   []string // what an operator should change, one sentence each
}

// Clocker is implemented by stores whose clock a test may own.
type Clocker interface {
	// SetClock fixes the server time of the whole namespace at t; zero gives the real clock back.
	SetClock(ctx context.Context, t Millis) error
}

// MaintainReply answers [Store.Maintain]; Claim and Renew carry the same.
type MaintainReply struct {
	Now Millis // server time of the step
	// More is true if bounded maintenance has left work: come again at once.
	More bool
	// Next is how long until something may happen by time alone (a due time, a token, the end of a pause, a lease's end, a
	// deadline); 0 says that nothing is known.
	Next time.Duration
	// Reaped, Expired and Promoted say what this step did.
	Reaped, Expired, Promoted, Purged int
	// Lost and ClaimLost are how many of the reaped leases were losses of a worker, and how many were not.
	Lost, ClaimLost int
	// ConfigVersion is the version of the configuration that the step used.
	ConfigVersion uint64
	// Visibility is the namespace's visibility timeout.
	Visibility time.Duration
}

// AuditReport is the answer of [Store.Audit].
type AuditReport struct {
	Commands   int      // records looked at
	Leased     int      // leases looked at
	Violations []string // what is wrong, each with the id or key; empty is good
}
