package faults

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
)

// Results are records, read with an acknowledgement of its own: what a reader took and did not confirm, another gets; who reads another topic
// takes nothing away, whatever it acknowledges; and by its id everybody reads a result as often as they like.
func TestF069_ResultsSurviveTheirReaders(t *testing.T) {
	everywhere(t, func(r *rig, c *clock) {
		const n = 64
		for i := range n {
			r.submit(twolane.Submission{ID: fmt.Sprintf("a%02d", i), Type: "a", Notify: []string{"even", "odd"}[i%2], Retention: sec})
		}
		settle(t, r.st, "w1", store.OutcomeDone, claim(t, r.st, "w1", n)...)
		read := func(topic string, max int, ack ...uint64) []twolane.OutboxEntry {
			r.Helper()
			es, err := r.client.Outbox(r.Context(), topic, twolane.OutboxOptions{Max: max, Ack: ack, HideFor: 10 * sec})
			r.ok(err)
			return es
		}
		seqs := func(es []twolane.OutboxEntry) (s []uint64) {
			for _, e := range es {
				s = append(s, e.Seq)
			}
			return s
		}
		delivered := map[string]int{}
		store := func(es []twolane.OutboxEntry) {
			for _, e := range es {
				if delivered[e.Command.ID]++; string(e.Command.Result) != "1" || e.Command.Status != twolane.StatusSucceeded {
					r.Fatalf("%+v", e.Command)
				}
			}
		}
		died := read("even", 20) // and is never heard of again
		other := read("even", n)
		if len(died) != 20 || len(other) != 12 {
			r.Fatalf("two readers of 32 entries got %d and %d", len(died), len(other))
		}
		store(other)
		read("even", 0, seqs(other)...)
		// The reader of the other topic acknowledges what is not its own.
		odd := read("odd", n, seqs(died)...)
		if len(odd) != 32 {
			r.Fatalf("%d entries of 32", len(odd))
		}
		store(odd)
		if es := read("even", n); len(es) != 0 {
			r.Fatalf("%d entries that another reader has", len(es))
		}
		c.pass(time.Hour) // far beyond the retention: what is not acknowledged stays
		for {
			rep, err := r.st.Maintain(r.Context())
			r.ok(err)
			if !rep.More {
				break
			}
		}
		for _, e := range died {
			if got := r.get(e.Command.ID); string(got.Result) != "1" || got.Tombstone {
				r.Fatalf("%+v", got)
			}
		}
		again := read("even", n)
		if !slices.Equal(seqs(again), seqs(died)) {
			r.Fatalf("%v after the reader died, it had %v", seqs(again), seqs(died))
		}
		store(again)
		late := read("even", n, seqs(again)...)
		// The one that was taken for dead comes back and acknowledges once more.
		if more := read("even", n, seqs(died)...); len(late)+len(more) != 0 {
			r.Fatalf("%d and %d entries after all were acknowledged", len(late), len(more))
		}
		read("odd", 0, seqs(odd)...)
		for i := range n {
			if id := fmt.Sprintf("a%02d", i); delivered[id] != 1 {
				r.Errorf("%s was stored %d times", id, delivered[id])
			}
		}
		if st, err := r.client.Stats(r.Context()); err != nil || st.Outbox["even"]+st.Outbox["odd"] != 0 {
			r.Errorf("%v %v", st.Outbox, err)
		}
	})
}
