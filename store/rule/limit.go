package rule

import (
	"slices"
	"strings"

	"github.com/twolane/twolane/internal/mutant"
	"github.com/twolane/twolane/store"
)

// Retest is how long a filed line waits for its next test at most, and how long room may stand before whoever waits may take it.
const Retest = store.Millis(1000)

// Applied is a limit that applies to a command, with the value that it counts under.
type Applied struct {
	store.LimitKey
	Limit *store.Limit
	Max   int
}

// Limits returns the limits that apply to c, in the order in which they are tested: command scope, invocation scope, rates; each by name.
func Limits(now Now, cfg *store.Config, c *store.Command) []Applied {
	var as []Applied
	for i := range cfg.Limits {
		if a, ok := applies(now, &cfg.Limits[i], c); ok {
			as = append(as, a)
		}
	}
	slices.SortFunc(as, func(a, b Applied) int {
		if d := turn(a.Limit) - turn(b.Limit); d != 0 {
			return d
		}
		return strings.Compare(a.Limit.Name, b.Limit.Name)
	})
	return as
}

func turn(l *store.Limit) int {
	switch {
	case l.Rate > 0:
		return 2
	case l.Scope == store.ScopeCommand:
		return 0
	}
	return 1
}

func applies(now Now, l *store.Limit, c *store.Command) (Applied, bool) {
	if len(l.Queues) > 0 && !slices.Contains(l.Queues, c.Queue) || !l.At(now.Wall) {
		return Applied{}, false
	}
	a := Applied{LimitKey: store.LimitKey{Limit: l.Name}, Limit: l}
	switch l.By {
	case store.ByQueue:
		a.Value = c.Queue
	case store.ByType:
		a.Value = c.Type
	case store.ByGroup:
		a.Value = c.Group
	case store.ByKey:
		i := slices.IndexFunc(c.Keys, func(k store.Key) bool { return k.Name == l.Key })
		if i < 0 {
			return Applied{}, false
		}
		a.Value = c.Keys[i].Value
	}
	a.Max = l.MaxOf(a.Value)
	return a, true
}

// Never reports whether a value of a limit, as it is, could not admit a command of that cost even without members.
func Never(l *store.Limit, value string, cost int) bool {
	return l.Rate == 0 && !l.Classify && cost > l.MaxOf(value)
}

// NeverFits returns the first lasting limit that could never admit c, or nil. A limit of 0 is closed, which may change.
func NeverFits(now Now, cfg *store.Config, c *store.Command) *Applied {
	for _, a := range Limits(now, cfg, c) {
		if a.Limit.Until == 0 && a.Max > 0 && Never(a.Limit, a.Value, c.Cost) {
			return &a
		}
	}
	return nil
}

// Waits reports whether c has to wait for room under a. What may be active already never waits for a limit of scope command: the
// PROCESSING, and who holds any such slot. A cancel visit waits for nothing, and a limit that classifies holds nobody.
func Waits(c *store.Command, a *Applied) bool {
	switch {
	case a.Limit.Classify || Class(c).Visit() && !mutant.On(mutant.VisitWaits):
		return false
	case a.Limit.Scope == store.ScopeCommand:
		return c.Status != store.Processing && (!Holder(c) || mutant.On(mutant.HolderWaits))
	}
	return true
}

// WaitsFor reports whether the limits in force still let c wait for room under k.
func WaitsFor(now Now, cfg *store.Config, c *store.Command, k store.LimitKey) bool {
	for _, a := range Limits(now, cfg, c) {
		if a.LimitKey == k && Waits(c, &a) {
			return true
		}
	}
	return false
}

// Holder reports whether c kept a slot of scope command when its worker was lost.
func Holder(c *store.Command) bool {
	return c.Unknown && slices.ContainsFunc(c.Holds, func(h store.Hold) bool { return h.Scope == store.ScopeCommand })
}

// Holds reports whether c is a member of k.
func Holds(c *store.Command, k store.LimitKey) bool {
	return slices.ContainsFunc(c.Holds, func(h store.Hold) bool { return h.LimitKey == k })
}

// Reserve leaves out of as the limits that classify and have no room for c: it becomes no member of them, so that their room is for those
// who are within. over says that there is one. Who is a member keeps its place.
func Reserve(c *store.Command, as []Applied, members func(k store.LimitKey) int) (joins []Applied, over bool) {
	for _, a := range as {
		if a.Limit.Classify && !Holds(c, a.LimitKey) && members(a.LimitKey)+c.Cost > a.Max {
			over = true
			continue
		}
		joins = append(joins, a)
	}
	return joins, over
}

// Join makes the memberships of a command that is just being granted those of the limits in force, as [Reserve] left them. overflow says that one
// that classifies had no room. A cancel visit joins nothing and leaves nothing: it needs a permit only.
func Join(c *store.Command, as []Applied, overflow bool) {
	c.Overflow = overflow
	if Class(c).Visit() {
		return
	}
	c.Holds = nil
	for _, a := range as {
		if a.Limit.Rate == 0 {
			c.Holds = append(c.Holds, store.Hold{LimitKey: a.LimitKey, Scope: a.Limit.Scope})
		}
	}
	slices.SortFunc(c.Holds, func(a, b store.Hold) int { return strings.Compare(a.Limit, b.Limit) })
}

// leave drops memberships: those of the invocation always, those of the command too if all is true.
func leave(c *store.Command, all bool) {
	if mutant.On(mutant.ForgetHold) && !c.Status.Terminal() {
		return
	}
	c.Overflow = false
	c.Holds = slices.DeleteFunc(slices.Clone(c.Holds), func(h store.Hold) bool { return all || h.Scope == store.ScopeInvocation })
	if len(c.Holds) == 0 {
		c.Holds = nil
	}
}

// CheckHolds says what is wrong with the memberships of a record by itself.
func CheckHolds(c *store.Command) string {
	for _, h := range c.Holds {
		switch {
		case h.Scope == store.ScopeInvocation && c.Place != store.Leased:
			return "is a member of " + h.String() + " without a lease"
		case c.Status.Terminal():
			return "has ended and is a member of " + h.String()
		case c.Status == store.Pending && c.Place != store.Leased && !c.Unknown:
			return "is PENDING at rest and a member of " + h.String()
		}
	}
	return ""
}
