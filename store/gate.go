package store

import (
	"fmt"
	"slices"
	"strings"
)

// GateState is how a gate of a worker stands in one scope: the numbers that its last decision was made by.
type GateState struct {
	Gate          string
	Lane          Lane
	Queues, Types []string // that it is about; empty means all of the worker
	Class         string   // of commands, "" if it does not look at it
	Budget        float64  // share of the lane's permits that is open; 0 is closed
	Held          int      // invocations that run under it
	Full          bool     // it is open, and all that it opens is in use
	Value         *float64 // what its source said, and what that was compared with; nil is none
	Threshold     *float64
	Up            bool   // its source answers
	Read          Millis // by the worker's clock, as all times here: when the value was taken; 0 is unknown
	Since         Millis // when it opened or closed
	Opens         Millis // when it opens by time alone; 0 is unknown
	Reason        string
	Detail        string
	// Decision is "wait" or "refuse" if this is about commands that were sent back rather than about a budget; Key is then the declared key that all of
	// them have, as name=value, or "", and Opens is when they come again.
	Decision, Key string
}

// About reports whether the state is about commands of that lane, queue and type.
func (g *GateState) About(l Lane, queue, typ string) bool {
	return g.Lane == l && (len(g.Queues) == 0 || slices.Contains(g.Queues, queue)) && (len(g.Types) == 0 || slices.Contains(g.Types, typ))
}

// String says it for people.
func (g *GateState) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "gate %s ", g.Gate)
	switch {
	case g.Decision == "refuse":
		b.WriteString("lets others go first")
	case g.Decision != "":
		b.WriteString("lets it " + g.Decision)
	case g.Budget == 0:
		b.WriteString("is closed")
	case g.Full:
		fmt.Fprintf(&b, "is open by %.3g and all of it is in use (%d run)", g.Budget, g.Held)
	default:
		fmt.Fprintf(&b, "is open by %.3g", g.Budget)
	}
	var notes []string
	if g.Reason != "" && g.Reason != "open" && g.Reason != "closed" {
		notes = append(notes, g.Reason)
	}
	if !g.Up {
		notes = append(notes, "its source does not answer")
	}
	if g.Value != nil {
		notes = append(notes, fmt.Sprintf("value %.4g", *g.Value))
	}
	if g.Threshold != nil {
		notes = append(notes, fmt.Sprintf("threshold %.4g", *g.Threshold))
	}
	if g.Detail != "" {
		notes = append(notes, g.Detail)
	}
	if len(notes) > 0 {
		b.WriteString(" (" + strings.Join(notes, ", ") + ")")
	}
	return b.String()
}
