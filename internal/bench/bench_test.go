package bench

import (
	"io"
	"strings"
	"testing"
	"time"
)

// onMemory runs one row on memory and returns what it showed.
func onMemory(t *testing.T, opt Options, f func(*bench) error) []Row {
	t.Helper()
	target, err := NewTarget(t.Context(), "mem:")
	if err != nil {
		t.Fatal(err)
	}
	var rows []Row
	opt.Messages = io.Discard
	opt.Show = func(r Row) error {
		rows = append(rows, r)
		return nil
	}
	if f == nil {
		err = Run(t.Context(), target, opt)
	} else {
		err = f(newBench(target, opt))
	}
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestRepollCountsEveryPoll(t *testing.T) {
	rows := onMemory(t, Options{N: 50}, func(b *bench) error { return b.repollEvery(t.Context(), 300*time.Millisecond) })
	if len(rows) != 1 {
		t.Fatalf("rows: %+v", rows)
	}
	// Five intervals; the lateness of each poll moves the next one.
	if r := rows[0]; r.Expected < 250 || r.N < r.Expected/2 || r.N > r.Expected+50 || r.P50 <= 0 || r.P99 < r.P50 || r.Max < r.P99 {
		t.Errorf("row: %+v", r)
	}
}

func TestRowsOnMemory(t *testing.T) {
	for only, want := range map[string]string{
		SubmitBatch: "submit-batch", SubmitSingle: "submit-single", Process: "process retention=0,process retention=default,process lines=20",
		Parked: "parked waiting,parked parked", Recovery: "",
		Limits: "limits uncontended limits=0 batch=10,limits uncontended limits=1 batch=10,limits uncontended limits=3 batch=10," +
			"limits uncontended limits=0 batch=100,limits uncontended limits=1 batch=100,limits uncontended limits=3 batch=100," +
			"limits contended limits=0,limits contended limits=1,limits blocked none,limits blocked lines=200 keys=200,limits blocked lines=200 keys=1," +
			"limits room to start keys=200,limits tenant b beside a backlog of 200",
	} {
		t.Run(only, func(t *testing.T) {
			var got []string
			for _, r := range onMemory(t, Options{Only: only, N: 200, Lines: 20}, nil) {
				got = append(got, r.Name())
				if r.N < 20 || r.Store != "memory" || r.FloorPerSecond != 0 {
					t.Errorf("row: %+v", r)
				}
			}
			if strings.Join(got, ",") != want {
				t.Errorf("rows %q, want %s", got, want)
			}
		})
	}
}

func TestOptionsValidate(t *testing.T) {
	for _, o := range []Options{{Only: "nothing"}, {N: -1}, {Lines: -1}} {
		if err := o.Validate(); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}
