package redisstore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

func TestRecordsReadAsTheyWerePacked(t *testing.T) {
	now := rule.Now{Wall: 2_000_000_000_000, Run: 1_999_999_995_000, Lease: 1_999_999_910_000}
	for _, c := range ruleCommands(now) {
		got, err := decodeRecord("id", packRecord(c), ruleLine, nil, false)
		if err != nil {
			t.Fatalf("%s: %v", show(c), err)
		}
		if c.Place == store.Leased {
			l, ok := parseLease(strings.TrimSpace(fmt.Sprintf("%s %s %d %s", c.Lease, c.Owner, c.LeasedAt, packHolds(c, false))))
			if !ok || !l.put(got, c.LeaseUntil) {
				t.Fatalf("%s: its lease cannot be read", show(c))
			}
		}
		if d := cmp.Diff(c, got, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("%s:\n%s", show(c), d)
		}
	}
}

// Whatever stands in the place of a record: it is read, or refused, and nothing panics.
func FuzzDecodeRecord(f *testing.F) {
	now := rule.Now{Wall: 2_000_000_000_000, Run: 1_999_999_995_000, Lease: 1_999_999_910_000}
	for _, c := range ruleCommands(now)[:50] {
		f.Add(packRecord(c))
	}
	f.Fuzz(func(t *testing.T, rec string) {
		c, err := decodeRecord("id", rec, ruleLine, nil, false)
		if (c == nil) == (err == nil) {
			t.Errorf("%v %v", c, err)
		}
		if _, err := decodeRecord("id", rec, ruleLine, &ext{}, true); (err == nil) != (c != nil) {
			t.Errorf("read with blobs: %v, without: %v", c != nil, err)
		}
		if len(rec) >= headLen && ownBlobs(rec, true) > ownBlobs(rec, false) {
			t.Error("leaving blobs out needs more of them")
		}
	})
}
