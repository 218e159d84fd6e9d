package twolane_test

import (
	"errors"
	"testing"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
)

func TestOutboxDeliversAtLeastOnce(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		ids := map[string]bool{}
		for range 3 {
			ids[e.must(twolane.Submission{Type: "a", Notify: "ends"})] = true
			e.finish(store.Settlement{Kind: store.OutcomeDone, Result: []byte("1")})
		}
		read := func(opt twolane.OutboxOptions) []twolane.OutboxEntry {
			t.Helper()
			entries, err := e.Outbox(e.Context(), "ends", opt)
			if err != nil {
				t.Fatal(err)
			}
			return entries
		}
		first := read(twolane.OutboxOptions{Max: 10})
		if len(first) != 3 || !ids[first[0].Command.ID] || string(first[0].Command.Result) != "1" {
			t.Fatalf("%+v", first)
		}
		if again := read(twolane.OutboxOptions{Max: 10}); len(again) != 0 {
			t.Fatalf("hidden ones were read: %+v", again)
		}
		time.Sleep(31 * time.Second)
		rest := read(twolane.OutboxOptions{Max: 10, Ack: []uint64{first[0].Seq, first[1].Seq}})
		if len(rest) != 1 || rest[0].Seq != first[2].Seq {
			t.Fatalf("%+v", rest)
		}
		if left := read(twolane.OutboxOptions{Ack: []uint64{first[2].Seq}}); len(left) != 0 {
			t.Fatalf("%+v", left)
		}
		if s, err := e.Stats(e.Context()); err != nil || s.Outbox["ends"] != 0 {
			t.Fatalf("%+v %v", s, err)
		}
		if cmd := e.get(first[0].Command.ID); cmd.PurgeAt.IsZero() {
			t.Fatal("a record outlives its delivered entry for ever")
		}
		if _, err := e.Outbox(e.Context(), "ends", twolane.OutboxOptions{Max: 1001}); !errors.Is(err, twolane.ErrInvalid) {
			t.Fatal(err)
		}
	})
}
