package redisstore

import (
	"cmp"
	"slices"
	"strings"

	"github.com/twolane/twolane/store"
)

// packedLimit is a limit as the scripts read it, see script/lim/limits.lua. Values that have a max of their own stand beside it.
type packedLimit struct {
	Name     string          `json:"n"`
	Order    int             `json:"o"` // by name
	By       store.By        `json:"b,omitempty"`
	Key      string          `json:"k,omitempty"`
	Max      int             `json:"m,omitempty"`
	Scope    store.Scope     `json:"s,omitempty"`
	Rate     float64         `json:"r,omitempty"` // per second
	Burst    int             `json:"u,omitempty"`
	Until    store.Millis    `json:"t,omitempty"`
	Classify int             `json:"c,omitempty"`
	Values   int             `json:"v,omitempty"` // how many there are
	Queues   map[string]bool `json:"q,omitempty"`
}

// packLimits are the limits in the order in which they are tested: command scope, invocation scope, rates; each by name.
func packLimits(limits []store.Limit) []packedLimit {
	limits = slices.Clone(limits)
	slices.SortFunc(limits, func(a, b store.Limit) int { return strings.Compare(a.Name, b.Name) })
	packed := make([]packedLimit, len(limits))
	for i := range limits {
		l := &limits[i]
		p := packedLimit{Name: l.Name, Order: i, By: l.By, Key: l.Key, Max: l.Max, Scope: l.Scope, Until: l.Until, Values: len(l.Values)}
		if l.Rate > 0 {
			r, _ := l.RateOf("")
			p.Rate, p.Burst = r.Limit, r.Burst
		}
		if l.Classify {
			p.Classify = 1
		}
		for _, q := range l.Queues {
			if p.Queues == nil {
				p.Queues = map[string]bool{}
			}
			p.Queues[q] = true
		}
		packed[i] = p
	}
	turn := func(l packedLimit) int {
		switch {
		case l.Rate > 0:
			return 2
		case l.Scope == store.ScopeCommand:
			return 0
		}
		return 1
	}
	slices.SortStableFunc(packed, func(a, b packedLimit) int { return cmp.Compare(turn(a), turn(b)) })
	return packed
}
