package dispatch

import "time"

// timer is an entry of the one heap for deadlines, run times and overdue marks.
type timer struct {
	at   time.Duration
	pos  int // in the heap, from 1; 0 is not there
	inv  *Invocation
	item *Item
}

type timers struct{ heap []*timer }

// next is the earliest time, or 0.
func (ts *timers) next() time.Duration {
	if len(ts.heap) == 0 {
		return 0
	}
	return ts.heap[0].at
}

// set lets t fire at at.
func (ts *timers) set(t *timer, at time.Duration) {
	t.at = at
	if t.pos == 0 {
		ts.heap = append(ts.heap, t)
		t.pos = len(ts.heap)
		ts.up(t.pos)
		return
	}
	ts.up(t.pos)
	ts.down(t.pos)
}

// stop takes t out.
func (ts *timers) stop(t *timer) {
	if t.pos == 0 {
		return
	}
	i, last := t.pos, len(ts.heap)
	ts.swap(i, last)
	ts.heap[last-1] = nil
	ts.heap = ts.heap[:last-1]
	t.pos = 0
	if i < last {
		ts.up(i)
		ts.down(i)
	}
}

// pop takes out and returns the earliest timer if it is due.
func (ts *timers) pop(now time.Duration) *timer {
	if len(ts.heap) == 0 || ts.heap[0].at > now {
		return nil
	}
	t := ts.heap[0]
	ts.stop(t)
	return t
}

func (ts *timers) up(i int) {
	for i > 1 && ts.heap[i-1].at < ts.heap[i/2-1].at {
		ts.swap(i, i/2)
		i /= 2
	}
}

func (ts *timers) down(i int) {
	for n := len(ts.heap); ; {
		m := i
		for _, j := range [2]int{2 * i, 2*i + 1} {
			if j <= n && ts.heap[j-1].at < ts.heap[m-1].at {
				m = j
			}
		}
		if m == i {
			return
		}
		ts.swap(i, m)
		i = m
	}
}

func (ts *timers) swap(i, j int) {
	h := ts.heap
	h[i-1], h[j-1] = h[j-1], h[i-1]
	h[i-1].pos, h[j-1].pos = i, j
}
