package demo

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// View shows snapshots to a person. What is written to it are messages; they stay, whatever the view draws. Its methods may be called
// concurrently.
type View interface {
	io.Writer
	Show(Snapshot)
	// Close leaves the last snapshot standing.
	Close()
}

// Colours of the live view.
const (
	plain  = ""
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// line is text with styled pieces, that knows how wide it is.
type line struct {
	b     strings.Builder
	width int
	room  int
	color bool
}

// add appends text in a style as far as there is room.
func (l *line) add(style, format string, args ...any) *line {
	text := []rune(fmt.Sprintf(format, args...))
	if len(text) > l.room-l.width {
		text = text[:max(0, l.room-l.width)]
	}
	l.width += len(text)
	if len(text) == 0 {
		return l
	}
	if style == plain || !l.color {
		l.b.WriteString(string(text))
	} else {
		l.b.WriteString("\x1b[" + style + "m" + string(text) + "\x1b[0m")
	}
	return l
}

// bar appends a bar of n cells of which part/whole are full.
func (l *line) bar(style string, n, part, whole int) *line {
	full := 0
	if whole > 0 {
		full = min(n, (part*n+whole-1)/whole)
	}
	return l.add(style, "%s", strings.Repeat("█", full)).add(dim, "%s", strings.Repeat("░", n-full))
}

// render draws a snapshot in lines of at most width columns.
func render(s Snapshot, width int, color bool) []string {
	var out []string
	row := func(build func(l *line)) {
		l := &line{room: max(20, width), color: color}
		build(l)
		out = append(out, l.b.String())
	}
	cells := min(30, max(6, width-68))
	row(func(l *line) {
		l.add(bold, "twolane demo").add(plain, "  %s  %s commands  %s", clock(s.Elapsed), thousands(s.Commands), s.Store)
	})
	row(func(l *line) {
		l.add(dim, "workers  ")
		for _, w := range s.Workers {
			l.add(alarm(w.State == stateKilled || w.State == stateDied, plain), "%s %s   ", w.Name, w.State)
		}
	})
	for _, lane := range s.Lanes {
		row(func(l *line) {
			l.add(dim, "%-7s  ", lane.Name).bar(cyan, cells, lane.Held, lane.Permits)
			l.add(plain, " %4d/%d permits  ", lane.Held, lane.Permits)
			l.add(plain, "%5s eligible  ", lane.eligible())
			l.add(alarm(lane.Oldest > time.Minute, plain), "oldest %5s  ", short(lane.Oldest))
			l.add(plain, "%.1f/s", lane.Started)
			if lane.Rate > 0 {
				l.add(dim, " of %.1f", lane.Rate)
			}
		})
	}
	row(func(l *line) {
		l.add(dim, "places   ").add(plain, "in line %d  scheduled %d  leased %d  parked %d", s.Waiting, s.Scheduled, s.Leased, s.Parked)
	})
	row(func(l *line) {
		l.add(dim, "cloud    ").bar(alarm(s.Throttled > 0, cyan), cells, s.APICalls, int(s.APIRate))
		l.add(plain, " %4d calls/s of %.0f  most %d  ", s.APICalls, s.APIRate, s.APIMax)
		l.add(alarm(s.Throttled > 0, plain), "throttled %d", s.Throttled)
		if s.APIErrors > 0 {
			l.add(yellow, "  errors %d", s.APIErrors)
		}
	})
	row(func(l *line) {
		l.add(dim, "tasks    ").add(plain, "%d launched  ", s.Launched).add(bold, "%d live", s.Live).add(plain, "  most %d", s.LiveMax)
	})
	row(func(l *line) {
		l.add(dim, "checks   ").add(plain, "%d calls  late: ", s.Checks)
		l.add(alarm(s.Lateness.P99 > 250, plain), "half %.0f ms, 99%% %.0f ms, most %.0f ms", s.Lateness.P50, s.Lateness.P99, s.Lateness.Max)
	})
	row(func(l *line) {
		l.add(dim, "ended    ").bar(green, cells, s.Ended(), s.Commands)
		l.add(plain, " %d succeeded", s.Succeeded).add(alarm(s.Failed > 0, plain), "  %d failed", s.Failed)
		l.add(plain, "  %d to go", s.Commands-s.Ended())
	})
	return out
}

func alarm(bad bool, otherwise string) string {
	if bad {
		return red
	}
	return otherwise
}

func (l LaneView) eligible() string {
	if l.AtLeast {
		return strconv.Itoa(l.Eligible) + "+"
	}
	return strconv.Itoa(l.Eligible)
}

// progress is a snapshot in one plain line.
func progress(s Snapshot) string {
	in, re := s.Lanes[0], s.Lanes[1]
	return fmt.Sprintf("%6s  launched %d/%d  live %d  ended, not yet checked %d  succeeded %d | intake %d/%d permits, %s eligible, oldest %s | repoll %d/%d permits, %s due | "+
		"cloud %d calls/s, throttled %d | %d check calls, 99%% within %.0f ms",
		short(s.Elapsed), s.Launched, s.Commands, s.Live, s.Unseen(), s.Succeeded, in.Held, in.Permits, in.eligible(), short(in.Oldest),
		re.Held, re.Permits, re.eligible(), s.APICalls, s.Throttled, s.Checks, s.Lateness.P99)
}

func clock(d time.Duration) string {
	sec := int(d.Seconds())
	return fmt.Sprintf("%02d:%02d", sec/60, sec%60)
}

func short(d time.Duration) string {
	if d < 10*time.Minute {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Truncate(time.Second).String()
}

// thousands writes n with commas.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
