package dispatch

import (
	"errors"
	"slices"
	"time"

	"github.com/twolane/twolane/internal/mutant"
	"github.com/twolane/twolane/store"
)

var (
	errReplyLength = errors.New("the store answered for another number of items")
	errNoAnswer    = errors.New("the handler has not answered for this command")
)

const (
	settleBytes   = 4 << 20 // of results, states and errors in one call
	noAnswerDelay = time.Second

	// Outcomes wait at most this long for others that should come any moment, those of handlers that have just begun.
	settleLinger = time.Millisecond
	settleEnough = 100 // outcomes do not wait

	// An outcome that nobody waits for goes with the next claim, if there is one in this time. What it waited is taken off the pause that it asks
	// for, which is at least patientDelay.
	patientLinger = 20 * time.Millisecond
	patientDelay  = time.Second
)

// settler gathers outcomes while the settle before is in flight, and repeats it until it is answered.
type settler struct {
	pending []*Item
	patient int           // how many of them nobody waits for
	since   time.Duration // since when something is pending, as seen; 0 is not yet
	call    *SettleCall   // in flight
	spare   *SettleCall
	bad     backoff
	single  int // how many settlements to send one by one, since the store refused a whole call
	flight  int // items in flight
}

func (s *settler) wake(c *Core) time.Duration {
	if s.call != nil || len(s.pending) == 0 {
		return 0
	}
	return max(1, s.bad.after, c.lingerEnd())
}

// lingerEnd is until when outcomes wait for others; 0 if they do not.
func (c *Core) lingerEnd() time.Duration {
	s := &c.settle
	if len(s.pending) >= settleEnough || c.drain.on {
		return 0
	}
	if s.patient == len(s.pending) {
		return s.since + patientLinger
	}
	if len(c.live) == 0 {
		return 0
	}
	return min(s.since, c.began) + settleLinger
}

// isPatient reports whether nobody waits for the outcome of it: a poll has found that its command goes on for a while, and that it holds nothing
// which others could have.
func (it *Item) isPatient() bool {
	s := &it.out
	return s.Kind == store.OutcomeProcessing && s.Delay >= patientDelay && it.Cmd.Status == store.Processing && len(it.Cmd.Holds) == 0 && !it.again
}

// unsettled is how many outcomes the store has not confirmed.
func (s *settler) unsettled() int { return len(s.pending) + s.flight }

// maxUnsettled bounds them: beyond it nothing new is claimed.
func (c *Core) maxUnsettled() int { return max(2000, 4*(c.cfg.Permits[0]+c.cfg.Permits[1])) }

// finish turns the answer of an item into what is offered to the store.
func (c *Core) finish(now time.Duration, it *Item) {
	s := &it.out
	it.ended = now
	if it.answered.CompareAndSwap(0, hasAnswer) { // what it may say later is not heard
		*s = store.Settlement{ID: it.Cmd.ID, Lease: it.Cmd.Lease, Kind: store.OutcomeRetry, Error: errNoAnswer.Error(), Delay: noAnswerDelay}
	}
	switch s.Kind {
	case store.OutcomeRetry, store.OutcomeCancelRetry:
		// An error because the worker drains or lost the lease is nobody's failure.
		if it.lost || it.cause == ErrDraining {
			*s = store.Settlement{ID: s.ID, Lease: s.Lease, Kind: store.OutcomeGiveBack, Error: s.Error}
		}
	case store.OutcomeThrottled:
		s.Observed = c.starts[c.types[it.Inv.Type.Name]].perSecond(now) * float64(c.workers)
	}
	if it.progress.Load() != nil && !it.lost && lives(s.Kind) {
		it.phase = flushing
		c.soon(it)
		return
	}
	c.enqueue(it)
}

// lives reports whether the command may go on after the outcome, so that its progress is worth sending.
func lives(k store.OutcomeKind) bool {
	switch k {
	case store.OutcomeProcessing, store.OutcomeRetry, store.OutcomeSnooze, store.OutcomeThrottled, store.OutcomeGiveBack:
		return true
	}
	return false
}

func (c *Core) enqueue(it *Item) {
	it.phase = settling
	if it.patient = it.isPatient(); it.patient {
		c.settle.patient++
	}
	c.settle.pending = append(c.settle.pending, it)
}

// stepSettle sends what has gathered; along with a claim also what would wait for one.
func (c *Core) stepSettle(now time.Duration, along bool) {
	s := &c.settle
	if s.call != nil || len(s.pending) == 0 {
		return
	}
	if s.since == 0 {
		s.since = now
	}
	if now < s.bad.after || now < c.lingerEnd() && !(along && s.patient == len(s.pending)) {
		return
	}
	s.since = 0
	call := s.spare
	if s.spare = nil; call == nil {
		call = &SettleCall{}
		call.Req.Worker = c.cfg.Worker.ID
	}
	call.Timeout = callTimeout(c.v)
	most, bytes := store.MaxItems, 0
	if s.single > 0 {
		most = 1
		s.single--
	}
	for _, it := range s.pending {
		st := &it.out
		n := len(st.Error) + len(st.Result) + len(st.State)
		for i := range st.FollowUps {
			n += len(st.FollowUps[i].Params) + 256
		}
		if len(call.items) == most || len(call.items) > 0 && bytes+n > settleBytes {
			break
		}
		bytes += n
		if it.patient {
			it.patient = false
			s.patient--
			st.Delay -= now - it.ended
		}
		st.Again = it.again
		call.items = append(call.items, it)
		call.Req.Items = append(call.Req.Items, *st)
	}
	n := copy(s.pending, s.pending[len(call.items):])
	clear(s.pending[n:])
	s.pending = s.pending[:n]
	s.call, s.flight = call, len(call.items)
	c.out.Settle = call
}

// callTimeout bounds one try of a claim or settle.
func callTimeout(v time.Duration) time.Duration {
	return min(max(v/2, 250*time.Millisecond), 10*time.Second)
}

// Settled takes the answer to a settle.
func (c *Core) Settled(now time.Duration, call *SettleCall, results []store.SettleResult, err error) {
	s := &c.settle
	s.call, s.flight = nil, 0
	if err == nil && len(results) != len(call.items) {
		err = errReplyLength
	}
	switch {
	case err != nil && errors.Is(err, store.ErrInvalid) && len(call.items) == 1:
		c.refused(call.items[0], err)
	case err != nil:
		if errors.Is(err, store.ErrInvalid) { // one of them is: find it
			s.single = len(call.items)
		} else {
			c.failed(now, &s.bad, "settle", err)
			for _, it := range call.items {
				it.again = true
				if mutant.On(mutant.LostReplyIsFailure) {
					it.out.Kind = store.OutcomeRetry
				}
			}
		}
		s.pending = slices.Concat(call.items, s.pending) // a copy: the call is used again
	default:
		c.worked(now, &s.bad, "settle")
		for i, it := range call.items {
			c.settled(now, it, &results[i])
		}
	}
	clear(call.items)
	clear(call.Req.Items)
	call.items, call.Req.Items = call.items[:0], call.Req.Items[:0]
	s.spare = call
}

// settled is the answer for one lease.
func (c *Core) settled(now time.Duration, it *Item, res *store.SettleResult) {
	st := &it.out
	if res.Err != nil {
		c.refused(it, res.Err)
		return
	}
	c.close(it, res.State)
	c.event(Event{Kind: Finished, Lane: it.Inv.Lane, Queue: it.Inv.Queue, Type: it.Inv.Type.Name, Outcome: st.Kind, State: res.State, Status: res.Status, Item: it, Inv: it.Inv})
	if res.State == store.SettleDone && !res.Status.Terminal() && st.Kind != store.OutcomeAbandon {
		c.claim.dueIn(now, st.Delay) // nobody else may be looking when it falls due
	}
	if len(st.FollowUps) > 0 {
		c.claim.dueIn(now, 0)
	}
}

// close forgets an item whose end is known.
func (c *Core) close(it *Item, state store.SettleState) {
	it.phase = settled
	c.drop(it)
	c.open--
	c.drain.count(it, state)
}

// refused replaces a settlement that the store does not accept: by an error that the user sees, then by a give-back; after that the lease is
// left to its end.
func (c *Core) refused(it *Item, err error) {
	c.event(Event{Kind: Refused, Item: it, Inv: it.Inv, Lane: it.Inv.Lane, Type: it.Inv.Type.Name, Queue: it.Inv.Queue, Err: err})
	it.refused++
	s := store.Settlement{ID: it.Cmd.ID, Lease: it.Cmd.Lease}
	switch it.refused {
	case 1:
		text := "the outcome was refused: " + err.Error()
		s.Kind, s.Error, s.Delay = store.OutcomeRetry, text[:min(len(text), 4<<10)], 30*time.Second
	case 2:
		s.Kind, s.Delay = store.OutcomeGiveBack, 30*time.Second
	default:
		c.close(it, store.SettleLost)
		return
	}
	it.out = s
	c.enqueue(it)
}
