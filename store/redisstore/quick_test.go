package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/twolane/twolane/internal/redistest"
	"github.com/twolane/twolane/store"
)

// dump is everything that a namespace holds, by key, without what differs by chance.
func dump(t *testing.T, srv *redistest.Server, namespace string) map[string]string {
	t.Helper()
	ctx := context.Background()
	prefix := "{" + namespace + "}:"
	m, err := srv.Do(ctx, "KEYS", prefix+"*")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := m.AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, k := range keys {
		name := strings.TrimPrefix(k, prefix)
		if strings.HasPrefix(name, "k|") { // nonces
			continue
		}
		typ, err := srv.Do(ctx, "TYPE", k)
		if err != nil {
			t.Fatal(err)
		}
		read := map[string][]string{
			"string": {"GET", k}, "hash": {"HGETALL", k}, "zset": {"ZRANGE", k, "0", "-1", "WITHSCORES"}, "set": {"SMEMBERS", k}, "list": {"LRANGE", k, "0", "-1"},
		}
		kind, _ := typ.ToString()
		v, err := srv.Do(ctx, read[kind]...)
		if err != nil {
			t.Fatal(err)
		}
		if kind == "string" {
			out[name], _ = v.ToString()
			continue
		}
		parts, err := v.AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		if kind != "zset" {
			step := map[string]int{"hash": 2, "set": 1, "list": 1}[kind]
			var pairs []string
			for c := range slices.Chunk(parts, step) {
				pairs = append(pairs, strings.Join(c, "="))
			}
			slices.Sort(pairs)
			parts = pairs
		}
		out[name] = strings.Join(parts, " ")
	}
	return out
}

// The short ways of settle.lua and sweep.lua, which work on packed records, must leave exactly what the rules leave. Decode counts only at a retry, but
// sends a settlement the long way; a command with a topic goes the long way in a purge.
func TestShortWaysWriteWhatTheRulesWrite(t *testing.T) {
	srv := redistest.Shared(t)
	ctx := context.Background()
	const epoch = 2_000_000_000_000
	run := func(long bool) map[string]string {
		s := open(t, srv.URL(), fresh())
		defer s.Close()
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		check(s.SetClock(ctx, epoch))
		var subs []store.Submission
		for i := range 48 {
			sub := store.Submission{ID: fmt.Sprintf("c%02d", i), Queue: "q", Type: "t", Params: [][]byte{nil, {}, []byte("params")}[i%3]}
			if i%2 == 1 {
				sub.Group = "g"
			}
			if i%4 >= 2 {
				sub.Keys = []store.Key{{Name: "k", Value: "v"}}
			}
			switch i % 5 {
			case 1:
				sub.Retention = -1
			case 2:
				sub.MaxFailures, sub.Retention = 4, time.Hour
			case 3:
				sub.MaxFailures = 9
			}
			switch i % 7 {
			case 1:
				sub.NotBefore = epoch + 1
			case 2:
				sub.StartBy = epoch + 3_600_000
			case 3:
				sub.Deadline = epoch + 7_200_000
			case 4:
				sub.NotBefore, sub.StartBy, sub.Deadline = epoch+1, epoch+3_600_000, epoch+7_200_000
			}
			subs = append(subs, sub)
		}
		_, err := s.Submit(ctx, store.SubmitRequest{Items: subs})
		check(err)
		nonce := 0
		step := func(lane store.Lane, n int, settle func(i int, it *store.Settlement)) {
			t.Helper()
			nonce++
			req := store.ClaimRequest{Worker: "w1", Nonce: fmt.Sprintf("nonce%04d", nonce), Wants: []store.Want{{Queue: "q", Lane: lane, Max: n, Types: []store.TypeWant{{Type: "t"}}}}}
			req.Free[lane] = n
			rep, err := s.Claim(ctx, req)
			check(err)
			if len(rep.Grants) != n {
				t.Fatalf("claimed %d of %d", len(rep.Grants), n)
			}
			var items []store.Settlement
			for i, g := range rep.Grants {
				it := store.Settlement{ID: g.Items[0].ID, Lease: g.Items[0].Lease, Decode: long}
				settle(i, &it)
				items = append(items, it)
			}
			settleAll(t, s, items...)
		}
		check(s.SetClock(ctx, epoch+2))
		blobs := [][]byte{nil, {}, []byte("blob")}
		step(store.Intake, 24, func(i int, it *store.Settlement) { it.Kind, it.Result = store.OutcomeDone, blobs[i/3%3] })
		step(store.Intake, 24, func(i int, it *store.Settlement) {
			it.Kind, it.Delay, it.HasHook = store.OutcomeProcessing, 2*time.Second, i%2 == 0
			it.SetState, it.State = i%3 > 0, blobs[i%3]
		})
		for round := range 4 {
			check(s.SetClock(ctx, epoch+store.Millis(3000*(round+1))))
			step(store.Repoll, 24, func(i int, it *store.Settlement) {
				it.Kind, it.Delay, it.Grid = store.OutcomeProcessing, 2*time.Second+time.Nanosecond, time.Duration(round)*100*time.Millisecond
				it.HasHook = i%2 == 0 || round == 2
				it.SetState, it.State = (i+round)%3 > 0, blobs[(i+round)%3]
			})
		}
		mustAudit(t, s)
		return dump(t, srv, s.Namespace())
	}
	if d := cmp.Diff(run(true), run(false)); d != "" {
		t.Errorf("the short way (+) does not write what the long way (-) writes:\n%s", d)
	}
}

// Tombstones stand in no list and no count; they answer for their ids until ten minutes after the end, also those of a queue that keeps too few
// records, and then they go.
func TestTombstones(t *testing.T) {
	srv := redistest.Shared(t)
	s := open(t, srv.URL(), fresh())
	defer s.Close()
	ctx := context.Background()
	if _, err := s.Configure(ctx, 0, store.Config{Queues: map[string]store.QueueConfig{"q": {Keep: 3}}}); err != nil {
		t.Fatal(err)
	}
	big := []byte(strings.Repeat("x", 5000))
	var subs []store.Submission
	for i := range 20 {
		sub := store.Submission{ID: fmt.Sprintf("c%02d", i), Queue: "q", Type: "t", Group: "g", Params: []byte("p"), Metadata: map[string]string{"a": "b"}}
		switch i % 5 {
		case 0:
			sub.Params = big
		case 1:
			sub.Deadline = store.At(time.Now().Add(time.Hour))
		case 2:
			sub.Retention = -1
		case 3:
			sub.UniqueKey = sub.ID
		}
		subs = append(subs, sub)
	}
	if _, err := s.Submit(ctx, store.SubmitRequest{Items: subs}); err != nil {
		t.Fatal(err)
	}
	var items []store.Settlement
	for i, c := range claimN(t, s, "w1", store.Intake, 20) {
		it := store.Settlement{ID: c.ID, Lease: c.Lease, Kind: store.OutcomeDone, Result: big[:i*100]}
		if i%3 == 0 {
			it.Kind, it.Error = store.OutcomeFail, string(big[:i*50+1])
		}
		items = append(items, it)
	}
	settleAll(t, s, items...)
	for more := true; more; {
		rep, err := s.Maintain(ctx)
		if err != nil {
			t.Fatal(err)
		}
		more = rep.More
	}
	st, err := s.Stats(ctx, store.StatsRequest{})
	if err != nil || st.Queues[0].Succeeded+st.Queues[0].Failed != 3 {
		t.Errorf("the queue keeps %d + %d records, %v", st.Queues[0].Succeeded, st.Queues[0].Failed, err)
	}
	cs, err := s.Get(ctx, []string{"c00", "c01", "c02", "c03", "c04"}, store.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range cs {
		if c == nil || !c.Tombstone || c.Queue != "q" || c.Group != "g" || c.Params != nil || c.Result != nil || c.Error != "" || c.Metadata != nil || len(c.Events) > 0 ||
			c.Starts != 1 || c.Settled != items[i].Lease || c.PurgeAt != c.Ended.Add(store.TombstoneFor) {
			t.Errorf("c%02d is %+v", i, c)
		}
	}
	// The same settle again, the same submit again, and other contents under the same id.
	again, err := s.Settle(ctx, store.SettleRequest{Worker: "w1", Items: items[:5]})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range again {
		if r.State != store.SettleAlready || r.Status != cs[i].Status {
			t.Errorf("settled again: %+v", r)
		}
	}
	subs[4].Params = []byte("other")
	res, err := s.Submit(ctx, store.SubmitRequest{Items: subs[:5]})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range res {
		if r.Created || (r.Err != nil) != (i == 4) {
			t.Errorf("submitted again: %+v", r)
		}
	}
	mustAudit(t, s)
	if err := s.SetClock(ctx, store.At(time.Now().Add(store.TombstoneFor+time.Minute))); err != nil {
		t.Fatal(err)
	}
	if rep, err := s.Maintain(ctx); err != nil || rep.Purged < 15 {
		t.Errorf("%d purged, %v", rep.Purged, err)
	}
	if m, err := srv.Do(ctx, "EXISTS", "{"+s.Namespace()+"}:c|c00", "{"+s.Namespace()+"}:yz"); err != nil {
		t.Error(err)
	} else if n, _ := m.AsInt64(); n != 0 {
		t.Error("tombstones are still there")
	}
	mustAudit(t, s)
}
