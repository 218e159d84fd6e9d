package proctest

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/twolane/twolane/store"
)

// life is the register of one command: what a store of one command would know. A lease may end at any time by the reaper, who is no client.
type life struct {
	status  lifeStatus
	lease   string // current, or ended by the reaper unseen
	settled string // last settled
}

type lifeStatus uint8

const (
	unborn lifeStatus = iota
	live
	over
)

// op is one call about one command.
type op struct {
	kind    string
	lease   string
	outcome string
	state   string // the answer; empty if none was seen
}

var lifeModel = (&porcupine.NondeterministicModel{
	Init:  func() []any { return []any{life{}} },
	Equal: func(a, b any) bool { return a == b },
	Step: func(state, input, _ any) []any {
		return step(state.(life), input.(op))
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
}).ToModel()

// step lists the states in which the register may be after a call.
func step(s life, o op) []any {
	current := s.status == live && s.lease == o.lease && o.lease != ""
	switch o.kind {
	case evSubmit:
		born := s
		born.status = max(s.status, live)
		if o.state == "" { // nobody heard the answer
			return []any{s, born}
		}
		return []any{born}
	case evClaim:
		if s.status != live {
			return nil
		}
		s.lease = o.lease
		return []any{s}
	case evRenew:
		return renewStep(s, o, current)
	case evSettle:
		return settleStep(s, o, current)
	case evRead:
		if (o.state == "ended") != (s.status == over) {
			return nil
		}
		return []any{s}
	}
	panic("unknown operation " + o.kind)
}

func renewStep(s life, o op, current bool) []any {
	switch {
	case o.state != stateLost && current:
		return []any{s}
	case o.state == stateLost:
		return []any{reaped(s, current)}
	}
	return nil
}

func settleStep(s life, o op, current bool) []any {
	done := s
	done.lease, done.settled = "", o.lease
	if ends(o.outcome) {
		done.status = over
	}
	switch o.state {
	case store.SettleDone.String():
		if current {
			return []any{done}
		}
		return nil
	case store.SettleAlready.String():
		if s.settled == o.lease {
			return []any{s}
		}
		return nil
	case "": // nobody heard the answer
		if current {
			return []any{s, done}
		}
		return []any{s}
	}
	return []any{reaped(s, current)}
}

// reaped is the register after the reaper, if only that explains an answer.
func reaped(s life, current bool) life {
	if current {
		s.lease = ""
	}
	return s
}

func ends(outcome string) bool {
	return outcome == store.OutcomeDone.String() || outcome == store.OutcomeFail.String()
}

// linearizable checks the history of every command that the server cannot have forgotten anything about.
func (e *env) linearizable(readings []reading) {
	e.t.Helper()
	histories, touched := e.histories(), e.touched()
	for _, r := range readings {
		if e.excused(r.id) || touched[r.id] != nil { // the register knows no users
			continue
		}
		ops := histories[r.id]
		if r.cmd != nil && r.cmd.Status.Terminal() && r.cmd.Reason != store.ReasonWorkerLost {
			at := now()
			ops = append(ops, porcupine.Operation{Input: op{kind: evRead, state: "ended"}, Call: at, Return: at + 1})
		}
		if res := porcupine.CheckOperationsTimeout(lifeModel, ops, 10*time.Second); res != porcupine.Ok {
			var b strings.Builder
			for _, o := range ops {
				fmt.Fprintf(&b, "\n  %d..%d %+v", o.Call, o.Return, o.Input)
			}
			e.t.Errorf("the history of %s is not linearizable (%s):%s", r.id, res, b.String())
		}
	}
}

// histories are the calls about each command, as their callers saw them.
func (e *env) histories() map[string][]porcupine.Operation {
	h := map[string][]porcupine.Operation{}
	sent := map[string]map[string]int{} // proc, lease: the index of the settle that was sent
	add := func(id string, from, to int64, o op) int {
		h[id] = append(h[id], porcupine.Operation{Input: o, Call: from, Return: to})
		return len(h[id]) - 1
	}
	for i := range e.events {
		ev := &e.events[i]
		for _, it := range ev.Items {
			switch ev.Kind {
			case evSubmit:
				if ev.Text == "" {
					add(it.ID, ev.Sent, ev.At, op{kind: evSubmit, state: stateOK})
				} else {
					add(it.ID, ev.Sent, math.MaxInt64, op{kind: evSubmit})
				}
			case evClaim:
				add(it.ID, ev.Sent, ev.At, op{kind: evClaim, lease: it.Lease})
			case evRenew:
				if it.State != "" {
					add(it.ID, ev.Sent, ev.At, op{kind: evRenew, lease: it.Lease, state: it.State})
				}
			case evSend:
				if sent[ev.Proc] == nil {
					sent[ev.Proc] = map[string]int{}
				}
				sent[ev.Proc][it.Lease] = add(it.ID, ev.Sent, math.MaxInt64, op{kind: evSettle, lease: it.Lease, outcome: it.Outcome})
			case evSettle:
				if ev.Text == "" {
					n := sent[ev.Proc][it.Lease]
					h[it.ID][n].Return = ev.At
					h[it.ID][n].Input = op{kind: evSettle, lease: it.Lease, outcome: it.Outcome, state: it.State}
				}
			}
		}
	}
	return h
}

// The register must refuse what it is there to refuse.
func TestLifeModelBites(t *testing.T) {
	begin := []op{{kind: evSubmit, state: stateOK}, {kind: evClaim, lease: "1.a"}, {kind: evClaim, lease: "2.b"}}
	for name, c := range map[string]struct {
		then []op
		ok   bool
	}{
		"the owner settles":           {[]op{{kind: evSettle, lease: "2.b", outcome: "done", state: "done"}, {kind: evRead, state: "ended"}}, true},
		"a stale owner is refused":    {[]op{{kind: evSettle, lease: "1.a", outcome: "done", state: "lost"}}, true},
		"a stale owner settles":       {[]op{{kind: evSettle, lease: "1.a", outcome: "done", state: "done"}}, false},
		"a stale owner renews":        {[]op{{kind: evRenew, lease: "1.a", state: "ok"}}, false},
		"one settles twice":           {[]op{{kind: evSettle, lease: "2.b", outcome: "done", state: "done"}, {kind: evSettle, lease: "2.b", outcome: "done", state: "done"}}, false},
		"one asks twice":              {[]op{{kind: evSettle, lease: "2.b", outcome: "done", state: "done"}, {kind: evSettle, lease: "2.b", outcome: "done", state: "already"}}, true},
		"it runs on after its end":    {[]op{{kind: evSettle, lease: "2.b", outcome: "done", state: "done"}, {kind: evClaim, lease: "3.c"}}, false},
		"an unheard settle has ended": {[]op{{kind: evSettle, lease: "2.b", outcome: "done"}, {kind: evRead, state: "ended"}}, true},
		"it ends by nobody":           {[]op{{kind: evRead, state: "ended"}}, false},
		"lost while nobody took over": {[]op{{kind: evSettle, lease: "2.b", outcome: "done", state: "lost"}, {kind: evSettle, lease: "2.b", outcome: "done", state: "done"}}, false},
		"the result is forgotten":     {[]op{{kind: evSettle, lease: "2.b", outcome: "processing", state: "done"}, {kind: evSettle, lease: "2.b", outcome: "done", state: "done"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var ops []porcupine.Operation
			for i, o := range append(begin, c.then...) {
				ops = append(ops, porcupine.Operation{Input: o, Call: int64(2 * i), Return: int64(2*i + 1)})
			}
			if got := porcupine.CheckOperations(lifeModel, ops); got != c.ok {
				t.Errorf("linearizable: %v, want %v", got, c.ok)
			}
		})
	}
}
