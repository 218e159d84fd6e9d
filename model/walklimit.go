package model

import (
	"fmt"
	"slices"
)

// A LimitWalk is a walk under limits that are raised, lowered, removed and added. Which of several commands a full limit lets in is the
// store's choice, so the walk is made with the store: Next is the operation to make, and if it is a claim, Took is told what was granted
// before the next one. A claim is held against what limits promise: nothing is admitted beyond them, and room does not stand while
// somebody could use it.
type LimitWalk struct {
	w     *walker
	steps int
}

// WalkLimits begins a walk of about that many operations. The same seed with the same answers gives the same walk.
func WalkLimits(seed uint64, steps int) *LimitWalk {
	w := newWalk(seed, true)
	w.emit(Op{Kind: OpLimits, Limits: w.inForce()})
	return &LimitWalk{w, steps}
}

// Commands are those of the walk, and Queues how many queues they stand in.
func (l *LimitWalk) Commands() []WalkCommand { return l.w.t.Commands }

// Queues is the number of queues.
func (l *LimitWalk) Queues() int { return l.w.t.Queues }

// Next is the next operation, or false after the last.
func (l *LimitWalk) Next() (Op, bool) {
	w := l.w
	for w.next == len(w.t.Ops) {
		switch {
		case w.stand.on:
			w.standOn()
		case w.next >= l.steps:
			return Op{}, false
		default:
			w.step()
		}
	}
	o := w.t.Ops[w.next]
	if w.open == nil || w.open.op != w.next {
		w.next++
	}
	return o, true
}

// Open reports whether the operation that Next gave waits for Took.
func (l *LimitWalk) Open() bool { return l.w.open != nil && l.w.open.op == l.w.next }

// Took says what the store granted to the claim that Next gave. It returns the operation as it is expected now, or what was wrong.
func (l *LimitWalk) Took(granted []int) (Op, string) {
	w := l.w
	c := w.open
	w.open = nil
	o := &w.t.Ops[c.op]
	if bad := w.allowed(c, o, granted); bad != "" {
		return *o, bad
	}
	for _, i := range granted {
		w.grant(c.p, i, w.joins(i), c.heard)
	}
	o.Want.Granted = granted
	o.After, o.Members = nil, nil
	w.look(o)
	w.next++
	return *o, w.stood(len(granted))
}

// An openClaim is one whose answer is not known yet.
type openClaim struct {
	op    int
	p     int
	heard bool
}

// ask makes a claim whose answer the store decides.
func (w *walker) ask(p int, o Op, heard bool) {
	w.claims++
	o.Claim, w.proc[p].last = w.claims, w.claims
	w.open = &openClaim{op: len(w.t.Ops), p: p, heard: heard}
	w.emit(o)
}

// joins is what command i becomes a member of when it is granted now.
func (w *walker) joins(i int) (members uint8) {
	if w.m.class(&w.s.cmd[i]).visit() {
		return 0
	}
	for l, lim := range w.m.sc.Limits {
		if !lim.Rate && w.m.wants(&w.s, i, l) {
			members |= 1 << l
		}
	}
	return members
}

// allowed says what is wrong with the answer to a claim.
func (w *walker) allowed(c *openClaim, o *Op, granted []int) string {
	eligible := w.eligible(c.p, o)
	var got, free [2]int
	for lane := range eligible {
		for _, i := range eligible[lane] {
			if slices.Contains(granted, i) {
				got[lane]++
			} else if w.t.Commands[i].Keys == 0 {
				free[lane]++
			}
		}
		if got[lane] > o.Free[lane] {
			return fmt.Sprintf("%d were granted for %d permits", got[lane], o.Free[lane])
		}
		if free[lane] > 0 && got[lane] < o.Free[lane] {
			return fmt.Sprintf("of commands that no limit is about %d were not granted in lane %s", free[lane], Lane(lane))
		}
	}
	if got[0]+got[1] != len(granted) {
		return fmt.Sprintf("%v were granted, of which only %d are there to be had: %v", granted, got[0]+got[1], eligible)
	}
	for l, lim := range w.m.sc.Limits {
		admitted := uint8(0)
		for _, i := range granted {
			if w.m.wants(&w.s, i, l) && !w.exempt(i, l) && w.s.cmd[i].members&(1<<l) == 0 {
				admitted++
			}
		}
		if admitted > 0 && w.s.used(l)+admitted > w.s.max[l] {
			return fmt.Sprintf("limit %d, a rate: %v, with %d members and %d as its max or tokens admitted %d", l, lim.Rate, w.s.used(l), w.s.max[l], admitted)
		}
	}
	return ""
}

// exempt reports whether command i joins limit l without waiting. Whoever was lost with a slot of a limit that is there no more is a holder
// as well, until its next claim.
func (w *walker) exempt(i, l int) bool {
	r := &w.s.cmd[i]
	return w.m.exempt(&w.s, i, l) || w.cmd[i].kept && r.has(unknown) && w.m.sc.Limits[l].Command
}

// drawLimits draws the limits of a walk.
func (w *walker) drawLimits() (ls []Limit) {
	for range maxLimits {
		l := Limit{Max: uint8(1 + w.r.IntN(2)), Command: w.r.IntN(2) == 0}
		if w.r.IntN(5) == 0 {
			l = Limit{Max: 1, Rate: true}
		}
		ls = append(ls, l)
	}
	return ls
}

// changeLimit gives limit l another max, takes it away or brings it back.
func (w *walker) changeLimit(l int) {
	n := uint8(w.r.IntN(4))
	switch rate := w.m.sc.Limits[l].Rate; {
	case w.s.max[l] == noLimit:
		if w.version[l]++; rate {
			n = 1
		}
	case w.r.IntN(4) == 0, rate:
		n = noLimit
	}
	for i := range w.s.cmd {
		if n == noLimit && w.m.sc.Limits[l].Command && w.s.cmd[i].members&(1<<l) != 0 {
			w.cmd[i].kept = true
		}
	}
	w.m.setMax(&w.s, l, n)
	w.emit(Op{Kind: OpLimits, Limits: w.inForce()})
}

// inForce are the limits as they are configured.
func (w *walker) inForce() (ls []WalkLimit) {
	for l, lim := range w.m.sc.Limits {
		if w.s.max[l] != noLimit {
			ls = append(ls, WalkLimit{Limit: l, Version: w.version[l], Max: int(w.s.max[l]), Command: lim.Command, Rate: lim.Rate})
		}
	}
	return ls
}

// A standing is a stretch of a walk in which nothing is done but to claim all there is, tick by tick, until nothing changes any more. What
// could still run then has let room stand for longer than the design allows.
type standing struct {
	on     bool
	p      int
	ticked bool
	claims int // since the last tick
	rounds int
	calm   int // ticks without a change, with a claim after each
	seen   [maxCommands]record
}

const (
	calmTicks  = 3  // re-tests of what is filed, a second of standing, and once more for a second limit
	mostRounds = 30 // a stretch ends that finds no rest
)

// standOn makes the next operation of a stretch.
func (w *walker) standOn() {
	st := &w.stand
	if pr := &w.proc[st.p]; !pr.up || pr.stalled || st.rounds == mostRounds || slices.ContainsFunc(w.cmd[:], func(c walkCommand) bool { return c.names >= claimsOfOne }) {
		*st = standing{}
		return
	}
	if !st.ticked {
		st.ticked, st.claims = true, 0
		st.rounds++
		w.tick()
		return
	}
	st.claims++
	o := Op{Kind: OpClaim, Worker: st.p, Incarnation: w.proc[st.p].incarnation, Free: [2]int{maxCommands, maxCommands}}
	for q := range maxQueues {
		o.Queues = append(o.Queues, q)
	}
	for t := range walkTypes {
		o.Types = append(o.Types, t)
	}
	w.ask(st.p, o, true)
}

// stood follows a claim of a stretch: if it brought nothing the next tick comes, and if nothing has changed for long enough nothing may be
// left that could run.
func (w *walker) stood(granted int) string {
	st := &w.stand
	if !st.on || !st.ticked || granted > 0 && st.claims < 2*maxCommands {
		return ""
	}
	st.ticked = false
	if st.calm++; st.seen != w.s.cmd {
		st.seen, st.calm = w.s.cmd, 0
	}
	if st.calm < calmTicks {
		return ""
	}
	*st = standing{p: st.p}
	for i := range w.s.cmd {
		if !w.m.claimable(&w.s, st.p, i) || w.m.class(&w.s.cmd[i]).suspect() {
			continue
		}
		room := true
		for l := range w.m.sc.Limits {
			room = room && (!w.m.wants(&w.s, i, l) || w.exempt(i, l) || w.s.cmd[i].members&(1<<l) != 0 || w.s.room(l))
		}
		if room {
			return fmt.Sprintf("c%d has stood for %d ticks though all of its limits have room: %s", i, calmTicks, w.m.show(&w.s))
		}
	}
	return ""
}
