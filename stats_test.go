package twolane_test

import (
	"testing"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
)

func (e *env) lane(l twolane.Lane) twolane.LaneStats {
	e.Helper()
	s, err := e.Stats(e.Context(), "default")
	if err != nil {
		e.Fatal(err)
	}
	return s.Queues[0].Lanes[l]
}

// With every worker gone the age of waiting work rises, in every number that people and alerts see.
func TestF019_AgeRisesWithoutWorkers(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		if l := e.lane(twolane.Intake); l.Oldest != 0 || l.Eligible != 0 || l.Waits != "" || l.Starved {
			t.Fatalf("empty: %+v", l)
		}
		e.must(twolane.Submission{Type: "a"})
		var last time.Duration
		for range 10 {
			time.Sleep(time.Minute)
			l := e.lane(twolane.Intake)
			if l.Oldest-last != time.Minute || l.Eligible != 1 || l.Waits != twolane.WaitNoWorker || !l.Starved {
				t.Fatalf("%+v after %v", l, last)
			}
			last = l.Oldest
		}
		// A lease that is over counts as waiting, whether or not anybody reaps.
		e.claim("w1", "default", store.Intake, "a")
		time.Sleep(5 * time.Minute)
		if l := e.lane(twolane.Intake); l.Eligible != 1 || l.Oldest == 0 || l.Leased+l.Ready != 1 {
			t.Fatalf("%+v", l)
		}
	})
}

func TestF039_NoWorkerIsSaid(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		for range 10 {
			e.must(twolane.Submission{Type: "a"})
		}
		time.Sleep(2 * time.Second)
		if l := e.lane(twolane.Intake); l.Waits != twolane.WaitNoWorker || !l.Starved || l.Unclaimable != 10 || l.Permits != 0 {
			t.Fatalf("%+v", l)
		}
		e.worker("w1", "default", "a", 2, 0)
		if l := e.lane(twolane.Intake); l.Waits != twolane.WaitTurn || l.Unclaimable != 0 || l.Permits != 2 || l.Free != 2 {
			t.Fatalf("%+v", l)
		}
		time.Sleep(25 * time.Second) // its heartbeat is over
		if l := e.lane(twolane.Intake); l.Waits != twolane.WaitNoWorker {
			t.Fatalf("%+v", l)
		}
	})
}

// A deep queue that drains and a shallow one that stands still are told apart by the age of their oldest command.
func TestF137_AgeTellsBusyFromDead(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		e.worker("w1", "default", "a", 100, 100)
		for range 50 {
			e.must(twolane.Submission{Queue: "dead", Type: "a"})
		}
		var busy, dead twolane.LaneStats
		for range 60 {
			for range 20 {
				e.must(twolane.Submission{Type: "a"})
			}
			for range 20 {
				e.finish(store.Settlement{Kind: store.OutcomeDone})
			}
			for range 2 {
				e.must(twolane.Submission{Type: "a"})
			}
			e.finish(store.Settlement{Kind: store.OutcomeDone})
			e.finish(store.Settlement{Kind: store.OutcomeDone})
			time.Sleep(time.Second)
		}
		for range 200 {
			e.must(twolane.Submission{Type: "a"})
		}
		s, err := e.Stats(e.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range s.Queues {
			if q.Queue == "dead" {
				dead = q.Lanes[twolane.Intake]
			} else {
				busy = q.Lanes[twolane.Intake]
			}
		}
		if busy.Ready <= dead.Ready || busy.Oldest > time.Second || dead.Oldest < time.Minute {
			t.Fatalf("busy %+v\ndead %+v", busy, dead)
		}
	})
}

func TestF140_WorkersAreCounted(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		workers := func() int {
			s, err := e.Stats(e.Context())
			if err != nil {
				t.Fatal(err)
			}
			return len(s.Workers)
		}
		if n := workers(); n != 0 {
			t.Fatalf("%d workers", n)
		}
		e.worker("w1", "default", "a", 3, 1)
		s, err := e.Stats(e.Context())
		if err != nil || len(s.Workers) != 1 {
			t.Fatal(s.Workers, err)
		}
		if w := s.Workers[0]; w.ID != "w1" || w.Permits != [2]int{3, 3} || !w.Seen.Equal(time.Now()) || w.Types[twolane.Repoll][0] != "a" {
			t.Fatalf("%+v", w)
		}
		time.Sleep(time.Minute)
		if n := workers(); n != 0 {
			t.Fatalf("%d workers a minute after the last heartbeat", n)
		}
	})
}

func TestPlacesAddUp(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		e.worker("w1", "default", "a", 3, 1)
		for range 6 {
			e.must(twolane.Submission{Type: "a"})
		}
		e.must(twolane.Submission{Type: "a", Delay: time.Hour})
		e.finish(store.Settlement{Kind: store.OutcomeProcessing, Delay: time.Second})
		e.finish(store.Settlement{Kind: store.OutcomeProcessing, Delay: time.Minute})
		e.claim("w1", "default", store.Intake, "a")
		time.Sleep(1500 * time.Millisecond)
		s, err := e.Stats(e.Context(), "default")
		if err != nil {
			t.Fatal(err)
		}
		in, re := s.Queues[0].Lanes[twolane.Intake], s.Queues[0].Lanes[twolane.Repoll]
		if in.Ready != 3 || in.Leased != 1 || s.Queues[0].Scheduled != 1 || re.InLine != 2 || re.Ready != 1 || re.Oldest != 500*time.Millisecond {
			t.Fatalf("%+v", s.Queues[0])
		}
		if due := time.Until(re.NextDue); due < 58*time.Second || due > 59*time.Second {
			t.Fatalf("next poll in %v", due)
		}
	})
}

func TestOverloadedMeansLatePollsWithPermitsFree(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		e.worker("w1", "default", "a", 3, 1)
		e.must(twolane.Submission{Type: "a"})
		e.finish(store.Settlement{Kind: store.OutcomeProcessing, Delay: time.Second})
		time.Sleep(1900 * time.Millisecond)
		if l := e.lane(twolane.Repoll); l.Overloaded || l.Ready != 1 {
			t.Fatalf("late by less than a second: %+v", l)
		}
		time.Sleep(200 * time.Millisecond)
		if l := e.lane(twolane.Repoll); !l.Overloaded || l.Starved {
			t.Fatalf("late by more: %+v", l)
		}
		e.worker("w1", "default", "a", 3, 3)
		if l := e.lane(twolane.Repoll); l.Overloaded || l.Waits != twolane.WaitPermits {
			t.Fatalf("without permits it is the permits: %+v", l)
		}
		e.worker("w1", "default", "a", 3, 1)
		if err := e.Pause(e.Context(), "default", twolane.PauseAll, time.Time{}); err != nil {
			t.Fatal(err)
		}
		if l := e.lane(twolane.Repoll); l.Overloaded || l.Waits != twolane.WaitPaused {
			t.Fatalf("paused: %+v", l)
		}
	})
}
