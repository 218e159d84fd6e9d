package gate

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// ScheduleConfig says when a gate is open.
type ScheduleConfig struct {
	// Zone of the times of day; nil means UTC.
	Zone *time.Location
	// Windows are the times with a budget of their own; where several hold, the first one counts.
	Windows []TimeWindow
	// Default is the budget outside of them; the zero value is closed.
	Default float64
}

// TimeWindow is a time of day, on some days of the week.
type TimeWindow struct {
	Days []time.Weekday // on which it begins; empty means each day
	// From and To are times of day as the clock on the wall shows them. A window whose To is not after its From ends on the next day; From
	// and To equal is a whole day. A time that the clock skips is the moment of the skip; one that it shows twice is the first as From, the second as To.
	From, To TimeOfDay
	Budget   float64
}

// TimeOfDay is the time since midnight that a clock shows, to the second; 24h is the end of the day.
type TimeOfDay time.Duration

func (t TimeOfDay) String() string {
	d := time.Duration(t)
	s := fmt.Sprintf("%02d:%02d", d/time.Hour, d%time.Hour/time.Minute)
	if sec := d % time.Minute / time.Second; sec > 0 {
		s += fmt.Sprintf(":%02d", sec)
	}
	return s
}

// ParseTimeOfDay reads "15:04" or "15:04:05"; "24:00" is the end of the day.
func ParseTimeOfDay(s string) (TimeOfDay, error) {
	for _, layout := range []string{"15:04", "15:04:05"} {
		if t, err := time.Parse(layout, s); err == nil {
			return TimeOfDay(t.Sub(t.Truncate(24 * time.Hour))), nil
		}
	}
	if s == "24:00" || s == "24:00:00" {
		return TimeOfDay(24 * time.Hour), nil
	}
	return 0, fmt.Errorf("%q is no time of day like 15:04", s)
}

var weekdays = map[string]time.Weekday{
	"sun": time.Sunday, "mon": time.Monday, "tue": time.Tuesday, "wed": time.Wednesday, "thu": time.Thursday, "fri": time.Friday, "sat": time.Saturday,
}

// ParseDay reads the name of a weekday, in full or its first three letters.
func ParseDay(s string) (time.Weekday, error) {
	l := strings.ToLower(s)
	if d, ok := weekdays[l[:min(3, len(l))]]; ok && (len(l) == 3 || l == strings.ToLower(d.String())) {
		return d, nil
	}
	return 0, fmt.Errorf("%q is no day of the week", s)
}

// Schedule is a gate that opens and closes by the time of day.
type Schedule struct {
	cfg    ScheduleConfig
	cached atomic.Pointer[stretch]
}

// NewSchedule checks the settings; the error names the field.
func NewSchedule(cfg ScheduleConfig) (*Schedule, error) {
	if cfg.Zone == nil {
		cfg.Zone = time.UTC
	}
	if !(cfg.Default >= 0 && cfg.Default <= 1) {
		return nil, invalid("default", "%v is not between 0 and 1", cfg.Default)
	}
	if len(cfg.Windows) == 0 {
		return nil, invalid("windows", "are missing")
	}
	if len(cfg.Windows) > 100 {
		return nil, invalid("windows", "are %d, at most 100 are allowed", len(cfg.Windows))
	}
	cfg.Windows = slices.Clone(cfg.Windows)
	useful := false
	for i := range cfg.Windows {
		w := &cfg.Windows[i]
		f := fmt.Sprintf("windows[%d].", i)
		switch {
		case w.From < 0 || time.Duration(w.From) >= 24*time.Hour:
			return nil, invalid(f+"from", "%v is not between 00:00 and 23:59:59", w.From)
		case w.To < 0 || time.Duration(w.To) > 24*time.Hour:
			return nil, invalid(f+"to", "%v is not between 00:00 and 24:00", w.To)
		case !(w.Budget >= 0 && w.Budget <= 1):
			return nil, invalid(f+"budget", "%v is not between 0 and 1", w.Budget)
		}
		for _, d := range w.Days {
			if d < time.Sunday || d > time.Saturday {
				return nil, invalid(f+"days", "%d is no day of the week", d)
			}
		}
		useful = useful || w.Budget != cfg.Default
	}
	if !useful {
		return nil, invalid("windows", "have no budget but the default of %v: they change nothing", cfg.Default)
	}
	return &Schedule{cfg: cfg}, nil
}

// on reports whether the window begins on a day, and the instants at which it begins and ends then.
func (w *TimeWindow) on(day time.Time, zone *time.Location) (from, to time.Time, ok bool) {
	if len(w.Days) > 0 && !slices.Contains(w.Days, day.Weekday()) {
		return from, to, false
	}
	y, m, d := day.Date()
	end := d
	if w.To <= w.From {
		end++
	}
	return at(y, m, d, w.From, zone, false), at(y, m, end, w.To, zone, true), true
}

// at is the instant at which the clock of a zone shows a time of day. A time that is skipped is the instant of the skip; of a time that is
// shown twice last chooses.
func at(y int, m time.Month, d int, t TimeOfDay, zone *time.Location, last bool) time.Time {
	h, s := int(time.Duration(t)/time.Hour), int(time.Duration(t)%time.Hour/time.Second)
	want := time.Date(y, m, d, h, 0, s, 0, time.UTC) // as if the clock was in UTC
	// What the zone's offset was a day before and is a day after are the two that it can have.
	_, before := want.Add(-24 * time.Hour).In(zone).Zone()
	_, after := want.Add(24 * time.Hour).In(zone).Zone()
	early, late := want.Add(-time.Duration(before)*time.Second), want.Add(-time.Duration(after)*time.Second)
	shows := func(x time.Time) bool {
		_, o := x.In(zone).Zone()
		return x.Add(time.Duration(o) * time.Second).Equal(want)
	}
	a, b := shows(early), shows(late)
	switch {
	case a && b && last && late.After(early), b && !a:
		return late.In(zone)
	case a:
		return early.In(zone)
	}
	// Skipped: the change lies between the two.
	lo, hi := late, early
	for hi.Sub(lo) > time.Second {
		mid := lo.Add(hi.Sub(lo) / 2).Truncate(time.Second)
		if mid.Equal(lo) {
			break
		}
		if _, o := mid.In(zone).Zone(); o == before {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi.In(zone)
}

// span is when a window holds.
type span struct {
	from, to time.Time
	order    int
	budget   float64
}

// spans are those of all windows from a day before now to days after it.
func (s *Schedule) spans(now time.Time, days int) []span {
	var all []span
	local := now.In(s.cfg.Zone)
	for i := -2; i <= days; i++ {
		y, m, d := local.Date()
		day := time.Date(y, m, d+i, 12, 0, 0, 0, s.cfg.Zone)
		for j := range s.cfg.Windows {
			if from, to, ok := s.cfg.Windows[j].on(day, s.cfg.Zone); ok && to.After(from) {
				all = append(all, span{from, to, j, s.cfg.Windows[j].Budget})
			}
		}
	}
	return all
}

// budget is the one at an instant.
func (s *Schedule) budget(all []span, now time.Time) float64 {
	best := span{order: len(s.cfg.Windows), budget: s.cfg.Default}
	for _, x := range all {
		if !now.Before(x.from) && now.Before(x.to) && x.order < best.order {
			best = x
		}
	}
	return best.budget
}

// stretch is a time between two edges, in which the reading does not change.
type stretch struct {
	from, to time.Time
	r        Reading
}

// Read implements [Gate].
func (s *Schedule) Read(now time.Time, _ Scope) Reading {
	if c := s.cached.Load(); c != nil && !now.Before(c.from) && now.Before(c.to) {
		return c.r
	}
	all := s.spans(now, 8)
	b := s.budget(all, now)
	c := stretch{from: now, to: now.Add(time.Hour), r: Reading{Budget: b, Value: b, Threshold: None, Up: true, Reason: Window}}
	if b == s.cfg.Default && b > 0 {
		c.r.Reason = Open
	}
	var edges []time.Time
	for _, x := range all {
		edges = append(edges, x.from, x.to)
	}
	slices.SortFunc(edges, func(a, b time.Time) int { return a.Compare(b) })
	for _, e := range edges {
		if !e.After(now) {
			continue
		}
		if e.Before(c.to) {
			c.to = e
		}
		if b > 0 || s.budget(all, e) > 0 {
			if b == 0 {
				c.r.Opens = e
			}
			break
		}
	}
	s.cached.Store(&c)
	return c.r
}
