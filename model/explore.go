package model

import (
	"fmt"
	"hash/maphash"
)

// A Report is what the exploration of one scenario found.
type Report struct {
	Scenario   *Scenario
	States     int
	Steps      int
	Violations []Violation // one of each kind, found by the shortest way
}

// A Violation is a promise that did not hold, and how to get there.
type Violation struct {
	Kind  Kind
	Trace []string // steps and, at the end, the state
	Cycle []string // for cycles: the steps inside
}

// Explore visits every state that the scenario can reach and checks each step and the whole graph. It fails only if the
// scenario is too large. It uses one goroutine and keeps all states in memory.
func Explore(sc *Scenario) (*Report, error) {
	if err := sc.validate(); err != nil {
		return nil, err
	}
	g := &graph{world: newWorld(sc), seed: maphash.MakeSeed(), found: map[Kind]bad{}}
	if err := g.explore(); err != nil {
		return nil, err
	}
	r := &Report{Scenario: sc, States: g.size(), Steps: len(g.edges)}
	for k := KindPlace; k < KindStuck; k++ {
		if b, ok := g.found[k]; ok {
			trace := append(g.trace(b.from), b.step.String(), "=> "+g.show(&b.to))
			r.Violations = append(r.Violations, Violation{Kind: k, Trace: trace})
		}
	}
	if len(r.Violations) == 0 {
		r.Violations = append(g.can(), g.will()...)
	}
	return r, nil
}

func (sc *Scenario) validate() error {
	if len(sc.Commands) > maxCommands || len(sc.Workers) > maxWorkers || len(sc.Limits) > maxLimits {
		return fmt.Errorf("model: scenario %q is larger than %d commands, %d workers, %d limits", sc.Name, maxCommands, maxWorkers, maxLimits)
	}
	for _, w := range sc.Workers {
		if w.Intake+w.Repoll > maxSlots {
			return fmt.Errorf("model: scenario %q has a worker with more than %d permits", sc.Name, maxSlots)
		}
	}
	for _, c := range sc.Commands {
		if c.Queue >= maxQueues || c.Type > 7 || c.Keys>>len(sc.Limits) != 0 {
			return fmt.Errorf("model: scenario %q has a command with a queue, type or key that does not exist", sc.Name)
		}
	}
	return nil
}

type edge struct {
	to   int32
	step uint32
}

// A bad is the first step found that broke a promise of one kind.
type bad struct {
	from int32
	step step
	to   state
}

// A graph is all reachable states of a world. Node n has the edges first[n] to first[n+1].
type graph struct {
	*world
	seed   maphash.Seed
	table  []int32   // open addressing: 1 + node
	nodes  [][]state // in chunks, so that growth copies nothing
	parent []edge    // to: the node it was first reached from
	first  []int32
	edges  []edge
	found  map[Kind]bad
}

func (g *graph) explore() error {
	limit := g.sc.MaxStates
	if limit == 0 {
		limit = 2_000_000
	}
	g.table = make([]int32, 1<<12)
	s := g.start()
	g.intern(&s, -1, 0)
	for n := 0; n < g.size(); n++ {
		if g.size() > limit {
			return fmt.Errorf("model: scenario %q has more than %d states", g.sc.Name, limit)
		}
		g.first = append(g.first, int32(len(g.edges)))
		cur := *g.node(int32(n))
		g.each(&cur, func(st step, to *state) {
			if k := g.check(&cur, st, to); k != NoViolation {
				if _, ok := g.found[k]; !ok {
					g.found[k] = bad{int32(n), st, *to}
				}
				return // what follows from a broken state proves nothing
			}
			next, packed := *to, st.pack()
			next.canonical()
			g.edges = append(g.edges, edge{g.intern(&next, int32(n), packed), packed})
		})
	}
	g.first = append(g.first, int32(len(g.edges)))
	return nil
}

const chunk = 1 << 12

// size is the number of nodes.
func (g *graph) size() int { return len(g.parent) }

func (g *graph) node(n int32) *state { return &g.nodes[n/chunk][n%chunk] }

// intern returns the node of a state, which is a new one if nobody has seen it.
func (g *graph) intern(s *state, from int32, by uint32) int32 {
	if 2*g.size() >= len(g.table) {
		g.grow()
	}
	mask := uint64(len(g.table) - 1)
	h := maphash.Comparable(g.seed, *s) & mask
	for ; g.table[h] != 0; h = (h + 1) & mask {
		if n := g.table[h] - 1; *g.node(n) == *s {
			return n
		}
	}
	n := int32(g.size())
	if n%chunk == 0 {
		g.nodes = append(g.nodes, make([]state, chunk))
	}
	*g.node(n) = *s
	g.parent = append(g.parent, edge{from, by})
	g.table[h] = n + 1
	return n
}

func (g *graph) grow() {
	g.table = make([]int32, 4*len(g.table))
	mask := uint64(len(g.table) - 1)
	for n := range int32(g.size()) {
		h := maphash.Comparable(g.seed, *g.node(n)) & mask
		for g.table[h] != 0 {
			h = (h + 1) & mask
		}
		g.table[h] = n + 1
	}
}

// out is the edges of node n.
func (g *graph) out(n int32) []edge { return g.edges[g.first[n]:g.first[n+1]] }
