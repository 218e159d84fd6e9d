package rule

import (
	"strconv"
	"strings"

	"github.com/twolane/twolane/store"
)

// Class says which kind of turn a live command waits for when it stands in line.
func Class(c *store.Command) store.Class {
	switch {
	case c.Status == store.Processing && c.CancelAsked != 0 && c.Losses >= 2:
		return store.ClassSuspectVisit
	case c.Status == store.Processing && c.CancelAsked != 0:
		return store.ClassCancel
	case c.Losses >= 2:
		return store.ClassSuspect
	case c.Status == store.Pending && Holder(c):
		return store.ClassHolder
	case c.Status == store.Pending && (c.Failures > 0 || c.Losses > 0):
		return store.ClassRerun
	}
	return store.ClassFirst
}

// Line names the line that a live command stands in: the commands alike to every limit. Equal strings are one line.
func Line(c *store.Command) string {
	return LineName(c, c.Lane(), Class(c), c.Status == store.Pending && c.Losses >= 2 && Holder(c))
}

// LineName names a line by what its commands have in common: what c was submitted with, lane and class. holder marks the line of
// PENDING suspects that hold a slot: they never stand behind one that waits for it.
func LineName(c *store.Command, lane store.Lane, class store.Class, holder bool) string {
	var b strings.Builder
	b.Grow(96)
	for _, s := range [...]string{c.Queue, lane.String(), class.String(), c.Type, c.Group, c.BatchKey, strconv.Itoa(max(1, c.Cost))} {
		b.WriteString(s)
		b.WriteByte(' ') // no name contains a blank
	}
	if holder {
		b.WriteString("holder ")
	}
	for _, k := range c.Keys {
		b.WriteString(k.Name + "=" + k.Value + " ")
	}
	return b.String()
}

// ParseLine returns a command that is to limits what those of the line with this name are. It is the inverse of LineName; ok is false for what
// LineName does not make.
func ParseLine(name string) (c *store.Command, ok bool) {
	f := strings.Split(strings.TrimSuffix(name, " "), " ")
	if len(f) < 7 {
		return nil, false
	}
	cost, err := strconv.Atoi(f[6])
	if err != nil {
		return nil, false
	}
	c = &store.Command{Queue: f[0], Status: store.Pending, Place: store.InLine, Type: f[3], Group: f[4], BatchKey: f[5], Cost: cost}
	if f[1] == store.Repoll.String() {
		c.Status = store.Processing
	}
	keys := f[7:]
	holder := len(keys) > 0 && keys[0] == "holder"
	if holder {
		keys = keys[1:]
	}
	switch f[2] {
	case store.ClassRerun.String():
		c.Failures = 1
	case store.ClassSuspect.String():
		c.Losses = 2
	case store.ClassSuspectVisit.String():
		c.Losses, c.CancelAsked = 2, 1
	case store.ClassCancel.String():
		c.CancelAsked = 1
	case store.ClassHolder.String():
		holder = true
	}
	if holder {
		c.Unknown, c.Holds = true, []store.Hold{{Scope: store.ScopeCommand}}
	}
	for _, k := range keys {
		n, v, ok := strings.Cut(k, "=")
		if !ok {
			return nil, false
		}
		c.Keys = append(c.Keys, store.Key{Name: n, Value: v})
	}
	return c, true
}

// Score orders the commands of one lane and class: smaller first. PROCESSING ones go by their due time.
func Score(order store.Order, c *store.Command) float64 {
	if c.Status == store.Processing {
		return float64(c.Due)
	}
	if order == store.ByDeadline {
		if c.Deadline == 0 {
			return float64(maxTime)*2 + float64(c.Seq)
		}
		return float64(c.Deadline)
	}
	return float64(c.Priority)*(1<<44) + float64(c.Seq)
}

// Claimable reports whether c could be leased now, but for pause, rates and limits.
func Claimable(now Now, c *store.Command) bool {
	return c.Place == store.InLine && (c.Status == store.Pending || c.Due <= now.Run) && !Ended(now, c)
}

// Due reports whether a command in place Scheduled belongs in line now.
func Due(now Now, c *store.Command) bool {
	return c.Place == store.Scheduled && c.Due <= now.Run && c.NotBefore <= now.Wall
}

// Promote puts a due command in line, as number seq of arrival.
func Promote(now Now, seq uint64, c *store.Command) {
	c.Place, c.Due, c.Seq, c.Eligible = store.InLine, 0, seq, now.Wall
}

// WaitsSince is the server time since when a claimable command has waited: for a poll, when it fell due.
func WaitsSince(now Now, c *store.Command) store.Millis {
	if c.Status == store.Processing {
		return now.Wall - (now.Run - c.Due)
	}
	return c.Eligible
}

// PreferRerun says whether the turn-th intake invocation of a worker in a queue goes to a re-run when first runs and re-runs both
// wait: one in four.
func PreferRerun(turn int) bool { return turn&3 == 3 }
