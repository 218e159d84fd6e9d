package faults

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Both lists of faults name only tests that are there. docs/faults.md has a word for each fault; docs/inference.md has a test for each, or says why it
// does not apply.
func TestEveryNameExists(t *testing.T) {
	n := newNames(t)
	if rows, found := n.check("docs/faults.md", regexp.MustCompile(`^\| F\d+ `)); rows < 140 || found < 150 {
		t.Errorf("docs/faults.md: only %d rows with %d names were found", rows, found)
	}
	numbered := regexp.MustCompile(`^\| (\d+b?) \| `)
	if rows, found := n.check("docs/inference.md", numbered); rows != 50 || found < 50 {
		t.Errorf("docs/inference.md: %d rows with %d names were found, want 50 (1 to 49, and 6b)", rows, found)
	}
	next := 1
	for line := range strings.Lines(n.read("docs/inference.md")) {
		m := numbered.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if m[1] != "6b" {
			if m[1] != strconv.Itoa(next) {
				t.Errorf("docs/inference.md: fault %s where %d is due", m[1], next)
			}
			next++
		}
		if !name.MatchString(line) && !strings.Contains(line, " | Does not apply: ") {
			t.Errorf("docs/inference.md: no test, and no reason why fault %s does not apply", m[1])
		}
	}
}

// name is a test of a folder: `inference TestFault01Kill`.
var name = regexp.MustCompile("`([\\w/.]+) ([\\w/]+)`")

// names knows which tests there are.
type names struct {
	*testing.T
	cases  map[string]bool   // of storetest, "noun/case"
	source map[string]string // tests by folder
}

func newNames(t *testing.T) *names {
	n := &names{T: t, cases: map[string]bool{}, source: map[string]string{}}
	vars := map[string]string{}
	for _, m := range regexp.MustCompile(`\{"(\w+)", (\w+Cases)\}`).FindAllStringSubmatch(n.read("store/storetest/harness.go"), -1) {
		vars[m[2]] = m[1]
	}
	noun := ""
	for line := range strings.Lines(n.read("store/storetest/*.go")) {
		if m := regexp.MustCompile(`^var (\w+Cases) = `).FindStringSubmatch(line); m != nil {
			noun = vars[m[1]]
		} else if m := regexp.MustCompile(`^\t\{"(\w+)", "`).FindStringSubmatch(line); m != nil {
			n.cases[noun+"/"+m[1]] = true
		}
	}
	return n
}

// read is the text of files of the repository.
func (n *names) read(pattern string) string {
	n.Helper()
	files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(pattern)))
	if err != nil || len(files) == 0 {
		n.Errorf("%s: no such files (%v)", pattern, err)
	}
	var b strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			n.Fatal(err)
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	return b.String()
}

// check looks at the rows of a list, and counts them and the names in them.
func (n *names) check(file string, isRow *regexp.Regexp) (rows, found int) {
	for line := range strings.Lines(n.read(file)) {
		if !isRow.MatchString(line) {
			continue
		}
		rows++
		if row := strings.Split(strings.Trim(line, "| \n"), " | "); len(row) != 3 || strings.TrimSpace(row[2]) == "" {
			n.Errorf("%s: nothing is said about %q", file, line)
		}
		for _, m := range name.FindAllStringSubmatch(line, -1) {
			dir, test := m[1], m[2]
			if found++; dir == "storetest" {
				if !n.cases[test] {
					n.Errorf("storetest has no case %s", test)
				}
				continue
			}
			if dir == "twolane" {
				dir = "."
			}
			if n.source[dir] == "" {
				n.source[dir] = n.read(dir + "/*_test.go")
			}
			if !strings.Contains(n.source[dir], "\nfunc "+test+"(") {
				n.Errorf("%s: %s has no test %s", file, m[1], test)
			}
		}
	}
	return rows, found
}
