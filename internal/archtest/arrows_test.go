package archtest

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// An arrow says what the packages matched by from may and must not import. Names are relative to the module, "." is its
// root, "name/..." is a package with all below it.
type arrow struct {
	from string
	// only lists the packages of this module that may be imported directly; the standard library always may. A third-party
	// module has to be named in full. nil: no such limit.
	only []string
	// never lists packages of this module that must not be reached, by whatever way, and not by tests directly.
	never []string
	// pure forbids third-party modules anywhere below.
	pure bool
	// pending marks a package that is not written yet; without the mark its absence is a failure.
	pending bool
	why     string
}

var above = []string{".", "internal/dispatch/...", "cmd/...", "sim/...", "simrt/...", "daemon/...", "client/...", "inference/..."}

var arrows = []arrow{
	{from: "store", only: []string{}, never: above, pure: true,
		why: "the SPI is what a store's author reads; it needs nothing"},
	{from: "internal/mutant", only: []string{}, never: append([]string{"store/..."}, above...), pure: true,
		why: "pure code of any layer asks it, and it is gone from an ordinary build"},
	{from: "store/rule", only: []string{"store", "internal/mutant"}, never: above, pure: true,
		why: "pure decisions about one command"},
	{from: "store/memstore", only: []string{"store", "store/rule", "internal/mutant"}, never: above, pure: true,
		why: "the model that the other stores are compared with, and a dependency of every small program"},
	{from: "store/storetest", never: above,
		why: "a store of somebody else is tested without the engine"},
	{from: "store/...", never: above,
		why: "data flows down; a store knows only the SPI"},
	{from: "gate", only: []string{"store"}, never: above, pure: true,
		why: "the root imports it, and so does whoever writes a gate"},
	{from: "gate/internal/web", only: []string{"store"}, never: above, pure: true,
		why: "requests with the standard library"},
	{from: "gate/promgate", only: []string{"gate", "gate/internal/web", "store"}, never: above, pure: true,
		why: "the API of Prometheus is small: whoever asks it needs no client library"},
	{from: "gate/scrape", only: []string{"gate", "gate/internal/web", "store", "github.com/prometheus/client_model/go", "github.com/prometheus/common/expfmt",
		"github.com/prometheus/common/model"}, never: above, why: "one source, one dependency"},
	{from: "gate/redisgate", only: []string{"gate", "store", "github.com/redis/rueidis"}, never: append([]string{"store/redisstore/..."}, above...),
		why: "one source, one dependency"},
	{from: "gate/kinds", never: above, why: "what reads a configuration; programs that make their gates in Go do not need it"},
	{from: ".", only: []string{"store", "store/rule", "gate", "internal/..."}, pure: true,
		never: []string{"store/memstore/...", "store/sqlitestore/...", "store/redisstore/...", "store/faultstore/...",
			"store/storetest/...", "internal/openstore/...", "internal/redistest/...", "cmd/...", "sim/...", "daemon/...",
			"client/...", "inference/...", "metrics/..."},
		why: "programs import the root: it knows no particular store and brings no dependency"},
	{from: "internal/redistest", only: []string{"github.com/redis/rueidis"}, never: []string{".", "store/..."},
		why: "it starts servers for the tests of any package"},
	{from: "store/sqlitestore", only: []string{"store/...", "modernc.org/sqlite", "modernc.org/sqlite/lib", "golang.org/x/...", "internal/..."},
		never: []string{"store/redisstore/..."}, why: "one store, one backend"},
	{from: "store/redisstore", only: []string{"store/...", "github.com/redis/rueidis", "golang.org/x/...", "internal/..."},
		never: []string{"store/sqlitestore/..."}, why: "one store, one backend"},
	{from: "store/faultstore", only: []string{"store/...", "internal/..."}, pure: true,
		why: "it wraps any store and is linked into small test binaries"},
	{from: "internal/dispatch", only: []string{"store", "store/rule", "gate", "internal/..."}, never: []string{".", "cmd/..."}, pure: true,
		why: "the root is built on it"},
	{from: "metrics/prom", never: []string{"store/sqlitestore/...", "store/redisstore/...", "cmd/..."},
		why: "an adapter of the root's neutral interface"},
	{from: "twolanetest", never: []string{"store/sqlitestore/...", "store/redisstore/...", "cmd/..."},
		why: "users' tests run in memory"},
	{from: "sim/...", never: []string{"store/sqlitestore/...", "store/redisstore/...", "cmd/..."},
		why: "thousands of seeds in memory; a test binary that links SQLite costs a minute"},
	{from: "inference/wire", only: []string{}, never: []string{".", "store/...", "cmd/..."}, pure: true,
		why: "formats of others: nothing of ours belongs into them"},
	{from: "inference", never: []string{"cmd/...", "daemon/...", "sim/..."}, why: "an adapter on the engine"},
	{from: "cmd/twolane", why: "the program"},
}

func TestArrows(t *testing.T) {
	for tags, g := range graphs(t) {
		for _, a := range arrows {
			from := matching(g, a.from)
			if len(from) == 0 && !a.pending {
				t.Errorf("tags %q: no package %s, but a rule names it (%s)", tags, a.from, a.why)
			}
			if len(from) > 0 && a.pending {
				t.Logf("%s exists now: its rule need not be pending any more", a.from)
			}
			for _, p := range from {
				for _, problem := range a.check(g, p) {
					t.Errorf("tags %q: %s %s: %s", tags, short(p.ImportPath), problem, a.why)
				}
			}
		}
	}
}

// check lists what is wrong with one package.
func (a arrow) check(g graph, p *pkg) []string {
	var problems []string
	if a.only != nil {
		for _, imp := range p.Imports {
			if !isStandard(g, imp) && !slices.ContainsFunc(a.only, func(o string) bool { return under(short(imp), o) }) {
				problems = append(problems, "imports "+short(imp))
			}
		}
	}
	for _, dep := range p.Deps {
		if a.forbids(p, dep) {
			problems = append(problems, "reaches "+path(g, p.ImportPath, dep))
		}
		if d := g[dep]; a.pure && d != nil && d.Module != nil && !d.ours() {
			problems = append(problems, "brings the module "+d.Module.Path+" by "+path(g, p.ImportPath, dep))
		}
	}
	for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
		// A test outside of its package imports it; the root's tests may use any store.
		if p.ImportPath != module && a.forbids(p, imp) {
			problems = append(problems, "has a test that imports "+short(imp))
		}
	}
	return problems
}

func (a arrow) forbids(p *pkg, imp string) bool {
	return imp != p.ImportPath && slices.ContainsFunc(a.never, func(n string) bool {
		return (imp == module || strings.HasPrefix(imp, module+"/")) && under(short(imp), n)
	})
}

func isStandard(g graph, imp string) bool {
	p := g[imp]
	return imp == "C" || imp == "unsafe" || p != nil && p.Standard
}

func matching(g graph, pattern string) []*pkg {
	var ps []*pkg
	for _, name := range slices.Sorted(maps.Keys(g)) {
		if p := g[name]; p.ours() && under(short(name), pattern) {
			ps = append(ps, p)
		}
	}
	return ps
}

// path is a shortest way from one package to another: what to look at when a rule is broken.
func path(g graph, from, to string) string {
	cameFrom := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if at == to {
			way := []string{short(at)}
			for at = cameFrom[at]; at != from && at != ""; at = cameFrom[at] {
				way = append(way, short(at))
			}
			slices.Reverse(way)
			return strings.Join(way, " -> ")
		}
		if p := g[at]; p != nil {
			for _, imp := range p.Imports {
				if _, seen := cameFrom[imp]; !seen {
					cameFrom[imp] = at
					queue = append(queue, imp)
				}
			}
		}
	}
	return short(to)
}

// The rules must bite: a small invented module breaks each kind once.
func TestArrowsBite(t *testing.T) {
	mod := &struct{ Path string }{module}
	third := &struct{ Path string }{"example.org/third"}
	g := graph{
		"fmt":               {ImportPath: "fmt", Standard: true},
		"example.org/third": {ImportPath: "example.org/third", Module: third},
		long("."):           {ImportPath: long("."), Module: mod},
		long("store"): {ImportPath: long("store"), Module: mod,
			Imports: []string{"fmt", long("mid")}, Deps: []string{"fmt", long("mid"), long("."), "example.org/third"},
			XTestImports: []string{long("store"), long(".")}},
		long("mid"): {ImportPath: long("mid"), Module: mod, Imports: []string{long("."), "example.org/third"}},
	}
	a := arrow{from: "store", only: []string{}, never: []string{"."}, pure: true}
	got := a.check(g, g[long("store")])
	want := []string{
		"imports mid",
		"reaches mid -> .",
		"brings the module example.org/third by mid -> example.org/third",
		"has a test that imports .",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	fine := arrow{from: "store", only: []string{"mid"}, never: []string{"cmd/..."}}
	if got := fine.check(g, g[long("store")]); got != nil {
		t.Errorf("a package that keeps the rule: %q", got)
	}
	if n := len(matching(g, "store/...")); n != 1 {
		t.Errorf("store/... matches %d packages, want 1", n)
	}
}

// What go list could not read it did not check.
func TestEveryPackageWasRead(t *testing.T) {
	for tags, g := range graphs(t) {
		for name, p := range g {
			if p.Error != nil && (p.ours() || strings.HasPrefix(name, module)) {
				t.Errorf("tags %q: %s: %s", tags, short(name), p.Error.Err)
			}
		}
	}
}
