package store

import (
	"fmt"
	"time"
)

// By says which of the commands that a limit covers count together.
type By uint8

const (
	ByAll   By = iota // all of them
	ByQueue           // those of one queue
	ByType            // those of one type
	ByGroup           // those of one group; without one, the group ""
	ByKey             // those with one value of the declared key Limit.Key; without it the limit does not apply
)

// Scope says from when to when a command counts.
type Scope uint8

const (
	// ScopeInvocation: while it is leased.
	ScopeInvocation Scope = iota
	// ScopeCommand: from its first claim until it is terminal or an outcome that a handler returned left it PENDING. A command whose
	// worker was lost goes on counting, since what it started may exist.
	ScopeCommand
)

// Limit is an exact cap kept in the store: how many commands may be active, or, with a Rate, how many invocations may start per time.
// Membership is by command id and changes in the step that changes the place.
type Limit struct {
	Name   string
	Queues []string // that it covers; empty means all
	By     By
	Key    string // name of the declared key, with ByKey
	Max    int    // members at most; a command of cost c is c members. 0 closes.
	Scope  Scope
	// Rate, if above 0, makes it a rate limit: at most Rate x t/Per + Burst starts in any window t. Max and Scope are then 0.
	Rate  float64
	Per   time.Duration // 0 means one second
	Burst int           // 0 means max(1, a tenth of Rate)
	// Values gives single values another Max (or, for a rate limit, closes them with 0).
	Values map[string]int
	// Until ends the limit at that server time, as a gate needs that closes a key for a while; 0 means never.
	Until Millis
	// Classify admits what is over Max all the same and marks it as overflow.
	Classify bool
}

// LimitKey names one counted value of a limit.
type LimitKey struct{ Limit, Value string }

func (k LimitKey) String() string {
	if k.Value == "" {
		return k.Limit
	}
	return k.Limit + "=" + k.Value
}

// Hold is one membership of a command.
type Hold struct {
	LimitKey
	Scope Scope
}

// LimitState is what the store knows of one counted value of a limit.
type LimitState struct {
	Key     LimitKey
	Max     int
	Members int      // costs summed
	Holders []string // ids, at most 1000
	// Filed are the lines that wait under the key, oldest first, at most 100.
	Filed []FiledLine
	Lines int           // how many are filed in all
	Next  time.Duration // until the next re-test, or the next token of a rate; 0 is unknown
}

// FiledLine is one line that waits for a limit.
type FiledLine struct {
	Line    string
	Queue   string
	Type    string
	Group   string
	Waiting int    // commands in it
	Since   Millis // run clock
	Passed  int    // how often it let room stand and went to the tail
}

// validLimits names the first contradiction in the limits of a configuration.
func (c *Config) validLimits() error {
	names := map[string]bool{}
	for i := range c.Limits {
		l := &c.Limits[i]
		if err := ValidName("limits.name", l.Name); err != nil {
			return err
		}
		bad := func(field, detail string, a ...any) error {
			return &InvalidError{Field: "limits." + l.Name + "." + field, Detail: fmt.Sprintf(detail, a...)}
		}
		switch {
		case names[l.Name]:
			return bad("name", "is used twice")
		case l.By > ByKey:
			return bad("by", "unknown kind %d", l.By)
		case (l.By == ByKey) != (l.Key != ""):
			return bad("key", "is needed with by key, and only there")
		case l.Scope > ScopeCommand:
			return bad("scope", "unknown scope %d", l.Scope)
		case l.Max < 0:
			return bad("max", "%d is negative", l.Max)
		case l.Max > MaxLimit:
			return bad("max", "%d is over %d", l.Max, MaxLimit)
		case l.Rate < 0 || l.Rate != l.Rate || l.Rate > 1e6:
			return bad("rate", "%v is not between 0 and 1000000", l.Rate)
		case l.Per < 0 || l.Burst < 0 || l.Burst > 1e6:
			return bad("burst", "per and burst cannot be negative, burst not over 1000000")
		case l.Rate == 0 && (l.Per != 0 || l.Burst != 0):
			return bad("rate", "per and burst are set without a rate")
		case l.Rate > 0 && (l.Max != 0 || l.Scope != ScopeInvocation):
			return bad("max", "a limit is either a rate or a max with its scope")
		case l.Rate > 0 && l.Classify:
			return bad("classify", "is for a max, not for a rate")
		case l.Until < 0:
			return bad("until", "is negative")
		}
		names[l.Name] = true
		if l.Key != "" {
			if err := ValidName("limits."+l.Name+".key", l.Key); err != nil {
				return err
			}
		}
		for _, q := range l.Queues {
			if err := ValidName("limits."+l.Name+".queues", q); err != nil {
				return err
			}
		}
		for v, m := range l.Values {
			if l.By == ByAll {
				return bad("values", "need a limit that tells values apart")
			}
			if m < 0 || m > MaxLimit {
				return bad("values."+v, "%d is not between 0 and %d", m, MaxLimit)
			}
		}
	}
	return nil
}

// MaxLimit is the largest Max of a limit.
const MaxLimit = 1_000_000_000
