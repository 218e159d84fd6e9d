package model

import (
	"cmp"
	"slices"
)

// tick lets the processes that are up renew when it is time, then moves the clock and does maintenance.
func (w *walker) tick() {
	for p := range w.proc {
		pr := &w.proc[p]
		switch {
		case !pr.up || w.now-pr.renewed < 2:
		case !pr.stalled, w.mustWake(p), w.now-pr.renewed > 2*leaseTicks:
			w.renew(p)
		}
	}
	w.now++
	for l, lim := range w.m.sc.Limits {
		if lim.Rate && w.s.max[l] != noLimit {
			w.s.max[l] = 1
		}
	}
	w.passes()
	w.maintain()
	w.emit(Op{Kind: OpTick})
}

// mustWake keeps a stalled worker from losing what crash would not take from it.
func (w *walker) mustWake(p int) bool {
	for i := range w.s.cmd {
		r := &w.s.cmd[i]
		if r.place == Leased && r.owner == uint8(1+p) && r.losses > 0 && w.m.sc.Commands[i].Hook {
			return true
		}
	}
	return false
}

// passes notes which times have come.
func (w *walker) passes() {
	for p := range w.proc {
		if w.now-w.proc[p].renewed >= leaseTicks {
			w.s.proc[p].heard = false
		}
		if w.now-w.proc[p].oldRenewed >= leaseTicks {
			w.s.proc[p].oldHeard = false
		}
	}
	for i := range w.s.cmd {
		r, c := &w.s.cmd[i], &w.cmd[i]
		if !r.live() {
			continue
		}
		if c.deadline > 0 && w.now >= c.deadline {
			r.flags |= late
		}
		if r.has(cancelReq) && (r.atRest() || r.has(visiting)) && w.now >= c.cancelAt+WalkCancelFor {
			r.flags |= cancelOver
		}
		if r.place == Leased && w.now-c.renewed >= leaseTicks {
			r.flags |= expired
		}
	}
}

// sign is the tick of the last renewal of an owner.
func (w *walker) sign(owner uint8) int {
	if o := owner - 1; o >= maxWorkers {
		return w.proc[o-maxWorkers].oldRenewed
	}
	return w.proc[owner-1].renewed
}

// maintain is what a store does besides: reap, end, promote.
func (w *walker) maintain() {
	for i := range w.s.cmd {
		if r := &w.s.cmd[i]; r.place == Leased && r.has(expired) {
			if sign := w.sign(r.owner); w.now-sign >= doubtTicks && w.m.ownerHeard(&w.s, i) {
				w.cmd[i].renewed = sign // until its heartbeat ends or it gives another sign
				r.flags &^= expired
				continue
			}
			before := *r
			if w.cmd[i].renewed-w.cmd[i].leasedAt >= longTicks && !w.m.ownerHeard(&w.s, i) {
				r.losses = 0
			}
			w.m.reap(&w.s, i)
			w.cmd[i].due = 1 << 30 // a suspect rests for as long as it takes
			w.noteVisit(i, &before)
		}
	}
	for i := range w.s.cmd {
		if w.m.overdue(&w.s, i) {
			before := w.s.cmd[i]
			w.m.expire(&w.s, i)
			w.noteVisit(i, &before)
		}
	}
	due := []int{}
	for i := range w.s.cmd {
		if p := w.s.cmd[i].place; (p == Scheduled || p == Parked) && w.now >= w.cmd[i].due {
			due = append(due, i)
		}
	}
	slices.SortFunc(due, func(a, b int) int { return cmp.Or(w.cmd[a].due-w.cmd[b].due, a-b) })
	for n, i := range due {
		if w.s.cmd[i].place == Scheduled {
			if n == 0 || w.cmd[due[n-1]].due < w.cmd[i].due { // those that fall due together arrive together
				w.seq++
			}
			w.cmd[i].seq = w.seq
		}
		w.m.join(&w.s, i)
	}
}
