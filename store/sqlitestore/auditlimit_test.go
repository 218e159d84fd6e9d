package sqlitestore_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/sqlitestore"
)

// limited is a store in which two commands are members of a limit that another line waits for, one of them at rest, and groups have turns.
func limited(t *testing.T) *sqlitestore.Store {
	t.Helper()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), relaxed)
	if err := s.SetClock(t.Context(), 2_000_000_000_000); err != nil {
		t.Fatal(err)
	}
	configure(t, s, store.Config{
		Queues: map[string]store.QueueConfig{"q": {Fair: true}},
		Limits: []store.Limit{{Name: "a", Max: 2, Scope: store.ScopeCommand}, {Name: "b", Max: 2, Scope: store.ScopeCommand}},
	})
	for i := range 4 {
		sub := submission(fmt.Sprint("c", i))
		sub.Group = fmt.Sprint("g", i)
		if res, err := s.Submit(t.Context(), store.SubmitRequest{Items: []store.Submission{sub}}); err != nil || res[0].Err != nil {
			t.Fatal(err, res)
		}
	}
	rep := claim(t, s, "w", store.Intake, 4)
	if len(rep.Grants) != 2 {
		t.Fatalf("%d granted, not 2", len(rep.Grants))
	}
	rep.Grants = rep.Grants[:1]
	settle(t, s, rep, store.Settlement{Kind: store.OutcomeProcessing, Delay: time.Hour})
	return s
}

func configure(t *testing.T, s store.Store, cfg store.Config) {
	t.Helper()
	now, err := s.Config(t.Context())
	if err == nil {
		_, err = s.Configure(t.Context(), now.Version, cfg)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Audit sees everything that may be wrong about limits and turns.
func TestAuditOfLimits(t *testing.T) {
	for script, want := range map[string]string{
		"":                                       "",
		"UPDATE room SET members=1":              "says 1 members; the costs of the commands that hold it are 2",
		"DELETE FROM room WHERE name='b'":        "is not counted; commands that hold it cost 2",
		"UPDATE cmd SET holds=NULL":              "is indexed as a member with",
		"UPDATE cmd SET holds='1 1 2' WHERE n=4": "its record says that it holds none",
		"UPDATE cmd SET hold=NULL":               "is indexed as a member with",
		"DELETE FROM also":                       "is not listed with the members of limit number",
		"INSERT INTO also VALUES (1, 3)":         "is listed with the members of limit number 1, but its record does not say so",
		"UPDATE ns SET held=3":                   "say that 3 commands are members; there are 2",
		"UPDATE ns SET rooms=3":                  "say that 3 values are counted; there are 2",
		"UPDATE ns SET filed=1":                  "say that 1 lines are filed; there are 2",
		"UPDATE room SET lines=1":                "says that 1 lines are filed; there are 2",
		"UPDATE ns SET swept=swept-3000":         "the last round over the lines that wait was at",
		"UPDATE room SET at=1":                   "was to be tested again at 1",
		"UPDATE room SET stood=1, members=1":     "stands filed though the key has had room for two seconds",
		"UPDATE line SET room=7, ord=1, since=1, shut=1, opened=0 WHERE head IS NOT NULL": "is filed under counted value number 7, which does not exist",
		"UPDATE line SET grp='other' WHERE grp='g3'":                                      "is listed with group \"other\"",
		"UPDATE line SET grp=NULL":                                                        "does not know its group, but its queue is fair",
		"UPDATE turn SET head=head+1":                                                     "says that its first line in stream",
		"DELETE FROM turn WHERE lane=1":                                                   "has no turn in stream",
	} {
		s := limited(t)
		tamper(t, s.Path(), script)
		rep, err := s.Audit(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if found := strings.Join(rep.Violations, "\n"); (want == "") != (found == "") || !strings.Contains(found, want) {
			t.Errorf("%q: audit does not say %q but:\n%s", script, want, found)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
