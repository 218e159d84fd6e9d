package storetest

import (
	"bytes"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/twolane/twolane/store"
)

// emptyIsNil: a store may give empty bytes, maps and lists back as nil ones, and the reverse.
var emptyIsNil = cmpopts.EquateEmpty()

// odd are contents that a store which decodes, re-encodes or cuts would change.
var odd = map[string]string{
	"big number":      `{"n":9007199254740993}`,
	"empty array":     `[]`,
	"empty object":    `{}`,
	"duplicate keys":  `{"a":1,"a":2}`,
	"nul":             "a\x00b",
	"only nul":        "\x00",
	"invalid utf-8":   "\xff\xfe\xc3\x28",
	"surrogate":       "\xed\xa0\x80",
	"escaped nul":     `"\u0000\ud800"`,
	"blanks":          "  { \"a\" : 1 }\r\n",
	"separators":      "a b|c;d,e\x1f\x1e\t",
	"number":          "1e400",
	"looks like null": "null",
	"long":            strings.Repeat("\x00\xff0123456789abcde", 2000),
}

var bytesCases = []kase{
	{"opaque", "params, state and result come back byte for byte, in Get and in the grant, whatever they are", func(f *fixture) {
		i := 0
		for name, content := range odd {
			id := "a" + string(rune('a'+i))
			i++
			b := []byte(content)
			f.submit(sub(id, func(s *store.Submission) { s.Params = b }))
			f.check(bytes.Equal(f.get(id).Params, b), "%s: params read as %q", name, f.get(id).Params)
			c := f.claim1("w1", store.Intake, id)
			f.check(bytes.Equal(c.Params, b), "%s: params granted as %q", name, c.Params)
			f.settle(c, store.OutcomeProcessing, state(content))
			f.check(bytes.Equal(f.get(id).State, b), "%s: state read as %q", name, f.get(id).State)
			f.Pass(time.Second)
			c = f.claim1("w1", store.Repoll, id)
			f.check(bytes.Equal(c.State, b) && bytes.Equal(c.Params, b), "%s: state granted as %q", name, c.State)
			f.settle(c, store.OutcomeDone, func(s *store.Settlement) { s.Result = b })
			d := f.is(id, store.Succeeded, store.Nowhere)
			f.check(bytes.Equal(d.Result, b) && bytes.Equal(d.Params, b), "%s: result read as %q", name, d.Result)
		}
	}},
	{"texts", "metadata, progress, errors and reasons for people come back byte for byte too", func(f *fixture) {
		for name, content := range odd {
			if len(content) > 1000 {
				continue
			}
			f.submit(sub("a", func(s *store.Submission) { s.Metadata = map[string]string{"k": content, content: "v"} }))
			c := f.get("a")
			f.check(c.Metadata["k"] == content && c.Metadata[content] == "v", "%s: metadata read as %q", name, c.Metadata)
			c = f.claim1("w1", store.Intake, "a")
			_, err := f.s.Renew(f.ctx(), store.RenewRequest{Worker: store.Worker{ID: "w1"}, Leases: []store.RenewItem{{ID: "a", Lease: c.Lease, Progress: []byte(content)}}})
			f.ok(err)
			f.check(string(f.get("a").Progress) == content, "%s: progress read as %q", name, f.get("a").Progress)
			f.tryCancel(store.CancelRequest{IDs: []string{"a"}, Reason: content})
			f.check(f.get("a").CancelReason == content, "%s: reason of a cancel read as %q", name, f.get("a").CancelReason)
			f.settle(c, store.OutcomeFail, errText(content), func(s *store.Settlement) { s.Result = []byte(content) })
			d := f.failed("a", store.ReasonError)
			f.check(d.Error == content && string(d.Result) == content, "%s: error read as %q, result as %q", name, d.Error, d.Result)
			f.ok(f.act(store.ActDelete, "a"))
		}
	}},
	{"state_kept", "a state stays as it is unless a settle says that it sets it", func(f *fixture) {
		f.park("a", state("one"))
		f.Pass(time.Second)
		f.settle(f.claim1("w1", store.Repoll, "a"), store.OutcomeProcessing, func(s *store.Settlement) { s.State = []byte("ignored") })
		f.check(string(f.get("a").State) == "one", "state is %q", f.get("a").State)
		f.Pass(time.Second)
		f.settle(f.claim1("w1", store.Repoll, "a"), store.OutcomeSnooze, delay(time.Second))
		f.check(string(f.get("a").State) == "one", "after a snooze state is %q", f.get("a").State)
		f.Pass(time.Second)
		f.settle(f.claim1("w1", store.Repoll, "a"), store.OutcomeProcessing, func(s *store.Settlement) { s.SetState = true })
		f.check(len(f.get("a").State) == 0, "emptied state is %q", f.get("a").State)
	}},
	{"largest", "state, result, error and progress are accepted up to their limit; beyond it the settle is refused and the lease stands", func(f *fixture) {
		big := func(n int) []byte { return bytes.Repeat([]byte{0xfe}, n) }
		c := f.start("a")
		for name, change := range map[string]func(*store.Settlement){
			"state": func(s *store.Settlement) {
				s.Kind, s.SetState, s.State = store.OutcomeProcessing, true, big(store.MaxState+1)
			},
			"result": func(s *store.Settlement) { s.Result = big(store.MaxResult + 1) },
			"error":  func(s *store.Settlement) { s.Kind, s.Error = store.OutcomeFail, string(big(store.MaxError+1)) },
		} {
			r := f.trySettle(c, store.OutcomeDone, change)
			f.check(isErr(r.Err, store.ErrTooLarge), "%s: %+v", name, r)
			g := f.is("a", store.Pending, store.Leased)
			f.check(g.Lease == c.Lease, "%s: the lease is gone", name)
		}
		_, err := f.s.Renew(f.ctx(), store.RenewRequest{Worker: store.Worker{ID: "w1"}, Leases: []store.RenewItem{{ID: "a", Lease: c.Lease, Progress: big(store.MaxProgress + 1)}}})
		f.wrong(err, store.ErrTooLarge)
		f.settle(c, store.OutcomeProcessing, state(string(big(store.MaxState))))
		f.Pass(time.Second)
		c = f.claim1("w1", store.Repoll, "a")
		f.check(len(c.State) == store.MaxState, "state has %d bytes", len(c.State))
		f.settle(c, store.OutcomeRetry, errText(string(big(store.MaxError))), delay(time.Second))
		f.check(len(f.get("a").Error) == store.MaxError, "error has %d bytes", len(f.get("a").Error))
		f.Pass(time.Second)
		f.settle(f.claim1("w1", store.Repoll, "a"), store.OutcomeDone, func(s *store.Settlement) { s.Result = big(store.MaxResult) })
		f.check(len(f.get("a").Result) == store.MaxResult, "result has %d bytes", len(f.get("a").Result))
	}},
}
