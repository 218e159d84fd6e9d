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

//go:embed script/*.lua script/lib/*.lua script/lim/*.lua
var scriptFiles embed.FS

// folders are the parts of scripts that few calls need, each made when it is first asked for: their files in the order in which they use
// each other.
var folders = map[string][]string{
	"lib": {"lib/write", "lib/record", "lib/rule", "lib/place", "lib/exports"},
	"lim": {"rate", "lim/limits", "lim/fair", "lim/filed", "lim/retest", "lim/claim", "lim/exports"},
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

func assembleText(name, src string) (string, error) {
	var b strings.Builder
	for line := range strings.Lines(src) {
		list, ok := strings.CutPrefix(line, "-- include: ")
		if !ok {
			b.WriteString(line)
			continue
		}
		for _, part := range strings.Fields(list) {
			if err := include(&b, part); err != nil {
				return "", fmt.Errorf("script %s: %w", name, err)
			}
		}
	}
	return b.String(), nil
}

func include(b *strings.Builder, part string) error {
	parts, ok := folders[part]
	if !ok {
		src, err := scriptFiles.ReadFile("script/" + part + ".lua")
		b.Write(src)
		return err
	}
	// A function that returns a table of functions; the table is a variable of base.lua.
	table := map[string]string{"lib": "LIB", "lim": "LM"}[part]
	fmt.Fprintf(b, "%s = function()\nif %s then return %[2]s end\n", part, table)
	for _, p := range parts {
		src, err := scriptFiles.ReadFile("script/" + p + ".lua")
		if err != nil {
			return err
		}
		b.Write(src)
	}
	fmt.Fprintf(b, "return %s\nend\n", table)
	return nil
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
