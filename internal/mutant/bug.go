// Package mutant holds known bugs that the tests must notice.
//
// A place where a bug can be built in asks [On]. In an ordinary build that is the constant false and the compiler removes the question together
// with the bug. With the build tag mutants the environment variable TWOLANE_MUTANT names the one bug that is there. Package mutants
// runs, for each of them, the test that must fail.
package mutant

// Env is the environment variable that names the bug of a build with the tag mutants.
const Env = "TWOLANE_MUTANT"

// Bug is one known bug. Its text is what Env is set to.
type Bug string

// Bugs of a store.
const (
	// SkipLeaseCompare renews and settles for whoever knows the id of a leased command.
	SkipLeaseCompare Bug = "skip-lease-compare"
	// TokenWithoutNonce compares the token of a lease and not its nonce.
	TokenWithoutNonce Bug = "token-without-nonce"
	// ZeroVisibility lets a new lease end in the moment in which it begins.
	ZeroVisibility Bug = "zero-visibility"
	// PopBeforeLease takes a command from its place without a lease that a reaper could find: the first renewal records one, and until
	// then a lost reply or a dead worker loses the command.
	PopBeforeLease Bug = "pop-before-lease"
	// LossThoughOwnerLives counts every reaped lease as a loss of the worker.
	LossThoughOwnerLives Bug = "loss-though-owner-lives"
	// ReapWithoutRecheck reaps by what was known before the call, though the call itself renews the lease.
	ReapWithoutRecheck Bug = "reap-without-recheck"
	// ForgetSettled does not remember which lease was settled last: a repeated settle is called lost.
	ForgetSettled Bug = "forget-settled"
	// RateTokenGivenBack gives a token back with a command that is given back.
	RateTokenGivenBack Bug = "rate-token-given-back"
	// DropWakeUp tells nobody of new work.
	DropWakeUp Bug = "drop-wake-up"
	// DropEndWakeUp tells nobody of an end.
	DropEndWakeUp Bug = "drop-end-wake-up"
	// LeasesOnServerTime judges leases by the server time: an outage costs every owner its lease.
	LeasesOnServerTime Bug = "leases-on-server-time"
	// ForgetNonce forgets the nonce of the last claim: a repeated one gets other commands.
	ForgetNonce Bug = "forget-nonce"
	// RetryForgetsDeadline lets a failed command wait beyond its deadline.
	RetryForgetsDeadline Bug = "retry-forgets-deadline"
)

// Bugs of limits.
const (
	// SkipRoomTest admits whatever comes.
	SkipRoomTest Bug = "skip-room-test"
	// FirstLimitOnly tests the first of the limits of a command.
	FirstLimitOnly Bug = "first-limit-only"
	// BatchTestsOnce tests the first command of a batch for all of it.
	BatchTestsOnce Bug = "batch-tests-once"
	// ForgetHold leaves a command a member of its limits when its lease ends.
	ForgetHold Bug = "forget-hold"
	// LostWorkerGivesBack gives back the slot of scope command of a command whose worker was lost.
	LostWorkerGivesBack Bug = "lost-worker-gives-back"
	// HolderWaits lets who kept a slot wait for it.
	HolderWaits Bug = "holder-waits"
	// VisitWaits lets a cancel visit wait for limits.
	VisitWaits Bug = "visit-waits"
	// ForgetUnfile leaves the line of a granted command filed.
	ForgetUnfile Bug = "forget-unfile"
	// DropHint tells nobody of room.
	DropHint Bug = "drop-hint"
	// ForgetRetest looks at what is filed only when room is made.
	ForgetRetest Bug = "forget-retest"
	// NewcomerTakesRoom gives room to whoever asks first.
	NewcomerTakesRoom Bug = "newcomer-takes-room"
	// RoomIsKept keeps room for its line however long it stands.
	RoomIsKept Bug = "room-is-kept"
	// ForgetLimitToken takes no token of a rate limit.
	ForgetLimitToken Bug = "forget-limit-token"
	// ForgetTurn serves one group of a fair queue for ever.
	ForgetTurn Bug = "forget-turn"
)

// Bugs of a worker.
const (
	// SharedLane lets a lane take the free permits of the other.
	SharedLane Bug = "shared-lane"
	// ForgetPermit keeps the permit of an invocation whose every lease was refused before its handler began.
	ForgetPermit Bug = "forget-permit"
	// ForgetWakeUp forgets a wake-up that comes while a claim is in flight.
	ForgetWakeUp Bug = "forget-wake-up"
	// GiveBackRunning gives back at a drain what still runs.
	GiveBackRunning Bug = "give-back-running"
	// LostReplyIsFailure counts an outcome as a failure of the command when the answer to its settle was lost.
	LostReplyIsFailure Bug = "lost-reply-is-failure"
	// FenceFromReply counts a lease from the answer to the renewal instead of from its sending.
	FenceFromReply Bug = "fence-from-reply"
	// StartTwice starts a command that still runs in this worker.
	StartTwice Bug = "start-twice"
	// DrawNewNonce repeats a claim whose answer was lost under a new nonce.
	DrawNewNonce Bug = "draw-new-nonce"
	// StopRenewAtDrain lets the leases of running invocations run out during a drain.
	StopRenewAtDrain Bug = "stop-renew-at-drain"
)
