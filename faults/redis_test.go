package faults

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/internal/redistest"
	"github.com/twolane/twolane/store"
)

var callsOf = regexp.MustCompile(`(?m)^calls=(\d+)`)

// calls is how many commands the server has run, those of scripts included.
func calls(t testing.TB, srv *redistest.Server) (n int) {
	t.Helper()
	info, err := srv.Info(context.Background(), "commandstats")
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range info {
		if m := callsOf.FindStringSubmatch(v); m != nil && name != "cmdstat_info" {
			k, _ := strconv.Atoi(m[1])
			n += k
		}
	}
	return n
}

func do(t testing.TB, srv *redistest.Server, args ...string) string {
	t.Helper()
	m, err := srv.Do(context.Background(), args...)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := m.ToString(); err == nil {
		return s
	}
	return m.String()
}

func number(t testing.TB, srv *redistest.Server, section, field string) int {
	t.Helper()
	info, err := srv.Info(context.Background(), section)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(info[field])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// eventually calls f until it says yes.
func eventually(t testing.TB, within time.Duration, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !f(); time.Sleep(20 * milli) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, within)
		}
	}
}

// Finished commands are trimmed by their number and never fill the server. What waits does: there is a warning first, then only new
// commands are refused, those that are there run to their end, and then there is room again.
func TestF035_FullServerRefusesOnlySubmit(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	st := openRedis(t, srv.URL())
	on(t, st, 0, func(r *rig) {
		const room = 6 << 20
		_, err := r.client.Configure(r.Context(), func(c *twolane.Config) error {
			c.Queues = map[string]store.QueueConfig{twolane.DefaultQueue: {Keep: 50}}
			return nil
		})
		r.ok(err)
		limit := number(t, srv, "memory", "used_memory") + room
		do(t, srv, "CONFIG", "SET", "maxmemory", strconv.Itoa(limit))
		params := strings.Repeat("p", 20<<10)
		open := make(chan struct{})
		r.work(twolane.WorkerConfig{Concurrency: twolane.Lanes{Intake: 20, Repoll: 1}}, func(w *twolane.Worker) {
			twolane.HandleFunc(w, "a", r.sleeps(0))
			twolane.HandleFunc(w, "held", func(ctx context.Context, j *twolane.Job[string, []byte]) (any, error) {
				defer r.enter(ctx, j.ID())()
				<-open
				return params[:1000], nil
			})
		})
		for range 20 { // three times what there is room for
			r.wait(r.many(50, twolane.Submission{Type: "a", Params: params})...)
		}
		warned := false
		var waiting []string
		for {
			res, err := r.client.Submit(r.Context(), twolane.Submission{Type: "held", Params: params})
			if err != nil {
				if !errors.Is(err, twolane.ErrReadOnly) {
					r.Fatalf("after %d: %v", len(waiting), err)
				}
				break
			}
			if waiting = append(waiting, res.ID); len(waiting)%10 == 0 {
				d, err := st.Describe(r.Context())
				r.ok(err)
				said := strings.Contains(strings.Join(d.Warnings, " "), "maxmemory is in use")
				if used := number(t, srv, "memory", "used_memory"); said && used < limit*3/4 {
					r.Errorf("warned with %d of %d in use", used, limit)
				}
				warned = warned || said
			}
			if len(waiting) > 1000 {
				r.Fatal("it is never full")
			}
		}
		if !warned || len(waiting) < 50 {
			r.Errorf("%d were accepted, warned: %v", len(waiting), warned)
		}
		time.Sleep(sec)
		if h := r.workers[0].Health(); !h.OK || h.SinceRenew > 10*sec || h.Held.Intake != 20 {
			r.Errorf("renewals on a full server: %+v", h)
		}
		close(open)
		for _, c := range r.wait(waiting...) {
			if c.Status != twolane.StatusSucceeded || c.Starts != 1 {
				r.Fatalf("%+v", c)
			}
		}
		eventually(t, 20*sec, "submit once there is room", func() bool {
			_, err := r.client.Submit(r.Context(), twolane.Submission{Type: "a", Params: params})
			return err == nil
		})
	})
}

// A replica that lagged is promoted. What it did not know is lost, as documented; what is left is whole: an end that was lost means a second
// run, never one that is stuck, and owners of leases that it never knew are refused.
func TestF078_LaggingReplicaIsPromoted(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	master, replica := redistest.Start(t), redistest.Start(t)
	host, port, _ := strings.Cut(master.Addr(), ":")
	old := openRedis(t, master.URL())
	cfg, err := old.Configure(ctx, 0, store.Config{Visibility: sec})
	if err != nil || cfg.Visibility != sec {
		t.Fatal(err)
	}
	put := func(prefix string, n int) {
		t.Helper()
		req := store.SubmitRequest{}
		for i := range n {
			req.Items = append(req.Items, store.Submission{ID: fmt.Sprintf("%s-%02d", prefix, i), Queue: twolane.DefaultQueue, Type: "a", UniqueKey: fmt.Sprintf("u%s%02d", prefix, i)})
		}
		if _, err := old.Submit(ctx, req); err != nil {
			t.Fatal(err)
		}
	}
	put("done", 10)
	settle(t, old, "w1", store.OutcomeDone, claim(t, old, "w1", 10)...)
	put("leased", 10)
	leased := claim(t, old, "w1", 10)
	put("waiting", 10)
	do(t, replica, "REPLICAOF", host, port)
	eventually(t, 20*sec, "the replica's link", func() bool {
		info, err := replica.Info(ctx, "replication")
		return err == nil && info["master_link_status"] == "up"
	})
	do(t, master, "WAIT", "1", "5000")
	do(t, replica, "REPLICAOF", "NO", "ONE") // from here on it hears nothing: this is its lag

	settle(t, old, "w1", store.OutcomeDone, leased...) // ends that will be lost
	late := claim(t, old, "w1", 10)                    // leases that will be lost
	put("gone", 10)                                    // submits that will be lost
	audit(t, old)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	if err := master.Kill(); err != nil {
		t.Fatal(err)
	}
	st := openRedisAs(t, replica.URL(), old.Namespace())
	on(t, st, 0, func(r *rig) {
		audit(t, st)
		// The old owner still has its leases, but for those that the replica never knew.
		for _, res := range settle(t, st, "w1", store.OutcomeDone, late...) {
			if res.State != store.SettleLost {
				r.Errorf("an owner that nobody knows settled: %+v", res)
			}
		}
		again := claim(t, st, "w2", 10)
		for i, c := range again {
			if c.Lease == late[i].Lease {
				r.Errorf("%s: the lease %v was given twice", c.ID, c.Lease)
			}
		}
		for _, res := range settle(t, st, "w1", store.OutcomeDone, late...) {
			if res.State != store.SettleLost {
				r.Errorf("an owner of before ended the lease of another: %+v", res)
			}
		}
		audit(t, st)
		for _, res := range settle(t, st, "w2", store.OutcomeDone, again...) {
			if res.State != store.SettleDone {
				r.Errorf("%+v", res)
			}
		}
		// Submitted again by their senders, under the same ids and unique keys.
		var subs []twolane.Submission
		for i := range 10 {
			subs = append(subs, twolane.Submission{ID: fmt.Sprintf("gone-%02d", i), Type: "a", UniqueKey: fmt.Sprintf("ugone%02d", i)})
		}
		gone := r.submit(subs...)
		r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) {
			twolane.HandleFunc(w, "a", func(ctx context.Context, j *twolane.Job[[]byte, []byte]) (any, error) {
				defer r.enter(ctx, j.ID())()
				return nil, nil
			})
		})
		for i := range 10 {
			id := fmt.Sprintf("leased-%02d", i)
			if c := r.wait(id)[0]; c.Status != twolane.StatusSucceeded || r.started(id) != 1 || c.Starts != 2 {
				r.Errorf("an end that was lost: %d runs here, %+v", r.started(id), c)
			}
			if c := r.get(fmt.Sprintf("done-%02d", i)); c.Status != twolane.StatusSucceeded || c.Starts != 1 {
				r.Errorf("an end that was known: %+v", c)
			}
		}
		r.wait(gone...)
	})
}

// A namespace of a newer version is left alone by a worker that runs: it fences itself, and when the version is taken back (an upgrade that
// was rolled back) it goes on with the live data.
func TestF085_NewerSchemaStopsAWorkerUnharmed(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	st := openRedis(t, srv.URL())
	on(t, st, sec, func(r *rig) {
		w := r.work(twolane.WorkerConfig{}, func(w *twolane.Worker) { twolane.HandleFunc(w, "a", r.sleeps(2*sec)) })
		ids := r.many(10, twolane.Submission{Type: "a"})
		eventually(t, 10*sec, "all run", func() bool { return w.Health().Leases == 10 })
		meta := "{" + st.Namespace() + "}:meta"
		before := do(t, srv, "DUMP", meta)
		do(t, srv, "HSET", meta, "rd", "2", "of a newer version", "kept")
		frozen := do(t, srv, "DUMP", meta)
		if frozen == before {
			r.Fatal("nothing was changed")
		}
		if _, err := r.client.Submit(r.Context(), twolane.Submission{Type: "a", Params: ""}); !errors.Is(err, twolane.ErrSchema) {
			r.Errorf("submit: %v", err)
		}
		if _, err := r.client.Get(r.Context(), ids[0]); !errors.Is(err, twolane.ErrSchema) {
			r.Errorf("get: %v", err)
		}
		eventually(t, 10*sec, "health says so and nothing runs", func() bool { h := w.Health(); return !h.OK && h.Held == (twolane.Lanes{}) })
		if do(t, srv, "DUMP", meta) != frozen {
			r.Error("a namespace of a newer version was changed")
		}
		do(t, srv, "HSET", meta, "rd", "1")
		for _, c := range r.wait(ids...) {
			if c.Status != twolane.StatusSucceeded || c.Failures != 0 {
				r.Errorf("%+v", c)
			}
		}
		if got := do(t, srv, "HGET", meta, "of a newer version"); got != "kept" {
			r.Errorf("an unknown field is %q", got)
		}
		eventually(t, 20*sec, "health is good again", func() bool { return w.Health().OK })
	})
}
