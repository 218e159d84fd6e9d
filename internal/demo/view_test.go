package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func snapshot() Snapshot {
	return Snapshot{
		Store: "sqlite:/home/someone/a/rather/long/folder/name/demo.db", Elapsed: 83 * time.Second, Commands: 1200,
		Workers: []WorkerView{{"worker-1", "killed"}, {"worker-2", "running"}},
		Lanes: [2]LaneView{
			{Name: "intake", Permits: 200, Held: 12, Eligible: 512, Oldest: 21300 * time.Millisecond, Started: 28, Rate: 28},
			{Name: "repoll", Permits: 200, Held: 1, Eligible: 34, AtLeast: true, Started: 4, Rate: 6},
		},
		Leased: 46, Parked: 371, Succeeded: 234, APIRate: 40, APICalls: 32, APIMax: 36, Throttled: 1,
		Launched: 650, Live: 402, LiveMax: 431, Checks: 1204, Lateness: Quantiles{12, 80, 210},
	}
}

func TestRenderFitsTheWidth(t *testing.T) {
	for _, width := range []int{0, 20, 40, 79, 120, 300} {
		for _, l := range render(snapshot(), width, false) {
			if n := utf8.RuneCountInString(l); n > max(20, width) {
				t.Errorf("width %d: a line of %d columns: %q", width, n, l)
			}
			if strings.Contains(l, "\x1b") {
				t.Errorf("an escape sequence without colour: %q", l)
			}
		}
	}
	wide := strings.Join(render(snapshot(), 300, false), "\n")
	for _, want := range []string{"01:23", "1,200 commands", "worker-1 killed", "12/200 permits", "512 eligible", "34+ eligible", "oldest 21.3s",
		"parked 371", "32 calls/s of 40", "most 36", "throttled 1", "402 live", "99% 80 ms", "234 succeeded", "966 to go"} {
		if !strings.Contains(wide, want) {
			t.Errorf("%q is missing in\n%s", want, wide)
		}
	}
	if c := strings.Join(render(snapshot(), 300, true), "\n"); !strings.Contains(c, "\x1b[31mthrottled 1\x1b[0m") {
		t.Errorf("a throttled call is not red:\n%q", c)
	}
}

func TestScreenRedrawsInPlace(t *testing.T) {
	var out bytes.Buffer
	s := &screen{w: &out, width: func() int { return 80 }}
	s.Show(snapshot())
	rows := strings.Count(out.String(), "\n")
	if rows != len(render(snapshot(), 79, false)) || strings.Contains(out.String(), "\x1b") {
		t.Fatalf("first drawing:\n%q", out.String())
	}
	out.Reset()
	s.Show(snapshot())
	if !strings.HasPrefix(out.String(), "\x1b[9A\r\x1b[J") || rows != 9 {
		t.Errorf("second drawing does not go back over %d rows:\n%q", rows, out.String())
	}
	out.Reset()
	if _, err := s.Write([]byte("a message\n")); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "\x1b[9A\r\x1b[Ja message\ntwolane demo") {
		t.Errorf("a message is not above the view:\n%q", out.String())
	}
	s.Close()
	out.Reset()
	if _, err := s.Write([]byte("after\n")); err != nil || out.String() != "after\n" {
		t.Errorf("after Close: %q %v", out.String(), err)
	}
}

func TestLinesArePaced(t *testing.T) {
	var out bytes.Buffer
	l := &lines{w: &out, every: 2 * time.Second}
	s := snapshot()
	for ms := range 6000 {
		s.Elapsed = time.Duration(ms) * time.Millisecond
		l.Show(s)
	}
	if n := strings.Count(out.String(), "\n"); n != 3 {
		t.Errorf("%d lines in six seconds:\n%s", n, out.String())
	}
	if !strings.Contains(out.String(), "launched 650/1200  live 402  ended, not yet checked 14  succeeded 234") {
		t.Errorf("progress reads %q", out.String())
	}
}
