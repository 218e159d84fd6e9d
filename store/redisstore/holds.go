package redisstore

import (
	"strconv"
	"strings"

	"github.com/twolane/twolane/store"
)

// limitKey spells a key as the scripts do.
func limitKey(k store.LimitKey) string { return k.Limit + "|" + k.Value }

func parseLimitKey(s string) store.LimitKey {
	name, value, _ := strings.Cut(s, "|")
	return store.LimitKey{Limit: name, Value: value}
}

// parseHolds reads what a lease or a record says of memberships, see script/holds.lua. overflow is the mark of a lease that is over a limit.
func parseHolds(text string) (holds []store.Hold, overflow, ok bool) {
	for text != "" {
		var w string
		w, text, _ = strings.Cut(text, " ")
		switch {
		case w == "!":
			overflow = true
			continue
		case w != "" && w[0] == '*':
			if _, err := strconv.Atoi(w[1:]); err != nil {
				return nil, false, false
			}
			continue
		}
		i := strings.LastIndexByte(w, '|')
		if i < 0 || strings.IndexByte(w, '|') == i || w[i+1:] != "i" && w[i+1:] != "c" {
			return nil, false, false
		}
		h := store.Hold{LimitKey: parseLimitKey(w[:i])}
		if w[i+1:] == "c" {
			h.Scope = store.ScopeCommand
		}
		holds = append(holds, h)
	}
	return holds, overflow, true
}
