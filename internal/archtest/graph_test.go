package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/twolane/twolane"

// pkg is what `go list -json` tells of a package.
type pkg struct {
	ImportPath, Dir, Name             string
	Standard                          bool
	Module                            *struct{ Path string }
	GoFiles, CgoFiles, IgnoredGoFiles []string
	TestGoFiles, XTestGoFiles         []string
	Imports, TestImports, XTestImports,
	Deps []string
	Error *struct{ Err string }
}

// ours tells whether the package is part of this module.
func (p *pkg) ours() bool { return p.Module != nil && p.Module.Path == module }

// graph is every package that the module needs or has, by import path, as one set of build tags shows it.
type graph map[string]*pkg

// tagSets are the builds that are looked at: the plain one and the one with known bugs built in.
var tagSets = []string{"", "mutants"}

var loadGraphs = sync.OnceValues(func() (map[string]graph, error) {
	graphs := make(map[string]graph)
	for _, tags := range tagSets {
		g, err := loadGraph(tags)
		if err != nil {
			return nil, err
		}
		graphs[tags] = g
	}
	return graphs, nil
})

func loadGraph(tags string) (graph, error) {
	root, err := findRoot()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "list", "-e", "-deps", "-tags", tags,
		"-json=ImportPath,Dir,Name,Standard,Module,GoFiles,CgoFiles,IgnoredGoFiles,TestGoFiles,XTestGoFiles,"+
			"Imports,TestImports,XTestImports,Deps,Error", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.Bytes())
	}
	g := make(graph)
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(pkg)
		if err := dec.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		g[p.ImportPath] = p
	}
	return g, nil
}

// graphs is what is looked at in every test, by build tags.
func graphs(t *testing.T) map[string]graph {
	t.Helper()
	gs, err := loadGraphs()
	if err != nil {
		t.Fatal(err)
	}
	return gs
}

// findRoot is the folder of go.mod.
var findRoot = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
})

// short is an import path as people say it: "." is the root package, the rest is relative to it.
func short(path string) string {
	if path == module {
		return "."
	}
	return strings.TrimPrefix(path, module+"/")
}

// long is the opposite of short.
func long(name string) string {
	if name == "." {
		return module
	}
	return module + "/" + name
}

// under tells whether a short name is matched by a pattern: a name, or "name/..." for it and all below.
func under(name, pattern string) bool {
	if parent, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == parent || strings.HasPrefix(name, parent+"/")
	}
	return name == pattern
}
