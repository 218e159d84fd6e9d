package archtest

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	maxFileLines = 450
	maxMainLines = 40
)

// longFiles are the files that may be longer than maxFileLines, each with its reason.
var longFiles = map[string]string{}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

func TestFilesAreShort(t *testing.T) {
	seen := map[string]bool{}
	eachFile(t, func(name string, data []byte) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || generated.Match(data) {
			return
		}
		lines := bytes.Count(data, []byte("\n"))
		reason, exempt := longFiles[name]
		switch {
		case exempt && (reason == "" || lines <= maxFileLines):
			t.Errorf("%s has %d lines and is listed as an exception for the reason %q: the entry can go", name, lines, reason)
		case !exempt && lines > maxFileLines:
			t.Errorf("%s has %d lines, at most %d: it holds more than one noun", name, lines, maxFileLines)
		}
		if name == "cmd/twolane/main.go" && lines >= maxMainLines {
			t.Errorf("%s has %d lines, want under %d", name, lines, maxMainLines)
		}
		seen[name] = true
	})
	for name := range longFiles {
		if !seen[name] {
			t.Errorf("%s is listed as an exception and does not exist", name)
		}
	}
}

func TestEachPackageHasOneComment(t *testing.T) {
	for name, p := range graphs(t)[""] {
		if !p.ours() {
			continue
		}
		files := slices.Concat(p.GoFiles, p.CgoFiles, p.IgnoredGoFiles)
		files = slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
		if len(files) == 0 {
			files = slices.Concat(p.TestGoFiles, p.XTestGoFiles)
		}
		var with []string
		for _, f := range files {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, f), nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Errorf("%s: %v", short(name), err)
				continue
			}
			if file.Doc != nil && strings.TrimSpace(file.Doc.Text()) != "" {
				with = append(with, f)
			}
		}
		if len(with) != 1 {
			t.Errorf("%s: package comments in %q, want exactly one", short(name), with)
		}
	}
}

// forbidden are words that tie the repository to one machine or one mirror. They are put together here so that this
// file does not contain them.
var forbidden = regexp.MustCompile(`(?:^|[^a-zA-Z])/(?:` + strings.Join([]string{"wo" + "rk", "ro" + "ot"}, "|") + `)/` +
	`|\b(?:` + strings.Join([]string{
	"proxy" + `\.golang\.org`, "sum" + `\.golang\.org`,
	"deb" + `\.debian\.org`, "security" + `\.debian\.org`,
	"registry" + `\.npmjs\.org`, "files" + `\.pythonhosted\.org`,
}, "|") + `)\b`)

func TestNoForbiddenWords(t *testing.T) {
	eachFile(t, func(name string, data []byte) {
		if bytes.IndexByte(data, 0) >= 0 {
			return // not text
		}
		for i, line := range bytes.Split(data, []byte("\n")) {
			if word := forbidden.Find(line); word != nil {
				t.Errorf("%s:%d: %q does not belong into the repository", name, i+1, word)
			}
		}
	})
}

func TestForbiddenWordsBite(t *testing.T) {
	for _, bad := range []string{"cd /wo" + "rk/main", "/ro" + "ot/go", `"/ro` + `ot/x"`, "https://proxy" + ".golang.org/x", "deb" + ".debian.org"} {
		if !forbidden.MatchString(bad) {
			t.Errorf("%q passes", bad)
		}
	}
	for _, good := range []string{"internal/wo" + "rk/x", "https://golang.org/x", "the root/leaf", "go.debian.organ"} {
		if forbidden.MatchString(good) {
			t.Errorf("%q does not pass", good)
		}
	}
}

// eachFile calls do with every file of the repository: those that git tracks or would track, or without git every file
// of the folder. Names are relative to the root, with slashes.
func eachFile(t *testing.T, do func(name string, data []byte)) {
	t.Helper()
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	names := gitFiles(root)
	if names == nil {
		names = walkFiles(t, root)
	}
	if !slices.Contains(names, "go.mod") {
		t.Fatalf("the list of files has no go.mod: %d files", len(names))
	}
	for _, name := range names {
		path := filepath.Join(root, filepath.FromSlash(name))
		info, err := os.Lstat(path)
		if os.IsNotExist(err) {
			continue // deleted, and still in the index
		}
		if err != nil {
			t.Fatal(err)
		}
		if !info.Mode().IsRegular() {
			continue
		}
		data, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		do(name, data)
	}
}

// gitFiles is nil where git cannot tell.
func gitFiles(root string) []string {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil || len(out) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

func walkFiles(t *testing.T, root string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == ".git" {
			return filepath.SkipDir
		}
		if d.Type().IsRegular() {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			names = append(names, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
