package redisstore

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// ruleCases are commands in many states, each with every decision that can meet it.
func ruleCases(now rule.Now) []ruleCase {
	var all []ruleCase
	for i, c := range ruleCommands(now) {
		ops := ruleOps(c)
		// every decision for some commands, some decisions for every command
		for j, op := range ops {
			if i%7 == j%7 || i < 40 {
				op.c = c
				all = append(all, op)
			}
		}
	}
	return all
}

func pick[T any](r *rand.Rand, vs ...T) T { return vs[r.IntN(len(vs))] }

// ruleCommands are the corners of each field, put together at random but always in the same way.
func ruleCommands(now rule.Now) []*store.Command {
	r := rand.New(rand.NewPCG(1, 2))
	var cs []*store.Command
	for i := range 400 {
		c := &store.Command{
			ID: "id", Queue: "q", Type: "t", Group: "g", Cost: 1, Seq: uint64(1 + r.IntN(1<<40)), Created: now.Wall - 100_000, Fingerprint: r.Uint64() | 1,
			Priority: pick[uint8](r, 0, 7, 255), Params: pick(r, nil, []byte{}, []byte("params")), Metadata: pick(r, nil, nil, map[string]string{"a": "1"}),
			UniqueKey: pick(r, "", "", "u"), Notify: pick(r, "", "", "top"), MaxFailures: pick(r, 0, 0, 3), Retention: pick(r, 0, 0, time.Hour, -time.Nanosecond, 90*24*time.Hour+1),
			Deadline: pick(r, 0, 0, 0, now.Wall-1, now.Wall, now.Wall+150, now.Wall+1000_000), StartBy: pick(r, 0, 0, 0, now.Wall-1, now.Wall+1000),
			Failures: pick(r, 0, 0, 2, 7), Losses: pick(r, 0, 0, 1, 2, 4), Polls: pick(r, 0, 3), Decodes: pick(r, 0, 0, 4), Starts: pick(r, 0, 1, 9),
			Error: pick(r, "", "", "boom", strings.Repeat("e", 400)), Progress: pick(r, nil, nil, []byte("half")),
		}
		if i%3 == 0 {
			c.Settled = store.LeaseName{Token: uint64(r.IntN(1 << 40)), Nonce: "settled00"}
		}
		for range pick(r, 0, 0, 1, 15, 16) {
			c.Events = append(c.Events, store.Event{At: now.Wall - 10, Kind: pick(r, eventKinds[1:]...), Worker: pick(r, "", "w1"), Text: pick(r, "", "text", strings.Repeat("t", 200))})
		}
		if c.Status = pick(r, store.Pending, store.Processing); c.Status == store.Processing {
			c.HasHook, c.State, c.Due = pick(r, false, true), pick(r, nil, []byte{}, []byte("state")), pick(r, now.Run-5, now.Run, now.Run+5000)
			c.Starts = max(1, c.Starts)
		}
		switch c.Place = pick(r, store.InLine, store.Leased, store.Leased); c.Place {
		case store.Leased:
			c.Lease, c.Owner, c.LeasedAt = store.LeaseName{Token: uint64(1 + r.IntN(1<<40)), Nonce: "current00"}, "w1", now.Lease-pick[store.Millis](r, 1000, 40_000, 40_001, 3001)
			c.LeaseUntil = pick(r, now.Lease+1, now.Lease, c.LeasedAt+20_000, c.LeasedAt+40_000, c.LeasedAt+40_001)
			c.Starts, c.Overdue = max(1, c.Starts), pick(r, false, true)
			if c.Status == store.Pending {
				c.Eligible = now.Wall - 50_000
			}
		case store.InLine:
			if c.Status == store.Pending {
				if c.Eligible = now.Wall - 50_000; pick(r, false, true) {
					c.Place, c.Eligible, c.Due, c.NotBefore = store.Scheduled, 0, pick(r, 0, now.Run-1, now.Run, now.Run+9), pick(r, 0, now.Wall, now.Wall+9)
				}
			}
			c.Progress = nil
		}
		if (c.Place == store.Leased || c.Status == store.Processing && c.HasHook) && pick(r, false, true) {
			c.CancelAsked, c.CancelReason, c.CancelUntil = now.Wall-10_000, pick(r, "", "why"), now.Wall+pick[store.Millis](r, -1, 0, 1, 50_000)
			if c.Place == store.Leased && pick(r, false, true) { // asked while leased
				c.CancelUntil = 0
			}
			c.CancelEnds = pick(r, "", "", store.ReasonDeadline)
		}
		inv := store.Hold{LimitKey: store.LimitKey{Limit: "a", Value: "x"}}
		cmd := store.Hold{LimitKey: store.LimitKey{Limit: "b"}, Scope: store.ScopeCommand}
		switch {
		case c.Place == store.Leased:
			c.Unknown, c.Overflow = c.Starts > 1 && pick(r, false, true), pick(r, false, false, true)
			c.Holds = pick(r, nil, nil, []store.Hold{inv}, []store.Hold{inv, cmd}, []store.Hold{cmd})
		case c.Status == store.Processing || c.Place == store.InLine:
			if c.Unknown = pick(r, false, true); c.Unknown || c.Status == store.Processing {
				c.Holds = pick(r, nil, []store.Hold{cmd})
			}
		}
		if i%5 == 4 { // an ended one
			end := pick(r, store.Succeeded, store.Failed, store.Cancelled)
			c.Was, c.Status, c.Place, c.Lease, c.Owner, c.LeasedAt, c.LeaseUntil, c.Overdue = c.Status, end, store.Nowhere, store.LeaseName{}, "", 0, 0, false
			c.Eligible, c.Due, c.Progress, c.Ended, c.Unknown, c.Holds, c.Overflow = 0, 0, nil, now.Wall-1000, false, nil, false
			if end == store.Failed {
				c.Reason = pick(r, store.Reasons...)
			}
			if c.Notify == "" {
				c.PurgeAt = now.Wall + 600_000
			}
		}
		cs = append(cs, c)
	}
	return cs
}

// ruleOps are the decisions that can meet a command.
func ruleOps(c *store.Command) []ruleCase {
	var ops []ruleCase
	b := func(v bool) int {
		if v {
			return 1
		}
		return 0
	}
	add := func(name string, args []any, text [4]string, do func(now rule.Now, c *store.Command, q store.QueueConfig, v time.Duration) string) {
		op, _, _ := strings.Cut(name, " ")
		ops = append(ops, ruleCase{name: name, op: op, args: args, text: text, do: do})
	}
	for _, force := range []bool{false, true} {
		reason := strings.Repeat("ö", 130)
		add(fmt.Sprint("cancel ", force), []any{b(force)}, [4]string{reason, reason[:cutText(reason)]}, func(now rule.Now, c *store.Command, q store.QueueConfig, _ time.Duration) string {
			return fmt.Sprint(int(rule.Cancel(now, c, reason, force, q).State))
		})
	}
	for kind := store.ActRetry; kind <= store.ActRunNow; kind++ {
		if kind == store.ActDelete {
			continue
		}
		for as := store.AsBefore; as <= store.AsCheck; as++ {
			req := store.ActRequest{Kind: kind, As: as, Queue: "other", Priority: 9, By: "me"}
			if as == store.AsExecute {
				req.Deadline = c.Deadline + 10_000_000
			}
			add(fmt.Sprint("act ", kind, " as ", as), []any{int(kind), int(as), int64(req.Deadline), 9, 777}, [4]string{"other", "me"}, func(now rule.Now, c *store.Command, q store.QueueConfig, _ time.Duration) string {
				if rule.Act(now, 777, c, &req, q) != nil {
					return "no"
				}
				return ""
			})
		}
	}
	if c.Status.Terminal() {
		return ops
	}
	if c.Place == store.Leased {
		for _, lives := range []bool{false, true} {
			add(fmt.Sprint("reap ", lives), []any{b(lives), int64(c.LeaseUntil)}, [4]string{}, func(now rule.Now, c *store.Command, q store.QueueConfig, v time.Duration) string {
				rule.Reap(now, c, lives, q, v)
				return ""
			})
		}
		return append(ops, settleOps(c, b)...)
	}
	add("expire", nil, [4]string{}, func(now rule.Now, c *store.Command, q store.QueueConfig, _ time.Duration) string {
		ended := rule.Ended(now, c)
		if ended {
			rule.Expire(now, c, q)
		}
		return fmt.Sprint(ended)
	})
	add("visit", nil, [4]string{}, func(now rule.Now, c *store.Command, q store.QueueConfig, _ time.Duration) string {
		over := rule.VisitOver(now, c)
		if over {
			rule.EndVisit(now, c, q)
		}
		return fmt.Sprint(over)
	})
	add("promote", []any{778}, [4]string{}, func(now rule.Now, c *store.Command, q store.QueueConfig, _ time.Duration) string {
		due := rule.Due(now, c)
		if due {
			rule.Promote(now, 778, c)
		}
		return fmt.Sprint(due)
	})
	return ops
}

func settleOps(c *store.Command, b func(bool) int) []ruleCase {
	var ops []ruleCase
	for kind := store.OutcomeDone; kind <= store.OutcomeAbandon; kind++ {
		for variant := range 4 {
			s := store.Settlement{ID: "id", Lease: c.Lease, Kind: kind}
			switch variant {
			case 1:
				s.Delay, s.Error, s.Result, s.State, s.SetState, s.HasHook = 1500*time.Millisecond+1, "failed", []byte("r"), []byte("new"), true, true
			case 2:
				s.Delay, s.Grid, s.Decode, s.Unstarted, s.Result, s.SetState, s.Reason = time.Hour, 250*time.Millisecond, true, true, []byte{}, true, store.ReasonDropped
			case 3:
				s.Error = strings.Repeat("ä", 200) + "\xff"
				s.Delay, s.HasHook = 99*time.Millisecond, true
			}
			if kind != store.OutcomeDone && kind != store.OutcomeFail {
				s.Result = nil
			}
			blob := s.Result
			if kind == store.OutcomeProcessing {
				blob = s.State
			}
			reason, _ := reasonCode(s.Reason)
			ops = append(ops, ruleCase{
				name: fmt.Sprint("settle ", kind, " ", variant), op: "settle",
				args: []any{int(kind), reason, ceilMillis(s.Delay), s.Grid.Milliseconds(), b(s.SetState), b(s.HasHook), b(s.Decode), b(s.Unstarted), b(blob != nil)},
				text: [4]string{s.Error, s.Error[:cutText(s.Error)], string(blob)},
				do: func(now rule.Now, c *store.Command, q store.QueueConfig, v time.Duration) string {
					rule.Settle(now, c, &s, q, v)
					return ""
				},
			})
		}
	}
	return ops
}
