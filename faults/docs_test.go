package faults

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docs/faults.md names only tests that are there, and has a word for each fault.
func TestEveryNameExists(t *testing.T) {
	read := func(pattern string) string {
		t.Helper()
		files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(pattern)))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: no such files (%v)", pattern, err)
		}
		var b strings.Builder
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(text)
			b.WriteByte('\n')
		}
		return b.String()
	}
	cases, names := map[string]bool{}, 0 // "noun/case"
	vars := map[string]string{}
	for _, m := range regexp.MustCompile(`\{"(\w+)", (\w+Cases)\}`).FindAllStringSubmatch(read("store/storetest/harness.go"), -1) {
		vars[m[2]] = m[1]
	}
	noun := ""
	for line := range strings.Lines(read("store/storetest/*.go")) {
		if m := regexp.MustCompile(`^var (\w+Cases) = `).FindStringSubmatch(line); m != nil {
			noun = vars[m[1]]
		} else if m := regexp.MustCompile(`^\t\{"(\w+)", "`).FindStringSubmatch(line); m != nil {
			cases[noun+"/"+m[1]] = true
		}
	}
	source := map[string]string{}
	for line := range strings.Lines(read("docs/faults.md")) {
		row := strings.Split(strings.Trim(line, "| \n"), " | ")
		if !strings.HasPrefix(line, "| F") {
			continue
		}
		if len(row) != 3 || strings.TrimSpace(row[2]) == "" {
			t.Errorf("nothing is said about %q", line)
		}
		for _, m := range regexp.MustCompile("`([\\w/.]+) ([\\w/]+)`").FindAllStringSubmatch(line, -1) {
			dir, name := m[1], m[2]
			if names++; dir == "storetest" {
				if !cases[name] {
					t.Errorf("storetest has no case %s", name)
				}
				continue
			}
			if dir == "twolane" {
				dir = "."
			}
			if source[dir] == "" {
				source[dir] = read(dir + "/*_test.go")
			}
			if !strings.Contains(source[dir], "\nfunc "+name+"(") {
				t.Errorf("%s has no test %s", m[1], name)
			}
		}
	}
	if names < 150 {
		t.Errorf("only %d names were found", names)
	}
}
