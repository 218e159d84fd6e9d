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
	// Values gives single values another Max; of a rate limit it can only close them, with 0.
	Values map[string]int
	// Until ends the limit at that server time, as a gate needs that closes a key for a while; 0 means never.
	Until Millis
	// Classify admits what is over Max all the same and marks it as overflow. That is no member: the room is for those who are within.
	Classify bool
}

// At reports whether the limit is in force at server time now.
func (l *Limit) At(now Millis) bool { return l.Until == 0 || now < l.Until }

// MaxOf is the Max in force for one value.
func (l *Limit) MaxOf(value string) int {
	if m, ok := l.Values[value]; ok {
		return m
	}
	return l.Max
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
	Members int      // costs summed; over Max after it was lowered, and by those that join without waiting
	Holders []string // ids in order, at most MaxItems
	// Filed are the lines that wait under the key, oldest first and those that never fit last, at most 100.
	Filed []FiledLine
	Lines int           // how many are filed in all
	Next  time.Duration // until time alone may give room: the next token of a rate, or the end of the limit; 0 is unknown
}

// FiledLine is one line that waits for a limit.
type FiledLine struct {
	Line    string // rule.Line of its commands
	Queue   string
	Lane    Lane
	Type    string
	Group   string
	Waiting int    // commands in it, due or not
	Since   Millis // run clock, when it was filed
	Passed  int    // how often it let room stand and lost its place since it was last granted
	Opened  bool   // it may take room now
	Never   bool   // its cost is over Max: it keeps nobody waiting behind it
}

// LimitStats are the numbers of one limit over all the values that it counts.
type LimitStats struct {
	Name    string
	Max     int // of values that have none of their own; 0 of a rate
	Rate    bool
	Members int // costs summed
	Lines   int // filed
	Never   int // of Lines: those whose cost is over what their value admits
	// Values are those with members or filed lines, at most 100, in order.
	Values []LimitValue
	// AtLeast says that more values are in use: then the numbers are those of Values.
	AtLeast bool
}

// LimitValue are the numbers of one counted value.
type LimitValue struct {
	Value                      string
	Max, Members, Lines, Never int
}

// validLimits names the first contradiction in the limits of a configuration.
func (c *Config) validLimits() error {
	if len(c.Limits) > MaxLimits {
		return &InvalidError{Field: "limits", Detail: fmt.Sprintf("%d are too many, at most %d are allowed", len(c.Limits), MaxLimits)}
	}
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
		case l.Max > MaxMembers:
			return bad("max", "%d is over %d", l.Max, MaxMembers)
		case !(l.Rate >= 0 && l.Rate <= 1e6):
			return bad("rate", "%v is not between 0 and 1000000", l.Rate)
		case l.Per < 0 || l.Per > 0 && l.Per < time.Millisecond || l.Per > 365*24*time.Hour:
			return bad("per", "%v is not between 1ms and a year", l.Per)
		case l.Rate > 0 && !(l.perSecond() >= 1e-8 && l.perSecond() <= 1e6):
			return bad("rate", "%v per %v is not between one in three years and 1000000 per second", l.Rate, l.Per)
		case l.Burst < 0 || l.Burst > 1e6:
			return bad("burst", "%d is not between 0 and 1000000", l.Burst)
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
			if m < 0 || m > MaxMembers {
				return bad("values."+v, "%d is not between 0 and %d", m, MaxMembers)
			}
			if l.Rate > 0 && m != 0 {
				return bad("values."+v, "of a rate limit can only be 0, which closes it")
			}
			if v == "" && l.By == ByGroup {
				continue
			}
			if err := ValidName("limits."+l.Name+".values", v); err != nil {
				return err
			}
		}
	}
	return nil
}

// perSecond is the rate per second.
func (l *Limit) perSecond() float64 {
	if l.Per == 0 {
		return l.Rate
	}
	return l.Rate / l.Per.Seconds()
}

// RateOf is the rate in force for one value of a rate limit; closed says that it admits nothing.
func (l *Limit) RateOf(value string) (r Rate, closed bool) {
	r = Rate{Limit: l.perSecond(), Burst: l.Burst}
	if r.Burst == 0 {
		r.Burst = max(1, int(l.Rate/10))
	}
	m, ok := l.Values[value]
	return r, ok && m == 0
}

// Bounds of limits.
const (
	MaxMembers = 1_000_000_000 // the largest Max of a limit
	MaxLimits  = 256           // limits of a namespace
)
