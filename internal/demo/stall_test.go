package demo

import (
	"testing"
	"time"
)

func TestStallMeter(t *testing.T) {
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ms := func(n int) time.Time { return t0.Add(time.Duration(n) * time.Millisecond) }
	type step struct {
		at             int // milliseconds
		start          bool
		eligible, free int
	}
	starts := func(from, every, n int) (s []step) {
		for i := range n {
			s = append(s, step{at: from + i*every, start: true}, step{at: from + i*every + 1, eligible: 5, free: 1})
		}
		return s
	}
	for _, c := range []struct {
		name  string
		steps []step
		want  int // milliseconds
	}{
		{"starts at the pace of the tokens", append([]step{{at: 0, start: true}}, starts(0, 100, 20)...), 0},
		{"a burst that is left unused", starts(0, 100, 20), 100},
		{"nothing is eligible", []step{{at: 0, free: 9}, {at: 5000, free: 9}, {at: 9000, free: 9}}, 0},
		{"no permit is free", []step{{at: 0, eligible: 9}, {at: 5000, eligible: 9}}, 0},
		{"could start from the first sample on", []step{{at: 0, eligible: 1, free: 1}, {at: 50, eligible: 1, free: 1}, {at: 70, start: true}}, 70},
		{"a stall that lasts until now", []step{{at: 0, eligible: 1, free: 1}, {at: 3000, eligible: 1, free: 1}}, 3000},
		{"the wait for a token is no stall", []step{
			{at: 0, eligible: 9, free: 9}, {at: 0, start: true}, {at: 0, start: true}, {at: 100, start: true}, {at: 350, start: true}}, 150},
		{"a gap between two stretches of work is no stall", []step{
			{at: 0, eligible: 1, free: 1}, {at: 10, start: true}, {at: 200, free: 1}, {at: 900, eligible: 1, free: 1}, {at: 930, start: true}}, 30},
		{"permits run out and come back", []step{
			{at: 0, eligible: 9, free: 1}, {at: 0, start: true}, {at: 10, eligible: 8}, {at: 4000, eligible: 8, free: 1}, {at: 4040, start: true}}, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := NewStallMeter(10, 2)
			for _, s := range c.steps {
				if s.start {
					m.Started(ms(s.at))
				} else {
					m.Sample(ms(s.at), s.eligible, s.free)
				}
			}
			if got := m.Longest(); got != time.Duration(c.want)*time.Millisecond {
				t.Errorf("longest stall %v, want %d ms", got, c.want)
			}
		})
	}
}
