package model

import "iter"

// components yields the strongly connected parts, larger than one node or with a step to itself, of the graph made of the
// given nodes and of those fair steps that keep allows (Tarjan). The slice is valid until the next one.
func (g *graph) components(nodes []bool, keep func(int32, edge) bool) iter.Seq[[]int32] {
	return func(yield func([]int32) bool) {
		type frame struct {
			n int32
			e int32
		}
		index := make([]int32, g.size())
		low := make([]int32, g.size())
		on := make([]bool, g.size())
		var stack []int32
		var calls []frame
		next := int32(1)
		enter := func(n int32) {
			index[n], low[n], on[n] = next, next, true
			next++
			stack = append(stack, n)
			calls = append(calls, frame{n, g.first[n]})
		}
		for root := range int32(g.size()) {
			if !nodes[root] || index[root] != 0 {
				continue
			}
			enter(root)
			for len(calls) > 0 {
				f := &calls[len(calls)-1]
				if f.e < g.first[f.n+1] {
					e := g.edges[f.e]
					f.e++
					switch {
					case !e.fair() || !nodes[e.to] || !keep(f.n, e):
					case index[e.to] == 0:
						enter(e.to)
					case on[e.to]:
						low[f.n] = min(low[f.n], index[e.to])
					}
					continue
				}
				n := f.n
				calls = calls[:len(calls)-1]
				if len(calls) > 0 {
					p := calls[len(calls)-1].n
					low[p] = min(low[p], low[n])
				}
				if low[n] != index[n] {
					continue
				}
				start := len(stack) - 1
				for stack[start] != n {
					start--
				}
				part := stack[start:]
				for _, x := range part {
					on[x] = false
				}
				if (len(part) > 1 || g.loops(n, keep)) && !yield(part) {
					return
				}
				stack = stack[:start]
			}
		}
	}
}

func (g *graph) loops(n int32, keep func(int32, edge) bool) bool {
	for _, e := range g.out(n) {
		if e.fair() && e.to == n && keep(n, e) {
			return true
		}
	}
	return false
}
