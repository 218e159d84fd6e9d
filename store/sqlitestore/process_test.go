package sqlitestore_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/sqlitestore"
)

// A test of several processes runs its own binary again, with the part to play in this variable.
const partVar = "TWOLANE_SQLITE_PART"

func TestMain(m *testing.M) {
	if part := os.Getenv(partVar); part != "" {
		if err := play(part); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// play is what a child does: part, file and name are separated by blanks.
func play(what string) error {
	var part, path, name string
	if _, err := fmt.Sscan(what, &part, &path, &name); err != nil {
		return err
	}
	opt := &sqlitestore.Options{Exclusive: part == "exclusive"}
	s, err := sqlitestore.Open(context.Background(), path, opt)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	switch part {
	case "exclusive", "hold":
		fmt.Println("open")
		_, err = io.Copy(io.Discard, os.Stdin) // until the parent closes it
		return err
	case "submit":
		_, err = s.Submit(context.Background(), store.SubmitRequest{Items: []store.Submission{submission(name)}})
		fmt.Println("submitted")
		return err
	case "work":
		return work(s, name, func(string, ...any) {})
	case "churn":
		return churn(s, name)
	}
	return fmt.Errorf("unknown part %q", part)
}

// work claims and settles until nothing is left in line.
func work(s store.Store, name string, say func(string, ...any)) error {
	ctx := context.Background()
	for n := 0; ; n++ {
		req := claimOf(n, store.Intake, 5)
		req.Worker = name
		rep, err := s.Claim(ctx, req)
		if err != nil {
			return err
		}
		if len(rep.Grants) == 0 {
			return nil
		}
		res, err := s.Settle(ctx, settlement(rep, store.Settlement{Kind: store.OutcomeDone, Result: []byte(name)}))
		if err != nil {
			return err
		}
		for i := range res {
			if res[i].State != store.SettleDone {
				return fmt.Errorf("settle: %+v", res[i])
			}
			say("done %s\n", rep.Grants[i].Items[0].ID)
		}
	}
}

// churn submits and settles for ever, and says what was acknowledged.
func churn(s store.Store, name string) error {
	ctx := context.Background()
	out := bufio.NewWriterSize(os.Stdout, 1) // each line at once
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...); _ = out.Flush() }
	errs := make(chan error, 4)
	for g := range 3 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%s-%d-%06d", name, g, i)
				res, err := s.Submit(ctx, store.SubmitRequest{Items: []store.Submission{submission(id)}})
				if err != nil || res[0].Err != nil {
					errs <- fmt.Errorf("submit: %w %+v", err, res)
					return
				}
				fmt.Printf("submitted %s\n", id)
			}
		}()
	}
	go func() {
		for {
			if err := work(s, name, say); err != nil {
				errs <- err
				return
			}
		}
	}()
	return <-errs
}

type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	lines []string
}

func start(t *testing.T, part, path, name string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), partVar+"="+part+" "+path+" "+name)
	c.cmd.Stderr = os.Stderr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	pipe, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(pipe)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// end waits for the child and returns the lines that it has said.
func (c *child) end() ([]string, error) {
	_ = c.in.Close() // it may have ended
	for {
		line, err := c.out.ReadString('\n')
		if err != nil { // the last line may be cut: nobody was told it
			break
		}
		c.lines = append(c.lines, strings.TrimSpace(line))
	}
	return c.lines, c.cmd.Wait()
}

// F075: a process is killed at random while it submits and settles: everything that it was told stands, and the store is whole.
func TestF075_Kill(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes")
	}
	path := filepath.Join(t.TempDir(), "store.db")
	if err := open(t, path, nil).Close(); err != nil {
		t.Fatal(err)
	}
	submitted, done := map[string]bool{}, map[string]bool{}
	for round := range 8 {
		c := start(t, "churn", path, fmt.Sprintf("r%d", round))
		first, err := c.out.ReadString('\n') // it is at work
		if err != nil {
			t.Fatal(err)
		}
		c.lines = append(c.lines, strings.TrimSpace(first))
		time.AfterFunc(50*time.Millisecond+rand.N(400*time.Millisecond), func() { _ = c.cmd.Process.Kill() })
		lines, _ := c.end() // killed
		for _, l := range lines {
			switch what, id, _ := strings.Cut(l, " "); what {
			case "submitted":
				submitted[id] = true
			case "done":
				done[id] = true
			default:
				t.Fatalf("round %d: %s", round, l)
			}
		}
		s := open(t, path, nil)
		checkAcknowledged(t, s, submitted, done)
		closeStore(t, s)
	}
	t.Logf("%d submitted, %d done", len(submitted), len(done))
	if len(submitted) < 100 || len(done) < 20 {
		t.Errorf("too little was done to prove anything: %d submitted, %d done", len(submitted), len(done))
	}
}

func checkAcknowledged(t *testing.T, s *sqlitestore.Store, submitted, done map[string]bool) {
	t.Helper()
	get := func(id string) *store.Command {
		cs, err := s.Get(t.Context(), []string{id}, store.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return cs[0]
	}
	for id := range submitted {
		if c := get(id); c == nil || string(c.Params) != string(params) {
			t.Errorf("%s was acknowledged and is gone: %+v", id, c)
		}
	}
	for id := range done {
		if c := get(id); c == nil || c.Status != store.Succeeded || !strings.HasPrefix(string(c.Result), "r") {
			t.Errorf("the end of %s was acknowledged and is gone: %+v", id, c)
		}
	}
}

// Two processes work on one file: every command runs once, whoever submitted it.
func TestTwoProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path, nil)
	defer closeStore(t, s)
	var ids []string
	for i := range 600 {
		ids = append(ids, fmt.Sprintf("c-%03d", i))
	}
	submit(t, s, ids...)
	a, b := start(t, "work", path, "a"), start(t, "work", path, "b")
	if err := work(s, "parent", func(string, ...any) {}); err != nil {
		t.Error(err)
	}
	for _, c := range []*child{a, b} {
		if lines, err := c.end(); err != nil {
			t.Errorf("%v: %s", err, lines)
		}
	}
	by := map[string]int{}
	for _, id := range ids {
		cs, err := s.Get(t.Context(), []string{id}, store.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if c := cs[0]; c == nil || c.Status != store.Succeeded || c.Starts != 1 {
			t.Fatalf("%s: %+v", id, c)
		}
		by[string(cs[0].Result)]++
	}
	t.Logf("done by %v", by)
}

// What another process submits wakes those who watch here, within milliseconds; so does the end of what is awaited.
func TestWakeFromAbroad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path, nil)
	defer closeStore(t, s)
	w, err := s.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	if err := w.Await([]string{"x"}, nil); err != nil {
		t.Fatal(err)
	}
	wake := func(kind store.WakeKind) {
		t.Helper()
		for {
			select {
			case k := <-w.C():
				if k.Kind == kind {
					return
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("no wake-up %d", kind)
			}
		}
	}
	if lines, err := start(t, "submit", path, "x").end(); err != nil {
		t.Fatal(err, lines)
	}
	wake(store.WakeWork)
	if lines, err := start(t, "work", path, "a").end(); err != nil {
		t.Fatal(err, lines)
	}
	wake(store.WakeEnd)
}

// A store that is opened exclusively keeps every other process out, and is refused while another one is in.
func TestExclusive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path, &sqlitestore.Options{Exclusive: true})
	for _, part := range []string{"hold", "exclusive"} {
		lines, err := start(t, part, path, "x").end()
		if err == nil || !strings.Contains(strings.Join(lines, " "), "exclusive") {
			t.Errorf("%s beside an exclusive store: %v, %s", part, err, lines)
		}
	}
	if _, err := sqlitestore.Open(t.Context(), path, nil); err == nil {
		t.Error("a second handle of the process came in")
	}
	closeStore(t, s)
	c := start(t, "hold", path, "x")
	if line, err := c.out.ReadString('\n'); err != nil || line != "open\n" {
		t.Fatal(line, err)
	}
	if _, err := sqlitestore.Open(t.Context(), path, &sqlitestore.Options{Exclusive: true}); err == nil {
		t.Error("a shared store was opened exclusively")
	}
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = c.end() // killed
	s = open(t, path, &sqlitestore.Options{Exclusive: true})
	closeStore(t, s)
}

// Opened exclusively, the leases of earlier incarnations expire at once; shared, they run out.
func TestExclusiveExpiresLeases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path, nil)
	submit(t, s, "a", "b")
	if n := len(claim(t, s, "old", store.Intake, 2).Grants); n != 2 {
		t.Fatalf("%d granted", n)
	}
	if _, err := s.Renew(t.Context(), store.RenewRequest{Worker: store.Worker{ID: "old"}}); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	s = open(t, path, nil)
	if n := len(claim(t, s, "new", store.Intake, 2).Grants); n != 0 {
		t.Errorf("%d granted though their leases stand", n)
	}
	closeStore(t, s)
	s = open(t, path, &sqlitestore.Options{Exclusive: true})
	defer closeStore(t, s)
	granted, lost := 0, 0
	for more := true; more; { // one step of maintenance is bounded
		rep := claim(t, s, "new", store.Intake, 2)
		granted, lost, more = granted+len(rep.Grants), lost+rep.Lost, rep.More
	}
	if granted != 2 || lost != 2 {
		t.Errorf("%d granted, %d lost", granted, lost)
	}
}
