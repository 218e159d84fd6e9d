package rule

import (
	"time"

	"github.com/twolane/twolane/internal/mutant"
	"github.com/twolane/twolane/store"
)

// Grant leases a claimable command.
func Grant(now Now, c *store.Command, name store.LeaseName, worker string, v time.Duration) {
	c.Place, c.Lease, c.Owner = store.Leased, name, worker
	c.LeasedAt, c.LeaseUntil = now.Lease, now.Lease.Add(v)
	switch {
	case mutant.On(mutant.ZeroVisibility):
		c.LeaseUntil = now.Lease
	case mutant.On(mutant.PopBeforeLease):
		c.LeaseUntil = maxTime
	}
	c.Starts++
}

// holds reports whether name is the whole name of the current lease of c.
func holds(c *store.Command, name store.LeaseName) bool {
	switch {
	case c == nil || c.Place != store.Leased:
		return false
	case mutant.On(mutant.SkipLeaseCompare):
		return true
	case mutant.On(mutant.TokenWithoutNonce):
		return c.Lease.Token == name.Token
	}
	return c.Lease == name
}

// Renew extends the lease of c, and never shortens it, if the item names the current one, and keeps what the item says about the invocation.
func Renew(now Now, c *store.Command, item *store.RenewItem, v time.Duration) store.RenewResult {
	if !holds(c, item.Lease) {
		return store.RenewResult{State: store.RenewLost}
	}
	if item.Progress != nil {
		c.Progress = item.Progress
	}
	if item.Overdue && !c.Overdue {
		event(now, c, store.EventOverdue, c.Owner, "")
	}
	c.Overdue = item.Overdue
	r := store.RenewResult{State: store.RenewOK, Cancel: c.CancelAsked != 0}
	if c.Deadline != 0 && now.Wall >= c.Deadline.Add(store.DeadlineGrace) {
		r.State = store.RenewRefused
		return r
	}
	c.LeaseUntil = max(c.LeaseUntil, now.Lease.Add(v)) // V may have been lowered, and the owner may never see this answer
	return r
}

// Expired reports whether the reaper may end the lease of c.
func Expired(now Now, c *store.Command) bool {
	return c.Place == store.Leased && c.LeaseUntil <= now.Lease
}

// Doubt is until when the reaper leaves an expired lease alone, zero if it need not. The heartbeat of the owner runs until beat. An owner that gave
// a sign within the last half of a timeout and did not renew the lease has never learnt of it. One that has been silent for longer may have
// died with the command in its hands, just after a sign that it sent before it knew of the lease: only the next sign, or the end of the heartbeat,
// tells. That end is at most one timeout after the death, so work resumes no later for it.
func Doubt(now Now, beat store.Millis, v time.Duration) store.Millis {
	if beat <= now.Lease || beat > now.Lease.Add(v/2) || mutant.On(mutant.LossThoughOwnerLives) {
		return 0
	}
	return beat
}

// Reap ends an expired lease. It is a loss only if the heartbeat of its owner has expired too.
func Reap(now Now, c *store.Command, ownerLives bool, q store.QueueConfig, v time.Duration) {
	c.Unknown = true
	if ownerLives && !mutant.On(mutant.LossThoughOwnerLives) {
		unlease(c)
		event(now, c, store.EventClaimLost, c.Owner, "")
		rest(now, c, q)
	} else {
		lose(now, c, min(now.Lease, c.LeaseUntil), q, v, "") // it may be long before anybody is there to reap it
	}
	c.Owner = ""
}

// lose counts a loss of the worker that had the lease until till, and ends the lease.
func lose(now Now, c *store.Command, till store.Millis, q store.QueueConfig, v time.Duration, text string) {
	held := till.Sub(c.LeasedAt)
	token := c.Lease.Token
	c.Unknown = true
	if unlease(c); mutant.On(mutant.LostWorkerGivesBack) {
		leave(c, true)
	}
	if held > 2*v { // it lived well: the row starts anew
		c.Losses = 1
	} else {
		c.Losses++
	}
	event(now, c, store.EventLost, c.Owner, text)
	if c.Losses >= q.MaxLosses && c.CancelAsked != 0 {
		c.CancelUntil = now.Wall // no further visit
		cancelAtRest(now, c, q)
		return
	}
	if c.Losses >= q.MaxLosses {
		if c.Error == "" {
			c.Error = "its worker was lost too often in a row"
		}
		end(now, c, q, store.Failed, store.ReasonWorkerLost)
		return
	}
	if rest(now, c, q); c.Status.Terminal() {
		return
	}
	wait(now, c, LossPause(c.Losses, token))
}

// LossPause is how long a command waits after its n-th loss in a row: nothing after the first, then 5 s times three for each more, at most
// 5 minutes, of which the token of the lost lease decides the upper half.
func LossPause(n int, token uint64) time.Duration {
	if n < 2 {
		return 0
	}
	d := 5 * time.Second
	for i := 2; i < n && d < 5*time.Minute; i++ {
		d *= 3
	}
	d = min(d, 5*time.Minute)
	frac := token % 65536 * 40503 % 65536 // Knuth's multiplicative hash: the same in Go, SQL and Lua
	return d/2 + d/2*time.Duration(frac)/65536
}

// unlease takes the lease away; the command is then nowhere until rest or wait puts it back.
func unlease(c *store.Command) {
	c.Lease, c.LeasedAt, c.LeaseUntil, c.Overdue, c.Place = store.LeaseName{}, 0, 0, false, store.InLine
	leave(c, false)
}

// rest puts a command that has no lease any more back where it was: in line at its old place. One that was to be cancelled or is past its
// deadline ends, or is due for its cancel visit.
func rest(now Now, c *store.Command, q store.QueueConfig) {
	c.Place = store.InLine
	switch {
	case c.CancelAsked != 0:
		cancelAtRest(now, c, q)
	case Ended(now, c):
		Expire(now, c, q)
	case c.Status == store.Pending:
		c.Eligible = now.Wall
	}
}

// wait lets a command at rest wait for d on the run clock.
func wait(now Now, c *store.Command, d time.Duration) {
	if d <= 0 {
		return
	}
	c.Due = now.Run.Add(d)
	if c.Status == store.Pending {
		c.Place, c.Eligible = store.Scheduled, 0
	}
}
