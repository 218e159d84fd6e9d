package model

import "fmt"

// A StepKind is what happens in one step.
type StepKind uint8

// The kinds of steps.
const (
	StepSubmit StepKind = iota
	StepClaim
	StepClaimAgain
	StepRenew
	StepSettle
	StepSettleAgain
	StepExpire    // a lease expires
	StepReap      // maintenance ends an expired lease
	StepDue       // a scheduled or parked command falls due
	StepHeartbeat // the heartbeat of a silent worker dies
	StepOldHeartbeat
	StepDeadline // a deadline passes
	StepTimeout  // the time for cancel visits is over
	StepEnd      // maintenance ends a command at rest
	StepRetest   // maintenance opens a filed line
	StepStand    // room has stood for a second
	StepPass     // a line that was called let room stand
	StepToken    // a rate has one more token
	StepPoison   // an invocation kills its process
	StepMark     // with PopBeforeLease: the lease of a popped command is recorded
	StepGiveAway // with GiveBackRunning: a running handler's command is given back
	StepCrash
	StepRestart
	StepStall
	StepContinue
	StepDrain
	StepExit
	StepCancel
	StepForce
	StepDelete
	StepPause
	StepResume
	StepRaise
	StepLower
	StepRemove
	StepAdd
)

var stepNames = [...]string{
	"submit", "claim", "repeat claim", "renew", "settle", "repeat settle", "lease expires", "reap", "due", "heartbeat dies",
	"old heartbeat dies", "deadline passes", "cancel timeout", "end at rest", "re-test", "room stands", "pass over", "token", "poison kills",
	"mark", "GIVE AWAY", "CRASH", "restart", "STALL", "continue", "DRAIN", "exit", "CANCEL", "FORCE", "DELETE", "PAUSE",
	"RESUME", "RAISE", "LOWER", "REMOVE", "ADD",
}

// A Fate is what became of a call besides its effect.
type Fate uint8

// The fates.
const (
	Arrived    Fate = iota
	ReplyLost       // committed, and the caller does not know
	NotSent         // failed before the commit, and the caller does not know
	RolledBack      // acknowledged, then undone by a fail-over
)

const noone uint8 = 7

// A step is one edge of the graph. who and cmd are noone where they do not apply; what is the outcome, queue or limit.
type step struct {
	kind StepKind
	who  uint8
	cmd  uint8
	what uint8
	fate Fate
	ans  Answer
	fair bool

	// For the checker alone, not packed.
	stale     bool // the lease that is settled is not the current one
	committed bool // this settle was committed before
}

// pack puts a step into 32 bits: kind 6, who 3, cmd 3, what 4, fate 2, answer 2, fair 1.
func (st step) pack() uint32 {
	n := uint32(st.kind)<<15 | uint32(st.who)<<12 | uint32(st.cmd)<<9 | uint32(st.what)<<5 | uint32(st.fate)<<3 | uint32(st.ans)<<1
	if st.fair {
		n |= 1
	}
	return n
}

func unpack(n uint32) step {
	return step{
		kind: StepKind(n >> 15), who: uint8(n >> 12 & 7), cmd: uint8(n >> 9 & 7), what: uint8(n >> 5 & 15),
		fate: Fate(n >> 3 & 3), ans: Answer(n >> 1 & 3), fair: n&1 != 0,
	}
}

// ofLimit reports whether the step is one of a limit alone; cmd is the limit then, so that each has its own fairness.
func (st step) ofLimit() bool { return st.kind == StepStand || st.kind == StepToken }

// action is what weak fairness counts by: what acts on what, whatever the outcome.
func action(n uint32) uint16 { return uint16(n >> 9) }

// String is the line of a trace.
func (st step) String() string {
	t := stepNames[st.kind]
	if st.who != noone {
		t += fmt.Sprintf(" w%d", st.who)
	}
	if st.cmd != noone && !st.ofLimit() {
		t += fmt.Sprintf(" c%d", st.cmd)
	}
	switch st.kind {
	case StepSettle, StepSettleAgain, StepGiveAway:
		t += " " + Outcome(st.what).String()
		if st.fate != NotSent {
			t += " -> " + st.ans.String()
		}
	case StepPause, StepResume:
		t += fmt.Sprintf(" q%d", st.what)
	case StepRaise, StepLower, StepRemove, StepAdd, StepStand, StepToken:
		t += fmt.Sprintf(" L%d", st.what)
	}
	return t + [...]string{"", " REPLY LOST", " FAILED BEFORE COMMIT", " then FAIL-OVER undoes it"}[st.fate]
}
