package sqlitestore

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/twolane/twolane/store"
)

// drawCommand draws a record with any fields set, values of all sizes among them.
func drawCommand(t *rapid.T) *store.Command {
	str := func(name string) string { return rapid.StringN(0, 20, 128).Draw(t, name) }
	value := func(name string) []byte {
		switch rapid.IntRange(0, 3).Draw(t, name) {
		case 0:
			return nil
		case 1:
			return []byte{}
		case 2:
			return rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, name+" bytes")
		}
		return bytes.Repeat([]byte{rapid.Byte().Draw(t, name+" byte")}, rapid.IntRange(maxInline-1, maxInline+2000).Draw(t, name+" size"))
	}
	at := func(name string) store.Millis { return store.Millis(rapid.Int64Range(-5, 1<<50).Draw(t, name)) }
	num := func(name string) int { return rapid.IntRange(0, 1<<30).Draw(t, name) }
	lease := func(name string) store.LeaseName {
		if !rapid.Bool().Draw(t, name) {
			return store.LeaseName{}
		}
		return store.LeaseName{Token: rapid.Uint64().Draw(t, name+" token"), Nonce: str(name + " nonce")}
	}
	c := &store.Command{
		ID: str("id"), BatchKey: str("batch key"), Cost: num("cost"), Params: value("params"), UniqueKey: str("unique key"), Notify: str("notify"),
		Priority: rapid.Uint8().Draw(t, "priority"), NotBefore: at("not before"), StartBy: at("start by"), Deadline: at("deadline"),
		MaxFailures: num("max failures"), Retention: time.Duration(rapid.Int64().Draw(t, "retention")), Fingerprint: rapid.Uint64().Draw(t, "fingerprint"),
		Reason: store.Reason(str("reason")), Was: store.Status(rapid.IntRange(0, 2).Draw(t, "was")), Seq: rapid.Uint64().Draw(t, "seq"),
		Created: at("created"), Eligible: at("eligible"), Ended: at("ended"), PurgeAt: at("purge at"), Due: at("due"),
		Starts: num("starts"), Failures: num("failures"), Losses: num("losses"), Polls: num("polls"), Decodes: num("decodes"),
		State: value("state"), Result: value("result"), Error: string(value("error")), Progress: value("progress"),
		Lease: lease("lease"), Overdue: rapid.Bool().Draw(t, "overdue"), Settled: lease("settled"), HasHook: rapid.Bool().Draw(t, "hook"),
		CancelAsked: at("cancel asked"), CancelUntil: at("cancel until"), CancelReason: str("cancel reason"), CancelEnds: store.Reason(str("cancel ends")),
	}
	if c.Lease != (store.LeaseName{}) {
		c.Owner, c.LeasedAt = str("owner"), at("leased at")
	}
	for range rapid.IntRange(0, store.MaxKeys).Draw(t, "keys") {
		c.Keys = append(c.Keys, store.Key{Name: str("key"), Value: str("key value")})
	}
	for range rapid.IntRange(0, 3).Draw(t, "holds") {
		c.Holds = append(c.Holds, store.Hold{LimitKey: store.LimitKey{Limit: str("limit"), Value: str("limit value")}, Scope: store.Scope(rapid.IntRange(0, 1).Draw(t, "scope"))})
	}
	c.Unknown, c.Overflow = rapid.Bool().Draw(t, "unknown"), rapid.Bool().Draw(t, "overflow")
	if rapid.Bool().Draw(t, "with metadata") {
		c.Metadata = map[string]string{}
		for i := range rapid.IntRange(0, 5).Draw(t, "metadata") {
			c.Metadata[fmt.Sprint(i)+str("name")] = str("datum")
		}
	}
	c.Events = drawEvents(t, store.MaxEvents)
	return c
}

func drawEvents(t *rapid.T, most int) (all []store.Event) {
	for range rapid.IntRange(0, most).Draw(t, "events") {
		all = append(all, store.Event{
			At: store.Millis(rapid.Int64().Draw(t, "at")), Kind: store.EventKind(rapid.StringN(0, 5, 20).Draw(t, "kind")),
			Worker: rapid.StringN(0, 5, 20).Draw(t, "worker"), Text: rapid.StringN(0, 50, store.MaxEventText).Draw(t, "text"),
		})
	}
	return all
}

// bodyOf is table body for one command.
type bodyOf map[int][]byte

func (b bodyOf) apply(outs []out) {
	for _, o := range outs {
		if o.data == nil {
			delete(b, o.which)
		} else {
			b[o.which] = o.data
		}
	}
}

// load reads what encode has written, as fill and unfold do.
func (b bodyOf) load(t *rapid.T, id string, rec []byte) (*store.Command, [values]value, []byte) {
	c := &store.Command{ID: id}
	vals, tail, err := decode(rec, c)
	if err != nil {
		t.Fatal(err)
	}
	for i := range vals {
		if vals[i].out {
			if len(b[i]) != vals[i].size {
				t.Fatalf("%s has %d bytes in the body, not %d", valueNames[i], len(b[i]), vals[i].size)
			}
			vals[i].data = b[i]
		} else if b[i] != nil {
			t.Fatalf("%s lies in the body too", valueNames[i])
		}
	}
	c.Params, c.State, c.Result, c.Progress = vals[valParams].data, vals[valState].data, vals[valResult].data, vals[valProgress].data
	c.Error = string(vals[valError].data)
	if c.Events, err = decodeEvents(vals[valEvents].data); err != nil {
		t.Fatal(err)
	}
	if vals[valMetadata].there {
		if c.Metadata, err = decodeMetadata(vals[valMetadata].data); err != nil {
			t.Fatal(err)
		}
	}
	return c, vals, tail
}

// A record comes back as it was, byte for byte, nil and empty told apart, whatever lies in it and wherever.
func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCommand(t)
		rec, _, outs := encode(c, &[values]value{}, nil)
		b := bodyOf{}
		b.apply(outs)
		got, _, _ := b.load(t, c.ID, rec)
		if diff := cmp.Diff(c, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// A step that touches some values of a stored record keeps the others where they are, whether they were read or not, and so it does with
// what a later program has added.
func TestRecordChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, second := drawCommand(t), drawCommand(t)
		rec, _, outs := encode(first, &[values]value{}, []byte("from a later program"))
		b := bodyOf{}
		b.apply(outs)

		c := &store.Command{ID: first.ID}
		vals, tail, err := decode(rec, c)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range []int{valError, valEvents} { // every step reads these
			if vals[i].out {
				vals[i].data = b[i]
			}
		}
		c.Error = string(vals[valError].data)
		want := *first
		for i, touch := range []func(from *store.Command, to *store.Command){
			func(from, to *store.Command) { to.State = from.State },
			func(from, to *store.Command) { to.Result = from.Result },
			func(from, to *store.Command) { to.Progress = from.Progress },
			func(from, to *store.Command) { to.Error = from.Error },
			func(from, to *store.Command) { to.Starts, to.Settled, to.Due = from.Starts, from.Settled, from.Due },
		} {
			if rapid.Bool().Draw(t, fmt.Sprintf("touch %d", i)) {
				touch(second, c)
				touch(second, &want)
			}
		}
		fresh := drawEvents(t, 3)
		c.Events = fresh
		want.Events = append(append([]store.Event(nil), first.Events...), fresh...)
		want.Events = want.Events[max(0, len(want.Events)-store.MaxEvents):]
		if len(want.Events) == 0 {
			want.Events = nil
		}
		if rapid.Bool().Draw(t, "strip") {
			c.Tombstone, want.Tombstone = true, true
			c.Params, c.State, c.Result, c.Events, c.Error, c.Metadata = nil, nil, nil, nil, "", nil
			want.Params, want.State, want.Result, want.Events, want.Error, want.Metadata = nil, nil, nil, nil, "", nil
		}
		rec, _, outs = encode(c, &vals, tail)
		b.apply(outs)
		got, _, tail := b.load(t, c.ID, rec)
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Fatal(diff)
		}
		if string(tail) != "from a later program" {
			t.Fatalf("tail %q", tail)
		}
	})
}

// No bytes make decode fail otherwise than with an error.
func TestDecodeAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rec, _, _ := encode(drawCommand(t), &[values]value{}, nil)
		for range rapid.IntRange(1, 5).Draw(t, "changes") {
			switch i := rapid.IntRange(0, len(rec)-1).Draw(t, "at"); rapid.IntRange(0, 2).Draw(t, "how") {
			case 0:
				rec[i] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
			case 1:
				rec = rec[:i+1]
			case 2:
				rec[i] = 0xff
			}
		}
		var c store.Command
		vals, _, err := decode(rec, &c)
		if err != nil {
			return
		}
		_, _ = decodeEvents(vals[valEvents].data)     // may be an error
		_, _ = decodeMetadata(vals[valMetadata].data) // may be an error
	})
}

// Scheduled commands wait for the clock that is further away, and change over when the other one lags.
func TestWaitsFor(t *testing.T) {
	for _, x := range []struct {
		run, due, notBefore store.Millis
		waits, at           int64
	}{
		{100, 150, 0, 8*3 + waitsRun, 150},
		{100, 0, 5000, 8*3 + waitsWall, 5000},
		{100, 150, 5000, 8*3 + waitsRun, 150}, // looked at again at 150
		{200, 150, 5000, 8*3 + waitsWall, 5000},
		{200, 150, 0, 8*3 + waitsRun, 150},
	} {
		waits, at := waitsFor(x.run, 3, &store.Command{Due: x.due, NotBefore: x.notBefore})
		if waits != x.waits || at != x.at {
			t.Errorf("%+v: waits %d at %d", x, waits, at)
		}
	}
}
