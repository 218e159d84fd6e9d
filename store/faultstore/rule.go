package faultstore

import (
	"errors"
	"time"
)

// ErrInjected is the error of a call that a [Rule] without an error of its own let fail.
var ErrInjected = errors.New("injected fault")

// Op names an operation of a store.
type Op string

// The operations. Wake is one wake-up on its way from the store to a watcher.
const (
	Submit    Op = "submit"
	Claim     Op = "claim"
	Renew     Op = "renew"
	Settle    Op = "settle"
	Cancel    Op = "cancel"
	Act       Op = "act"
	Get       Op = "get"
	List      Op = "list"
	Stats     Op = "stats"
	Config    Op = "config"
	Configure Op = "configure"
	Limit     Op = "limit"
	Outbox    Op = "outbox"
	Maintain  Op = "maintain"
	Watch     Op = "watch"
	Audit     Op = "audit"
	Wake      Op = "wake"
)

// Ops lists every operation that a rule without Ops is about: all but Audit and Wake.
var Ops = []Op{Submit, Claim, Renew, Settle, Cancel, Act, Get, List, Stats, Config, Configure, Limit, Outbox, Maintain, Watch}

// Fault is what goes wrong.
type Fault uint8

const (
	// FailBefore: the step is not made, the call fails. A wake-up is dropped.
	FailBefore Fault = iota + 1
	// DropReply: the step is made, its answer is lost, the call fails.
	DropReply
	// Delay: the step is made after Rule.Delay. If the context ends before, it is not made.
	Delay
	// Hang: the call blocks until its context ends, and the step is not made, or until Heal, and it is made then.
	Hang
	// HangReply: the step is made, then the call blocks until its context ends, or until Heal, and answers then.
	HangReply
)

func (f Fault) String() string {
	return [...]string{"none", "fail_before", "drop_reply", "delay", "hang", "hang_reply"}[min(int(f), 5)]
}

// Rule says which calls get which fault. Of several rules that match a call the one that was injected first decides.
type Rule struct {
	Ops   []Op // empty: all of [Ops]
	Fault Fault
	Err   error         // what a failed call returns; nil means [ErrInjected]
	Delay time.Duration // of Delay
	// Match narrows the rule to some calls; it must be a pure function of the call.
	Match func(Call) bool
	// P is the probability that a matching call is hit; 0 means always. The seed, the operation and the call's number decide.
	P float64
	// Skip lets so many calls pass that would have been hit.
	Skip int
	// Count is how many calls are hit before the rule is spent; 0 means all until Heal.
	Count int
}

// Call is one call of a store.
type Call struct {
	Op  Op
	N   int // the how-manieth call of this operation, from 1
	Req any // the request: store.SubmitRequest for Submit and so on; nil where there is none
}
