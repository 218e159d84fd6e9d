package model

import (
	"os"
	"strings"
	"testing"
)

// smallEnough is the number of states up to which a scenario is explored under the race detector and with -short. The
// checker has one goroutine, so the race detector has nothing to find in the others.
const smallEnough = 20_000

func explore(t *testing.T, sc *Scenario) *Report {
	t.Helper()
	r, err := Explore(sc)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d states, %d steps", r.States, r.Steps)
	return r
}

func TestDesignHolds(t *testing.T) {
	seen := map[string]bool{}
	for _, sc := range Scenarios() {
		if seen[sc.Name] {
			t.Errorf("two scenarios are called %q", sc.Name)
		}
		seen[sc.Name] = true
		t.Run(sc.Name, func(t *testing.T) {
			t.Parallel()
			if raceEnabled || testing.Short() {
				if sc.Large {
					t.Skip("a large scenario")
				}
			}
			if sc.Huge && os.Getenv("TWOLANE_MODEL") != "full" {
				t.Skip("explored with TWOLANE_MODEL=full")
			}
			r := explore(t, sc)
			if !sc.Large && !sc.Huge && r.States > smallEnough {
				t.Errorf("%d states: mark the scenario Large", r.States)
			}
			if len(r.Violations) > 0 {
				t.Error(r)
			}
		})
	}
}

// Each broken rule must be found, and found as what it is.
func TestMutants(t *testing.T) {
	bugs, kinds := map[Bug]bool{}, map[Kind]bool{}
	for _, m := range Mutants() {
		bugs[m.Scenario.Bug], kinds[m.Want] = true, true
		t.Run(strings.TrimPrefix(m.Scenario.Name, "mutant: "), func(t *testing.T) { expect(t, m) })
		t.Run(strings.TrimPrefix(m.Scenario.Name, "mutant: ")+"/without it", func(t *testing.T) {
			sound := *m.Scenario
			sound.Bug = NoBug
			if r := explore(t, &sound); len(r.Violations) > 0 {
				t.Errorf("the world of the mutant is broken without it: %s", r)
			}
		})
	}
	for b := NoBug + 1; b < endOfBugs; b++ {
		if !bugs[b] {
			t.Errorf("no mutant has the bug %q", b)
		}
	}
	for k := KindPlace; k <= KindLane; k++ {
		if !kinds[k] {
			t.Errorf("no mutant is to be reported as %q", k)
		}
	}
}

func expect(t *testing.T, m Mutant) {
	t.Helper()
	r := explore(t, m.Scenario)
	for _, v := range r.Violations {
		if v.Kind == m.Want {
			t.Logf("found after %d steps", len(v.Trace)-1)
			return
		}
	}
	t.Errorf("not reported: %q; instead: %s", m.Want, r)
}

// What the design does not promise stays as it is known.
func TestKnown(t *testing.T) {
	for _, m := range Known() {
		t.Run(m.Scenario.Name, func(t *testing.T) { expect(t, m) })
	}
}

func TestExploreRefusesWhatIsTooLarge(t *testing.T) {
	for name, sc := range map[string]Scenario{
		"states":   {Commands: []Command{plain, plain}, Workers: pair, MaxStates: 3},
		"commands": {Commands: make([]Command, maxCommands+1), Workers: pair},
		"workers":  {Commands: []Command{plain}, Workers: make([]Worker, maxWorkers+1)},
		"permits":  {Commands: []Command{plain}, Workers: []Worker{{Intake: 3, Repoll: 3}}},
		"keys":     {Commands: []Command{{Keys: 1}}, Workers: pair},
	} {
		if _, err := Explore(&sc); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Every step is packed into an edge and comes back whole.
func TestStepPacks(t *testing.T) {
	for kind := StepSubmit; kind <= StepAdd; kind++ {
		for _, fair := range []bool{false, true} {
			want := step{kind: kind, who: noone, cmd: 3, what: uint8(endOfOutcomes), fate: RolledBack, ans: Unsure, fair: fair}
			if got := unpack(want.pack()); got != want {
				t.Errorf("%+v came back as %+v", want, got)
			}
		}
	}
}
