//go:build !mutants

package mutant

import "testing"

// An ordinary build has no bug to choose, whatever the environment says.
func TestNoBugWithoutTheTag(t *testing.T) {
	t.Setenv(Env, string(SkipLeaseCompare))
	if On(SkipLeaseCompare) {
		t.Error("a bug can be switched on in an ordinary build")
	}
}
