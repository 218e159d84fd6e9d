package redisstore

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twolane/twolane/store"
)

// counts are what the records say about whole sets.
type counts struct {
	numbers  map[string]map[string]int64 // queue -> field of n|queue
	lines    map[string]int64            // base -> records
	groups   map[string]int64
	lineOf   map[string]string // id -> line that it stands in
	finOf    map[string]string // id -> finished list
	uniqueOf map[string]string // id -> unique key that it holds
	tombs    map[string]string // id -> list of tombstones that it must be in
	waiting  map[string]string // id -> topic, of ended commands whose end is not delivered
	holds    map[holding]bool
	members  map[string]int64  // limit|value -> costs summed
	filed    map[string]string // line -> key under which it is filed
	maxSeq   uint64
	maxToken uint64
}

func newCounts() counts {
	return counts{
		numbers: map[string]map[string]int64{}, lines: map[string]int64{}, groups: map[string]int64{}, lineOf: map[string]string{},
		finOf: map[string]string{}, uniqueOf: map[string]string{}, waiting: map[string]string{}, tombs: map[string]string{},
		holds: map[holding]bool{}, members: map[string]int64{}, filed: map[string]string{},
	}
}

func (n *counts) add(c *store.Command, r *row) {
	number := func(field string) {
		if n.numbers[c.Queue] == nil {
			n.numbers[c.Queue] = map[string]int64{}
		}
		n.numbers[c.Queue][field]++
	}
	if !c.Tombstone {
		n.lines[r.rec[20:36]]++
	}
	if c.Status.Terminal() {
		if c.Tombstone {
			return
		}
		number("f")
		f := store.Filter{Status: c.Status, Reason: c.Reason}
		codes, _ := finishedCodes(&f)
		n.finOf[c.ID] = "f|" + c.Queue + "|" + codes
		if c.Notify != "" && c.PurgeAt == 0 {
			n.waiting[c.ID] = c.Notify
		}
		return
	}
	if c.Group != "" {
		n.groups[c.Group]++
	}
	for _, h := range c.Holds {
		n.holds[holding{c.ID, limitKey(h.LimitKey)}] = true
		n.members[limitKey(h.LimitKey)] += int64(c.Cost)
	}
	if c.UniqueKey != "" {
		n.uniqueOf[c.ID] = c.UniqueKey
	}
	lane := c.Lane()
	switch c.Place {
	case store.InLine:
		n.lineOf[c.ID] = r.line
		number(laneArg[lane] + c.Type)
	case store.Scheduled:
		number("s")
	case store.Leased:
		number(strings.ToUpper(laneArg[lane]) + c.Type)
		return
	}
	if lane == store.Intake {
		number("p")
	}
}

// checkLines checks that every line that is not empty is open at its head's score, and nothing else is.
func (a *audit) checkLines(ctx context.Context) error {
	cfg, err := a.s.config(ctx)
	if err != nil {
		return err
	}
	lines := map[string]bool{}
	openIn := map[string]string{} // line -> where it was seen open
	polls := map[string]bool{}    // open keys of polls
	for key, m := range a.members {
		if rest, ok := strings.CutPrefix(key, "l|"); ok {
			lines[rest] = true
		}
		if rest, ok := strings.CutPrefix(key, "o|"); ok {
			for line := range m {
				lines[line], openIn[line] = true, key
			}
			if parts := strings.Split(rest, "|"); len(parts) == 3 && strings.HasPrefix(parts[1], "k") {
				polls[key] = true
			}
		}
		if kind, _, _ := strings.Cut(key, "|"); kind == "fl" || kind == "fd" || kind == "fr" || kind == "vl" || kind == "vd" {
			for line := range m {
				lines[line] = true
			}
		}
	}
	all := slices.Sorted(maps.Keys(lines))
	for len(all) > 0 {
		part := all[:min(len(all), 100)]
		all = all[len(part):]
		rows, err := a.eval(ctx, append([]string{"lines"}, part...)...)
		if err != nil {
			return err
		}
		for i, line := range part {
			r, err := rows[i].AsStrSlice()
			if err != nil || len(r) != 16 {
				return badReply("audit", err)
			}
			open, at, head := r[0], r[1], r[2]
			closed := a.checkFiled(line, r, &cfg)
			a.checkFair(line, r)
			if in := openIn[line]; in != "" && in != open {
				if err := a.checkStrayLine(ctx, in, line); err != nil {
					return err
				}
			}
			switch {
			case open == "" && head != "":
				a.say("line %s: has commands but no definition", line)
			case closed:
				if at != "" {
					a.say("line %s: is filed and closed, and open in %s", line, open)
				}
			case head != "" && at == "":
				a.say("line %s: has commands but is not open in %s", line, open)
			case head == "" && at != "":
				a.say("line %s: is empty but open in %s", line, open)
			case head != at:
				a.say("line %s: is open at %s, its head stands at %s", line, at, head)
			}
		}
	}
	for key := range a.members["kn"] {
		polls[key] = true
	}
	for key := range polls {
		got, err := a.eval(ctx, "at", "kn", key)
		if err != nil {
			return err
		}
		at, _ := got[0].ToString()
		least := "nil"
		for _, s := range a.members[key] {
			if atoi(s) >= 0 && (least == "nil" || atoi(s) < atoi(least)) { // those below 0 wait for limits
				least = s
			}
		}
		if atoi(at) != atoi(least) {
			a.sayIfQuiet("%s: the next poll is noted at %s, it is at %s", key, at, least)
		}
	}
	return nil
}

// checkStrayLine reports a line that is open where it does not belong.
func (a *audit) checkStrayLine(ctx context.Context, key, line string) error {
	got, err := a.eval(ctx, "at", key, line)
	if err != nil {
		return err
	}
	if v, _ := got[0].ToString(); v != "nil" {
		a.say("line %s: is open in %s without belonging there", line, key)
	}
	return nil
}

// checkCounts compares numbers with what the records say. Nothing has changed between the two.
func (a *audit) checkCounts() {
	n := &a.counts
	maps.Copy(a.bad, a.ifQuiet)
	same := func(what string, got map[string]string, want map[string]int64) {
		for f := range got {
			if _, ok := want[f]; !ok {
				a.say("%s: %s is %s, and there is none", what, f, got[f])
			}
		}
		for f, w := range want {
			if g := got[f]; g != strconv.FormatInt(w, 10) {
				a.say("%s: %s is %q, counted are %d", what, f, g, w)
			}
		}
	}
	for key, m := range a.members {
		if q, ok := strings.CutPrefix(key, "n|"); ok {
			same("numbers of "+q, m, n.numbers[q])
			delete(n.numbers, q)
		}
	}
	for q, m := range n.numbers {
		same("numbers of "+q, nil, m)
	}
	same("records of lines", a.members["lr"], n.lines)
	same("groups", a.members["g"], n.groups)
	for base := range n.lines {
		if text, ok := a.members["ld"][base]; !ok || baseOf(text) != base {
			a.say("line %s: its definition is %q", base, text)
		}
	}
	for base := range a.members["ld"] {
		if n.lines[base] == 0 {
			a.say("line %s: is defined and has no record", base)
		}
	}
	for key := range n.uniqueOf {
		if a.members["u"][n.uniqueOf[key]] != key {
			a.say("%s: does not hold its unique key", key)
		}
	}
	if n.maxSeq > uint64(atoi(a.meta["seq"])) {
		a.say("seq: %s commands have arrived, but one is number %d", a.meta["seq"], n.maxSeq)
	}
	if n.maxToken > uint64(atoi(a.meta["tok"])) {
		a.say("tok: %s leases were given, but one has token %d", a.meta["tok"], n.maxToken)
	}
	a.checkOutbox()
	a.checkLimits()
	for id, key := range n.tombs {
		_, listed := a.members[key][id]
		if _, known := a.members["yz"][strings.TrimPrefix(key, "y|")]; !listed || !known {
			a.say("%s: is a tombstone and nothing says when it goes", id)
		}
	}
	for q := range a.members["qs"] {
		if _, ok := a.members["n|"+q]; !ok {
			a.say("queue %s: is listed and has no numbers", q)
		}
	}
}

// checkOutbox checks that ended commands that wait for a delivery and outbox entries are the same set.
func (a *audit) checkOutbox() {
	seen := map[string]string{}
	for key, m := range a.members {
		topic, ok := strings.CutPrefix(key, "oi|")
		if !ok {
			continue
		}
		if _, ok := a.members["topics"][topic]; !ok {
			a.say("topic %s: has entries and is not listed", topic)
		}
		for seq, v := range m {
			id, _, _ := strings.Cut(v, " ")
			_, visible := a.members["ob|"+topic][seq]
			_, hidden := a.members["oh|"+topic][seq]
			if visible == hidden {
				a.say("%s: its outbox entry %s is visible %v and hidden %v", id, seq, visible, hidden)
			}
			if seen[id] != "" {
				a.say("%s: has two outbox entries", id)
			}
			if seen[id] = topic; a.counts.waiting[id] != topic {
				a.say("%s: has an outbox entry of topic %s but no record that waits for it", id, topic)
			}
		}
	}
	for id, topic := range a.counts.waiting {
		if seen[id] != topic {
			a.say("%s: has ended and has no outbox entry of topic %s", id, topic)
		}
	}
}
