package demo

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestResultJSON(t *testing.T) {
	out, err := json.Marshal(Result{Store: "mem:", Audit: "ok"})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"store":"mem:","commands":0,"launched":0,"succeeded":0,"failed":0,"cancelled":0,"lost":0,"duplicate_runs":0,` +
		`"launch_seconds":0,"total_seconds":0,"longest_intake_stall_seconds":0,"polls":0,"poll_lateness_ms":{"p50":0,"p99":0,"max":0},` +
		`"api_calls_per_second_max":0,"throttled":0,"lease_losses":0,"audit":"ok"}`
	if diff := cmp.Diff(want, string(out)); diff != "" {
		t.Errorf("the object that scripts read has changed (-want +got):\n%s", diff)
	}
}

func TestBroken(t *testing.T) {
	good := Result{Commands: 10, Launched: 10, Succeeded: 10, LongestIntakeStall: 0.2, LeaseLosses: 3, Audit: "ok"}
	if b := good.Broken(false); len(b) != 0 {
		t.Errorf("a good run broke %q", b)
	}
	for name, change := range map[string]func(*Result){
		"not finished": func(r *Result) { r.Lost = 1 },
		"failed":       func(r *Result) { r.Failed = 1 },
		"cancelled":    func(r *Result) { r.Cancelled = 1 },
		"ran twice":    func(r *Result) { r.DuplicateRuns = 1 },
		"throttled":    func(r *Result) { r.Throttled = 1 },
		"was started":  func(r *Result) { r.LongestIntakeStall = MaxStall.Seconds() + 0.1 },
		"audit found":  func(r *Result) { r.Audit = "c1: in two places" },
	} {
		r := good
		change(&r)
		if b := r.Broken(false); len(b) != 1 || !strings.Contains(b[0], name) {
			t.Errorf("%s: %q", name, b)
		}
	}
	r := good
	r.Throttled = 1
	if b := r.Broken(true); len(b) != 0 {
		t.Errorf("throttled while calls fail: %q", b)
	}
}

func TestQuantiles(t *testing.T) {
	var l Lateness
	if q := l.Quantiles(); q != (Quantiles{}) {
		t.Errorf("of nothing: %+v", q)
	}
	for i := range 100 {
		l.Add(time.Duration(100-i) * time.Millisecond)
	}
	if q := l.Quantiles(); q != (Quantiles{P50: 50, P99: 99, Max: 100}) {
		t.Errorf("of 1 to 100 ms: %+v", q)
	}
}
