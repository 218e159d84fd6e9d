package rule_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// A line's name says all that limits look at: the command that is made of it stands in the same line, and waits for the same limits.
func TestParseLine(t *testing.T) {
	name := rapid.StringMatching(`[a-z][a-z0-9._:@/-]{0,5}`)
	rapid.Check(t, func(t *rapid.T) {
		c := &store.Command{
			Queue: name.Draw(t, "queue"), Type: name.Draw(t, "type"), Cost: rapid.IntRange(1, store.MaxCost).Draw(t, "cost"), Place: store.InLine,
			Status: rapid.SampledFrom([]store.Status{store.Pending, store.Processing}).Draw(t, "status"), Losses: rapid.IntRange(0, 3).Draw(t, "losses"),
			Failures: rapid.IntRange(0, 1).Draw(t, "failures"), Unknown: rapid.Bool().Draw(t, "unknown"), CancelAsked: store.Millis(rapid.IntRange(0, 1).Draw(t, "cancel")),
		}
		if c.Status == store.Pending {
			c.CancelAsked = 0 // it has ended otherwise
		}
		if rapid.Bool().Draw(t, "with group") {
			c.Group = name.Draw(t, "group")
		}
		if rapid.Bool().Draw(t, "with batch key") {
			c.BatchKey = name.Draw(t, "batch key")
		}
		if rapid.Bool().Draw(t, "holds") {
			c.Holds = []store.Hold{{Scope: rapid.SampledFrom([]store.Scope{store.ScopeInvocation, store.ScopeCommand}).Draw(t, "scope")}}
		}
		for range rapid.IntRange(0, 3).Draw(t, "keys") {
			c.Keys = append(c.Keys, store.Key{Name: name.Draw(t, "key"), Value: name.Draw(t, "value")})
		}
		line := rule.Line(c)
		d, ok := rule.ParseLine(line)
		if !ok || rule.Line(d) != line {
			t.Fatalf("%q is read as %+v, %v", line, d, ok)
		}
		for _, scope := range []store.Scope{store.ScopeInvocation, store.ScopeCommand} {
			a := &rule.Applied{Limit: &store.Limit{Scope: scope}}
			if rule.Waits(c, a) != rule.Waits(d, a) {
				t.Fatalf("%q waits: %v, its line: %v", line, rule.Waits(c, a), rule.Waits(d, a))
			}
		}
	})
	for _, bad := range []string{"", "q", "q intake first t g b x ", "q intake first t g b 1 key "} {
		if c, ok := rule.ParseLine(bad); ok {
			t.Errorf("%q is read as %+v", bad, c)
		}
	}
}
