package model

// A Bug is one rule of the design broken on purpose, to prove that the checker can fail.
type Bug uint8

// The bugs. Each is reported for at least one scenario of [Mutants].
const (
	NoBug               Bug = iota
	SkipLeaseCompare        // settle and renew accept any lease name
	TokenWithoutNonce       // a lease name is the counter alone, which a fail-over takes back
	OneSharedLane           // one budget of permits for both lanes, polls first
	BorrowPermit            // a lane without free permits takes those of the other
	FirstLaneOnly           // a claim call that found polls does not look at the intake lane
	PopBeforeLease          // a claim removes the command, and records the lease in a later step
	LossWhileOwnerLives     // each expired lease is a loss
	ReapLiveOwner           // a lease expires though its owner renews it (visibility zero)
	GiveBackRunning         // drain gives back a command whose handler still runs
	StartTwice              // a worker starts an id that still runs in it
	ForgetSettled           // the store does not remember the last settle, nor asks whether this is a retry
	ForgetClaim             // a claim repeated with its nonce claims anew
	ForgetPermit            // the permit of an invocation that ends with an error stays taken
	KeepLease               // a snooze moves the command and leaves its lease
	IgnorePause             // re-runs are claimed from a paused queue
	SuspectsTogether        // suspects run beside each other
	CancelNotSuspect        // the cancel visit of a suspect is not treated as one
	HostIdentity            // a restarted process is taken for the one before it
	CancelStopsAtPause      // cancel visits wait for the end of a pause
	NoCancelEnd             // cancel visits are retried for ever
	DeadlineNeedsWorker     // only a worker that serves the command ends it at its deadline
	DeleteKeepsLease        // a settle of a deleted command brings it back
	ForceKeepsLease         // a settle of a command that was ended by force ends it again
	ForgetRetest            // a filed line is opened by hints only
	NeverPass               // the oldest filed line keeps its claim to room that it cannot use
	PassedKeepsClaim        // a passed line goes to the tail, and keeps newcomers out from there
	RoomIsKept              // room that has stood for a second still waits for its line
	NewcomerTakesRoom       // room belongs to whoever comes first
	HoldersInLine           // holders of a slot stand in one line with those that need it
	PollsWait               // PROCESSING waits for a limit of scope command that came later
	LeakMembership          // an error does not give capacity back
	CountOnce               // a claim call counts the members of a limit once, at its start
	ForgetToken             // a start takes no token of a rate
	TakeOneByOne            // limits are taken one by one and kept while the next is full
	endOfBugs
)

var bugNames = [...]string{
	NoBug: "none", SkipLeaseCompare: "skip the lease compare", TokenWithoutNonce: "token without nonce",
	OneSharedLane: "one shared lane", BorrowPermit: "lanes borrow", FirstLaneOnly: "one lane in a call",
	PopBeforeLease: "pop before lease", LossWhileOwnerLives: "loss although the owner lives",
	ReapLiveOwner: "visibility zero", GiveBackRunning: "give back a running handler", StartTwice: "start an id that still runs here",
	ForgetSettled: "forget the last settle", ForgetClaim: "forget the last claim", ForgetPermit: "forget a permit",
	KeepLease: "leave a lease behind", IgnorePause: "ignore a pause",
	SuspectsTogether: "suspects together", CancelNotSuspect: "cancel visit of a suspect is no suspect",
	HostIdentity: "worker identity outlives its process", CancelStopsAtPause: "cancel without passing pause",
	NoCancelEnd: "cancel visits for ever", DeadlineNeedsWorker: "deadline at rest needs a worker",
	DeleteKeepsLease: "delete keeps the lease", ForceKeepsLease: "force keeps the lease", ForgetRetest: "forget a re-test", NeverPass: "never pass an oldest line",
	PassedKeepsClaim: "a passed line keeps its claim at the tail", RoomIsKept: "room that stood is kept", ForgetToken: "start without a token",
	NewcomerTakesRoom: "newcomer takes the room", HoldersInLine: "holders in one line with the others",
	PollsWait: "PROCESSING waits for a new limit", LeakMembership: "leak a membership", CountOnce: "count members once a call", TakeOneByOne: "take limits one by one",
}

// String names the broken rule.
func (b Bug) String() string { return bugNames[b] }
