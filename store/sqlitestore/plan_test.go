package sqlitestore_test

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/sqlitestore"
	"github.com/twolane/twolane/store/sqlitestore/internal/lite"
)

// prepared are the statements that the tests of this process have used.
var prepared sync.Map

func init() { lite.Prepared = func(sql string) { prepared.Store(sql, true) } }

// small are tables that do not grow with commands: they may be read whole.
var small = []string{"queue", "kind", "config", "ns", "worker", "topic", "reason", "bucket", "throttle", "sqlite_schema"}

var scans = regexp.MustCompile(`\bSCAN (\w+)`)

// checkPlans looks at the plan of every statement: none of them may read the whole of a table that grows with commands (F129), or sort.
// The scans of Audit are meant; they are the ones that name no column to search by.
func checkPlans(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plans.db")
	s, err := sqlitestore.Open(context.Background(), path, relaxed)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := lite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	n := 0
	prepared.Range(func(key, _ any) bool {
		sql := key.(string)
		if verb, _, _ := strings.Cut(sql, " "); !strings.Contains("SELECT INSERT UPDATE DELETE", verb) || strings.Contains(sql, "EXPLAIN") {
			return true
		}
		n++
		for _, problem := range planProblems(t, c, sql) {
			t.Errorf("%s\n  %s", sql, problem)
		}
		return true
	})
	t.Logf("%d statements", n)
	if n < 60 {
		t.Errorf("only %d statements were seen", n)
	}
}

// planProblems says what is wrong with the plan of a statement.
func planProblems(t *testing.T, c *lite.Conn, sql string) (all []string) {
	st, err := c.Prepare("EXPLAIN QUERY PLAN " + sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	for {
		ok, err := st.Step()
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		if !ok {
			return all
		}
		step := st.ColText(3)
		if m := scans.FindStringSubmatch(step); m != nil && !isSmall(m[1]) && !bounded(sql, step) {
			all = append(all, "reads a whole table: "+step)
		}
		if strings.Contains(step, "TEMP B-TREE") && !strings.Contains(sql, "UNION ALL") && !sortsSmall(sql) {
			all = append(all, "sorts: "+step)
		}
	}
}

// No statement is prepared anew for other values of its parameters.
func TestPreparedOnce(t *testing.T) {
	s := limited(t)
	defer closeStore(t, s)
	begun := s.Reprepared(t) // by the migration
	for n := range 20 {
		submit(t, s, fmt.Sprint("more", n))
		for lane := range store.Lanes {
			req := claimOf(n, store.Lane(lane), 1+n%2)
			req.Worker = fmt.Sprint("w", lane)
			rep, err := s.Claim(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if len(rep.Grants) > 0 {
				settle(t, s, rep, store.Settlement{Kind: store.OutcomeSnooze, Delay: 200 * time.Millisecond})
			}
		}
		if err := s.SetClock(t.Context(), 2_000_000_000_000+store.Millis(n)*700); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.Reprepared(t) - begun; n != 0 {
		t.Errorf("statements were prepared anew %d times", n)
	}
}

// The check of plans finds what it is for.
func TestPlanCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	if err := open(t, path, relaxed).Close(); err != nil {
		t.Fatal(err)
	}
	c, err := lite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, sql := range []string{
		"SELECT n FROM cmd WHERE grp='g'", "SELECT count(*) FROM cmd", "UPDATE cmd SET flag=NULL WHERE place=3", "DELETE FROM body WHERE data IS NULL",
		"SELECT n FROM cmd WHERE line=1 ORDER BY since", "SELECT ln FROM line WHERE class=3", "SELECT n FROM cmd WHERE status=1 AND ended IS NULL",
	} {
		if len(planProblems(t, c, sql)) == 0 {
			t.Errorf("nothing is found wrong with %s", sql)
		}
	}
}

func isSmall(table string) bool {
	for _, s := range small {
		if s == table {
			return true
		}
	}
	return false
}

// bounded are scans that end after a bounded number of rows, along a partial index whose rows all are wanted.
func bounded(sql, step string) bool {
	switch {
	case auditOnly(sql):
		return true
	case strings.Contains(step, "(subquery"), strings.Contains(step, "CONSTANT ROW"), strings.Contains(step, "SCAN 2-ROW"):
		return true
	case strings.Contains(step, "USING") && strings.Contains(step, "INDEX cmd_") && strings.Contains(sql, "LIMIT"):
		return true // the first rows of cmd_ends, or all of cmd_flag, up to a limit
	case strings.Contains(step, "SCAN lost") && strings.Contains(sql, "LIMIT"):
		return true
	}
	return false
}

func sortsSmall(sql string) bool {
	return strings.Contains(sql, "FROM kind") || strings.Contains(sql, "FROM queue")
}

// auditOnly are the statements with which Audit counts everything again.
func auditOnly(sql string) bool {
	for _, s := range []string{"SELECT ln, name, head FROM line", "SELECT name, live FROM grp", "SELECT seq, topic, n FROM outbox", "SELECT b FROM body", "FROM bucket JOIN queue",
		"SELECT n, holds, hold FROM cmd", "SELECT r, n FROM also", "SELECT ln, name, k, lane, class, head, shut, grp, room, ord FROM line", "SELECT q, lane, grp, k, class, last, head FROM turn"} {
		if strings.HasPrefix(sql, s) || strings.Contains(sql, "FROM bucket JOIN queue") {
			return true
		}
	}
	return false
}
