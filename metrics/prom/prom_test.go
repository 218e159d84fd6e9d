package prom_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/metrics/prom"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/memstore"
)

// counting counts the calls for numbers and can fail them.
type counting struct {
	store.Store
	stats atomic.Int32
	fail  atomic.Bool
}

func (c *counting) Stats(ctx context.Context, req store.StatsRequest) (store.Stats, error) {
	c.stats.Add(1)
	if c.fail.Load() {
		return store.Stats{}, errors.New("connection reset")
	}
	return c.Store.Stats(ctx, req)
}

func bubble(t *testing.T, f func(t *testing.T, c *twolane.Client, st *counting, reg *prometheus.Registry)) {
	synctest.Test(t, func(t *testing.T) {
		st := &counting{Store: memstore.New()}
		c := twolane.NewClient(st, &twolane.Options{Logger: slog.New(slog.DiscardHandler)})
		defer c.Close()
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(prom.NewCollector(c, nil))
		f(t, c, st, reg)
		if r, err := c.Audit(t.Context()); err != nil || len(r.Violations) > 0 {
			t.Fatal(r, err)
		}
	})
}

// gather returns the value of every series, by name and label values.
func gather(t *testing.T, reg prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			all[f.GetName()+labels(m)] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return all
}

func labels(m *dto.Metric) string {
	var vs []string
	for _, l := range m.GetLabel() {
		vs = append(vs, l.GetValue())
	}
	return "{" + strings.Join(vs, ",") + "}"
}

func submit(t *testing.T, c *twolane.Client, s twolane.Submission) {
	t.Helper()
	if _, err := c.Submit(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

// Names, types, units and help follow the rules of Prometheus.
func TestLint(t *testing.T) {
	bubble(t, func(t *testing.T, c *twolane.Client, _ *counting, reg *prometheus.Registry) {
		submit(t, c, twolane.Submission{Type: "a"})
		m, err := prom.New(reg)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range twolane.WorkerMetrics() {
			s := m.Series(d, make([]string, len(d.Labels))...)
			s.Add(1)
			s.Set(1)
			s.Observe(1)
		}
		problems, err := testutil.GatherAndLint(reg)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if !strings.HasPrefix(f.GetName(), "twolane_") {
				t.Errorf("%s has no prefix", f.GetName())
			}
			for _, l := range f.GetMetric()[0].GetLabel() {
				switch l.GetName() {
				case "queue", "lane", "type", "state", "reason", "outcome", "call", "limit", "value", "gate", "scope":
				default:
					t.Errorf("%s has label %s", f.GetName(), l.GetName())
				}
			}
		}
		if _, err := prom.New(reg); err != nil { // a second worker of the process
			t.Error(err)
		}
	})
}

// With no worker process alive, the age of what waits rises in the metrics, too.
func TestF019_AgeIsExportedWithoutWorkers(t *testing.T) {
	bubble(t, func(t *testing.T, c *twolane.Client, _ *counting, reg *prometheus.Registry) {
		submit(t, c, twolane.Submission{Type: "a"})
		for i := range 5 {
			time.Sleep(time.Minute)
			m := gather(t, reg)
			if age := m["twolane_oldest_eligible_age_seconds{intake,default}"]; age != float64(60*(i+1)) {
				t.Fatalf("age %v after %d minutes", age, i+1)
			}
			if m["twolane_starved{intake,default,no_worker}"] != 1 || m["twolane_unclaimable_types{intake,default}"] != 1 {
				t.Fatalf("nobody says that there is no worker: %v", m)
			}
		}
	})
}

func TestF140_NoWorkersIsZeroAndNotAbsent(t *testing.T) {
	bubble(t, func(t *testing.T, c *twolane.Client, st *counting, reg *prometheus.Registry) {
		submit(t, c, twolane.Submission{Type: "a"})
		m := gather(t, reg)
		for _, name := range []string{"twolane_workers{default}", "twolane_workers_alive{}", "twolane_oldest_eligible_age_seconds{repoll,default}",
			"twolane_commands{default,parked}", "twolane_commands{default,failed}", "twolane_queue_paused{intake,default}", "twolane_lost_records{}"} {
			if v, ok := m[name]; !ok || v != 0 {
				t.Errorf("%s is %v, %v", name, v, ok)
			}
		}
		_, err := st.Renew(t.Context(), store.RenewRequest{Worker: store.Worker{ID: "w1", Queues: []string{"default"}, Types: [2][]string{{"a"}}, Permits: [2]int{3, 3}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Pause(t.Context(), "default", twolane.PauseIntake, time.Time{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		m = gather(t, reg)
		for name, want := range map[string]float64{"twolane_workers{default}": 1, "twolane_queue_paused{intake,default}": 1, "twolane_queue_paused{repoll,default}": 0,
			"twolane_commands{default,ready}": 1, "twolane_starved{intake,default,queue_paused}": 1, "twolane_starved{intake,default,no_worker}": 0} {
			if m[name] != want {
				t.Errorf("%s is %v, want %v", name, m[name], want)
			}
		}
	})
}

// Scrapes share the store's answer; when the store does not answer, the numbers vanish, and their age and the errors go on.
func TestF137_NumbersGoStaleAndNotFrozen(t *testing.T) {
	bubble(t, func(t *testing.T, c *twolane.Client, st *counting, reg *prometheus.Registry) {
		submit(t, c, twolane.Submission{Type: "a"})
		for range 100 {
			gather(t, reg)
		}
		if n := st.stats.Load(); n != 1 {
			t.Fatalf("%d calls for a hundred scrapes at once", n)
		}
		st.fail.Store(true)
		time.Sleep(5 * time.Second)
		start := time.Now()
		m := gather(t, reg)
		if took := time.Since(start); took > 2*time.Second {
			t.Fatalf("the scrape took %v", took)
		}
		if _, ok := m["twolane_commands{default,ready}"]; !ok || m["twolane_stats_age_seconds{}"] < 5 || m["twolane_stats_errors_total{}"] != 1 {
			t.Fatalf("%v", m)
		}
		time.Sleep(6 * time.Second)
		m = gather(t, reg)
		if _, ok := m["twolane_commands{default,ready}"]; ok || m["twolane_stats_age_seconds{}"] < 11 || m["twolane_stats_errors_total{}"] != 2 {
			t.Fatalf("%v", m)
		}
		st.fail.Store(false)
		time.Sleep(2 * time.Second)
		if m = gather(t, reg); m["twolane_commands{default,ready}"] != 1 || m["twolane_stats_age_seconds{}"] != 0 {
			t.Fatalf("%v", m)
		}
	})
}

func TestQueuesAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, c *twolane.Client, _ *counting, _ *prometheus.Registry) {
		for i := range 20 {
			submit(t, c, twolane.Submission{Type: "a", Queue: fmt.Sprintf("q%02d", i)})
			time.Sleep(time.Second)
		}
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(prom.NewCollector(c, &prom.CollectorOptions{MaxQueues: 5}))
		m := gather(t, reg)
		queues := 0
		for name := range m {
			if strings.HasPrefix(name, "twolane_commands{") && strings.HasSuffix(name, ",ready}") {
				queues++
			}
		}
		if queues != 6 || m["twolane_commands{_other,ready}"] != 15 || m["twolane_oldest_eligible_age_seconds{intake,_other}"] != 15 {
			t.Fatalf("%d queues: %v", queues, m)
		}
		if _, ok := m["twolane_workers{_other}"]; ok {
			t.Fatal("workers cannot be told of queues that are added up")
		}
	})
}

func TestSeriesAreBounded(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m, err := prom.New(reg)
	if err != nil {
		t.Fatal(err)
	}
	d := &twolane.Metric{Name: "twolane_test_total", Help: "A test.", Kind: twolane.Counter, Labels: []string{"queue", "lane", "type"}}
	for i := range prom.MaxSeries + 500 {
		m.Series(d, "q", "intake", fmt.Sprintf("t%d", i)).Add(1)
	}
	m.Series(d, "q", "intake", "t7").Add(1)
	all := gather(t, reg)
	n := 0
	for name := range all {
		if strings.HasPrefix(name, d.Name+"{") {
			n++
		}
	}
	if n != prom.MaxSeries+1 || all[d.Name+"{_other,_other,_other}"] != 500 || all[d.Name+"{intake,q,t7}"] != 2 {
		t.Fatalf("%d series, %v in other", n, all[d.Name+"{_other,_other,_other}"])
	}
}

func TestNamesThatAreTaken(t *testing.T) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: twolane.WorkerMetrics()[0].Name, Help: "mine"}))
	if _, err := prom.New(reg); err == nil {
		t.Fatal("a metric of somebody else is taken over")
	}
}

func TestLimits(t *testing.T) {
	bubble(t, func(t *testing.T, c *twolane.Client, st *counting, reg *prometheus.Registry) {
		for _, l := range []twolane.Limit{{Name: "vms", Max: 3}, {Name: "api", Rate: 5}} {
			if err := c.SetLimit(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		}
		submit(t, c, twolane.Submission{Type: "a", Cost: 2})
		submit(t, c, twolane.Submission{Type: "b", Cost: 2})
		for _, typ := range []string{"a", "b"} {
			req := store.ClaimRequest{Worker: "w", Nonce: "nonce0000" + typ, Free: [2]int{1, 0}, Wants: []store.Want{{Queue: "default", Max: 1, Types: []store.TypeWant{{Type: typ}}}}}
			if _, err := st.Claim(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
		got := gather(t, reg)
		for name, want := range map[string]float64{
			"twolane_limit_members{vms}": 2, "twolane_limit_max{vms}": 3, "twolane_limit_filed_lines{vms}": 1, "twolane_limit_filed_lines{api}": 0,
		} {
			if v, ok := got[name]; !ok || v != want {
				t.Errorf("%s is %v (%v), not %v", name, v, ok, want)
			}
		}
		for _, name := range []string{"twolane_limit_max{api}", "twolane_limit_value_max{api,}", "twolane_limit_value_members{api,}"} {
			if _, ok := got[name]; ok {
				t.Errorf("%s: a rate has neither", name)
			}
		}
	})
}

// Which value of a limit is full, by how much and how many wait: for those for which most wait, and for no more than were asked for.
func TestLimitValues(t *testing.T) {
	bubble(t, func(t *testing.T, c *twolane.Client, st *counting, reg *prometheus.Registry) {
		err := c.SetLimit(t.Context(), twolane.Limit{Name: "tenant", By: twolane.ByGroup, Max: 1, Values: map[string]int{"big": 2}})
		if err != nil {
			t.Fatal(err)
		}
		for group, lines := range map[string]int{"big": 1, "busy": 3, "small": 2, "idle": 0} {
			for i := range lines + 1 {
				submit(t, c, twolane.Submission{Type: "a", Group: group, BatchKey: fmt.Sprint(i)})
			}
		}
		submit(t, c, twolane.Submission{Type: "a", Group: "big", BatchKey: "x"})
		req := store.ClaimRequest{Worker: "w", Nonce: "nonce00001", Free: [2]int{50, 0}, Wants: []store.Want{{Queue: "default", Max: 50, Types: []store.TypeWant{{Type: "a"}}}}}
		if _, err := st.Claim(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		got := gather(t, reg)
		for name, want := range map[string]float64{
			"twolane_limit_value_members{tenant,busy}": 1, "twolane_limit_value_max{tenant,busy}": 1, "twolane_limit_value_filed_lines{tenant,busy}": 3,
			"twolane_limit_value_members{tenant,big}": 2, "twolane_limit_value_max{tenant,big}": 2, "twolane_limit_value_filed_lines{tenant,big}": 1,
			"twolane_limit_value_filed_lines{tenant,small}": 2,
		} {
			if v, ok := got[name]; !ok || v != want {
				t.Errorf("%s is %v (%v), not %v", name, v, ok, want)
			}
		}
		if _, ok := got["twolane_limit_value_members{tenant,idle}"]; ok {
			t.Error("a value for which nothing waits has series")
		}
		few := prometheus.NewRegistry()
		few.MustRegister(prom.NewCollector(c, &prom.CollectorOptions{MaxValues: 1}))
		n := 0
		for name := range gather(t, few) {
			if strings.HasPrefix(name, "twolane_limit_value_") {
				n++
				if !strings.Contains(name, "busy") {
					t.Errorf("%s is shown, most wait for busy", name)
				}
			}
		}
		if n != 3 {
			t.Errorf("%d series of values, want those of one", n)
		}
	})
}
