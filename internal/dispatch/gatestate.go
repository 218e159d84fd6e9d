package dispatch

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/twolane/twolane/gate"
	"github.com/twolane/twolane/store"
)

// Binding, Reading and Scope tell of a cell of a gate: which it is, and the reading that decided last.
func (x *GateCell) Binding() *gate.Binding { return &x.b.Binding }
func (x *GateCell) Reading() gate.Reading  { return x.read }

// Lane is the lane of the cell.
func (x *GateCell) Lane() store.Lane { return x.key.lane }

// About reports whether the cell counts invocations of a queue and type in its lane, whatever their class.
func (x *GateCell) About(queue, typ string) bool {
	return x.b.Covers(x.key.lane, queue, typ) && (x.key.queue == "" || x.key.queue == queue) && (x.key.typ == "" || x.key.typ == typ)
}

// Held is how many invocations run under it.
func (x *GateCell) Held() int { return x.held }

// Spare reports whether more may run under it than do, as far as it was last asked.
func (x *GateCell) Spare() bool { return x.known && !x.closed && !x.full }

// Closed reports whether the last reading was a budget of 0.
func (x *GateCell) Closed() bool { return x.closed }

// Scope names what the cell is about beside the lane, for metrics: "" or as "queue=a type=b class=c".
func (x *GateCell) Scope() string {
	var parts []string
	for _, p := range [...][2]string{{"queue", x.key.queue}, {"type", x.key.typ}, {"class", x.key.class}} {
		if p[1] != "" {
			parts = append(parts, p[0]+"="+p[1])
		}
	}
	return strings.Join(parts, " ")
}

// Text says how the cell stands, for people.
func (x *GateCell) Text() string {
	s := x.toState()
	return s.String()
}

// toState is the cell as others see it.
func (x *GateCell) toState() store.GateState {
	r := &x.read
	s := store.GateState{
		Gate: x.b.Name, Lane: x.key.lane, Queues: x.b.Queues, Types: x.b.Types, Class: x.key.class,
		Budget: r.Budget, Held: x.held, Full: x.full && !x.closed, Value: number(r.Value), Threshold: number(r.Threshold), Up: r.Up, Since: store.At(r.Since),
		Reason: string(r.Reason), Detail: cut(r.Detail),
	}
	if !r.At.IsZero() {
		s.Read = store.At(r.At)
	}
	if x.closed && !r.Opens.IsZero() {
		s.Opens = store.At(r.Opens)
	}
	if x.key.queue != "" {
		s.Queues = []string{x.key.queue}
	}
	if x.key.typ != "" {
		s.Types = []string{x.key.typ}
	}
	return s
}

func number(f float64) *float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return &f
}

func cut(s string) string {
	const most = 200
	s, _, _ = strings.Cut(s, "\n")
	return strings.ToValidUTF8(s[:min(len(s), most)], "")
}

// maxGateStates bounds what one heartbeat tells of gates.
const maxGateStates = 50

// holding lists the cells that hold something back, closed ones first. The list is made anew, at most four times a second, and not changed after.
func (c *Core) holding(now time.Duration) []store.GateState {
	g := &c.gates
	if g.none() || g.reported != 0 && now-g.reported < 250*time.Millisecond && g.told == g.state {
		return g.report
	}
	g.reported, g.told = max(now, 1), g.state
	var held []*GateCell
	for _, b := range g.binds {
		for _, x := range b.cells {
			if x.known && (x.closed || x.full || !x.read.Up) {
				held = append(held, x)
			}
		}
	}
	slices.SortFunc(held, func(a, b *GateCell) int {
		if a.closed != b.closed {
			return map[bool]int{true: -1, false: 1}[a.closed]
		}
		return cmp.Or(cmp.Compare(a.b.Name, b.b.Name), cmp.Compare(a.key.lane, b.key.lane), cmp.Compare(fmt.Sprint(a.key), fmt.Sprint(b.key)))
	})
	g.report = nil
	for _, x := range held[:min(len(held), maxGateStates)] {
		g.report = append(g.report, x.toState())
	}
	for _, b := range g.binds {
		for k, row := range b.waits {
			if now < row.until && len(g.report) < maxGateStates {
				g.report = append(g.report, b.sent(c.cfg.Wall(now), now, k, row))
			}
		}
	}
	return g.report
}

// sent is the state of what a gate has sent back.
func (b *bound) sent(wall time.Time, now time.Duration, k gate.Key, row *waitRow) store.GateState {
	s := store.GateState{
		Gate: b.Name, Lane: row.job.Lane, Queues: b.Queues, Types: b.Types, Class: row.job.Class, Up: true, Opens: store.At(wall.Add(row.until - now)),
		Since: store.At(wall.Add(row.last - now)), Detail: cut(row.detail), Decision: row.decision.String(),
	}
	switch k.By {
	case store.ByKey:
		s.Key = k.Name + "=" + k.Value
	case store.ByGroup:
		s.Key = "group=" + k.Value
	case store.ByType:
		s.Types = []string{k.Value}
	case store.ByQueue:
		s.Queues = []string{k.Value}
	default:
		s.Queues, s.Types = []string{row.job.Queue}, []string{row.job.Type}
	}
	return s
}

// EachGate calls f for every cell that was looked at.
func (c *Core) EachGate(f func(*GateCell)) {
	for _, b := range c.gates.binds {
		for _, x := range b.cells {
			if x.known {
				f(x)
			}
		}
	}
}

// jobOf is what judges see of a command.
func jobOf(cmd *store.Command) gate.Job {
	return gate.Job{
		ID: cmd.ID, Queue: cmd.Queue, Type: cmd.Type, Group: cmd.Group, Lane: cmd.Lane(), Keys: cmd.Keys, Metadata: cmd.Metadata, Priority: cmd.Priority,
		Overflow: cmd.Overflow, Failures: cmd.Failures, Created: cmd.Created.Time(), Deadline: cmd.Deadline.Time(),
	}
}
