package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Names of the rows, in the order in which they run.
const (
	SubmitBatch  = "submit-batch"
	SubmitSingle = "submit-single"
	Process      = "process"
	Latency      = "latency"
	Repoll       = "repoll"
	Parked       = "parked"
	Idle         = "idle"
	Recovery     = "recovery"
	Limits       = "limits"
)

// Rows lists them.
var Rows = []string{SubmitBatch, SubmitSingle, Process, Latency, Repoll, Parked, Idle, Recovery, Limits}

// Row is one measurement; what does not apply is zero and left out. Its JSON form is a promise to scripts.
type Row struct {
	Row     string `json:"row"`
	Variant string `json:"variant,omitempty"` // how it differs from the row of the same name
	Store   string `json:"store"`
	N       int    `json:"n"`

	PerSecond      float64 `json:"per_second,omitempty"`
	StoreCPU       float64 `json:"store_cpu_us,omitempty"`  // microseconds for each of n
	ClientCPU      float64 `json:"client_cpu_us,omitempty"` // microseconds for each of n
	Bytes          float64 `json:"bytes,omitempty"`         // for each of n
	P50            float64 `json:"p50_ms,omitempty"`
	P99            float64 `json:"p99_ms,omitempty"`
	Max            float64 `json:"max_ms,omitempty"`
	FloorPerSecond float64 `json:"floor_per_second,omitempty"`
	CPUPercent     float64 `json:"cpu_percent,omitempty"`      // of one core, client and store
	WorkerBytes    float64 `json:"worker_bytes,omitempty"`     // by which the worker's memory grew
	CallsPerSecond float64 `json:"calls_per_second,omitempty"` // of the store
	Expected       int     `json:"expected,omitempty"`         // of which n were made
	Note           string  `json:"note,omitempty"`
}

// rounded leaves four digits that matter: no more were measured.
func (r Row) rounded() Row {
	for _, x := range []*float64{&r.PerSecond, &r.StoreCPU, &r.ClientCPU, &r.Bytes, &r.P50, &r.P99, &r.Max, &r.FloorPerSecond, &r.CPUPercent, &r.WorkerBytes, &r.CallsPerSecond} {
		*x, _ = strconv.ParseFloat(strconv.FormatFloat(*x, 'g', 4, 64), 64) // what was formatted can be parsed
	}
	return r
}

// Name is what the row is called, with its variant.
func (r Row) Name() string { return strings.TrimSpace(r.Row + " " + r.Variant) }

// Table prints rows for people, a table for each store.
func Table(w io.Writer, rows []Row) error {
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].Store == rows[0].Store {
			n++
		}
		fmt.Fprintf(w, "\n%s\n", rows[0].Store)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(t, "row\tn\tper second\tfloor\tof floor\tstore us\tclient us\tbytes\tp50 ms\tp99 ms\tmax ms\t")
		for _, r := range rows[:n] {
			share := ""
			if r.FloorPerSecond > 0 && r.PerSecond > 0 {
				share = fmt.Sprintf("%.0f %%", 100*r.PerSecond/r.FloorPerSecond)
			}
			fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", r.Name(), r.N, figure(r.PerSecond), figure(r.FloorPerSecond), share,
				figure(r.StoreCPU), figure(r.ClientCPU), figure(r.Bytes), figure(r.P50), figure(r.P99), figure(r.Max), r.remark())
		}
		if err := t.Flush(); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// remark puts the figures that few rows have into words.
func (r Row) remark() string {
	var parts []string
	if r.Expected > 0 {
		parts = append(parts, fmt.Sprintf("%.1f %% of %d", 100*float64(r.N)/float64(r.Expected), r.Expected))
	}
	if r.CPUPercent > 0 {
		parts = append(parts, fmt.Sprintf("%.2f %% CPU", r.CPUPercent))
	}
	if r.CallsPerSecond > 0 {
		parts = append(parts, fmt.Sprintf("%.2f calls/s", r.CallsPerSecond))
	}
	if r.WorkerBytes != 0 {
		parts = append(parts, fmt.Sprintf("worker %+.1f MB", r.WorkerBytes/1e6))
	}
	if r.Note != "" {
		parts = append(parts, r.Note)
	}
	return strings.Join(parts, ", ")
}

// figure prints a number with three digits that matter; zero is not known.
func figure(x float64) string {
	switch {
	case x == 0:
		return ""
	case x >= 100:
		return strconv.FormatFloat(math.Round(x), 'f', 0, 64)
	case x >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

// quantiles fills in the latencies of r, in milliseconds, by nearest rank.
func (r *Row) quantiles(ms []float64) {
	if len(ms) == 0 {
		return
	}
	slices.Sort(ms)
	rank := func(p float64) float64 { return ms[max(0, int(math.Ceil(p*float64(len(ms))))-1)] }
	r.P50, r.P99, r.Max = rank(0.50), rank(0.99), ms[len(ms)-1]
}
