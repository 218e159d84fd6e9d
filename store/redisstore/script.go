package redisstore

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/store"
)

//go:embed script
var scriptFiles embed.FS

// folder is a part of scripts that few calls need. It becomes a function that makes it when it is first asked for, and answers a table.
type folder struct {
	table string   // the variable that holds the table
	files []string // in the order in which they use each other
}

var folders = map[string]folder{
	"lib":   {"LIB", []string{"lib/write", "lib/record", "lib/rule", "lib/place", "lib/exports"}},
	"lim":   {"LM", []string{"lim/limits", "lim/join", "lim/exports"}},
	"room":  {"LR", []string{"room/room", "room/exports"}},
	"left":  {"LO", []string{"left/left", "left/exports"}},
	"filed": {"LF", []string{"rate", "filed/line", "filed/filed", "filed/claim", "filed/write", "filed/retest", "filed/exports"}},
	"turns": {"LT", []string{"turn/turn", "turn/exports"}},
}

// script is one Lua script with what it includes.
type script struct {
	name string
	text string
	sha  string
}

// The scripts. Each file begins with a header that names its keys, arguments and reply.
var (
	scriptSubmit    = mustScript("submit")
	scriptClaim     = mustScript("claim")
	scriptBlobs     = mustScript("blobs")
	scriptSetAside  = mustScript("setaside")
	scriptRenew     = mustScript("renew")
	scriptSettle    = mustScript("settle")
	scriptCancel    = mustScript("cancel")
	scriptAct       = mustScript("act")
	scriptMaintain  = mustScript("maintain")
	scriptGet       = mustScript("get")
	scriptList      = mustScript("list")
	scriptStats     = mustScript("stats")
	scriptOverview  = mustScript("overview")
	scriptOutbox    = mustScript("outbox")
	scriptPush      = mustScript("push")
	scriptConfig    = mustScript("config")
	scriptConfigure = mustScript("configure")
	scriptAwait     = mustScript("await")
	scriptSetClock  = mustScript("setclock")
	scriptAudit     = mustScript("audit")
	scriptLimit     = mustScript("limit")
	scriptLimits    = mustScript("limits")
)

// scripts lists them all, for the lint.
var scripts = []*script{
	scriptSubmit, scriptClaim, scriptBlobs, scriptSetAside, scriptRenew, scriptSettle, scriptCancel, scriptAct, scriptMaintain, scriptGet,
	scriptList, scriptStats, scriptOverview, scriptOutbox, scriptPush, scriptConfig, scriptConfigure, scriptAwait, scriptSetClock, scriptAudit,
	scriptLimit, scriptLimits,
}

// mustScript reads an embedded script; it panics only if the program was built without it.
func mustScript(name string) *script {
	text, err := assemble(name)
	if err != nil {
		panic(err)
	}
	sum := sha1.Sum([]byte(text))
	return &script{name: name, text: text, sha: hex.EncodeToString(sum[:])}
}

// assemble puts the included files in the place of the line "-- include: …".
func assemble(name string) (string, error) {
	src, err := scriptFiles.ReadFile("script/" + name + ".lua")
	if err != nil {
		return "", err
	}
	return assembleText(name, string(src))
}

// assembleText wraps what comes behind base.lua in a function: what it uses of base.lua is then looked up once, not once by each of its functions,
// which at the number that a claim has would take longer than its work.
func assembleText(name, src string) (string, error) {
	var b strings.Builder
	end := ""
	for line := range strings.Lines(src) {
		list, ok := strings.CutPrefix(line, "-- include: ")
		if !ok {
			b.WriteString(line)
			continue
		}
		for _, part := range strings.Fields(list) {
			text, err := include(part)
			if err != nil {
				return "", fmt.Errorf("script %s: %w", name, err)
			}
			b.WriteString(text)
			if part == "base" {
				b.WriteString("return (function()\n")
				end = "\nend)()\n"
			}
		}
	}
	return b.String() + end, nil
}

func include(part string) (string, error) {
	f, ok := folders[part]
	if !ok {
		return assemble(part)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s = function()\nif %s then return %[2]s end\n", part, f.table)
	for _, file := range f.files {
		text, err := assemble(file)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	fmt.Fprintf(&b, "return %s\nend\n", f.table)
	return b.String(), nil
}

// eval runs a script. After a restart or SCRIPT FLUSH the server does not know it and is sent its text.
func (s *Store) eval(ctx context.Context, c *link, sc *script, args []string) (rueidis.RedisMessage, error) {
	cl := c.client.Load()
	if cl == nil {
		return rueidis.RedisMessage{}, store.ErrClosed
	}
	r := (*cl).Do(ctx, (*cl).B().Evalsha().Sha1(sc.sha).Numkeys(2).Key(s.key.meta(), s.key.none()).Arg(args...).Build())
	if e, ok := rueidis.IsRedisErr(r.Error()); ok && e.IsNoScript() {
		r = (*cl).Do(ctx, (*cl).B().Eval().Script(sc.text).Numkeys(2).Key(s.key.meta(), s.key.none()).Arg(args...).Build())
	}
	m, err := r.ToMessage()
	if err != nil {
		return m, c.failed(s, sc.name, err)
	}
	return m, nil
}
