package sqlitestore_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/sqlitestore"
)

// F076: any byte of the file may flip: the store refuses to open, says so in an answer, or sets the record aside, counted; Audit sees it. Never
// are there silently fewer commands, and never other contents.
func TestF076_Flip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path, nil)
	var ids []string
	for i := range 200 {
		ids = append(ids, fmt.Sprintf("c-%03d", i))
	}
	submit(t, s, ids...)
	settle(t, s, claim(t, s, "w", store.Intake, 40), store.Settlement{Kind: store.OutcomeDone, Result: bytes.Repeat([]byte("r"), 5000)})
	settle(t, s, claim(t, s, "w", store.Intake, 40), store.Settlement{Kind: store.OutcomeProcessing, State: bytes.Repeat([]byte("s"), 2000), SetState: true, Delay: time.Hour})
	claim(t, s, "w", store.Intake, 40)
	want, err := s.Get(t.Context(), ids, store.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	closeStore(t, s) // everything is in the one file now
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 1))
	var found, harmless int
	for range 60 {
		at, bit := rng.IntN(len(whole)), byte(1)<<rng.IntN(8)
		broken := bytes.Clone(whole)
		broken[at] ^= bit
		if err := os.WriteFile(path, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		switch told, wrong := readAll(t, path, ids, want); {
		case wrong != "":
			t.Errorf("seed %d: bit %d of byte %d of page %d flipped: %s", seed, bit, at%4096, at/4096+1, wrong)
		case told:
			found++
		default:
			harmless++
		}
	}
	t.Logf("%d flips were told, %d hit nothing that is read", found, harmless)
}

// An index that leads to another row is told to whoever it leads astray, reader or writer; it is never taken for the row that was asked for.
func TestF076_IndexLeadsAstray(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path, nil)
	for i := range 40 {
		id := fmt.Sprintf("c-%02d", i)
		if _, err := s.Submit(t.Context(), store.SubmitRequest{Items: []store.Submission{{ID: id, Queue: "q", Type: "t", UniqueKey: "u-" + id}}}); err != nil {
			t.Fatal(err)
		}
	}
	closeStore(t, s)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"the index of ids": "c-20", "the index of unique keys": "u-c-20"} {
		// A record of an index: three bytes of header, of which two are types: a text, and an integer of one byte, the number of the row.
		head := append([]byte{3, byte(13 + 2*len(text)), 1}, text...)
		at := bytes.Index(whole, head)
		if at < 0 || bytes.Count(whole, head) != 1 {
			t.Fatalf("%s is not found in the file", what)
		}
		broken := bytes.Clone(whole)
		broken[at+len(head)]--
		if err := os.WriteFile(path, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, path, relaxed)
		if text == "c-20" {
			if cs, err := s.Get(t.Context(), []string{"c-20"}, store.GetOptions{}); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("get: %+v, %v", cs, err)
			}
		}
		res, err := s.Submit(t.Context(), store.SubmitRequest{Items: []store.Submission{{ID: map[bool]string{true: "c-20", false: "new"}[text == "c-20"], Queue: "q", Type: "t", UniqueKey: "u-c-20"}}})
		if err == nil && len(res) > 0 {
			err = res[0].Err
		}
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("submit: %+v, %v", res, err)
		}
		if rep, err := s.Audit(t.Context()); err == nil && len(rep.Violations) == 0 {
			t.Errorf("audit sees nothing of %s", what)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// readAll reads every command of a damaged file. told says that something has said that it is damaged.
func readAll(t *testing.T, path string, ids []string, want []*store.Command) (told bool, wrong string) {
	t.Helper()
	s, err := sqlitestore.Open(t.Context(), path, relaxed)
	if err != nil {
		return true, ""
	}
	defer func() { _ = s.Close() }() // may fail on a damaged file
	missing := ""
	for i, id := range ids {
		got, err := s.Get(t.Context(), []string{id}, store.GetOptions{})
		switch {
		case err != nil:
			told = true
		case got[0] == nil:
			missing = id
		case !sameContents(got[0], want[i]):
			return told, fmt.Sprintf("%s has other contents: %+v", id, got[0])
		}
	}
	if told {
		return true, ""
	}
	rep, err := s.Audit(t.Context())
	if told = err != nil || len(rep.Violations) > 0; told {
		return true, ""
	}
	st, err := s.Stats(t.Context(), store.StatsRequest{}) // those that reads met are set aside meanwhile
	if told = err != nil || st.Lost > 0; !told && missing != "" {
		return false, missing + " is gone and nobody says so"
	}
	return told, ""
}

func sameContents(a, b *store.Command) bool {
	return a.ID == b.ID && a.Queue == b.Queue && a.Type == b.Type && a.Status == b.Status && a.Place == b.Place && a.Lease == b.Lease &&
		a.LeaseUntil == b.LeaseUntil && a.Due == b.Due && a.Ended == b.Ended && bytes.Equal(a.Params, b.Params) && bytes.Equal(a.State, b.State) && bytes.Equal(a.Result, b.Result)
}

// A record or a large value that cannot be read is set aside when anybody meets it, whatever it does, and all numbers are right without it.
func TestSetAside(t *testing.T) {
	large := bytes.Repeat([]byte("x"), 3000)
	for name, damage := range map[string]string{
		"record":         "UPDATE cmd SET rec=substr(rec,1,20)||x'ff'||substr(rec,22) WHERE id='a'",
		"empty record":   "UPDATE cmd SET rec=x'' WHERE id='a'",
		"status":         "UPDATE cmd SET status=3-status WHERE id='a'",
		"group":          "UPDATE cmd SET grp='other' WHERE id='a'",
		"id":             "UPDATE cmd SET id='other' WHERE id='a'",
		"missing params": "DELETE FROM body WHERE b=(SELECT n*8 FROM cmd WHERE id='a')",
		"other params":   "UPDATE body SET data='y' WHERE b=(SELECT n*8 FROM cmd WHERE id='a')",
	} {
		for meet, call := range map[string]func(t *testing.T, s *sqlitestore.Store){
			"get": func(t *testing.T, s *sqlitestore.Store) {
				for _, id := range []string{"a", "other"} {
					if cs, err := s.Get(t.Context(), []string{id}, store.GetOptions{}); err != nil || cs[0] != nil {
						t.Errorf("%+v, %v", cs[0], err)
					}
				}
			},
			"claim": func(t *testing.T, s *sqlitestore.Store) {
				if rep := claim(t, s, "w", store.Intake, 10); len(rep.Grants) != 1 || rep.Grants[0].Items[0].ID != "b" {
					t.Errorf("%+v", rep)
				}
			},
		} {
			t.Run(name+"/"+meet, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "store.db")
				s := open(t, path, relaxed)
				defer func() { _ = s.Close() }()
				for _, id := range []string{"a", "b"} {
					sub := submission(id)
					sub.Params, sub.Group = large, "g"
					if _, err := s.Submit(t.Context(), store.SubmitRequest{Items: []store.Submission{sub}}); err != nil {
						t.Fatal(err)
					}
				}
				tamper(t, path, damage)
				call(t, s)
				waitFor(t, func() bool {
					st, err := s.Stats(context.Background(), store.StatsRequest{Groups: []string{"g"}})
					return err == nil && st.Lost == 1
				})
				if name == "group" || name == "status" { // what it was counted under is what was damaged
					return
				}
				audit(t, s)
			})
		}
	}
}
