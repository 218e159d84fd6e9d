package redisstore_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twolane/twolane/store/redisstore"
)

// comment takes Lua comments off, so that the lint reads code only.
var comment = regexp.MustCompile(`(?m)--.*$`)

// F082: every key that a script touches is the guard pair or begins with the namespace's tag, so that all of them are in one slot; every
// script declares the guard pair and says in its header what it does.
func TestF082_scripts_keep_to_their_slot(t *testing.T) {
	kinds := redisstore.KeyKinds()
	// The second argument of a call, where a command has a key there.
	keyed := regexp.MustCompile(`(?:p?call|vcall|many)\(\s*('[A-Z]+'|cmd|rev and '[A-Z]+' or '[A-Z]+')\s*,\s*([^,)]+)`)
	literal := regexp.MustCompile(`P \.\. '([^']*)'`)
	// Names that hold a key which was built from P, by the script that says so.
	built := regexp.MustCompile(`^(KEYS\[1\]|key|k|keys\[1\]|open|t\.open|L\.open|l\.open|d\.key|d\.fin|n|ks|prefix|(K\.)?M\.key)$`)
	// Lists and keys of others, which only a server that is no cluster can touch in the same step.
	theirs := regexp.MustCompile(`^(e\.dest|e\.unset\[j\]|unpack\(e\.del\)?)$`)
	foreign := map[string]*regexp.Regexp{"push": theirs, "settle": theirs}
	for name, text := range redisstore.Scripts() {
		code := comment.ReplaceAllString(text, "")
		if !strings.Contains(code, "string.sub(KEYS[1], 1, -5)") {
			t.Errorf("%s: does not take its prefix from the guard key", name)
		}
		if strings.Contains(code, "KEYS[3]") || regexp.MustCompile(`KEYS\[[^12]\]`).MatchString(code) {
			t.Errorf("%s: uses a key beyond the guard pair", name)
		}
		if regexp.MustCompile(`'\{|"\{`).MatchString(code) {
			t.Errorf("%s: spells a hash tag itself", name)
		}
		for _, m := range keyed.FindAllStringSubmatch(code, -1) {
			cmd, key := strings.Trim(m[1], "'"), strings.TrimSpace(m[2])
			switch {
			case foreign[name] != nil && foreign[name].MatchString(key):
			case cmd == "TIME" || cmd == "SCAN":
			case cmd == "MGET" || cmd == "MSET" || cmd == "DEL" || cmd == "UNLINK" || cmd == "EXISTS":
				if strings.HasPrefix(key, "unpack(") || strings.HasPrefix(key, "P ..") || built.MatchString(key) {
					continue
				}
				t.Errorf("%s: %s of %s", name, cmd, key)
			case strings.HasPrefix(key, "P .."), built.MatchString(key):
			case strings.HasPrefix(key, "H.finkey"), strings.HasPrefix(key, "openkey("):
			default:
				t.Errorf("%s: %s of a key that may not begin with the tag: %s", name, cmd, key)
			}
		}
		for _, m := range literal.FindAllStringSubmatch(code, -1) {
			kind := m[1]
			if i := strings.IndexByte(kind, '|'); i >= 0 {
				kind = kind[:i+1]
			}
			if kind != "" && kind != "*" && kind != "s" && !slices.Contains(kinds, kind) {
				t.Errorf("%s: builds a key of kind %q, which keys.go does not know", name, kind)
			}
		}
	}
}

// A script is a file with a contract on top: flags, what it does, keys, arguments where it has some, reply.
func TestScriptsSayWhatTheyDo(t *testing.T) {
	files, err := filepath.Glob("script/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	scripts := redisstore.Scripts()
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text, name := string(b), strings.TrimSuffix(filepath.Base(f), ".lua")
		if _, ok := scripts[name]; !ok {
			if strings.HasPrefix(text, "#!") {
				t.Errorf("%s: is a script that no code loads", f)
			}
			continue
		}
		head, _, _ := strings.Cut(text, "\nlocal ")
		flags, _, _ := strings.Cut(text, "\n")
		want := "#!lua flags=allow-oom"
		switch {
		case name == "submit":
			want = "#!lua" // the only one that is refused when memory is full
		case strings.Contains(text, "begin(false, true)"):
			want = "#!lua flags=no-writes"
		}
		if flags != want {
			t.Errorf("%s: begins %q, not %q", f, flags, want)
		}
		for _, part := range []string{"-- " + name + ".lua: ", "-- KEYS  the guard pair", "-- include: base"} {
			if !strings.Contains(head, part) {
				t.Errorf("%s: the header lacks %q", f, part)
			}
		}
		if strings.Contains(text, "ARGV") && !strings.Contains(head, "-- ARGV  ") {
			t.Errorf("%s: the header does not say what its arguments are", f)
		}
		if !strings.Contains(head, "-- reply ") {
			t.Errorf("%s: the header does not say what the reply is", f)
		}
		if !strings.Contains(text, "local err = begin(") || !strings.Contains(text, "if err then return err end") {
			t.Errorf("%s: does not check the schema before all else", f)
		}
	}
}
