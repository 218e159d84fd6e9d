package model

import (
	"reflect"
	"testing"
)

func TestWalkIsReproducible(t *testing.T) {
	a, b := Walk(7, 300), Walk(7, 300)
	if !reflect.DeepEqual(a, b) {
		t.Error("the same seed gave two walks")
	}
	if len(a.Ops) != 300 {
		t.Errorf("%d operations, want 300", len(a.Ops))
	}
	if reflect.DeepEqual(a.Ops, Walk(8, 300).Ops) {
		t.Error("two seeds gave one walk")
	}
	kinds := map[OpKind]bool{}
	for _, op := range a.Ops {
		kinds[op.Kind] = true
	}
	for k := range endOfOps {
		if !kinds[k] && k != OpLimits {
			t.Errorf("no %s in 300 operations", k)
		}
	}
}

// What the checker holds against each step holds for what a walk does to the records.
func TestWalkIsLegal(t *testing.T) {
	for seed := range uint64(200) {
		w := newWalk(seed, false)
		for range 300 {
			w.step()
			for i := range w.s.cmd {
				r := &w.s.cmd[i]
				if !legalPlace(r) || (r.place == Leased) != (r.name != 0) {
					t.Fatalf("seed %d: after %v: %s", seed, w.t.Ops[len(w.t.Ops)-1], w.m.show(&w.s))
				}
			}
		}
	}
}
