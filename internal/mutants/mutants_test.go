//go:build mutants

package mutants

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twolane/twolane/internal/mutant"
)

// Packages whose tests are run, relative to the root of the module.
const (
	memstore = "store/memstore"
	dispatch = "internal/dispatch"
)

// detector is a test that must fail with a bug.
type detector struct {
	pkg, test string
}

var detectors = map[mutant.Bug]detector{
	mutant.SkipLeaseCompare:     {memstore, "TestConformance/settle/F047_F052_stale_owner"},
	mutant.TokenWithoutNonce:    {memstore, "TestConformance/renew/whole_name"},
	mutant.ZeroVisibility:       {memstore, "TestConformance/claim/is_the_mark"},
	mutant.PopBeforeLease:       {memstore, "TestConformance/idempotency/claim_never_repeated"},
	mutant.LossThoughOwnerLives: {memstore, "TestConformance/loss/claim_lost"},
	mutant.ReapWithoutRecheck:   {memstore, "TestConformance/renew/expired_not_reaped"},
	mutant.ForgetSettled:        {memstore, "TestConformance/idempotency/F106_settle"},
	mutant.RateTokenGivenBack:   {memstore, "TestConformance/rate/not_given_back"},
	mutant.DropWakeUp:           {memstore, "TestConformance/watch/work"},
	mutant.DropEndWakeUp:        {memstore, "TestConformance/watch/end"},
	mutant.LeasesOnServerTime:   {memstore, "TestConformance/clock/outage"},
	mutant.ForgetNonce:          {memstore, "TestConformance/idempotency/F008_F059_claim"},
	mutant.RetryForgetsDeadline: {memstore, "TestConformance/deadline"},

	mutant.SkipRoomTest:        {memstore, "TestConformance/limit/by"},
	mutant.FirstLimitOnly:      {memstore, "TestConformance/limit/all_or_none"},
	mutant.BatchTestsOnce:      {memstore, "TestConformance/limit_line/batch"},
	mutant.ForgetHold:          {memstore, "TestConformance/limit_fault/F010_ten_failures"},
	mutant.LostWorkerGivesBack: {memstore, "TestConformance/limit_exit/F007_F010_worker_killed"},
	mutant.HolderWaits:         {memstore, "TestConformance/limit/holder"},
	mutant.VisitWaits:          {memstore, "TestConformance/limit/visit_passes"},
	mutant.ForgetUnfile:        {memstore, "TestConformance/limit_line/turns"},
	mutant.DropHint:            {memstore, "TestConformance/limit_line/opened_at_once"},
	mutant.ForgetRetest:        {memstore, "TestConformance/limit/until"},
	mutant.NewcomerTakesRoom:   {memstore, "TestConformance/limit_line/newcomer"},
	mutant.RoomIsKept:          {memstore, "TestConformance/limit_line/no_worker"},
	mutant.ForgetLimitToken:    {memstore, "TestConformance/limit_rate/windows"},
	mutant.ForgetTurn:          {memstore, "TestConformance/fair/F165_turns"},

	mutant.SharedLane:         {dispatch, "TestClaimGathers"},
	mutant.ForgetPermit:       {dispatch, "TestClaimProofRefused"},
	mutant.ForgetWakeUp:       {dispatch, "TestWakeUpDuringAClaim"},
	mutant.GiveBackRunning:    {dispatch, "TestDrainPhases"},
	mutant.LostReplyIsFailure: {dispatch, "TestLostSettleReplyIsRepeatedAsItWas"},
	mutant.FenceFromReply:     {dispatch, "TestFenceCountsFromTheSend"},
	mutant.StartTwice:         {dispatch, "TestClaimOfWhatStillRunsHere"},
	mutant.DrawNewNonce:       {dispatch, "TestClaimLostReplyIsRepeatedWithItsNonce"},
	mutant.StopRenewAtDrain:   {dispatch, "TestDrainPhases"},
}

// TestEachBugIsNoticed runs, for each bug, its test with the bug and without it.
func TestEachBugIsNoticed(t *testing.T) {
	bugs := declared(t)
	for bug := range detectors {
		if _, ok := bugs[bug]; !ok {
			t.Errorf("no bug %s is declared in package mutant", bug)
		}
	}
	bin := compile(t, memstore, dispatch)
	passed := map[detector]bool{}
	for bug, name := range bugs {
		t.Run(name, func(t *testing.T) {
			d, ok := detectors[bug]
			if !ok {
				t.Fatalf("no test is named that notices %s", bug)
			}
			if !passed[d] {
				if out, ran := run(t, bin, d, ""); !ran.passed {
					t.Fatalf("%s fails without any bug:\n%s", d.test, out)
				}
				passed[d] = true
			}
			if out, ran := run(t, bin, d, bug); !ran.failed {
				t.Errorf("%s passes with the bug %s:\n%s", d.test, bug, out)
			}
		})
	}
}

// declared reads the bugs from the source of package mutant: one that nobody notices must not stay unlisted.
func declared(t *testing.T) map[mutant.Bug]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../mutant/bug.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	bugs := map[mutant.Bug]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if typ, is := specType(spec, ok); is && typ == "Bug" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			bugs[mutant.Bug(text)] = spec.Names[0].Name
		}
		return true
	})
	if len(bugs) < 12 {
		t.Fatalf("only %d bugs are declared", len(bugs))
	}
	return bugs
}

func specType(spec *ast.ValueSpec, ok bool) (string, bool) {
	if !ok || len(spec.Values) != 1 {
		return "", false
	}
	id, ok := spec.Type.(*ast.Ident)
	if !ok {
		return "", false
	}
	return id.Name, true
}

// compile makes the test binaries once.
func compile(t *testing.T, pkgs ...string) map[string]string {
	t.Helper()
	dir, bin := t.TempDir(), map[string]string{}
	args := []string{"test", "-c", "-vet=off", "-tags", "mutants", "-o", dir + string(filepath.Separator)}
	for _, p := range pkgs {
		args = append(args, "github.com/twolane/twolane/"+p)
		bin[p] = filepath.Join(dir, filepath.Base(p)+".test")
	}
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return bin
}

type result struct{ passed, failed bool }

// run runs one test in a process of its own. A test that does not exist, a bug that makes the process end otherwise, or one that makes it hang
// neither passes nor fails.
func run(t *testing.T, bin map[string]string, d detector, bug mutant.Bug) (string, result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	parts := strings.Split(d.test, "/")
	for i, p := range parts {
		parts[i] = "^" + p + "$"
	}
	cmd := exec.CommandContext(ctx, bin[d.pkg], "-test.v", "-test.count=1", "-test.timeout=30s", "-test.run", strings.Join(parts, "/"))
	cmd.Dir = filepath.Join("..", "..", filepath.FromSlash(d.pkg))
	cmd.Env = append(os.Environ(), mutant.Env+"="+string(bug))
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 1 && exit.ExitCode() != 2) {
		t.Fatalf("%s: %v\n%s", d.test, err, out)
	}
	return string(out), result{
		passed: err == nil && strings.Contains(string(out), "--- PASS: "+d.test+" "),
		failed: err != nil && strings.Contains(string(out), "--- FAIL: "+d.test+" "),
	}
}
