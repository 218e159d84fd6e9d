package model

import "slices"

// can finds the nearest state from which no path of fair steps reaches the goal: backward reachability.
func (g *graph) can() []Violation {
	ok := make([]bool, g.size())
	var queue []int32
	for n := range int32(g.size()) {
		if g.goal(g.node(n)) {
			ok[n] = true
			queue = append(queue, n)
		}
	}
	into, from := g.reverse()
	for len(queue) > 0 {
		n := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, p := range from[into[n]:into[n+1]] {
			if !ok[p] {
				ok[p] = true
				queue = append(queue, p)
			}
		}
	}
	n := slices.Index(ok, false)
	if n < 0 {
		return nil
	}
	for d := n; d < len(ok); d++ { // a state with no fair step at all says more
		if !ok[d] && !slices.ContainsFunc(g.out(int32(d)), edge.fair) {
			n = d
			break
		}
	}
	return []Violation{{Kind: KindStuck, Trace: append(g.trace(int32(n)), "=> "+g.show(g.node(int32(n))))}}
}

func (e edge) fair() bool { return e.step&1 != 0 }

// reverse lists, for each node, the nodes with a fair step into it.
func (g *graph) reverse() (into, from []int32) {
	into = make([]int32, g.size()+1)
	for _, e := range g.edges {
		if e.fair() {
			into[e.to+1]++
		}
	}
	for n := range g.size() {
		into[n+1] += into[n]
	}
	from = make([]int32, into[g.size()])
	next := slices.Clone(into[:g.size()])
	for n := range int32(g.size()) {
		for _, e := range g.out(n) {
			if e.fair() {
				from[next[e.to]] = n
				next[e.to]++
			}
		}
	}
	return into, from
}

// will finds a weakly fair cycle outside the goal, and one in which a lane starts nothing though it could.
func (g *graph) will() (v []Violation) {
	outside := make([]bool, g.size())
	for n := range outside {
		outside[n] = !g.goal(g.node(int32(n)))
	}
	if c := g.fairCycle(outside, func(int32, edge) bool { return true }); c != nil {
		v = append(v, g.cycle(KindStarved, c))
	}
	for _, lane := range []Lane{Intake, Repoll} {
		for n := range outside {
			outside[n] = g.startable(g.node(int32(n)), lane)
		}
		quiet := func(n int32, e edge) bool { return !starts(g.node(n), g.node(e.to), lane) }
		if c := g.fairCycle(outside, quiet); c != nil {
			v = append(v, g.cycle(KindLane, c))
			break
		}
	}
	return v
}

// fairCycle returns the nodes of a strongly connected part of the graph, made of the given nodes and of those fair steps
// that keep allows, in which a run can stay for ever under weak fairness; or nil. It is the one whose nearest node is
// nearest to the start.
func (g *graph) fairCycle(nodes []bool, keep func(int32, edge) bool) []int32 {
	var best []int32
	for c := range g.components(nodes, keep) {
		if g.weaklyFair(c, nodes, keep) && (best == nil || slices.Min(c) < slices.Min(best)) {
			best = slices.Clone(c)
		}
	}
	return best
}

// weaklyFair reports whether a run through all of component c starves no action that is possible in each of its nodes.
func (g *graph) weaklyFair(c []int32, nodes []bool, keep func(int32, edge) bool) bool {
	in := make(map[int32]bool, len(c))
	for _, n := range c {
		in[n] = true
	}
	taken, enabled := map[uint16]bool{}, map[uint16]int{}
	for _, n := range c {
		here := map[uint16]bool{}
		for _, e := range g.out(n) {
			if !e.fair() {
				continue
			}
			here[action(e.step)] = true
			if in[e.to] && nodes[e.to] && keep(n, e) {
				taken[action(e.step)] = true
			}
		}
		for a := range here {
			enabled[a]++
		}
	}
	for a, n := range enabled {
		if n == len(c) && !taken[a] {
			return false
		}
	}
	return len(taken) > 0
}

// cycle describes a fair cycle.
func (g *graph) cycle(k Kind, c []int32) Violation {
	n := slices.Min(c)
	v := Violation{Kind: k, Trace: append(g.trace(n), "=> "+g.show(g.node(n)))}
	in := make(map[int32]bool, len(c))
	for _, n := range c {
		in[n] = true
	}
	seen := map[string]bool{}
	for _, n := range c {
		for _, e := range g.out(n) {
			if t := unpack(e.step).String(); e.fair() && in[e.to] && !seen[t] {
				seen[t] = true
				v.Cycle = append(v.Cycle, t)
			}
		}
	}
	slices.Sort(v.Cycle)
	return v
}
