// Package mutants tests the tests: for each bug of package mutant a named test must fail with it and pass without it. Its tests are built
// only with the tag mutants.
package mutants
