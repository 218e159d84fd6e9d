package store

// RenewRequest is the heartbeat of a worker: its registration and the leases of all that runs in it. A worker with many leases
// sends several; each carries the registration.
type RenewRequest struct {
	Worker Worker
	Leases []RenewItem
	// Gone takes the worker off; leases that it still has are then reaped as they expire. Until it registers again its claims are granted nothing:
	// one may still be on its way.
	Gone bool
}

// RenewItem is one lease to extend.
type RenewItem struct {
	ID       string
	Lease    LeaseName
	Progress []byte // stored if not nil; at most MaxProgress bytes
	Overdue  bool   // the handler ignores the end of its time; shown by Stats and explain
}

// Worker is what a worker says about itself. ID is the incarnation; the rest is for people and for "no worker" answers.
type Worker struct {
	ID      string
	Name    string
	Host    string
	PID     int
	Version string
	Started Millis
	Queues  []string
	Types   [2][]string // that it can run, by lane
	Permits [2]int
	Running [2]int
	// Draining workers claim nothing any more.
	Draining bool
	// Gates are those of its gates that hold something back, at most 50.
	Gates []GateState

	Seen    Millis // server time of the last Renew; set by the store
	Expires Millis // lease clock; set by the store
}

// RenewState is what became of one lease.
type RenewState uint8

const (
	RenewOK      RenewState = iota + 1
	RenewLost               // the name is not current: stop, its settle will be refused
	RenewRefused            // past its deadline and grace: it runs out, a settle is accepted until it is reaped
)

// RenewResult answers for one lease.
type RenewResult struct {
	State  RenewState
	Cancel bool // a cancel was asked for: end the invocation's context
}

// RenewReply answers a heartbeat. Results are in the request's order.
type RenewReply struct {
	MaintainReply
	Results []RenewResult
	Workers int // live workers of the namespace, this one included
}
