package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/twolane/twolane/internal/demo"
	"github.com/twolane/twolane/internal/redistest"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"twolane": main}) }

// TestScripts runs the program as a person would; scripts find a Redis server at $REDIS.
func TestScripts(t *testing.T) {
	srv := redistest.Start(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("REDIS", srv.URL())
			env.Setenv("TMPDIR", env.WorkDir)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"json": checkJSON},
	})
}

// checkJSON checks fields of the object in the last line of stdout: json lost==0 polls>=60 audit==ok poll_lateness_ms.p99<=1000.
func checkJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("json cannot be negated")
	}
	out := strings.Split(strings.TrimSpace(ts.ReadFile("stdout")), "\n")
	var obj map[string]any
	ts.Check(json.Unmarshal([]byte(out[len(out)-1]), &obj))
	for _, arg := range args {
		op := "=="
		for _, o := range []string{">=", "<="} {
			if strings.Contains(arg, o) {
				op = o
			}
		}
		path, want, ok := strings.Cut(arg, op)
		if !ok {
			ts.Fatalf("json: %q has no ==, >= or <=", arg)
		}
		var got any = obj
		for name := range strings.SplitSeq(path, ".") {
			m, _ := got.(map[string]any)
			if got, ok = m[name]; !ok {
				ts.Fatalf("json: no field %s in %s", path, out[len(out)-1])
			}
		}
		if s, isString := got.(string); isString {
			if op != "==" || s != want {
				ts.Fatalf("json: %s is %q, want %s%s", path, s, op, want)
			}
			continue
		}
		limit, err := strconv.ParseFloat(want, 64)
		ts.Check(err)
		f, isNumber := got.(float64)
		if !isNumber || op == "==" && f != limit || op == ">=" && f < limit || op == "<=" && f > limit {
			ts.Fatalf("json: %s is %v, want %s%s", path, got, op, want)
		}
	}
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"", exitOK, ""},
		{"--help", exitOK, ""},
		{"dmeo", exitUsage, `did you mean demo?`},
		{"nothing-like-it", exitUsage, `unknown command "nothing-like-it"`},
		{"demo extra", exitUsage, `takes no arguments, and got "extra"`},
		{"demo --comands 3", exitUsage, "unknown flag: --comands"},
		{"demo --commands 0", exitUsage, "--commands 0 is not between"},
		{"demo --workers 0", exitUsage, "--workers 0"},
		{"demo --batch 101", exitUsage, "--batch 101"},
		{"demo --rate 0", exitUsage, "--rate 0"},
		{"demo --error-rate 1", exitUsage, "--error-rate 1"},
		{"demo --poll 1ms", exitUsage, "--poll 1ms"},
		{"demo --task-duration x", exitUsage, "--task-duration"},
		{"demo --task-duration 3s-2s", exitUsage, "--task-duration 3s-2s"},
		{"demo --store mem: --processes", exitUsage, "lives in one process"},
		{"demo --store mem: --kill", exitUsage, "lives in one process"},
		{"demo --kill --workers 1", exitUsage, "second worker"},
		{"demo --store postgres://x", exitUsage, "bad store URL"},
		{"demo --store sqlite:x.db?nope=1", exitUsage, `"nope"`},
		{"demo --store redis://127.0.0.1:1", exitUnreachable, "refused"},
		{"bench --only nothing", exitUsage, "--only"},
		{"bench --store mem: --n -1", exitUsage, "--n -1"},
		{"bench --store redis://127.0.0.1:1", exitUnreachable, "refused"},
		{"audit", exitUsage, "--store is required"},
		{"audit --store mem:", exitUsage, "nothing to audit"},
		{"audit --store sqlite:/no/such/file.db", exitNotFound, "no such file"},
		{"version --json", exitOK, ""},
	} {
		t.Run(c.args, func(t *testing.T) {
			var out, errs strings.Builder
			code := run(strings.Fields(c.args), strings.NewReader(""), &out, &errs)
			if code != c.code || !strings.Contains(errs.String(), c.says) {
				t.Errorf("exit code %d, want %d with %q; it says\n%s", code, c.code, c.says, errs.String())
			}
			if code == exitOK && out.Len() == 0 || code != exitOK && out.Len() > 0 {
				t.Errorf("exit code %d and on stdout:\n%s", code, out.String())
			}
			if code == exitUsage && !strings.Contains(errs.String(), "--help'") {
				t.Errorf("a usage error does not point at the help:\n%s", errs.String())
			}
		})
	}
}

// The first Ctrl-C lets the workers end, tells how far it came, and leaves nothing behind.
func TestDemoInterrupted(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "twolane", "demo", "--processes", "--task-duration", "1h", "--json")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	var out strings.Builder
	cmd.Stdout = &out
	messages, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := ""
	for lines := bufio.NewScanner(messages); lines.Scan(); {
		said += lines.Text() + "\n"
		if strings.Contains(lines.Text(), "launched") && !strings.Contains(lines.Text(), "launched 0/") && !strings.Contains(said, "stopping") {
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // its exit code tells
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d; it says\n%s", code, exitInterrupted, said)
	}
	var res demo.Result
	if err := json.Unmarshal([]byte(out.String()), &res); err != nil || res.Launched == 0 || res.Lost != res.Commands || res.DuplicateRuns != 0 || res.Audit != "ok" {
		t.Errorf("%v: %s", err, out.String())
	}
	for _, want := range []string{"press Ctrl-C again", "Interrupted: ", "were not finished", "every promise was kept"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is missing in\n%s", want, said)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestAuditReportsViolations(t *testing.T) {
	var out strings.Builder
	r := auditReport{Store: "x", Commands: 2, Leased: 1, Violations: []string{"c1: in two places"}}
	if err := r.print(streams{out: &out}, false); err != nil || out.String() != "c1: in two places\n1 violation: 2 commands, 1 leases in x\n" {
		t.Errorf("%v\n%s", err, out.String())
	}
	out.Reset()
	r.Violations = nil
	if err := r.print(streams{out: &out}, true); err != nil || out.String() != `{"store":"x","commands":2,"leased":1,"violations":[]}`+"\n" {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestParseRange(t *testing.T) {
	for s, want := range map[string][2]time.Duration{"10s-20s": {10 * time.Second, 20 * time.Second}, "60s": {time.Minute, time.Minute}} {
		if low, high, err := parseRange(s); err != nil || low != want[0] || high != want[1] {
			t.Errorf("%s: %v %v %v", s, low, high, err)
		}
	}
}
