package store

import "time"

// ClaimRequest asks for work for all queues and both lanes of one worker.
type ClaimRequest struct {
	Worker string // incarnation
	Nonce  string // drawn anew for each claim call, the same when the call is repeated; 8 to 32 of [A-Za-z0-9]
	// Free is how many more invocations the worker can run, by lane. No lane is ever granted more.
	Free [2]int
	// Wants are served in order until their lane's Free is used up. The same queue and lane may come twice.
	Wants []Want
	// Ordered keeps a want that could be given more at once (see WhyMore) from being overtaken by those behind it in its lane: they get nothing.
	Ordered bool
	// Rooms are how many invocations may start in common of all types that name them, whatever their want. Cancel visits need none.
	Rooms []int
	// MaxBytes bounds the params and states of the reply; at least one command is granted whatever its size. 0 means 4 MiB.
	MaxBytes int
}

// Want is one queue and lane that the worker serves.
type Want struct {
	Queue string
	Lane  Lane
	Max   int        // invocations from this want
	Types []TypeWant // the only ones that it can run
	// Turn counts the intake invocations that the worker has had from this queue: every fourth prefers a re-run.
	Turn int
	// Suspect lets one command of class suspect in; it comes alone in its grant.
	Suspect bool
	// Visits asks for cancel visits alone, as if the queue was paused.
	Visits bool
}

// TypeWant is one type of a want.
type TypeWant struct {
	Type  string
	Batch int   // commands of one line that one invocation takes; 0 means 1
	Rooms []int // indexes of the request's rooms that an invocation of this type takes one place of
}

// ClaimReply is what a claim got.
type ClaimReply struct {
	MaintainReply
	Grants []Grant
	Wants  []WantReport // one for each want of the request, in its order
}

// Grant is the work of one invocation: one command, or a batch of commands of one line.
type Grant struct {
	Lane  Lane
	Class Class
	Items []*Command // in place Leased, with params and state
}

// WhyNot says why a want was not given more.
type WhyNot string

const (
	WhyFull      WhyNot = ""          // it was given all it asked for
	WhyEmpty     WhyNot = "empty"     // nothing else is eligible for these types
	WhyPaused    WhyNot = "paused"    // the queue is paused for this lane
	WhyRate      WhyNot = "rate"      // the next token of the lane's rate
	WhyThrottled WhyNot = "throttled" // a rate that throttling has lowered
	WhyLimit     WhyNot = "limit"     // the limits of every line that is left
	WhyMore      WhyNot = "more"      // bounded work or bytes stopped; ask again at once
)

// WantReport says how a want was served.
type WantReport struct {
	Granted int // invocations
	Why     WhyNot
	Detail  string        // name of the rate or limit
	Next    time.Duration // when that may change by time alone; 0 is unknown
}
