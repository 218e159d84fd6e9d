package gate

import (
	"time"

	"github.com/twolane/twolane/store"
)

// Judge is a gate that also looks at single commands. It is asked in the dispatch loop, after a command was claimed and before its
// handler is called, and must not block.
type Judge interface {
	Gate
	Judge(now time.Time, s Scope, job *Job) Verdict
}

// Job is a command as a [Judge] sees it. Nothing of it may be changed or kept.
type Job struct {
	ID, Queue, Type, Group string
	Lane                   store.Lane
	Class                  string // Reserved, Overflow, or what Binding.ClassOf made of it
	Keys                   []store.Key
	Metadata               map[string]string
	Priority               uint8
	Overflow               bool // admitted over a limit that only classifies
	Failures               int
	Created, Deadline      time.Time // by the store's clock; a zero Deadline is none
}

// Key is the value of a declared key.
func (j *Job) Key(name string) (value string, ok bool) {
	for _, k := range j.Keys {
		if k.Name == name {
			return k.Value, true
		}
	}
	return "", false
}

// Decision is the kind of a [Verdict].
type Decision uint8

const (
	// Continue lets the handler be called.
	Continue Decision = iota
	// Wait gives the command back until the gate may be open again: Verdict.After, or a second that doubles to thirty while the gate says so again.
	Wait
	// Refuse gives the command back for Verdict.After (at least a second): others go first.
	Refuse
	// Drop ends the command as FAILED (dropped) with Verdict.Result.
	Drop
)

// Decisions lists them all.
var Decisions = [...]Decision{Continue, Wait, Refuse, Drop}

func (d Decision) String() string {
	return [...]string{"allow", "wait", "refuse", "drop"}[min(int(d), 3)]
}

// Verdict is what a [Judge] says about one command. The zero value lets it run.
type Verdict struct {
	Decision Decision
	After    time.Duration // of Wait and Refuse
	Result   []byte        // of Drop
	// Close closes a key of the command for as long as it waits, for all workers; nil closes none.
	Close  *Key
	Detail string // for people, on one line
}

// Key is what a closing is about: the commands of one group, type or queue, or with one value of a declared key.
type Key struct {
	By    store.By // ByQueue, ByType, ByGroup or ByKey
	Name  string   // of the key, with ByKey
	Value string
}

// Of returns the key of that kind of a command; ok is false if it has none.
func (k Key) Of(j *Job) (Key, bool) {
	switch k.By {
	case store.ByQueue:
		k.Value = j.Queue
	case store.ByType:
		k.Value = j.Type
	case store.ByGroup:
		k.Value = j.Group
	case store.ByKey:
		var ok bool
		if k.Value, ok = j.Key(k.Name); !ok {
			return k, false
		}
	default:
		return k, false
	}
	return k, true
}
