package demo

import (
	"fmt"
	"time"
)

// Result is what a demo came to. Its JSON form is a promise to scripts.
type Result struct {
	Store              string    `json:"store"`
	Commands           int       `json:"commands"`
	Launched           int       `json:"launched"`
	Succeeded          int       `json:"succeeded"`
	Failed             int       `json:"failed"`
	Cancelled          int       `json:"cancelled"`
	Lost               int       `json:"lost"` // submitted and not terminal at the end
	DuplicateRuns      int       `json:"duplicate_runs"`
	LaunchSeconds      float64   `json:"launch_seconds"` // from the first submit to the last launch
	TotalSeconds       float64   `json:"total_seconds"`
	LongestIntakeStall float64   `json:"longest_intake_stall_seconds"`
	Polls              int       `json:"polls"` // checks of one command each
	PollLatenessMS     Quantiles `json:"poll_lateness_ms"`
	APICallsPerSecond  int       `json:"api_calls_per_second_max"`
	Throttled          int       `json:"throttled"`
	LeaseLosses        int       `json:"lease_losses"`
	Audit              string    `json:"audit"` // "ok" or the first violation
	LiveMax            int       `json:"-"`     // most tasks that ran at once
}

// MaxStall is the longest intake stall that a demo forgives: a worker that missed its wake-up looks again after its poll
// interval of a second.
const MaxStall = 2 * time.Second

// Broken lists the promises that were not kept, for people; empty is good. failing says that the cloud was told to fail calls:
// then it may also have throttled some.
func (r Result) Broken(failing bool) []string {
	var broken []string
	add := func(bad bool, format string, args ...any) {
		if bad {
			broken = append(broken, fmt.Sprintf(format, args...))
		}
	}
	add(r.Lost > 0, "%d of %d commands were not finished", r.Lost, r.Commands)
	add(r.Failed > 0, "%d commands failed; an error of the cloud must only delay them", r.Failed)
	add(r.Cancelled > 0, "%d commands were cancelled; nobody asked for that", r.Cancelled)
	add(r.DuplicateRuns > 0, "%d commands ran twice at once or started a second task", r.DuplicateRuns)
	add(r.Throttled > 0 && !failing, "the cloud throttled %d calls", r.Throttled)
	add(r.LongestIntakeStall > MaxStall.Seconds(), "nothing was started for %.1f s although it could have been", r.LongestIntakeStall)
	add(r.Audit != "ok", "the store's audit found: %s", r.Audit)
	return broken
}
