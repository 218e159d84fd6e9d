package dispatch

import (
	"slices"
	"time"

	"github.com/twolane/twolane/store"
)

// sharer splits the free permits of a lane between queues.
//
// Round-robin and weighted shares are start-time fair queueing: each queue has a virtual time that grows by 1/weight with each
// invocation it was granted, and the smallest one is next. A queue that was idle starts at the clock, so it saves nothing up.
type sharer struct {
	cfg    *Config
	names  map[string]int
	held   [2][]int     // by lane and queue: permits
	vt     [2][]float64 // virtual times
	clock  [2]float64
	turns  []int // intake invocations a queue was granted, by queue
	report [2][]queueReport
	// reserveNext makes the next claim of the lane ask for reserved permits alone. A claim asks either for what all queues may
	// take or for what is reserved, because Free bounds only their sum.
	reserveNext [2]bool
	claim       int // claims answered
	idle        bool
	order       []int
	shares      []int
	wantQueue   []int
}

// queueReport is how a queue's last want was served.
type queueReport struct {
	store.WantReport
	claim int // number of the claim
}

func (s *sharer) init(cfg *Config) {
	s.cfg, s.names = cfg, map[string]int{}
	n := len(cfg.Queues)
	for i, q := range cfg.Queues {
		s.names[q.Name] = i
	}
	for l := range s.held {
		s.held[l], s.vt[l], s.report[l] = make([]int, n), make([]float64, n), make([]queueReport, n)
	}
	s.turns, s.shares = make([]int, n), make([]int, n)
}

func (s *sharer) index(queue string) int {
	if i, ok := s.names[queue]; ok {
		return i
	}
	return -1
}

func (s *sharer) enter(_ *Core, inv *Invocation) { s.held[inv.Lane][s.names[inv.Queue]]++ }

func (s *sharer) leave(_ *Core, inv *Invocation) { s.held[inv.Lane][s.names[inv.Queue]]-- }

// owed is how many of a queue's reserved permits it does not hold.
func (s *sharer) owed(l store.Lane, q int) int { return max(0, s.cfg.Queues[q].Reserve-s.held[l][q]) }

func (s *sharer) outstanding(l store.Lane) int {
	n := 0
	for q := range s.cfg.Queues {
		n += s.owed(l, q)
	}
	return n
}

// ask fills in what a claim asks for.
func (s *sharer) ask(c *Core, call *ClaimCall) {
	req := &call.Req
	req.Ordered = s.cfg.Policy == Strict
	s.wantQueue = s.wantQueue[:0]
	for _, l := range store.Lanes {
		free := min(c.free(l), store.MaxItems/2)
		if free == 0 || len(c.want[l]) == 0 {
			continue
		}
		reserved := s.outstanding(l)
		switch {
		case reserved == 0:
			req.Free[l] = free
			s.split(c, req, l, free)
		case free <= reserved || s.reserveNext[l]:
			call.reserve[l] = true
			req.Free[l] = min(free, reserved)
			for q := range s.cfg.Queues {
				s.add(c, req, l, q, s.owed(l, q))
			}
		default:
			req.Free[l] = free - reserved
			s.split(c, req, l, req.Free[l])
		}
	}
}

// admitSuspect lets a suspect in, whichever want has the first: a claim brings one at most.
func (s *sharer) admitSuspect(c *Core, now time.Duration, call *ClaimCall) {
	if c.suspectYoung(now) {
		return
	}
	for i := range call.Req.Wants {
		call.Req.Wants[i].Suspect = true
	}
}

func (s *sharer) add(c *Core, req *store.ClaimRequest, l store.Lane, q, most int) {
	if most <= 0 {
		return
	}
	w := store.Want{Queue: s.cfg.Queues[q].Name, Lane: l, Max: most, Types: c.want[l]}
	if l == store.Intake {
		w.Turn = s.turns[q]
	}
	req.Wants = append(req.Wants, w)
	s.wantQueue = append(s.wantQueue, q)
}

// split lets all queues share free permits of a lane.
func (s *sharer) split(c *Core, req *store.ClaimRequest, l store.Lane, free int) {
	n := len(s.cfg.Queues)
	if n == 1 || s.cfg.Policy == Strict {
		for q := range n {
			s.add(c, req, l, q, free)
		}
		return
	}
	s.order = s.order[:0]
	for q := range n {
		s.order = append(s.order, q)
		s.vt[l][q] = max(s.vt[l][q], s.clock[l])
		s.shares[q] = 0
	}
	vt := s.vt[l]
	slices.SortStableFunc(s.order, func(a, b int) int {
		switch {
		case vt[a] < vt[b]:
			return -1
		case vt[a] > vt[b]:
			return 1
		}
		return a - b
	})
	next := slices.Clone(vt)
	for left, step := free, max(1, free/64); left > 0; {
		q := s.order[0]
		for _, o := range s.order {
			if next[o] < next[q] {
				q = o
			}
		}
		k := min(step, left)
		s.shares[q] += k
		left -= k
		next[q] += float64(k) / float64(s.cfg.Queues[q].Weight)
	}
	for _, q := range s.order {
		s.add(c, req, l, q, s.shares[q])
	}
	if s.idle { // nobody had anything: if somebody has now, the next claim follows at once
		for _, q := range s.order {
			if s.shares[q] == 0 {
				s.add(c, req, l, q, 1)
			}
		}
		return
	}
	for _, q := range s.order { // what others leave
		s.add(c, req, l, q, free-s.shares[q])
	}
}

// answer takes how the wants of a claim were served.
func (s *sharer) answer(c *Core, call *ClaimCall, reply *store.ClaimReply) {
	s.idle = len(reply.Grants) == 0
	s.claim++
	var low [2]float64
	var any [2]bool
	for i, w := range call.Req.Wants {
		q, l := s.names[w.Queue], w.Lane
		rep := reply.Wants[i]
		if rep.Granted == 0 {
			continue
		}
		if l == store.Intake {
			s.turns[q] += rep.Granted
		}
		if at := s.vt[l][q]; !any[l] || at < low[l] {
			low[l], any[l] = at, true
		}
	}
	for i, w := range call.Req.Wants {
		q, l := s.names[w.Queue], w.Lane
		s.vt[l][q] += float64(reply.Wants[i].Granted) / float64(s.cfg.Queues[q].Weight)
		s.report[l][q] = queueReport{reply.Wants[i], s.claim} // the last want of a queue tells
	}
	for _, l := range store.Lanes {
		if any[l] {
			s.clock[l] = max(s.clock[l], low[l])
		}
		if call.Req.Free[l] > 0 {
			s.hunger(c, l, call)
		}
	}
}

// hunger notes whether a lane could have got more with more permits.
func (s *sharer) hunger(c *Core, l store.Lane, call *ClaimCall) {
	h := &c.claim.hungry[l]
	full, owed := call.tries > 1, false
	for q := range s.report[l] {
		if r := &s.report[l][q]; r.claim == s.claim && r.Why == store.WhyFull {
			full = true
			owed = owed || s.owed(l, q) > 0
		}
	}
	if call.reserve[l] {
		h[1], s.reserveNext[l] = full, false
		return
	}
	h[0] = full
	h[1] = owed
	s.reserveNext[l] = owed
}
