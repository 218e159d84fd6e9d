package inference

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/inference/config"
)

// A quota that classifies lets everybody in and says only at the claim who is over it. A request that is found to be over its tenant's quota is put into the
// overflow lane of its tier, once, and is sent from there.

// lane is the lane that a request stands in, with the policy of lanes, else -1.
func (a *attempt) lane() int {
	if a.p.cfg.Dispatch.Policy != config.TierPriority {
		return -1
	}
	return slices.IndexFunc(a.p.lanes(), func(i int) bool { return queueName(a.o.id, i) == a.job.Queue() })
}

// misplaced says whether the request belongs into an overflow lane, and which.
func (a *attempt) misplaced() (lane int, is bool) {
	lane = a.lane()
	if lane < 0 || lane > 2 || !a.q.classifies || a.job.Metadata()[metaClass] != "" || !a.job.Overflow() {
		return 0, false
	}
	return lane + 3, true
}

// mover puts requests into other queues as soon as their leases have ended.
type mover struct {
	client *twolane.Client
	in     chan move
}

type move struct {
	id, queue string
	till      time.Time
}

func newMover(c *twolane.Client) *mover { return &mover{client: c, in: make(chan move, 4096)} }

// move never blocks. What does not fit is moved when it is claimed again.
func (m *mover) move(id, queue string) {
	select {
	case m.in <- move{id, queue, time.Now().Add(5 * time.Second)}:
	default:
	}
}

// run moves until ctx ends.
func (m *mover) run(ctx context.Context) {
	var waiting []move
	for {
		if len(waiting) == 0 {
			select {
			case <-ctx.Done():
				return
			case x := <-m.in:
				waiting = append(waiting, x)
			}
		} else if !pause(ctx, 10*time.Millisecond) {
			return
		}
		for len(waiting) < 500 && len(m.in) > 0 {
			waiting = append(waiting, <-m.in)
		}
		waiting = m.step(ctx, waiting)
	}
}

// step moves what can be moved and returns what is still leased.
func (m *mover) step(ctx context.Context, all []move) (left []move) {
	byQueue := map[string][]move{}
	for _, x := range all {
		byQueue[x.queue] = append(byQueue[x.queue], x)
	}
	for queue, xs := range byQueue {
		ids := make([]string, len(xs))
		for i, x := range xs {
			ids[i] = x.id
		}
		res, err := m.client.Move(ctx, twolane.IDs(ids...), queue, nil)
		for i, x := range xs {
			again := err != nil || i < len(res.Results) && errors.Is(res.Results[i], twolane.ErrState)
			if again && time.Now().Before(x.till) {
				left = append(left, x)
			}
		}
	}
	return left
}
