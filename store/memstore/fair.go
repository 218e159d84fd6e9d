package memstore

import (
	"github.com/twolane/twolane/store"
)

// Fair turns are start-time fair queueing (Goyal, Vin, Cheng 1996) between the groups of one queue and lane: the group with the smallest
// virtual start is served, and its next start lies one turn, divided by its weight, later. A group that was idle starts at the
// present virtual time, so idle groups cost nothing and save nothing up.

type groupKey struct {
	queue string
	lane  store.Lane
	group string
}

// start is the virtual start of a group's next turn.
func (s *Store) start(k groupKey) float64 {
	return max(s.virtual[laneKey{k.queue, k.lane}], s.lastStart[k])
}

// served takes a turn of a group and forgets groups whose last turn lies behind the virtual time.
func (s *Store) served(k groupKey, q store.QueueConfig) {
	at := s.start(k)
	w := q.Weights[k.group]
	if w == 0 {
		w = 1
	}
	s.virtual[laneKey{k.queue, k.lane}] = at
	s.lastStart[k] = at + 1/w
	for g, last := range s.lastStart {
		if last <= s.virtual[laneKey{g.queue, g.lane}] {
			delete(s.lastStart, g)
		}
	}
}
