package sim

import (
	"context"
	"slices"
	"time"

	"github.com/twolane/twolane/store"
)

// watchEvery is how often the oracle looks at the whole.
const watchEvery = 500 * time.Millisecond

// lane is one lane of a queue.
type lane struct {
	queue     string
	lane      store.Lane
	level     float64      // of a leaky bucket: claims not yet paid for by time
	at        store.Millis // run clock of level
	granted   time.Duration
	throttled store.Millis // run clock of the last throttle
}

func (o *oracle) lane(queue string, l store.Lane) *lane {
	k := queue + "/" + l.String()
	x := o.lanes[k]
	if x == nil {
		x = &lane{queue: queue, lane: l, throttled: -1 << 60}
		o.lanes[k] = x
	}
	return x
}

// tokens counts one invocation against the rate of its lane.
func (o *oracle) tokens(c *store.Command, class store.Class) {
	x := o.lane(c.Queue, c.Lane())
	x.granted = o.w.now
	o.served[c.Lane()] = o.w.now
	rate := o.cfg.Queue(c.Queue).Rates[c.Lane()]
	if rate.Limit <= 0 || class.Visit() {
		return
	}
	x.level = max(0, x.level-rate.Limit*o.run.Sub(x.at).Seconds()) + 1
	x.at = o.run
	if x.level > float64(rate.Burst)+1e-3 {
		o.fail("rate", "%s/%s: %.3f claims above %v/s with a burst of %d", c.Queue, c.Lane(), x.level-float64(rate.Burst), rate.Limit, rate.Burst)
	}
}

// onTime looks at how late a start is where nothing may make it late.
func (o *oracle) onTime(r *record, g *store.Grant, c *store.Command) {
	const most = 250 * time.Millisecond
	if !o.w.plan.calm || o.w.now < 3*time.Second || g.Class != store.ClassFirst {
		return
	}
	if c.Status == store.Processing {
		if late := o.run.Sub(c.Due); late > most {
			o.fail("polls-on-time", "the poll of %s is %v late", c.ID, late)
		}
		return
	}
	if r.starts == 1 && r.sub.NotBefore == 0 && r.sub.Delay == 0 {
		if late := o.w.now - r.created; late > most {
			o.fail("polls-on-time", "%s starts %v after its submit", c.ID, late)
		}
	}
}

// tick looks at what is left undone.
func (o *oracle) tick() {
	w := o.w
	if w.over {
		return
	}
	w.after(watchEvery, o.tick)
	live := o.live()
	eligible := [2]bool{}
	for _, c := range live {
		r := o.recs[c.ID]
		ok := o.eligible(c)
		switch {
		case !ok:
			r.since = -1
			if e := c.Place == store.InLine && (c.Status == store.Pending || c.Due <= o.runNow()); e {
				eligible[c.Lane()] = true
			}
		case r.since < 0:
			r.since = w.now
			eligible[c.Lane()] = true
		default:
			eligible[c.Lane()] = true
			o.starves(c, r)
		}
		o.cancelDue(c, r)
		o.kept(c, r)
	}
	o.lateEnd(len(live))
	o.contexts()
	for l := range store.Lanes {
		if eligible[l] {
			o.silent(store.Lane(l), live)
		} else {
			o.served[l] = w.now
		}
	}
}

// runNow is the run clock at this moment, as a read sees it.
func (o *oracle) runNow() store.Millis { return o.run + max(0, o.w.wall()-o.last) }

// live are the commands that have not ended, as they are read.
func (o *oracle) live() []*store.Command {
	var ids []string
	for _, id := range o.ids {
		if r := o.recs[id]; r.exists && !r.status.Terminal() {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	o.w.setClock()
	var live []*store.Command
	for piece := range slices.Chunk(ids, store.MaxItems) {
		cs, err := o.w.mem.Get(context.Background(), piece, store.GetOptions{NoBlobs: true})
		if err != nil {
			o.fail("audit", "get: %v", err)
			return nil
		}
		for i, c := range cs {
			r := o.recs[piece[i]]
			switch {
			case c == nil && r.sub.Retention >= 0:
				o.fail("nothing-lost", "%s is gone", piece[i])
			case c == nil:
				r.exists = false
			case c.Status.Terminal():
				if c.Place == store.Leased || r.lease != (store.LeaseName{}) {
					o.fail("stale-owner", "%s has ended as %s under lease %s of %s", c.ID, c.Status, r.lease, r.owner)
				}
				if o.countsStand(c) {
					o.count(r, c)
				}
				r.status = c.Status
			default:
				if (c.Lease != store.LeaseName{}) != (r.lease != store.LeaseName{}) || c.Lease != r.lease {
					o.fail("lease", "%s is leased as %s, want %s", c.ID, c.Lease, r.lease)
				}
				live = append(live, c)
			}
		}
	}
	return live
}

func (o *oracle) countsStand(c *store.Command) bool { return !c.Tombstone }

// eligible reports whether nothing but permits, rates and workers keeps a command from starting.
func (o *oracle) eligible(c *store.Command) bool {
	now := o.w.wall()
	switch {
	case c.Losses >= 2:
		return false // suspects wait for a worker of their own
	case c.Place == store.Scheduled && (c.Due > o.runNow() || c.NotBefore > now):
		return false
	case c.Place == store.InLine && c.Status == store.Processing && c.Due > o.runNow():
		return false
	case c.Place == store.Leased:
		return false
	}
	pause := o.cfg.Queue(c.Queue).Paused(now)
	return c.Status == store.Processing && c.CancelAsked != 0 || pause == store.PauseNone || pause == store.PauseIntake && c.Lane() == store.Repoll
}

// starves looks whether somebody should have started an eligible command by now.
func (o *oracle) starves(c *store.Command, r *record) {
	w := o.w
	if w.gated() {
		return
	}
	x := o.lane(c.Queue, c.Lane())
	bound := w.plan.poll*11/10 + 500*time.Millisecond + 4*w.plan.latency + 2*w.plan.lag
	from := max(r.since, o.calm, o.changed, w.seconds(o.runNow(), x.throttled, 200*time.Second))
	if rate := o.cfg.Queue(c.Queue).Rates[c.Lane()]; rate.Limit > 0 {
		from = max(from, x.granted+time.Duration(float64(rate.Burst+2)/rate.Limit*float64(time.Second)))
	}
	for _, p := range w.slots {
		if p == nil || p.stopped || p.draining || !p.idle[c.Lane()] || !slices.Contains(p.plan.queues, c.Queue) || !slices.Contains(p.plan.types, c.Type) {
			continue
		}
		if since := max(from, p.calm, p.resumed, p.idleSince[c.Lane()], p.tight[c.Lane()]); w.now-since > bound {
			o.fail("starvation", "%s (%s %s in %s) is eligible since %v, %s has a permit since %v and reaches the store since %v, and does not start it",
				c.ID, c.Type, c.Status, c.Queue, r.since, p.id, p.idleSince[c.Lane()], p.calm)
			return
		}
	}
}

// seconds is the true time at which d will have passed since a moment of the run clock.
func (w *world) seconds(now, then store.Millis, d time.Duration) time.Duration {
	return w.now + d - min(now.Sub(max(then, now-1e6)), 1000*time.Second)
}

// cancelDue looks whether a cancel has reached the handler.
func (o *oracle) cancelDue(c *store.Command, r *record) {
	w := o.w
	if r.asked == 0 || c.CancelAsked == 0 || c.Place != store.Leased {
		return
	}
	for _, x := range r.runs {
		if x.over || x.p.stopped || x.p.draining || x.inv.Class.Visit() {
			continue
		}
		for i, it := range x.inv.Items {
			if answered := it.Answered() != 0; answered || x.leases[i] != c.Lease || x.causes[i] != nil || x.cause != nil {
				continue
			}
			v := max(r.v, o.cfg.V())
			since := max(r.asked, x.p.calm, x.p.resumed, o.calm, x.started)
			if w.now-since > v/4+v/8+time.Second {
				o.fail("cancel-ends", "%s was to be cancelled at %v, and %s runs it with a context that has not ended", c.ID, r.asked, x.p.id)
			}
		}
	}
}

// kept looks whether a worker that lives renews what it has.
func (o *oracle) kept(c *store.Command, r *record) {
	w := o.w
	if c.Place != store.Leased || r.refused > 2 || c.Deadline != 0 && w.wall() > c.Deadline {
		return
	}
	for _, p := range w.slots {
		if p == nil || p.id != r.owner || p.stopped || p.late {
			continue
		}
		if since := max(r.renewed, p.faulted, p.resumed, o.calm, o.changed); w.now-since > max(r.v, o.cfg.V())*3/8+time.Second {
			o.fail("lease", "%s: %s lives and has not renewed its lease %s since %v", c.ID, p.id, c.Lease, r.renewed)
		}
	}
}

// lateEnd looks whether the store keeps commands as live that time has ended, and whether somebody does upkeep.
func (o *oracle) lateEnd(live int) {
	w := o.w
	for _, p := range w.slots {
		if p == nil || p.stopped || p.draining {
			continue
		}
		if since := max(o.upkeep, p.calm, p.resumed, o.calm); w.now-since > 2500*time.Millisecond {
			o.fail("deadline", "%s reaches the store, and nobody has done upkeep since %v", p.id, o.upkeep)
		}
	}
	st, err := w.mem.Stats(context.Background(), store.StatsRequest{Overview: true})
	if err != nil {
		o.fail("audit", "stats: %v", err)
		return
	}
	n := 0
	for _, q := range st.Queues {
		n += q.Scheduled
		for _, l := range q.Lanes {
			n += l.InLine + l.Leased
		}
	}
	late := map[string]time.Duration{}
	if n > live {
		for _, id := range o.unended() {
			since, known := o.late[id]
			if !known {
				since = w.now
			}
			late[id] = since
			if o.upkeep > since {
				o.fail("deadline", "%s is kept as live though time had ended it by %v, and upkeep was done at %v", id, since, o.upkeep)
			}
		}
	}
	o.late = late
}

// unended are the ids of the commands that read as ended and are kept as live.
func (o *oracle) unended() []string {
	var ids []string
	for _, q := range o.w.plan.queues {
		for _, status := range []store.Status{store.Pending, store.Processing} {
			page, err := o.w.mem.List(context.Background(), store.ListRequest{Filter: store.Filter{Queue: q, Status: status}, Limit: store.MaxItems})
			if err != nil {
				o.fail("audit", "list: %v", err)
			}
			for _, c := range page.Commands {
				if c.Status.Terminal() {
					ids = append(ids, c.ID)
				}
			}
		}
	}
	return ids
}

// contexts looks at deadlines of what runs.
func (o *oracle) contexts() {
	w := o.w
	for _, p := range w.slots {
		if p == nil || p.stopped {
			continue
		}
		for _, x := range p.runs {
			for i, it := range x.inv.Items {
				d := it.Cmd.Deadline
				if answered := it.Answered() != 0; answered || d == 0 || x.inv.Class.Visit() || x.causes[i] != nil || x.cause != nil {
					continue
				}
				if p.resumed > 0 || w.offset != 0 || o.calm > 0 {
					continue // the worker counts on its own clock
				}
				if late := w.wall().Sub(d); late > time.Second+max(w.plan.v, o.recs[it.Cmd.ID].v)/4 { // an answer may have been so long on its way
					o.fail("deadline", "%s runs %s %v after its deadline with a context that has not ended", p.id, it.Cmd.ID, late)
				}
			}
		}
	}
}

// othersHave reports whether a worker that is or was registered within d takes c, so that it is or was for that one to say why it does not start.
func (o *oracle) othersHave(c *store.Command, d time.Duration) bool {
	return slices.ContainsFunc(o.w.slots, func(p *proc) bool {
		return p != nil && o.beats[p.id].Add(d) > o.lease && slices.Contains(p.plan.queues, c.Queue) && slices.Contains(p.plan.types, c.Type)
	})
}

// silent looks whether a lane stands still without a word.
func (o *oracle) silent(l store.Lane, live []*store.Command) {
	w := o.w
	if w.gated() { // the tide changes before anybody has to be warned
		return
	}
	const starvedAfter = 5
	bound := 4*starvedAfter*w.plan.poll + 6*time.Second
	for _, p := range w.slots {
		if p == nil || p.stopped || p.draining || p.starving[l] {
			continue
		}
		if w.now-max(o.served[l], p.calm, p.resumed, o.calm, p.born) <= bound {
			continue
		}
		for _, c := range live {
			if c.Lane() == l && slices.Contains(p.plan.queues, c.Queue) && (slices.Contains(p.plan.types, c.Type) || !o.othersHave(c, bound)) && c.Place == store.InLine && (c.Status == store.Pending || c.Due < o.runNow()-store.Millis(bound.Milliseconds())) &&
				w.now-o.recs[c.ID].created > bound && o.run.Sub(o.run-store.Millis(bound.Milliseconds())) > 0 && o.waited(c) > bound {
				o.fail("silent", "%s: nothing starts in lane %s since %v, %s waits, and no word of it; suspects: %v", p.id, l, o.served[l], c.ID, c.Losses)
				return
			}
		}
	}
}

// waited is how long a command in line has been eligible.
func (o *oracle) waited(c *store.Command) time.Duration {
	if c.Status == store.Processing {
		return o.runNow().Sub(c.Due)
	}
	return o.w.wall().Sub(c.Eligible)
}

// left are the commands that have not ended.
func (o *oracle) left() (ids []string, cs []*store.Command) {
	cs = o.live()
	for _, c := range cs {
		ids = append(ids, c.ID+" "+c.Place.String()+" "+c.Status.String())
	}
	return ids, cs
}

// final looks at every command once more.
func (o *oracle) final() {
	if left, _ := o.left(); len(left) > 0 {
		o.fail("nothing-lost", "live at the end: %q", left)
	}
	for _, id := range o.ids {
		r := o.recs[id]
		c := o.peek(id)
		switch {
		case c == nil && r.exists && o.tombstone(r) > o.w.wall():
			o.fail("nothing-lost", "%s (%s) is gone at the end", id, r.status)
		case c != nil && !r.exists:
			o.fail("contents", "%s is there and should not be", id)
		case c != nil && o.countsStand(c):
			o.count(r, c)
		}
		for _, x := range r.runs {
			if !x.over {
				o.fail("permits", "%s still runs %s at the end", x.p.id, id)
			}
		}
	}
}
