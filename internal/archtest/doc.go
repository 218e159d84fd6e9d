// Package archtest holds the tests of the module's shape: which package may import which, how long a file may be, that
// every package says what it is for, and words that must not be in the repository. It has no code of its own.
package archtest
