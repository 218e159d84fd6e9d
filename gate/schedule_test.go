package gate

import (
	"testing"
	"time"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Skipf("this machine has no time zones: %v", err)
	}
	return z
}

func tod(t *testing.T, s string) TimeOfDay {
	t.Helper()
	d, err := ParseTimeOfDay(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// open counts the minutes of a day (or more) in which a schedule is open, and checks what it says of its next opening.
func openMinutes(t *testing.T, s *Schedule, from time.Time, d time.Duration) int {
	t.Helper()
	n := 0
	var opens time.Time
	for at := from; at.Before(from.Add(d)); at = at.Add(time.Minute) {
		r := s.Read(at, Scope{})
		if r.Budget > 0 {
			if !opens.IsZero() && !opens.Equal(at) {
				t.Errorf("it opened at %v, and had said %v", at, opens)
			}
			opens = time.Time{}
			n++
			continue
		}
		if !opens.IsZero() && !opens.Equal(r.Opens) {
			t.Errorf("at %v it opens at %v, before that at %v", at, r.Opens, opens)
		}
		opens = r.Opens
	}
	return n
}

func TestScheduleOverMidnightAndWeekdays(t *testing.T) {
	s, err := NewSchedule(ScheduleConfig{Zone: time.UTC, Windows: []TimeWindow{
		{Days: []time.Weekday{time.Friday}, From: tod(t, "22:00"), To: tod(t, "06:00"), Budget: 0.5},
		{Days: []time.Weekday{time.Sunday}, From: tod(t, "00:00"), To: tod(t, "24:00"), Budget: 1},
	}})
	if err != nil {
		t.Fatal(err)
	}
	friday := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		at     string
		budget float64
		opens  string
	}{
		{"2026-01-02T21:59:59Z", 0, "2026-01-02T22:00:00Z"}, {"2026-01-02T22:00:00Z", 0.5, ""}, {"2026-01-03T05:59:59Z", 0.5, ""},
		{"2026-01-03T06:00:00Z", 0, "2026-01-04T00:00:00Z"}, {"2026-01-04T00:00:00Z", 1, ""}, {"2026-01-04T23:59:59Z", 1, ""},
		{"2026-01-05T00:00:00Z", 0, "2026-01-09T22:00:00Z"},
	} {
		at, _ := time.Parse(time.RFC3339, c.at)
		r := s.Read(at, Scope{})
		got := ""
		if !r.Opens.IsZero() {
			got = r.Opens.UTC().Format(time.RFC3339)
		}
		if r.Budget != c.budget || got != c.opens || r.Reason != Window {
			t.Errorf("%s: %v, opens %s (%s); want %v, %s", c.at, r.Budget, got, r.Reason, c.budget, c.opens)
		}
	}
	if n := openMinutes(t, s, friday, 7*24*time.Hour); n != 8*60+24*60 {
		t.Errorf("open for %d minutes of a week", n)
	}
}

// On the day on which clocks are set forward or back a window is as long as the clock on the wall says, and it neither stays open nor is left out.
func TestScheduleWhenClocksAreSet(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	for _, c := range []struct {
		what, from, to string
		forward, back  int // minutes on 2026-03-29 (02:00 to 03:00) and on 2026-10-25 (03:00 to 02:00)
	}{
		{"around the change", "01:00", "04:00", 120, 240},
		{"begins in the gap", "02:30", "04:00", 60, 150},
		{"ends in the gap", "01:00", "02:30", 60, 150},
		{"in the gap", "02:15", "02:45", 0, 90},
		{"after it", "03:00", "05:00", 120, 120},
		{"over midnight", "23:00", "01:00", 120, 120},
		{"whole day", "00:00", "24:00", 23 * 60, 25 * 60},
	} {
		s, err := NewSchedule(ScheduleConfig{Zone: berlin, Windows: []TimeWindow{{From: tod(t, c.from), To: tod(t, c.to), Budget: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		for day, want := range map[string]int{"2026-03-29": c.forward, "2026-10-25": c.back} {
			from, err := time.ParseInLocation("2006-01-02", day, berlin)
			if err != nil {
				t.Fatal(err)
			}
			if n := openMinutes(t, s, from, from.AddDate(0, 0, 1).Sub(from)); n != want {
				t.Errorf("%s, %s: open for %d minutes, want %d", c.what, day, n, want)
			}
		}
	}
	// Half an hour, and on the other side of the earth.
	lord := zone(t, "Australia/Lord_Howe")
	s, err := NewSchedule(ScheduleConfig{Zone: lord, Windows: []TimeWindow{{From: tod(t, "01:00"), To: tod(t, "03:00"), Budget: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	from := time.Date(2026, 10, 4, 0, 0, 0, 0, lord)
	if n := openMinutes(t, s, from, 20*time.Hour); n != 90 {
		t.Errorf("Lord Howe: open for %d minutes, want 90", n)
	}
}

func TestScheduleFirstWindowCounts(t *testing.T) {
	s, err := NewSchedule(ScheduleConfig{Default: 1, Windows: []TimeWindow{
		{From: tod(t, "12:00"), To: tod(t, "13:00"), Budget: 0}, {From: tod(t, "08:00"), To: tod(t, "18:00"), Budget: 0.25},
	}})
	if err != nil {
		t.Fatal(err)
	}
	day := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	for h, want := range map[int]float64{7: 1, 8: 0.25, 12: 0, 13: 0.25, 18: 1} {
		if r := s.Read(day.Add(time.Duration(h)*time.Hour), Scope{}); r.Budget != want {
			t.Errorf("%d:00: %v, want %v", h, r.Budget, want)
		}
	}
	if r := s.Read(day.Add(12*time.Hour), Scope{}); !r.Opens.Equal(day.Add(13 * time.Hour)) {
		t.Errorf("opens at %v", r.Opens)
	}
}
