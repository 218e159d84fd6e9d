package model_test

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twolane/twolane/internal/redistest"
	"github.com/twolane/twolane/model"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/memstore"
	"github.com/twolane/twolane/store/redisstore"
	"github.com/twolane/twolane/store/sqlitestore"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// A kindOfStore is a store on which walks are replayed.
type kindOfStore struct {
	name  string
	walks int
	open  func(t *testing.T) store.Store
}

var namespaces atomic.Int64

var stores = []*kindOfStore{
	{"memory", 300, func(*testing.T) store.Store { return memstore.New() }},
	{"sqlite", 24, func(t *testing.T) store.Store {
		s, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "store.db"), &sqlitestore.Options{Relaxed: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}},
	{"redis", 24, func(t *testing.T) store.Store {
		opt, err := redisstore.ParseURL(redistest.Shared(t).URL())
		if err != nil {
			t.Fatal(err)
		}
		opt.Namespace = fmt.Sprint("walk", namespaces.Add(1))
		s, err := redisstore.Open(t.Context(), opt)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}},
}

// Walks under limits hold on each store that keeps them.
func TestWalksWithLimits(t *testing.T) {
	for _, kind := range stores {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			seen := sights{}
			for seed := range kind.seeds() {
				s := kind.open(t)
				ops, d := replayLimits(t, s, uint64(seed))
				if d != "" {
					t.Fatalf("seed %d: %s", seed, d)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				for _, op := range ops {
					seen.note(op)
				}
			}
			if kind.walks >= 100 {
				seen.want(t, "visit", "holder")
			}
			seen.want(t, usual...)
			seen.want(t, "0 limits", "1 limits", "2 limits", "two members")
			t.Logf("%d walks: %v", kind.seeds(), seen)
		})
	}
}

// replayLimits makes a walk together with a store, and says what the store did that the model does not allow.
func replayLimits(t *testing.T, s store.Store, seed uint64) ([]model.Op, string) {
	t.Helper()
	walk := model.WalkLimits(seed, steps)
	r := newReplay(t, s, &model.Trajectory{Commands: walk.Commands(), Queues: walk.Queues()})
	r.begin()
	for {
		op, ok := walk.Next()
		if !ok {
			return r.walk.Ops, r.audit()
		}
		open, bad := walk.Open(), ""
		var got model.Want
		r.do(op, &got)
		if open {
			op, bad = walk.Took(got.Granted)
		}
		r.walk.Ops = append(r.walk.Ops, op)
		if bad += r.compare(op, got); bad != "" {
			return nil, r.say(len(r.walk.Ops)-1, bad)
		}
	}
}

func limitName(l model.WalkLimit) string { return fmt.Sprintf("l%d.%d", l.Limit, l.Version) }

// limit puts limits in force in the place of all others.
func (r *replay) limit(ls []model.WalkLimit) {
	r.t.Helper()
	cfg, err := r.s.Config(r.t.Context())
	r.must(err)
	cfg.Limits = nil
	for _, l := range ls {
		x := store.Limit{Name: limitName(l), By: store.ByKey, Key: fmt.Sprintf("k%d", l.Limit), Max: l.Max}
		if l.Command {
			x.Scope = store.ScopeCommand
		}
		if l.Rate { // the next token is there with the next tick
			x.Max, x.Rate, x.Per, x.Burst = 0, 1, model.WalkTick-model.WalkTick/8, 1
			x.Per = x.Per.Truncate(time.Millisecond)
		}
		cfg.Limits = append(cfg.Limits, x)
	}
	_, err = r.s.Configure(r.t.Context(), cfg.Version, cfg)
	r.must(err)
	r.limits = ls
}

// holds are the limits in force that c is a member of.
func (r *replay) holds(c *store.Command) (ls []int) {
	for _, l := range r.limits {
		for _, h := range c.Holds {
			if h.Limit == limitName(l) {
				ls = append(ls, l.Limit)
			}
		}
	}
	return ls
}

// members are those of each limit in force.
func (r *replay) members() (ns []int) {
	for _, l := range r.limits {
		st, err := r.s.Limit(r.t.Context(), store.LimitKey{Limit: limitName(l), Value: "v"})
		r.must(err)
		ns = append(ns, st.Members)
	}
	return ns
}
