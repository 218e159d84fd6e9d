package twolane_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
)

func TestF170_OneOfAHundredWins(t *testing.T) {
	run(t, func(t *testing.T, e *env) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		winner, losers := "", map[string]int{}
		for range 100 {
			wg.Go(func() {
				res, err := e.Submit(e.Context(), twolane.Submission{Type: "a", UniqueKey: "nightly"})
				mu.Lock()
				defer mu.Unlock()
				if held, ok := errors.AsType[*twolane.UniqueHeldError](err); ok {
					losers[held.Holder]++
				} else if err == nil {
					winner = res.ID
				}
			})
		}
		wg.Wait()
		if winner == "" || losers[winner] != 99 {
			t.Fatalf("winner %s, losers by holder %v", winner, losers)
		}
	})
}

// A unique key is held while its command waits, runs and backs off, and is free after every kind of end.
func TestF097_UniqueKeyEndsWithItsCommand(t *testing.T) {
	ends := map[string]func(e *env, id string){
		"done":   func(e *env, _ string) { e.finish(store.Settlement{Kind: store.OutcomeDone}) },
		"failed": func(e *env, _ string) { e.finish(store.Settlement{Kind: store.OutcomeFail}) },
		"cancelled": func(e *env, id string) {
			if r, err := e.Cancel(e.Context(), []string{id}, nil); err != nil || r[0].Status != twolane.StatusCancelled {
				e.Fatal(r, err)
			}
		},
		"deleted": func(e *env, id string) {
			if r, err := e.Delete(e.Context(), twolane.IDs(id), nil); err != nil || r.Done != 1 {
				e.Fatal(r, err)
			}
		},
		"purged": func(e *env, _ string) {
			e.finish(store.Settlement{Kind: store.OutcomeDone})
			if r, err := e.Purge(e.Context(), twolane.Filter{Queue: "default"}, nil); err != nil || r.Done != 1 {
				e.Fatal(r, err)
			}
		},
		"expired": func(e *env, _ string) { time.Sleep(time.Hour) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, e *env) {
				s := twolane.Submission{Type: "a", UniqueKey: "k", Deadline: time.Now().Add(time.Hour)}
				id := e.must(s)
				held := func(when string, status twolane.Status) {
					_, err := e.Submit(e.Context(), twolane.Submission{Type: "a", UniqueKey: "k"})
					h, ok := errors.AsType[*twolane.UniqueHeldError](err)
					if !ok || h.Holder != id || h.Status != status || !strings.Contains(err.Error(), id) {
						t.Fatalf("%s: %v", when, err)
					}
				}
				held("waiting", twolane.StatusPending)
				c := e.claim("w1", "default", store.Intake, "a")
				held("running", twolane.StatusPending)
				e.settle(c, store.Settlement{Kind: store.OutcomeRetry, Delay: time.Second, Error: "no"})
				held("backing off", twolane.StatusPending)
				time.Sleep(3 * time.Second)
				end(e, id)
				e.must(twolane.Submission{Type: "a", UniqueKey: "k"})
			})
		})
	}
}
