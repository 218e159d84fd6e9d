package bench

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestRowJSONLeavesOutWhatDoesNotApply(t *testing.T) {
	r := Row{Row: SubmitBatch, Store: "redis 7", N: 1000, PerSecond: 100_000, StoreCPU: 8.5, FloorPerSecond: 300_000}
	out, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"row":"submit-batch","store":"redis 7","n":1000,"per_second":100000,"store_cpu_us":8.5,"floor_per_second":300000}`
	if string(out) != want {
		t.Errorf("got  %s\nwant %s", out, want)
	}
}

func TestQuantilesByNearestRank(t *testing.T) {
	var r Row
	var ms []float64
	for i := range 1000 {
		ms = append(ms, float64(1000-i))
	}
	if r.quantiles(ms); r.P50 != 500 || r.P99 != 990 || r.Max != 1000 {
		t.Errorf("of 1 to 1000: %+v", r)
	}
	r = Row{}
	if r.quantiles([]float64{7}); r.P50 != 7 || r.P99 != 7 || r.Max != 7 {
		t.Errorf("of one: %+v", r)
	}
	r = Row{}
	if r.quantiles(nil); r != (Row{}) {
		t.Errorf("of none: %+v", r)
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	err := Table(&b, []Row{
		{Row: Process, Variant: "retention=0", Store: "redis 7", N: 200, PerSecond: 45_000, FloorPerSecond: 300_000, StoreCPU: 15.25},
		{Row: Idle, Store: "redis 7", N: 1, CallsPerSecond: 1.5, CPUPercent: 0.31},
		{Row: Repoll, Store: "sqlite", N: 990, Expected: 1000, P99: 4.321},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"process retention=0", "45000", "15 %", "15.2", "0.31 % CPU, 1.50 calls/s", "99.0 % of 1000", "4.32", "\nsqlite\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
}
