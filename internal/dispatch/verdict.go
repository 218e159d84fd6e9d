package dispatch

import (
	"fmt"
	"time"

	"github.com/twolane/twolane/gate"
	"github.com/twolane/twolane/store"
)

const (
	minGateWait = time.Second
	maxGateWait = 30 * time.Second
	maxWaitRows = 1000
)

// waitRow is what a gate has sent back of one kind: how often in a row, and the last time.
type waitRow struct {
	n           int
	last, until time.Duration
	job         gate.Job // its queue, type, lane and class
	decision    gate.Decision
	detail      string
}

// verdicts takes out of a grant what a gate does not let run. It reports whether anything is left.
func (c *Core) verdicts(now time.Duration, call *ClaimCall, g *store.Grant) bool {
	if !c.gates.judging || g.Class.Visit() {
		return true
	}
	c.gates.asked++ // what this claim brings is judged by fresh readings
	var kept []*store.Command
	for _, cmd := range g.Items {
		job := jobOf(cmd)
		v, x := c.decide(now, &job)
		if v.Decision == gate.Continue {
			kept = append(kept, cmd)
			continue
		}
		one := store.Grant{Lane: g.Lane, Class: g.Class, Items: []*store.Command{cmd}}
		c.sentence(now, call.sent, &one, x, &job, v)
	}
	g.Items = kept
	return len(kept) > 0
}

// decide asks the gates about one command: those that tell classes apart for their room, and judges for their verdict. The first that
// does not let it run decides.
func (c *Core) decide(now time.Duration, job *gate.Job) (gate.Verdict, *GateCell) {
	for _, b := range c.gates.binds {
		if b.judge == nil && !b.ByClass() || !b.Covers(job.Lane, job.Queue, job.Type) {
			continue
		}
		job.Class = b.ClassName(job)
		if b.Class != "" && job.Class != b.Class {
			continue
		}
		x := b.cell(job.Lane, job.Queue, job.Type, job.Class)
		if b.ByClass() && c.look(now, x) == 0 {
			return gate.Verdict{Decision: gate.Wait}, x
		}
		if b.judge == nil {
			continue
		}
		if v := b.judge.Judge(c.cfg.Wall(now), x.scope(c.cfg.Permits[x.key.lane]), job); v.Decision != gate.Continue {
			return v, x
		}
		if len(b.waits) > 0 {
			delete(b.waits, rowOf(job, nil))
		}
	}
	return gate.Verdict{}, nil
}

// rowOf is what a row of waits is about: the key that is closed, or the queue, type and class of the command.
func rowOf(job *gate.Job, closes *gate.Key) gate.Key {
	if closes != nil {
		return *closes
	}
	return gate.Key{Name: job.Queue + " " + job.Type, Value: job.Class}
}

// sentence carries out a verdict on one command whose handler is not called.
func (c *Core) sentence(now, sent time.Duration, g *store.Grant, x *GateCell, job *gate.Job, v gate.Verdict) {
	c.event(Event{Kind: GateDecided, Gate: x, Text: v.Decision.String(), Detail: v.Detail, N: 1})
	why := fmt.Sprintf("gate %s: %s", x.b.Name, v.Decision)
	if v.Detail != "" {
		why += ": " + v.Detail
	}
	if v.Decision == gate.Drop {
		inv := c.unstarted(g)
		it := inv.Items[0]
		c.hold(it, sent)
		it.out = store.Settlement{ID: it.Cmd.ID, Lease: it.Cmd.Lease, Kind: store.OutcomeFail, Reason: store.ReasonDropped, Error: cut(why), Result: v.Result}
		c.enqueue(it)
		return
	}
	row := x.b.row(now, rowOf(job, v.Close))
	d := row.wait(now)
	if v.After > 0 || v.Decision == gate.Refuse {
		d = max(v.After, minGateWait)
	}
	row.until, row.job, row.decision, row.detail = max(row.until, now+d), *job, v.Decision, v.Detail
	if v.Close != nil {
		d = min(d, maxGateWait)
		c.gates.hold = now + gateHold
		c.event(Event{Kind: GateKey, Gate: x, Key: *v.Close, D: d, Lane: x.key.lane})
	}
	c.gates.sent = true
	c.giveBack(now, sent, g, d, why)
}

// row returns the row of a kind. There are so many at most; those that nobody has met for long go first.
func (b *bound) row(now time.Duration, k gate.Key) *waitRow {
	row := b.waits[k]
	if row == nil {
		if len(b.waits) >= maxWaitRows {
			for k, r := range b.waits {
				if now > r.until || len(b.waits) >= maxWaitRows {
					delete(b.waits, k)
				}
			}
		}
		row = &waitRow{}
		b.waits[k] = row
	}
	return row
}

// wait is how long the next of a row of waits is: a second that doubles to thirty.
func (r *waitRow) wait(now time.Duration) time.Duration {
	switch {
	case r.n == 0 || now-r.last > 2*maxGateWait:
		r.n, r.last = 1, now
	case now-r.last >= minGateWait: // those of one claim are one wait
		r.n, r.last = r.n+1, now
	}
	return min(minGateWait<<min(r.n-1, 5), maxGateWait)
}

// learn tells gates how an invocation ended for one of its commands.
func (c *Core) learn(now time.Duration, it *Item) {
	if !c.gates.listening || len(it.Inv.cells) == 0 {
		return
	}
	var f gate.Feedback
	if told := it.response.Load(); told != nil {
		f.Response = *told
	} else {
		switch it.out.Kind {
		case store.OutcomeDone, store.OutcomeFail, store.OutcomeProcessing:
			f.Signal = gate.Succeeded
		case store.OutcomeThrottled:
			f.Signal = gate.Pushed
		}
	}
	f.At = c.cfg.Wall(now)
	f.Sent = f.At.Add(it.Inv.started - now)
	for _, x := range it.Inv.cells {
		if x.b.listener == nil {
			continue
		}
		f.Scope = x.scope(c.cfg.Permits[x.key.lane])
		if it.Inv.over { // it was one of them
			f.Scope.Held++
		}
		x.b.listener.Feedback(f)
	}
}
