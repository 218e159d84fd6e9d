package model

import (
	"fmt"
	"slices"
	"strings"
)

// trace is the steps of the shortest way to node n.
func (g *graph) trace(n int32) (steps []string) {
	for ; g.parent[n].to >= 0; n = g.parent[n].to {
		steps = append(steps, unpack(g.parent[n].step).String())
	}
	slices.Reverse(steps)
	return steps
}

// show describes a state on one line.
func (m *world) show(s *state) string {
	var parts []string
	for i := range m.sc.Commands {
		parts = append(parts, m.showCommand(s, i))
	}
	for w := range m.sc.Workers {
		parts = append(parts, showProcess(w, &s.proc[w]))
	}
	for l := range m.sc.Limits {
		if s.max[l] != noLimit {
			t := fmt.Sprintf("L%d %d/%d", l, s.used(l), s.max[l])
			if m.sc.Limits[l].Rate {
				t = fmt.Sprintf("L%d has %d tokens", l, s.max[l])
			}
			if s.stood&(1<<l) != 0 {
				t += " (room has stood)"
			}
			parts = append(parts, t)
		}
	}
	for q, p := range s.pause {
		if p != 0 {
			parts = append(parts, fmt.Sprintf("q%d paused (%s)", q, [...]string{"", "intake", "all"}[p]))
		}
	}
	return strings.Join(parts, "; ")
}

func (m *world) showCommand(s *state, i int) string {
	r := &s.cmd[i]
	t := fmt.Sprintf("c%d %s", i, r.status)
	if r.reason != NoReason {
		t += "(" + r.reason.String() + ")"
	}
	if r.live() {
		t += "/" + r.place.String()
	}
	if r.place == Leased {
		t += fmt.Sprintf(" by w%d", (r.owner-1)%maxWorkers)
		if r.owner > maxWorkers {
			t += " (earlier process)"
		}
	}
	for _, f := range []struct {
		flag uint8
		word string
	}{{expired, "expired"}, {unheard, "unheard"}, {cancelReq, "cancel"}, {cancelOver, "cancel-timeout"}, {late, "late"}, {unknown, "unknown"}, {visiting, "visit"}} {
		if r.has(f.flag) {
			t += " " + f.word
		}
	}
	if r.losses > 0 {
		t += fmt.Sprintf(" losses=%d", r.losses)
	}
	if r.fails > 0 {
		t += fmt.Sprintf(" fails=%d", r.fails)
	}
	if r.filed != 0 {
		t += fmt.Sprintf(" filed under L%d as no. %d", r.under()-1, r.turn)
		if r.filed&called != 0 {
			t += " (called)"
		}
	}
	return t
}

func showProcess(w int, p *process) string {
	t := fmt.Sprintf("w%d %s", w, [...]string{"up", "stalled", "crashed", "draining", "exited"}[p.mode])
	if !p.heard {
		t += " unheard-of"
	}
	if p.claiming {
		t += " claiming"
	}
	for _, x := range p.slots {
		if x.cmd == 0 {
			continue
		}
		what := "runs"
		if !x.running() {
			what = "settles"
		}
		t += fmt.Sprintf(" %s c%d", what, x.command())
	}
	return t
}

// String is the report as a person reads it.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d states, %d steps", r.Scenario.Name, r.States, r.Steps)
	if r.Scenario.Bug != NoBug {
		fmt.Fprintf(&b, " [broken: %s]", r.Scenario.Bug)
	}
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "\n  VIOLATION: %s\n      %s", v.Kind, strings.Join(v.Trace, "\n      "))
		if len(v.Cycle) > 0 {
			fmt.Fprintf(&b, "\n      for ever: %s", strings.Join(v.Cycle, " | "))
		}
	}
	return b.String()
}
