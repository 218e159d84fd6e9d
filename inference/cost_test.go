package inference

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twolane/twolane/internal/openstore"
	"github.com/twolane/twolane/store"
)

// TestMeasureCost says what each step of a request costs the server.
func TestMeasureCost(t *testing.T) {
	measured(t)
	r := newRig(t, nil)
	url, err := StoreURL(r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	st, err := openstore.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	p, err := New(r.cfg, Options{Store: st, Logger: r.logger()})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.configure(t.Context()); err != nil {
		t.Fatal(err)
	}
	cpu := func() float64 {
		for _, l := range r.do("INFO", "cpu") {
			for line := range strings.Lines(l) {
				if v, ok := strings.CutPrefix(strings.TrimSpace(line), "used_cpu_user:"); ok {
					f, _ := strconv.ParseFloat(v, 64)
					return f
				}
			}
		}
		return 0
	}
	const n = 20000
	step := func(what string, f func()) {
		before, began := cpu(), time.Now()
		f()
		t.Logf("%-28s %6.1f us server CPU, %6.1f us elapsed per request", what, (cpu()-before)*1e6/n, time.Since(began).Seconds()*1e6/n)
	}
	step("zadd", func() { r.fill(n) })
	q := p.all()[0]
	var members []string
	step("zrange", func() {
		for i := 0; i < n; i += 500 {
			ms := r.do("ZRANGE", "q-a", strconv.Itoa(i), strconv.Itoa(i+499))
			members = append(members, ms...)
		}
	})
	step("submit", func() {
		for i := 0; i < n; i += 500 {
			if _, err := p.keepAll(t.Context(), q, "q-a", members[i:i+500], time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
	})
	step("zrem", func() {
		for i := 0; i < n; i += 500 {
			r.do(append([]string{"ZREM", "q-a"}, members[i:i+500]...)...)
		}
	})
	var cs []*store.Command
	step("claim", func() {
		for i := 0; i < n; i += 100 {
			rep, err := st.Claim(t.Context(), store.ClaimRequest{Worker: "w", Nonce: fmt.Sprintf("nonce%08d", i), Free: [2]int{100, 0},
				Wants: []store.Want{{Queue: queueName("default", -1), Max: 100, Types: []store.TypeWant{{Type: typeName("q-a")}}}}})
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range rep.Grants {
				cs = append(cs, g.Items...)
			}
		}
	})
	if len(cs) != n {
		t.Fatal(len(cs))
	}
	step("settle", func() {
		for i := 0; i < n; i += 100 {
			var items []store.Settlement
			for _, c := range cs[i : i+100] {
				items = append(items, store.Settlement{ID: c.ID, Lease: c.Lease, Kind: store.OutcomeDone, Result: []byte(`{"id":"r2","status_code":200,"payload":"{\"ok\": true, \"code\": 200}","request_token":"ea480a0fa56c40f2309a1e91c74d6031"}`)})
			}
			if _, err := st.Settle(t.Context(), store.SettleRequest{Worker: "w", Items: items}); err != nil {
				t.Fatal(err)
			}
		}
	})
	var es []store.OutboxEntry
	step("outbox", func() {
		for len(es) < n {
			e, err := st.Outbox(t.Context(), store.OutboxRequest{Topic: topic, Max: 100, HideFor: 1e6})
			if err != nil {
				t.Fatal(err)
			}
			es = append(es, e...)
		}
	})
	d, err := newDeliverer(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	step("push", func() {
		for i := 0; i < n; i += 100 {
			var items []store.PushItem
			for j := range es[i : i+100] {
				it, err := d.item(t.Context(), &es[i+j])
				if err != nil {
					t.Fatal(err)
				}
				items = append(items, it)
			}
			if _, err := d.push(t.Context(), items); err != nil {
				t.Fatal(err)
			}
		}
	})
}
