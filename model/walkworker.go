package model

import "slices"

// claim is one claim of worker p for some of the queues, types and lanes.
func (w *walker) claim(p int) {
	pr := &w.proc[p]
	if pr.stalled || slices.ContainsFunc(w.cmd[:], func(c walkCommand) bool { return c.names >= claimsOfOne }) {
		return
	}
	o := Op{Kind: OpClaim, Worker: p, Incarnation: pr.incarnation, Queues: w.some(maxQueues), Types: w.some(walkTypes)}
	for lane := range o.Free {
		if w.r.IntN(4) > 0 {
			o.Free[lane] = maxCommands
		}
	}
	eligible := w.eligible(p, &o)
	if w.limits {
		for lane := range o.Free {
			o.Free[lane] = min(o.Free[lane], []int{1, 2, maxCommands}[w.r.IntN(3)])
		}
		w.ask(p, o, w.r.IntN(8) > 0)
		return
	}
	if in := eligible[Intake]; o.Free[Intake] > 0 && w.allFresh(in) && len(in) > 0 && w.r.IntN(2) == 0 {
		slices.SortFunc(in, func(a, b int) int { return w.cmd[a].seq - w.cmd[b].seq })
		if len(in) == 1 || w.cmd[in[0]].seq < w.cmd[in[1]].seq { // of equals the store chooses
			o.Free[Intake], eligible[Intake] = 1, in[:1]
		}
	}
	w.claims++
	o.Claim, pr.last = w.claims, w.claims
	heard := w.r.IntN(8) > 0 // else the reply is lost
	for lane := range o.Free {
		for _, i := range eligible[lane] {
			w.grant(p, i, 0, heard)
			o.Want.Granted = append(o.Want.Granted, i)
		}
	}
	w.emit(o)
}

// eligible lists, by lane, what a claim of worker p must be given. Suspects are not asked for.
func (w *walker) eligible(p int, o *Op) (out [2][]int) {
	for i := range w.s.cmd {
		r, c := &w.s.cmd[i], w.t.Commands[i]
		lane := r.lane()
		if w.m.claimable(&w.s, p, i) && !w.m.class(r).suspect() && o.Free[lane] > 0 &&
			slices.Contains(o.Queues, c.Queue) && slices.Contains(o.Types, c.Type) {
			out[lane] = append(out[lane], i)
		}
	}
	return out
}

// allFresh reports whether these commands stand in one queue and have never come back, so that their order is known.
func (w *walker) allFresh(cmds []int) bool {
	for _, i := range cmds {
		if w.cmd[i].starts > 0 || w.t.Commands[i].Queue != w.t.Commands[cmds[0]].Queue {
			return false
		}
	}
	return true
}

func (w *walker) some(n int) (out []int) {
	for i := range n {
		if w.r.IntN(4) > 0 {
			out = append(out, i)
		}
	}
	return out
}

func (w *walker) grant(p, i int, members uint8, heard bool) {
	c, r := &w.cmd[i], &w.s.cmd[i]
	w.m.lease(&w.s, p, i, members)
	c.names++
	r.name = uint8(c.names)
	c.claim[r.name] = w.claims
	c.leasedAt, c.renewed = w.now, w.now
	c.starts++
	if !r.has(visiting) {
		c.kept = false
	}
	if heard {
		w.learn(p, i)
	}
}

// learn tells worker p that it has the current lease of command i.
func (w *walker) learn(p, i int) {
	r := &w.s.cmd[i]
	h := held{slot: slot{cmd: uint8(i + 1), name: r.name}, claim: w.cmd[i].claim[r.name]}
	if r.has(visiting) {
		h.phase = phaseVisit
	}
	if !slices.ContainsFunc(w.proc[p].knows, func(o held) bool { return o.cmd == h.cmd && o.name == h.name }) {
		w.proc[p].knows = append(w.proc[p].knows, h)
	}
}

// settle is the end of one invocation of worker p, or the repetition of a settle; or its last claim again.
func (w *walker) settle(p int) {
	pr := &w.proc[p]
	if pr.stalled {
		return
	}
	if pr.last > 0 && w.r.IntN(8) == 0 {
		w.repeat(p)
		return
	}
	if len(pr.knows) == 0 {
		return
	}
	j := w.r.IntN(len(pr.knows))
	h := &pr.knows[j]
	i := h.command()
	if !h.sent {
		h.out, h.delay = w.outcome(h.slot)
		h.unstarted = w.limits && h.out == GiveBack && w.r.IntN(2) == 0
	}
	before := w.s.cmd[i]
	current := before.place == Leased && before.name == h.name
	c := &w.cmd[i]
	if current && h.out == Retry && c.deadline > 0 && w.now+h.delay >= c.deadline {
		w.s.cmd[i].flags |= late // the next try would come after the deadline: it ends now
	}
	o := Op{
		Kind: OpSettle, Worker: p, Incarnation: pr.incarnation, Lease: LeaseRef{i, h.claim}, Outcome: h.out, Delay: h.delay,
		Again: h.sent, Visit: h.phase&phaseVisit != 0, Unstarted: h.unstarted,
	}
	if current && h.out == GiveBack && !h.unstarted {
		w.s.cmd[i].flags &^= unknown // its handler has returned
	}
	o.Want.Answer = w.m.settle(&w.s, h.slot, h.out, h.sent)
	if o.Want.Answer == OK {
		c.due = w.now + h.delay
		if h.unstarted {
			c.starts--
		}
		if before.status == Processing && h.out != Visited && h.out != VisitFail && h.out != GiveBack {
			c.polls++
		}
		w.noteVisit(i, &before)
	}
	if h.sent = true; w.r.IntN(6) > 0 { // else the answer is lost, and the settle comes again
		pr.knows = slices.Delete(pr.knows, j, j+1)
	}
	w.emit(o)
}

func (w *walker) outcome(x slot) (Outcome, int) {
	delay := 1 + w.r.IntN(3)
	if x.phase&phaseVisit != 0 {
		switch w.r.IntN(4) {
		case 0:
			return Visited, 0
		case 1:
			return GiveBack, 0
		}
		return VisitFail, delay
	}
	switch o := Outcome(w.r.IntN(int(endOfOutcomes))); o {
	case Visited, VisitFail:
		return Process, delay
	case Done, Fail:
		if w.r.IntN(2) == 0 {
			return Process, delay
		}
		return o, 0
	case GiveBack:
		return o, 0
	default:
		return o, delay
	}
}

// noteVisit remembers when the time of cancel visits began: with a deadline, or with the end of the lease in which cancel was asked for.
func (w *walker) noteVisit(i int, before *record) {
	r := &w.s.cmd[i]
	if r.has(byDeadline) && !before.has(cancelReq) || before.has(cancelReq) && before.place == Leased && !before.has(visiting) {
		w.cmd[i].cancelAt = w.now
	}
}

// repeat is the last claim of worker p once more, with its nonce.
func (w *walker) repeat(p int) {
	pr := &w.proc[p]
	o := Op{Kind: OpRepeat, Worker: p, Incarnation: pr.incarnation, Claim: pr.last}
	for i := range w.s.cmd {
		r := &w.s.cmd[i]
		if r.place == Leased && w.cmd[i].claim[r.name] == pr.last {
			o.Want.Granted = append(o.Want.Granted, i)
			w.learn(p, i)
		}
	}
	w.emit(o)
}

// renew is a heartbeat of worker p with all that it believes to have.
func (w *walker) renew(p int) {
	pr := &w.proc[p]
	pr.stalled = false
	pr.renewed = w.now
	w.s.proc[p].heard = true
	o := Op{Kind: OpRenew, Worker: p, Incarnation: pr.incarnation}
	for _, h := range pr.knows {
		i := h.command()
		r, c := &w.s.cmd[i], &w.cmd[i]
		re := Renewal{Answer: Lost}
		if current(&w.s, h.slot) {
			re = Renewal{Answer: OK, Cancel: r.has(cancelReq), Refused: c.deadline > 0 && w.now >= c.deadline+graceTicks}
			if !re.Refused {
				c.renewed = w.now
			}
		}
		o.Leases = append(o.Leases, LeaseRef{i, h.claim})
		o.Want.Renewed = append(o.Want.Renewed, re)
	}
	w.emit(o)
}

// crash ends the process of worker p: nobody calls in its name any more.
func (w *walker) crash(p int) {
	for i := range w.s.cmd { // a second loss of what has a hook leads to visits of a suspect
		r := &w.s.cmd[i]
		if r.place == Leased && r.owner == uint8(1+p) && r.losses > 0 && w.m.sc.Commands[i].Hook {
			return
		}
	}
	w.proc[p].up, w.proc[p].knows, w.proc[p].last = false, nil, 0
	w.s.proc[p].mode = crashed
}

// restart begins a new incarnation of worker p, which registers.
func (w *walker) restart(p int) {
	pr := &w.proc[p]
	if !w.m.restart(&w.s, p) {
		w.tick()
		return
	}
	*pr = walkProcess{up: true, incarnation: pr.incarnation + 1, oldRenewed: pr.renewed}
	w.renew(p)
}
