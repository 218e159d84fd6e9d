package sim

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/twolane/twolane/store"
)

// oracle keeps books of its own about every command and compares them with what the store answers.
type oracle struct {
	w    *world
	ids  []string // in the order of their creation
	recs map[string]*record

	last, run, lease store.Millis // the three clocks
	token            uint64
	nonces           map[string]string       // of each worker's last claim
	gone             map[string]bool         // workers that have taken themselves off
	beats            map[string]store.Millis // lease clock at which a worker's registration ends
	lanes            map[string]*lane        // by queue and lane
	cfg              store.Config
	changed          time.Duration            // when it was last configured
	upkeep           time.Duration            // when somebody last did upkeep
	calm             time.Duration            // no outage and no step of the clock since
	late             map[string]time.Duration // commands that read as ended and are kept as live, and since when
	served           [2]time.Duration
}

// record is what the oracle knows of one command.
type record struct {
	sub     store.Submission
	exists  bool
	acked   bool
	dropped bool // deleted by a user
	created time.Duration

	lease   store.LeaseName // current; zero if not leased
	owner   string
	until   store.Millis  // lease clock
	taken   store.Millis  // lease clock of the claim
	v       time.Duration // of the claim or the last renewal
	renewed time.Duration

	status                          store.Status
	starts, failures, losses, polls int
	state                           []byte
	settled                         store.LeaseName
	settledAt, latest               store.Millis  // server time of that, and the highest since
	refused                         int           // settlements of this lease
	broken                          time.Duration // when a user last broke a lease
	asked                           time.Duration // when a user's cancel was taken; 0 if none stands
	since                           time.Duration // eligible since; -1 if it is not
	runs                            []*run        // handlers at work for it
}

func newOracle(w *world) *oracle {
	return &oracle{w: w, recs: map[string]*record{}, nonces: map[string]string{}, gone: map[string]bool{}, beats: map[string]store.Millis{}, lanes: map[string]*lane{}, last: w.wall(), run: w.wall(), lease: w.wall()}
}

func (o *oracle) fail(invariant, format string, a ...any) { o.w.fail(invariant, format, a...) }

func (o *oracle) disturb(until time.Duration) { o.calm = max(o.calm, until) }

// unread forgets what was read as ended by a time that is to come again.
func (o *oracle) unread() {
	o.late = nil
	for _, id := range o.ids {
		if r := o.recs[id]; r.exists && r.status.Terminal() {
			if c := o.peek(id); c != nil {
				r.status = c.Status
			}
		}
	}
}

// advance moves the clocks as a Claim, Renew or Maintain does.
func (o *oracle) advance() {
	now := o.w.wall()
	d := max(0, now-o.last)
	o.last = now
	o.run += d
	o.lease += min(d, store.Millis(o.cfg.V().Milliseconds())/4)
	o.upkeep = o.w.now
	for _, r := range o.recs {
		r.latest = max(r.latest, now)
	}
}

func (o *oracle) peek(id string) *store.Command {
	cs, err := o.w.mem.Get(context.Background(), []string{id}, store.GetOptions{})
	if err != nil {
		o.fail("audit", "get %s: %v", id, err)
		return nil
	}
	return cs[0]
}

func (o *oracle) rec(s *store.Submission) *record {
	r := o.recs[s.ID]
	if r == nil {
		r = &record{since: -1}
		o.recs[s.ID] = r
		o.ids = append(o.ids, s.ID)
	}
	return r
}

// submitted takes the answer of the store to a submit.
func (o *oracle) submitted(items []store.Submission, res []store.SubmitResult, err error) {
	if err != nil {
		return
	}
	for i := range items {
		o.entered(&items[i], &res[i])
	}
}

func (o *oracle) entered(s *store.Submission, res *store.SubmitResult) {
	r := o.rec(s)
	switch {
	case res.Created && r.exists && o.w.wall() < o.tombstone(r):
		o.fail("contents", "%s was created twice", s.ID)
	case res.Err == nil && !res.Created && !r.exists:
		o.fail("nothing-lost", "%s is said to be known, but it never was", s.ID)
	case res.Created:
		runs := r.runs
		*r = record{sub: *s, exists: true, created: o.w.now, status: store.Pending, since: -1, runs: runs, broken: r.broken, acked: r.acked}
		o.w.log("store has %s %s/%s", s.ID, s.Queue, s.Type)
	}
}

// tombstone is when the store may have forgotten an ended command: never while it lives.
func (o *oracle) tombstone(r *record) store.Millis {
	if r.sub.Retention < 0 && r.status.Terminal() {
		return 0
	}
	return 1 << 62
}

// forgotten reports whether the store has rightly forgotten an ended command, and with it who settled it last.
func (o *oracle) forgotten(id string, r *record) bool {
	return r.sub.Retention < 0 && r.status.Terminal() && r.latest.Sub(r.settledAt) >= store.TombstoneFor && o.peek(id) == nil
}

// acknowledged is what the client has been told.
func (o *oracle) acknowledged(items []store.Submission, res []store.SubmitResult) {
	for i := range items {
		if r := o.recs[items[i].ID]; res[i].Err == nil {
			if r == nil || !r.exists && !r.dropped {
				o.fail("nothing-lost", "%s was acknowledged and is not there", items[i].ID)
				return
			}
			r.acked = true
		}
	}
}

// claimed takes the answer of the store to a claim.
func (o *oracle) claimed(p *proc, req *store.ClaimRequest, rep *store.ClaimReply, err error) {
	if err != nil {
		return
	}
	o.advance()
	o.maintenance(p.id, &rep.MaintainReply)
	if o.gone[p.id] {
		if len(rep.Grants) > 0 {
			o.fail("lease", "%s is granted %s and has gone", p.id, rep.Grants[0].Items[0].ID)
		}
		return
	}
	repeated := o.nonces[p.id] == req.Nonce
	o.nonces[p.id] = req.Nonce
	var got [2]int
	for _, g := range rep.Grants {
		fresh := false
		for _, c := range g.Items {
			fresh = o.granted(p, req, &g, c) || fresh
		}
		if fresh && repeated {
			o.fail("lease", "%s repeated its claim %s and was granted %s anew", p.id, req.Nonce, g.Items[0].ID)
		}
		if fresh {
			got[g.Lane]++
			o.tokens(g.Items[0], g.Class)
		}
		if n := len(g.Items); n > 1 && (n > o.w.plan.batch || g.Items[0].Type != "batch" || g.Class.Suspect()) {
			o.fail("permits", "%d commands of type %s in one grant", n, g.Items[0].Type)
		}
	}
	for l := range got {
		if got[l] > req.Free[l] {
			o.fail("permits", "%s was granted %d in lane %d and asked for %d", p.id, got[l], l, req.Free[l])
		}
	}
}

// granted takes one command of a grant and says whether its lease is new.
func (o *oracle) granted(p *proc, req *store.ClaimRequest, g *store.Grant, c *store.Command) bool {
	r := o.recs[c.ID]
	if r == nil || !r.exists {
		o.fail("nothing-lost", "%s was granted and is not known", c.ID)
		return false
	}
	if r.lease == c.Lease && r.owner == p.id {
		if c.Lease.Nonce != req.Nonce {
			o.fail("one-live", "%s was granted again as %s in a claim of nonce %s", c.ID, c.Lease, req.Nonce)
		}
		return false // the claim was repeated
	}
	o.w.log("store grants %s %s to %s as %s", c.ID, g.Class, p.id, c.Lease)
	switch {
	case r.lease != store.LeaseName{}:
		o.fail("one-live", "%s was granted to %s as %s and is leased to %s as %s", c.ID, p.id, c.Lease, r.owner, r.lease)
	case c.Lease.Token <= o.token:
		o.fail("lease", "token %d comes after %d", c.Lease.Token, o.token)
	case r.status.Terminal():
		o.fail("stale-owner", "%s was granted and had ended as %s", c.ID, r.status)
	case g.Lane != lanes[c.Status == store.Processing]:
		o.fail("permits", "%s is %s and was granted in lane %s", c.ID, c.Status, g.Lane)
	case !slices.Contains(p.plan.types, c.Type) || !slices.Contains(p.plan.queues, c.Queue):
		o.fail("permits", "%s of type %s in %s was granted to %s, which does not serve it", c.ID, c.Type, c.Queue, p.id)
	case !bytes.Equal(c.Params, r.sub.Params) || !bytes.Equal(c.State, r.state):
		o.fail("contents", "%s comes with params %q state %q, want %q and %q", c.ID, c.Params, c.State, r.sub.Params, r.state)
	case c.Deadline != 0 && o.last >= c.Deadline && !g.Class.Visit():
		o.fail("deadline", "%s was granted after its deadline", c.ID)
	}
	r.starts++
	o.count(r, c)
	o.onTime(r, g, c)
	o.token = c.Lease.Token
	r.lease, r.owner, r.taken, r.until, r.renewed = c.Lease, p.id, o.lease, o.lease.Add(o.cfg.V()), o.w.now
	r.status, r.since, r.refused, r.v = c.Status, -1, 0, o.cfg.V()
	return true
}

var lanes = map[bool]store.Lane{false: store.Intake, true: store.Repoll}

// count compares the counters.
func (o *oracle) count(r *record, c *store.Command) {
	if c.Starts != r.starts || c.Failures != r.failures || c.Losses != r.losses || c.Polls != r.polls {
		o.fail("counters", "%s has starts %d failures %d losses %d polls %d, want %d %d %d %d",
			c.ID, c.Starts, c.Failures, c.Losses, c.Polls, r.starts, r.failures, r.losses, r.polls)
	}
}

// renewed takes the answer of the store to a heartbeat.
func (o *oracle) renewed(p *proc, req *store.RenewRequest, rep *store.RenewReply, err error) {
	if err != nil {
		return
	}
	o.advance()
	if o.gone[req.Worker.ID] = req.Gone; req.Gone {
		delete(o.beats, req.Worker.ID)
	} else {
		o.beats[req.Worker.ID] = o.lease.Add(o.cfg.V())
	}
	for i, it := range req.Leases {
		r := o.recs[it.ID]
		current := r != nil && r.exists && r.lease == it.Lease
		switch state := rep.Results[i].State; {
		case current == (state == store.RenewLost):
			o.fail("lease", "%s: renewal of %s by %s answers %d, but the lease is %s of %s", it.ID, it.Lease, p.id, state, r.lease, r.owner)
		case state == store.RenewOK:
			if until := o.lease.Add(o.cfg.V()); until > r.until {
				r.until = until
			}
			r.v = o.cfg.V() // the owner counts from this renewal, though a longer lease is not cut
			r.renewed = o.w.now
		case state == store.RenewRefused && r.sub.Deadline == 0:
			o.fail("lease", "%s: renewal refused, and it has no deadline", it.ID)
		}
	}
	o.maintenance(p.id, &rep.MaintainReply)
}

// maintained takes the answer to a call of Maintain.
func (o *oracle) maintained(by string, rep *store.MaintainReply, err error) {
	if err != nil {
		return
	}
	o.advance()
	o.maintenance(by, rep)
}

// maintenance finds what was reaped.
func (o *oracle) maintenance(by string, rep *store.MaintainReply) {
	reaped, lost := 0, 0
	for _, id := range o.ids {
		r := o.recs[id]
		if r.lease != (store.LeaseName{}) && o.lease > r.until-store.Millis(r.v.Milliseconds()/8) {
			o.fenced(id, r)
		}
		if r.lease == (store.LeaseName{}) || r.until > o.lease && rep.Reaped == 0 {
			continue
		}
		c := o.peek(id)
		if c != nil && c.Lease == r.lease {
			if beat := o.beats[r.owner]; r.until <= o.lease && o.doubt(beat) && c.LeaseUntil == beat {
				r.until = beat // nobody can tell yet whether its owner has died
			}
			if r.until <= o.lease && !rep.More {
				o.fail("lease", "%s: lease %s of %s ended at %d and was not reaped at %d", id, r.lease, r.owner, r.until, o.lease)
			}
			continue
		}
		reaped++
		if o.reaped(by, id, r, c) {
			lost++
		}
	}
	if reaped != rep.Reaped || lost != rep.Lost {
		o.fail("lease", "%d reaped, %d of them losses; the store says %d and %d", reaped, lost, rep.Reaped, rep.Lost)
	}
}

// reaped takes note of a lease that the reaper has ended, and says whether that was a loss of a worker.
func (o *oracle) reaped(by, id string, r *record, c *store.Command) bool {
	o.w.log("%s reaps %s of %s, lease %s", by, id, r.owner, r.lease)
	if r.until > o.lease {
		o.fail("lease", "%s: lease %s of %s was reaped %v before its end", id, r.lease, r.owner, r.until.Sub(o.lease))
	}
	if o.doubt(o.beats[r.owner]) {
		o.fail("lease", "%s: lease %s was reaped while nobody can tell whether %s has died", id, r.lease, r.owner)
	}
	loss := o.beats[r.owner] <= o.lease
	if loss {
		r.lose(o, min(o.lease, r.until))
	}
	o.unlease(r)
	if c != nil {
		if r.status = c.Status; c.Place != store.Leased {
			o.count(r, c)
		}
	}
	return loss
}

// doubt reports whether a heartbeat that runs until beat is neither dead nor recent.
func (o *oracle) doubt(beat store.Millis) bool {
	return beat > o.lease && beat <= o.lease.Add(o.cfg.V()/2)
}

func (r *record) lose(o *oracle, lease store.Millis) {
	if lease.Sub(r.taken) > 2*o.cfg.V() {
		r.losses = 0
	}
	r.losses++
}

func (o *oracle) unlease(r *record) { r.lease, r.owner, r.since = store.LeaseName{}, "", -1 }

func (o *oracle) configured(cfg *store.Config) {
	o.cfg, o.changed = *cfg, o.w.now
	for _, q := range o.w.plan.queues {
		for l := range store.Lanes {
			o.lane(q, store.Lane(l)).level = 0
		}
	}
}
