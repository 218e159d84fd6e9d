//go:build !mutants

package mutant

// On reports whether the bug is built in: never.
func On(Bug) bool { return false }
