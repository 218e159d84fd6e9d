package dispatch

import (
	"math"
	"slices"
	"time"

	"github.com/twolane/twolane/gate"
	"github.com/twolane/twolane/store"
)

// gates are the gates of a worker, each with a cell for every scope that its binding tells apart. What a cell counts follows from the live
// invocations, and from nothing that anybody has to give back.
type gates struct {
	binds []*bound
	// judging and listening say whether one looks at commands, or at their ends.
	judging, listening bool

	asked int  // number of the last look: a gate is read once in it
	again bool // look at the next step: something was told, or has ended under a gate that was full
	next  time.Duration
	sent  bool          // something of the claim at hand was sent back
	hold  time.Duration // no claim before it: what the last one brought was given back, and a key is being closed

	report   []store.GateState // of what holds back
	reported time.Duration     // when it was made
	state    uint64            // changes of the open and closed
	told     uint64            // at the last registration
}

// bound is a binding with its cells.
type bound struct {
	gate.Binding
	judge    gate.Judge
	listener gate.Listener
	cells    map[cellKey]*GateCell
	sums     [2]*GateCell // by lane, of a gate that has one reading for all of its cells: what they start together; nil if there are none
	waits    map[gate.Key]*waitRow
}

type cellKey struct {
	lane              store.Lane
	queue, typ, class string
}

// GateCell is a gate in one scope. It belongs to the core: it may be looked at in Loop.Observe and Loop.Gauge alone.
type GateCell struct {
	b     *bound
	key   cellKey
	held  int
	pace  pace
	grows growth // of a sum
	seen  int    // number of the look that read is of
	read  gate.Reading
	left  int  // room, at that look
	full  bool // room was refused at the last look
	known bool // it was read once

	closed   bool          // as of read
	since    time.Duration // of closed
	warned   bool          // an episode was told of
	down     bool          // the source, as told
	downFrom time.Duration // since when it does not answer; 0 is not
	noted    time.Duration // when a refusal was last counted
}

func (g *gates) init(bs []gate.Binding) {
	for _, b := range bs {
		x := &bound{Binding: b, cells: map[cellKey]*GateCell{}, waits: map[gate.Key]*waitRow{}}
		if gate.Has[gate.Judge](b.Gate) {
			x.judge = b.Gate.(gate.Judge)
		}
		if gate.Has[gate.Listener](b.Gate) {
			x.listener = b.Gate.(gate.Listener)
		}
		if b.Per != 0 && gate.Has[gate.Whole](b.Gate) {
			for _, l := range store.Lanes {
				x.sums[l] = &GateCell{b: x, key: cellKey{lane: l}}
			}
		}
		g.judging = g.judging || x.judge != nil || x.ByClass()
		g.listening = g.listening || x.listener != nil
		g.binds = append(g.binds, x)
	}
}

func (g *gates) none() bool { return len(g.binds) == 0 }

// cell returns the cell of b for commands of that kind. Classes beyond a bound share one.
func (b *bound) cell(l store.Lane, queue, typ, class string) *GateCell {
	k := cellKey{lane: l}
	if b.Per&gate.PerQueue != 0 {
		k.queue = queue
	}
	if b.Per&gate.PerType != 0 {
		k.typ = typ
	}
	if b.ByClass() {
		k.class = class
	}
	c := b.cells[k]
	if c == nil {
		if b.Per&gate.PerClass != 0 && len(b.cells) >= maxCells && class != otherClass {
			return b.cell(l, queue, typ, otherClass)
		}
		c = &GateCell{b: b, key: k}
		b.cells[k] = c
	}
	return c
}

const (
	maxCells   = 200
	otherClass = "_other"
)

// look reads the gate of a cell, once in a claim, and says how many more may start.
func (c *Core) look(now time.Duration, x *GateCell) int {
	g := &c.gates
	if x.seen == g.asked {
		return x.left
	}
	x.seen = g.asked
	permits := c.cfg.Permits[x.key.lane]
	wall := c.cfg.Wall(now)
	r := x.b.Gate.Read(wall, x.scope(permits)).Normal()
	age := time.Duration(0)
	if !r.At.IsZero() {
		age = wall.Sub(r.At)
	}
	x.left = max(0, x.pace.allowed(now, age, &r, permits, x.held)-x.held)
	if r.Lag == 0 && r.Budget >= 1 { // the permits bound it
		x.left = math.MaxInt32
	}
	if s := x.sum(); s != nil {
		s.left = s.grows.allowed(now, age, &r, permits, s.held)
		x.left = min(x.left, s.left)
	}
	x.took(c, now, wall, r)
	if x.full = x.left == 0; x.full {
		x.refused(c, now)
	}
	return x.left
}

// sum is what x and the other cells of its lane start together; nil if they have nothing to do with each other.
func (x *GateCell) sum() *GateCell { return x.b.sums[x.key.lane] }

func (x *GateCell) scope(permits int) gate.Scope {
	return gate.Scope{Lane: x.key.lane, Queue: x.key.queue, Type: x.key.typ, Class: x.key.class, Permits: permits, Held: x.held}
}

// downFor is how long a source may be silent before that is said: at the start it was not asked yet.
const downFor = time.Second

// took notes a reading and tells of what has changed.
func (x *GateCell) took(c *Core, now time.Duration, wall time.Time, r gate.Reading) {
	closed, tell := r.Budget == 0, false
	if !x.known || closed != x.closed {
		if x.warned && !closed {
			c.event(Event{Kind: GateOpen, Gate: x, D: now - x.since})
			x.warned = false
		}
		x.since = now
		if x.known || closed {
			c.gates.state++
			c.renew.at = min(c.renew.at, max(now, c.renew.started+time.Second)) // others are to know
		}
	}
	if x.closed = closed; closed && !x.warned && now-x.since >= c.patience() {
		x.warned = true
		c.event(Event{Kind: GateClosed, Gate: x, D: now - x.since})
	}
	if r.Up {
		x.downFrom = 0
	} else if x.downFrom == 0 {
		x.downFrom = max(now, 1)
	}
	if r.Up == x.down && (r.Up || now-x.downFrom >= downFor) {
		x.down, tell = !r.Up, true
	}
	if r.Since.IsZero() {
		r.Since = wall.Add(x.since - now)
	}
	if x.read, x.known = r, true; tell {
		c.event(Event{Kind: GateSource, Gate: x, N: map[bool]int{true: 1}[r.Up]})
	}
	if closed && !r.Opens.IsZero() {
		if at := now + max(0, r.Opens.Sub(wall)); c.gates.next <= now || at < c.gates.next {
			c.gates.next = at
		}
	}
}

// refused counts that a cell left no room, once a second.
func (x *GateCell) refused(c *Core, now time.Duration) {
	if x.noted != 0 && now-x.noted < time.Second {
		return
	}
	x.noted = max(now, 1)
	why := x.read.Reason
	if !x.closed {
		why = gate.Full
	}
	c.event(Event{Kind: GateDecided, Gate: x, Text: string(why), N: 1})
}

// shape brings the wants of a claim under the gates: what a gate leaves room for is a room of the claim that all types under the gate share, whatever
// queue they are of, so that the order of the wants and of the queues stands. A type that is shut out is asked for in the repoll lane all the same, for
// cancel visits.
func (c *Core) shape(now time.Duration, call *ClaimCall) {
	g := &c.gates
	g.asked++
	g.again, g.next = false, 0
	wants := call.Req.Wants
	var visits []store.Want
	for i := range wants {
		w := &wants[i]
		kept, shut := c.narrow(now, call, w)
		w.Types = kept
		if w.Lane == store.Repoll && len(shut) > 0 && !slices.ContainsFunc(visits, func(v store.Want) bool { return v.Queue == w.Queue }) {
			visits = append(visits, store.Want{Queue: w.Queue, Lane: w.Lane, Max: call.Req.Free[w.Lane], Types: shut, Visits: true})
		}
	}
	call.Req.Wants = append(slices.DeleteFunc(wants, func(w store.Want) bool { return len(w.Types) == 0 }), visits...)
}

// narrow says which types of a want gates leave room for, and which not.
func (c *Core) narrow(now time.Duration, call *ClaimCall, w *store.Want) (kept, shut []store.TypeWant) {
	bounded := false
	kept = make([]store.TypeWant, 0, len(w.Types))
	for _, t := range w.Types {
		out := false
		for _, b := range c.gates.binds {
			if b.ByClass() || !b.Covers(w.Lane, w.Queue, t.Type) {
				continue
			}
			x := b.cell(w.Lane, w.Queue, t.Type, "")
			n := c.look(now, x)
			if n == 0 {
				out = true
			} else if n < call.Req.Free[w.Lane] {
				bounded = true
				t.Rooms = append(slices.Clip(t.Rooms), call.room(x))
			}
			if s := x.sum(); s != nil && n > 0 && s.left < call.Req.Free[w.Lane] {
				bounded = true
				t.Rooms = append(slices.Clip(t.Rooms), call.room(s))
			}
		}
		if out {
			shut = append(shut, t)
		} else {
			kept = append(kept, t)
		}
	}
	if len(shut) == 0 && !bounded {
		return w.Types, nil
	}
	for i := range shut {
		shut[i].Rooms = nil
	}
	return kept, shut
}

// room is the number of a cell's room in the claim.
func (call *ClaimCall) room(x *GateCell) int {
	if i := slices.Index(call.rooms, x); i >= 0 {
		return i
	}
	call.rooms = append(call.rooms, x)
	call.Req.Rooms = append(call.Req.Rooms, x.left)
	return len(call.rooms) - 1
}

// roomsUsed notes which rooms of a claim its grants have used up: what the claim brings next depends on when there is room again.
func (c *Core) roomsUsed(now time.Duration, call *ClaimCall, grants []store.Grant) {
	if len(call.rooms) == 0 {
		return
	}
	used := make([]int, len(call.rooms))
	for i := range grants {
		g := &grants[i]
		if g.Class.Visit() || len(g.Items) == 0 {
			continue
		}
		first := g.Items[0]
		for j, x := range call.rooms {
			if x.b.Covers(g.Lane, first.Queue, first.Type) && (x == x.b.sums[g.Lane] || x == x.b.cell(g.Lane, first.Queue, first.Type, "")) {
				used[j]++
			}
		}
	}
	c.gates.asked++
	for j, x := range call.rooms {
		if used[j] < call.Req.Rooms[j] {
			continue
		}
		if x != x.sum() && c.look(now, x) > 0 { // some of it was given back
			c.gates.again = true
		}
		x.full = true
	}
}

// enter and leave count an invocation under its gates. Cancel visits pass them.
func (c *Core) enterGates(inv *Invocation) {
	if c.gates.none() || inv.Class.Visit() {
		return
	}
	inv.cells = inv.cellRefs[:0]
	for _, b := range c.gates.binds {
		if !b.Covers(inv.Lane, inv.Queue, inv.Type.Name) {
			continue
		}
		class := ""
		if b.ByClass() {
			job := jobOf(inv.Items[0].Cmd)
			if class = b.ClassName(&job); b.Class != "" && class != b.Class {
				continue
			}
		}
		x := b.cell(inv.Lane, inv.Queue, inv.Type.Name, class)
		x.held++
		x.pace.entered(x.held)
		if s := x.sum(); s != nil {
			s.held++
			s.grows.entered(s.held)
		}
		inv.cells = append(inv.cells, x)
		c.event(Event{Kind: GateDecided, Gate: x, Text: string(gate.Open), N: 1})
	}
}

func (c *Core) leaveGates(inv *Invocation) {
	for _, x := range inv.cells {
		x.held--
		c.gates.again = c.gates.again || x.full
		if s := x.sum(); s != nil {
			s.held--
			c.gates.again, s.full = c.gates.again || s.full, false
		}
	}
}

// GatesChanged says that a gate's reading may have changed.
func (c *Core) GatesChanged(now time.Duration) { c.gates.again = true }

// look reports whether a claim is due because something about a gate has changed.
func (g *gates) look(now time.Duration) bool { return g.again || g.next > 0 && now >= g.next }

// held reports whether no claim may be made now.
func (g *gates) held(now time.Duration) bool {
	if g.hold > 0 && now >= g.hold {
		g.hold, g.again = 0, true
	}
	return g.hold > 0
}

// gateHold is how long no claim follows one that brought only what gates sent back.
const gateHold = 50 * time.Millisecond

// KeysClosed says that the keys are closed that gates wanted closed, or cannot be.
func (c *Core) KeysClosed(time.Duration) {
	if c.gates.hold > 0 {
		c.gates.hold, c.gates.again = 0, true
	}
}

// gateWake is when to look by time alone, or because something was told.
func (g *gates) wake() time.Duration {
	switch {
	case g.hold > 0:
		return g.hold
	case g.again:
		return 1
	}
	return g.next
}

// holds reports whether a gate keeps anything of a lane from starting.
func (g *gates) holds(l store.Lane) bool {
	for _, b := range g.binds {
		for k, x := range b.cells {
			if k.lane == l && x.known && (x.closed || x.full) {
				return true
			}
		}
	}
	return false
}

// gateReason says which gate keeps a lane from starting what a queue has, if one does.
func (c *Core) gateReason(l store.Lane, queue string) (detail string, ok bool) {
	var found *GateCell
	for _, t := range c.want[l] {
		shut := false
		for _, b := range c.gates.binds {
			if b.ByClass() || !b.Covers(l, queue, t.Type) {
				continue
			}
			if x := b.cell(l, queue, t.Type, ""); x.known && (x.closed || x.full) {
				shut = true
				if found == nil {
					found = x
				}
			}
		}
		if !shut {
			return "", false
		}
	}
	if found == nil {
		return "", false
	}
	return found.Text(), true
}
