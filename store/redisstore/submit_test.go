package redisstore_test

import (
	"fmt"
	"testing"

	"github.com/twolane/twolane/internal/redistest"
	"github.com/twolane/twolane/store"
)

// Commands of one line that come in one call are counted as one line, also if its definition was made anew between them; else the definition
// would be dropped while commands of it are left, and these could not be read.
func TestSubmitCountsALineOnce(t *testing.T) {
	s := open(t, redistest.Start(t).URL(), "ns")
	var subs []store.Submission
	for i := range 9 {
		subs = append(subs, store.Submission{ID: fmt.Sprint("c", i), Queue: "q", Type: "t", Group: fmt.Sprint("g", i%3), Retention: -1})
	}
	res, err := s.SubmitForgetting(t.Context(), subs...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range res {
		if !r.Created {
			t.Fatalf("%+v", res)
		}
	}
	mustAudit(t, s)
	for left := len(subs); left > 0; left-- {
		c := claimN(t, s, "w", store.Intake, 1)
		settleAll(t, s, store.Settlement{ID: c[0].ID, Lease: c[0].Lease, Kind: store.OutcomeDone})
	}
	mustAudit(t, s)
}
