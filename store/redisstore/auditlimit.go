package redisstore

import (
	"context"
	"strconv"
	"strings"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// holding is a membership: an id and limit|value.
type holding struct{ id, key string }

// memberOf parts what the set of a limit holds for a member: its value and its id.
func memberOf(text string) (value, id string) {
	value, id, _ = strings.Cut(text, "|")
	id, _, _ = strings.Cut(id, "|")
	return value, id
}

// never is added to the number of a filing whose line never fits, see script/filed/filed.lua.
const never = 1 << 50

// checkFiled checks where a line stands that is filed, and reports whether it is closed. r is what script/audit.lua says about lines, read in one step.
func (a *audit) checkFiled(line string, r []string, cfg *store.Config) (closed bool) {
	head, shut, text, at, retest, stood, room := r[2], r[3], r[4], r[5], r[6], r[7], r[8] != ""
	run := store.Millis(atoi(r[9]))
	if text == "" {
		switch {
		case shut != "":
			a.say("line %s: stands among the closed lines and is not filed", line)
		case retest != "":
			a.say("line %s: is to be tested again and is not filed", line)
		}
		return false
	}
	f, ok := parseFiling(text)
	if !ok || len(line) != baseLen+2 {
		a.say("line %s: its filing %q cannot be read", line, text)
		return false
	}
	a.counts.filed[line] = f.key
	lane, class, _ := lineKind(line)
	p := cfg.Queue(f.queue).Pause // that it may have ended by the clock does not matter here
	paused := p == store.PauseAll || p == store.PauseIntake && lane == store.Intake
	claimable := head != "" && (lane == store.Intake || store.Millis(atoi(head)) <= run) && !paused
	since := store.Millis(atoi(stood))
	if want := "|" + laneArg[lane] + line[baseLen+1:] + "|" + f.typ; r[0] != "o|"+f.queue+want {
		a.say("line %s: is filed as one of %s%s, it is open in %s", line, f.queue, want, r[0])
	}
	switch {
	case class.Visit():
		a.say("line %s: is filed under %s, but cancel visits wait for no limit", line, f.key)
	case at == "":
		a.say("line %s: is filed under %s, whose lines do not name it", line, f.key)
	case (atoi(at) >= never) != f.never:
		a.say("line %s: stands under %s at %s, never fits is %v", line, f.key, at, f.never)
	case head == "":
		a.say("line %s: is empty and filed under %s", line, f.key)
	case retest == "" && r[15] == "" && a.meta["fcv"] == "":
		a.say("line %s: is filed under %s without a re-test", line, f.key)
	case retest != "" && store.Millis(atoi(retest))+rule.Retest < run:
		a.say("line %s: filed under %s, is not tested again: it was to be at %s, it is %d", line, f.key, retest, run)
	case shut != "" && shut != head:
		a.say("line %s: is closed at %q, its head stands at %s", line, shut, head)
	case room && shut != "" && !f.never && since != 0 && since+2*rule.Retest < run && claimable:
		a.say("line %s: stands filed under %s though it has had room for two seconds", line, f.key)
	}
	return shut != ""
}

// checkFair checks that an open line of a fair queue takes part in its turns, and no other line does. While that is being made anew nothing is certain.
func (a *audit) checkFair(line string, r []string) {
	open, head, in, later, start := r[1], r[2], r[10], r[11], r[12]
	if r[14] != "" {
		return
	}
	switch {
	case r[13] == "" || open == "":
		if in != "" || later != "" {
			a.say("line %s: takes part in fair turns at %q or %q, and is not open in a fair queue", line, in, later)
		}
	case in != "" && later != "":
		a.say("line %s: takes part in fair turns twice", line)
	case in != head && later != head:
		a.say("line %s: takes part in fair turns at %q or %q, its head stands at %s", line, in, later, head)
	case in != "" && start == "":
		a.say("line %s: its group has no turn", line)
	}
}

// checkValues compares what is stored for values that have a max of their own with the configuration, which is what counts.
func (a *audit) checkValues(ctx context.Context) error {
	cfg, err := a.s.config(ctx)
	if err != nil {
		return err
	}
	for i := range cfg.Limits {
		l := &cfg.Limits[i]
		for v, most := range l.Values {
			got, err := a.eval(ctx, "at", "cfg", "="+l.Name+"|"+v)
			if err != nil {
				return err
			}
			if text, _ := got[0].ToString(); text != strconv.Itoa(most) {
				a.sayIfQuiet("limit %s: the max stored for %q is %q, configured is %d (bad_limit)", l.Name, v, text, most)
			}
		}
	}
	return nil
}

// checkLimits compares numbers of limits with what records and lines say. Nothing has changed between the two.
func (a *audit) checkLimits() {
	n := &a.counts
	lines, lanes := map[string]int64{}, map[string]int64{}
	for line, key := range n.filed {
		lines[key]++
		for k, m := range a.members {
			if other, ok := strings.CutPrefix(k, "fl|"); ok && other != key {
				if _, two := m[line]; two {
					a.say("line %s: is filed under %s and under %s", line, key, other)
				}
			}
		}
		if f, ok := parseFiling(a.members["fd"][line]); ok {
			lanes[f.queue+"|"+line[baseLen:baseLen+1]]++
		}
	}
	same := func(what string, want map[string]int64, prefix string) {
		got := map[string]string{}
		for k, m := range a.members {
			if name, ok := strings.CutPrefix(k, prefix); ok {
				for v, s := range m {
					got[name+"|"+v], _, _ = strings.Cut(s, " ")
				}
			}
		}
		for k, w := range want {
			if got[k] != strconv.FormatInt(w, 10) {
				a.say("%s of %s: are %q, counted are %d", what, k, got[k], w)
			}
		}
		for k, s := range got {
			if _, ok := want[k]; !ok {
				a.say("%s of %s: are %s, and there are none", what, k, s)
			}
		}
	}
	same("filed lines", lines, "lf|")
	for k, m := range a.members {
		for v, text := range m {
			name, ok := strings.CutPrefix(k, "lf|")
			if _, alone, one := strings.Cut(text, " "); ok && one && n.filed[alone[:min(len(alone), baseLen+2)]] != name+"|"+v {
				a.say("line %s: is said to be the only one filed under %s|%s", alone, name, v)
			}
		}
	}
	for k, m := range a.members {
		if name, ok := strings.CutPrefix(k, "lf|"); ok {
			for v := range m {
				if _, swept := a.members["fv|"+name][v+"|"]; !swept {
					a.say("lines under %s|%s: no sweep looks at them", name, v)
				}
			}
		}
		if name, ok := strings.CutPrefix(k, "fv|"); ok {
			for v := range m {
				if lines[name+"|"+strings.TrimSuffix(v, "|")] == 0 {
					a.say("%s|%s is swept and no line is filed under it", name, v)
				}
			}
		}
	}
	if due := a.meta["fsw"]; len(n.filed) > 0 && due != "" && store.Millis(atoi(due))+2*rule.Retest < store.Millis(atoi(a.meta["run"])) {
		a.say("meta: the sweep of keys is overdue since %s, it is %s", due, a.meta["run"])
	}
	members := map[string]int64{}
	for k, m := range a.members {
		if name, ok := strings.CutPrefix(k, "m|"); ok {
			for text := range m {
				value, _ := memberOf(text)
				members[name+"|"+value]++
			}
		}
	}
	for k, w := range n.members {
		if members[k] != w {
			a.say("members of %s: are %d, counted are %d", k, members[k], w)
		}
	}
	for k, w := range members {
		if n.members[k] == 0 {
			a.say("members of %s: are %d, and there are none", k, w)
		}
	}
	for k, w := range lanes {
		if got := a.members["fn"][k]; got != strconv.FormatInt(w, 10) {
			a.say("filed lines of %s: are %q, counted are %d", k, got, w)
		}
	}
	for k, got := range a.members["fn"] {
		if lanes[k] == 0 {
			a.say("filed lines of %s: are %s, and there are none", k, got)
		}
	}
	for k, m := range a.members {
		if key, ok := strings.CutPrefix(k, "fl|"); ok {
			for line := range m {
				if n.filed[line] != key {
					a.say("line %s: stands under %s, where it is not filed", line, key)
				}
			}
		}
	}
	for k := range a.members["fs"] {
		if lines[k] == 0 {
			a.say("%s: room stands for the lines of it, and there are none", k)
		}
	}
	for k, m := range a.members {
		name, ok := strings.CutPrefix(k, "vg|")
		for g := range m {
			if _, some := a.members["vl|"+name+"|"+g]; ok && !some {
				a.say("group %q: has a turn in %s and no line", g, name)
			}
		}
	}
	if len(n.members)+len(n.filed) > 0 && a.meta["lim"] == "" {
		a.say("meta: there are members and filed lines, but nothing says that there are limits")
	}
}
