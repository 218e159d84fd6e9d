package twolane

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// obstacle is why eligible work of a lane does not start: the first that holds, in the order in which a claim meets them. WaitTurn is none.
func obstacle(pause PauseMode, lane Lane, worker, gate bool, free int, limit bool, rate Rate) Wait {
	return obstacles(pause, lane, worker, gate, free, limit, rate)[0]
}

func obstacles(pause PauseMode, lane Lane, worker, gate bool, free int, limit bool, rate Rate) []Wait {
	var all []Wait
	if pause == PauseAll || pause == PauseIntake && lane == Intake {
		all = append(all, WaitPaused)
	}
	if worker && gate {
		all = append(all, WaitGate)
	}
	switch {
	case !worker:
		all = append(all, WaitNoWorker)
	case limit:
		all = append(all, WaitLimit)
	case gate:
	case free == 0:
		all = append(all, WaitPermits)
	case rate.Limit > 0:
		all = append(all, WaitRate)
	}
	if len(all) == 0 {
		all = append(all, WaitTurn)
	}
	return all
}

// explainer turns a record and the numbers of its queue into an explanation. It does no I/O.
type explainer struct {
	Explanation
	r   *store.Command
	s   *store.Stats
	q   QueueConfig
	now rule.Now
}

// inTurn reports whether the command could run now.
func (x *explainer) inTurn() bool { return rule.Claimable(x.now, x.r) || rule.Due(x.now, x.r) }

func (x *explainer) explain() {
	if !x.r.Status.Terminal() {
		if at := rule.EndsAt(x.r); at != 0 && x.r.CancelAsked == 0 {
			x.EndsAt = at.Time()
		}
	}
	switch {
	case x.r.Status.Terminal():
		x.hasEnded()
	case x.r.Place == store.Leased:
		x.leased()
	case !x.inTurn():
		x.waitsForTime()
	default:
		x.waitsForTurn()
	}
	if !x.EndsAt.IsZero() && x.Until.After(x.EndsAt) {
		x.Until = x.EndsAt
	}
	if !x.EndsAt.IsZero() && !x.r.Status.Terminal() {
		x.say("Its time is over at %s.", x.at(x.EndsAt))
	}
}

func (x *explainer) say(format string, args ...any) {
	x.Text = strings.TrimSpace(x.Text + " " + fmt.Sprintf(format, args...))
}

// at says a time for people, with how far off it is.
func (x *explainer) at(t time.Time) string {
	d := t.Sub(x.AsOf).Round(time.Millisecond)
	if d > 10*time.Second || d < -10*time.Second {
		d = d.Round(time.Second)
	}
	switch {
	case d == 0:
		return t.Format(time.RFC3339) + " (now)"
	case d < 0:
		return fmt.Sprintf("%s (%v ago)", t.Format(time.RFC3339), -d)
	}
	return fmt.Sprintf("%s (in %v)", t.Format(time.RFC3339), d)
}

func (x *explainer) hasEnded() {
	x.Wait = WaitNothing
	why := ""
	switch {
	case x.r.Status == store.Failed && x.r.Error != "":
		why = fmt.Sprintf(" (%s: %s)", x.r.Reason, firstLine(x.r.Error))
	case x.r.Status == store.Failed:
		why = fmt.Sprintf(" (%s)", x.r.Reason)
	case x.r.Status == store.Cancelled && x.r.CancelReason != "":
		why = fmt.Sprintf(" (%s)", firstLine(x.r.CancelReason))
	}
	x.say("It ended %s%s at %s.", x.r.Status, why, x.at(x.r.Ended.Time()))
}

func (x *explainer) leased() {
	x.Worker = x.r.Owner
	// The lease clock counts an outage in part only, so the times are right but for outages within this lease.
	x.Since = x.AsOf.Add(-x.now.Lease.Sub(x.r.LeasedAt))
	x.LeaseUntil = x.AsOf.Add(x.r.LeaseUntil.Sub(x.now.Lease))
	for i := range x.s.Workers {
		if w := &x.s.Workers[i]; w.ID == x.r.Owner {
			x.WorkerName = strings.TrimSpace(fmt.Sprintf("%s on %s, pid %d", w.Name, w.Host, w.PID))
		}
	}
	what := "Execute"
	switch {
	case x.r.Status == store.Processing && x.r.CancelAsked != 0:
		what = "its handler"
	case x.r.Status == store.Processing:
		what = "Check"
	}
	switch {
	case x.WorkerName == "":
		x.Wait, x.Until = WaitLease, x.LeaseUntil
		x.say("Worker %s, which had run %s since %s, is not alive any more. Another one takes over when its lease ends at %s.",
			x.Worker, what, x.at(x.Since), x.at(x.LeaseUntil))
	case x.r.Overdue:
		x.Wait = WaitOverdue
		x.say("Worker %s (%s) has had it since %s, and %s ignores the end of its time. The lease is renewed as long as that process lives.",
			x.Worker, x.WorkerName, x.at(x.Since), what)
	default:
		x.Wait = WaitHandler
		x.say("Worker %s (%s) has run %s since %s; its lease ends at %s if it is not renewed.", x.Worker, x.WorkerName, what, x.at(x.Since), x.at(x.LeaseUntil))
	}
	if x.r.CancelAsked != 0 {
		x.say("Its cancel was asked for at %s.", x.at(x.r.CancelAsked.Time()))
	}
}

// waitsForTime explains a command that no claim would take now.
func (x *explainer) waitsForTime() {
	x.Until = x.Command.NextRun
	switch {
	case x.r.Status == store.Processing && x.r.CancelAsked != 0:
		x.Wait = WaitCancel
		x.say("Its Cancel hook failed and is called again at %s; at %s it ends in any case.", x.at(x.Until), x.at(x.r.CancelUntil.Time()))
	case x.r.Status == store.Processing:
		x.Wait = WaitPoll
		if x.r.Losses > 0 || x.r.Failures > 0 {
			x.say("It is PROCESSING elsewhere; after %s its next check is due at %s.", x.after(), x.at(x.Until))
		} else {
			x.say("It is PROCESSING elsewhere; its next check is due at %s.", x.at(x.Until))
		}
	case x.r.NotBefore > x.now.Wall && x.r.NotBefore >= x.r.Due:
		x.Wait = WaitNotBefore
		x.say("It may not run before %s.", x.at(x.Until))
	case x.sentBack():
		x.Wait = WaitGate
		x.say("It waits, since %s; it is looked at again at %s.", x.gate(), x.at(x.Until))
		return
	default:
		x.Wait = WaitBackoff
		x.say("It waits after %s and runs again at %s.", x.after(), x.at(x.Until))
		if x.Gate != nil { // it may be this that put it off, after its last failure
			x.Also = []Wait{WaitGate}
			x.say("And %s.", x.gate())
			return
		}
	}
	if o := x.obstacles(); o[0] != WaitTurn && o[0] != WaitPermits && o[0] != WaitRate {
		x.Also = o
		x.say("And then %s.", x.blame(o[0]))
	}
}

// sentBack reports whether a gate has given the command back unstarted: nothing else puts one off that has neither failed nor been snoozed. Of others
// only the gate that does so with commands like it is known.
func (x *explainer) sentBack() bool {
	if n := len(x.r.Events); n > 0 && (x.r.Events[n-1].Kind == store.EventSnoozed || x.r.Events[n-1].Kind == store.EventThrottled) {
		return false
	}
	for i := range x.s.Workers {
		for j := range x.s.Workers[i].Gates {
			g := &x.s.Workers[i].Gates[j]
			if g.Decision != "" && g.About(x.r.Lane(), x.r.Queue, x.r.Type) && hasKey(x.r, g.Key) {
				x.Gate = g
				return x.r.Failures == 0 && x.r.Losses == 0
			}
		}
	}
	return false
}

// hasKey reports whether a command has a key of the form name=value; every one has the empty one.
func hasKey(r *store.Command, key string) bool {
	name, value, _ := strings.Cut(key, "=")
	return key == "" || name == "group" && r.Group == value ||
		slices.ContainsFunc(r.Keys, func(k store.Key) bool { return k.Name == name && k.Value == value })
}

// gate says how the gate stands, for people.
func (x *explainer) gate() string {
	s := x.Gate.String()
	if x.Gate.Opens != 0 && x.Gate.Decision == "" {
		s += fmt.Sprintf(", which opens at %s", x.at(x.Gate.Opens.Time()))
	}
	return s
}

// heldByGate is the gate that keeps all workers from starting commands of a type, of several the one that opens first; nil if one of them may, or if there
// are none.
func heldByGate(workers []store.Worker, lane Lane, queue, typ string) *store.GateState {
	var first *store.GateState
	for i := range workers {
		w := &workers[i]
		if w.Draining || !slices.Contains(w.Queues, queue) || !slices.Contains(w.Types[lane], typ) {
			continue
		}
		j := slices.IndexFunc(w.Gates, func(g store.GateState) bool {
			return g.Class == "" && g.Decision == "" && (g.Budget == 0 || g.Full) && g.About(lane, queue, typ)
		})
		if j < 0 {
			return nil
		}
		if g := &w.Gates[j]; first == nil || g.Opens != 0 && (first.Opens == 0 || g.Opens < first.Opens) {
			first = g
		}
	}
	return first
}

// after says what a backoff follows.
func (x *explainer) after() string {
	row := func(n int, one string, many string) string {
		if n == 1 {
			return one
		}
		return fmt.Sprintf("%d %s in a row", n, many)
	}
	switch {
	case x.r.Losses > 0:
		return row(x.r.Losses, "the loss of its worker", "losses of its worker")
	case x.r.Failures > 0 && x.r.Error != "":
		return row(x.r.Failures, "a failure", "failures") + " (" + firstLine(x.r.Error) + ")"
	case x.r.Failures > 0:
		return row(x.r.Failures, "a failure", "failures")
	}
	return "it was put off"
}

// waitsForTurn explains a command that a claim would take now if nothing stood in its way.
func (x *explainer) waitsForTurn() {
	o := x.obstacles()
	x.Wait, x.Also = o[0], o[1:]
	if visit := rule.Class(x.r).Visit(); visit {
		if x.Until = x.r.CancelUntil.Time(); x.Wait == WaitTurn {
			x.Wait = WaitCancel
			x.say("A worker calls its Cancel hook next; at %s it ends in any case.", x.at(x.Until))
			return
		}
		x.say("A worker is to call its Cancel hook, but %s; at %s it ends in any case.", x.blame(x.Wait), x.at(x.Until))
		return
	}
	if x.Wait == WaitPaused && x.q.PauseUntil != 0 {
		x.Until = x.q.PauseUntil.Time()
	}
	if x.Wait == WaitLimit && x.Limit.Next > 0 {
		x.Until = x.AsOf.Add(x.Limit.Next)
	}
	if x.Wait == WaitGate && x.Gate.Opens != 0 {
		x.Until = x.Gate.Opens.Time()
	}
	x.say("It could run, but %s.", x.blame(x.Wait))
	for _, w := range x.Also {
		x.say("Besides, %s.", x.blame(w))
	}
	switch {
	case x.Wait == WaitNoWorker || x.Wait == WaitPaused || x.Wait == WaitLimit || x.Wait == WaitGate:
	case x.AheadAtLeast:
		x.say("At least %d others of the %s lane go before it.", x.Ahead, x.r.Lane())
	case x.Ahead == 1:
		x.say("One other of the %s lane goes before it.", x.r.Lane())
	case x.Ahead > 1:
		x.say("%d others of the %s lane go before it.", x.Ahead, x.r.Lane())
	}
}

// obstacles are what keeps the command from starting once it could run.
func (x *explainer) obstacles() []Wait {
	lane, pause := x.r.Lane(), PauseNone
	rate := x.q.Rates[lane]
	if rule.Class(x.r).Visit() {
		rate = Rate{} // a visit waits for neither a pause nor a rate
	} else if len(x.s.Queues) > 0 {
		pause = x.s.Queues[0].Pause
	}
	all, free, some := permits(x.s.Workers, x.r.Queue, lane, []string{x.r.Type})
	x.Permits, x.Free = all, free
	if !rule.Class(x.r).Visit() {
		x.Gate = heldByGate(x.s.Workers, lane, x.r.Queue, x.r.Type)
	}
	return obstacles(pause, lane, some, x.Gate != nil, free, x.Limit != nil, rate)
}

// blame says what an obstacle is, to go after "but" or "then".
func (x *explainer) blame(w Wait) string {
	lane := x.r.Lane()
	switch w {
	case WaitPaused:
		if until := x.q.PauseUntil; until != 0 {
			return fmt.Sprintf("queue %s is paused (%s) until %s", x.r.Queue, x.s.Queues[0].Pause, x.at(until.Time()))
		}
		return fmt.Sprintf("queue %s is paused (%s) until somebody resumes it", x.r.Queue, x.s.Queues[0].Pause)
	case WaitNoWorker:
		return fmt.Sprintf("no live worker serves queue %s and can run type %s in the %s lane", x.r.Queue, x.r.Type, lane)
	case WaitPermits:
		return fmt.Sprintf("all %d %s permits of the workers that can run it are taken", x.Permits, lane)
	case WaitGate:
		return x.gate()
	case WaitLimit:
		return x.Limit.text()
	case WaitRate:
		rate := x.q.Rates[lane]
		return fmt.Sprintf("the rate of queue %s lets %v start in a second in the %s lane", x.r.Queue, rate.Limit, lane)
	}
	return fmt.Sprintf("the next claim of a worker has to come (%d of %d %s permits are free)", x.Free, x.Permits, lane)
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > 200 {
		s = s[:200]
	}
	return strings.ToValidUTF8(strings.TrimRight(s, ". "), "")
}
