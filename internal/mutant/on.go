//go:build mutants

package mutant

import "os"

var active = Bug(os.Getenv(Env))

// On reports whether the bug is the one that [Env] names.
func On(b Bug) bool { return b == active }
